"""The command line: parses, calls, prints. One file per command.

Exit codes: 0 done, 1 some runs failed or a rule is broken, 2 bad input, 3 the store is in use, 130 stopped.
"""

from importlib import import_module

from recollect.cli.app import app, main

__all__ = ["app", "main"]

PANELS = {
    "Train": ("demo", "plan", "run", "watch"),
    "See results": ("results", "plot", "compare", "report", "serve", "failures"),
    "Mixers, tasks and models": ("listing", "show", "probe", "mad", "atlas", "evaluate", "export", "imports"),
    "Papers": ("papers", "reproduce"),
    "Stores": ("manage", "check"),
    "Speed": ("bench", "kernels"),
}
"""The parts of `recollect --help`, and the files with the commands of each, in order: importing a file adds its commands."""

for _panel, _files in PANELS.items():
    for _file in _files:
        import_module(f"recollect.cli.{_file}")
    for _command in (*app.registered_commands, *app.registered_groups):
        _command.rich_help_panel = _command.rich_help_panel or _panel
