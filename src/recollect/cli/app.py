"""What every command shares: the application, its entry point, its options, and how errors end."""

import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from pydantic import ValidationError
from rich.console import Console

import recollect
from recollect.spec import SpecError, explain

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)  # a file has room
problems = Console(stderr=True, highlight=False)

StoreOption = Annotated[Path, typer.Option("--store", envvar="RECOLLECT_STORE", help="The results file.")]
DeviceOption = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, or auto: a GPU where there is one.")]
CohortOption = Annotated[int, typer.Option(min=0, help="Runs trained together at most. 0: chosen for the device.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Also unfold a grid of more than a million runs.")]
DEFAULT_STORE = Path("results/store.sqlite")


def main() -> None:
    """The entry point: turns what a user can mend into one line and an exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever asks it to end is answered as Ctrl-C is
    try:
        from recollect.store.store import StoreBusy, StoreError

        code = app(standalone_mode=False)
        if code == 130:  # what typer makes of Ctrl-C
            raise KeyboardInterrupt
        sys.exit(code)
    except (KeyboardInterrupt, typer.Abort):
        problems.print("stopped; what has ended is kept, and the same command goes on from here")
        sys.exit(130)
    except (SpecError, StoreError) as error:
        problems.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        sys.exit(3 if isinstance(error, StoreBusy) else 2)
    except ValidationError as error:
        problems.print(f"error: {explain(error)}", style="red", markup=False, soft_wrap=True)
        sys.exit(2)
    except Exception as error:
        if hasattr(error, "format_message"):  # click's own: an unknown option, a missing argument
            problems.print(f"error: {error.format_message()}", style="red", markup=False, soft_wrap=True)  # pyright: ignore
            sys.exit(2)
        raise


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """How well, how fast and how reliably does a sequence model learn to recall from its context?"""
    if version:
        console.print(f"recollect {recollect.__version__}")
        raise typer.Exit


def named(options: list[str] | None) -> dict[str, Any]:
    """`name=value` words as a mapping, values read as YAML."""
    given = {}
    for option in options or []:
        name, sign, value = option.partition("=")
        if not sign:
            raise SpecError(f"expected name=value, got {option!r}")
        given[name] = yaml.safe_load(value)
    return given
