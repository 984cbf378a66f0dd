"""The command line: parses, calls, prints. One file per command.

Exit codes: 0 done, 1 some runs failed or a rule is broken, 2 bad input, 3 the store is in use, 130 stopped.
"""

from typing import Any

from recollect.cli import (
    atlas,
    bench,
    check,
    compare,
    demo,
    evaluate,
    export,
    failures,
    imports,
    kernels,
    listing,
    mad,
    manage,
    merge,
    papers,
    plan,
    plot,
    probe,
    report,
    reproduce,
    results,
    run,
    serve,
    show,
    status,
    watch,
)
from recollect.cli.app import app, main

__all__ = [
    "app", "atlas", "bench", "check", "compare", "demo", "evaluate", "export", "failures", "imports", "kernels", "listing",
    "mad", "main", "manage", "merge", "papers", "plan", "plot", "probe", "report", "reproduce", "results", "run", "serve",
    "show", "status", "watch",
]  # fmt: skip

PANELS = {
    "Train": ("demo", "plan", "run", "watch", "status"),
    "See results": ("results", "plot", "compare", "report", "serve", "failures"),
    "Mixers, tasks and models": ("list", "show", "probe", "mad", "atlas", "evaluate", "export", "import"),
    "Papers": ("papers", "reproduce"),
    "Stores": ("rename", "remove", "gc", "merge", "check", "backup", "repair"),
    "Speed": ("bench", "kernels"),
}
"""The parts of `recollect --help`, and the commands in each."""
_ORDER = [name for names in PANELS.values() for name in names]


def _name(command: Any) -> str:
    return command.name or command.callback.__name__


app.registered_commands.sort(key=lambda command: _ORDER.index(_name(command)))
for _command in (*app.registered_commands, *app.registered_groups):
    _command.rich_help_panel = next(panel for panel, names in PANELS.items() if _name(_command) in names)
