"""The application and its entry point. No file of the command line imports torch at its head: `--help` answers at once."""

import atexit
import io
import os
import signal
import sys
import textwrap
import threading
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.text import Text
from typer import Option

import recollect
from recollect.spec import Stopped, UserError
from recollect.spec.apart import SIGNALS
from recollect.spec.errors import line_of

app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode="rich")


class _Plain(Console):
    """A console that shows every text as it is. Names come from study files and stores, which may be from elsewhere: they are
    not read as markup, and control characters, which a terminal could execute, are shown as escapes."""

    def render_str(self, text: str, **options: Any) -> Text:
        if not text.isprintable():
            text = "".join(letter if letter.isprintable() or letter in "\n\t" else _escape(letter) for letter in text)
        return super().render_str(text, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*map(self.fitting, objects), **options)

    def fitting(self, shown: Any) -> Any:
        """A table, or its rows as a list where its numbers would be broken over several lines."""
        from rich.table import Table

        if not isinstance(shown, Table):
            return shown
        for column in shown.columns:
            if column.justify == "right":
                column.min_width = max((len(str(cell)) for cell in column.cells), default=0)
        if self.measure(shown, options=self.options.update(width=10_000)).minimum <= self.width:
            return shown
        names = [str(column.header) for column in shown.columns]
        lines = [str(shown.title)] if shown.title else []
        for first, *rest in zip(*(map(str, column.cells) for column in shown.columns), strict=True):
            known = ((name, cell) for name, cell in zip(names[1:], rest, strict=True) if cell not in ("", "-"))
            facts = [f"{name}: {cell}" if name else cell for name, cell in known]
            lines += [first, *(f"  {line}" for line in textwrap.wrap("; ".join(facts), max(20, self.width - 2)))]
        return self.render_str("\n".join(lines))


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


_WIDTH = None if sys.stdout.isatty() else 160  # a file has room
console = _Plain(highlight=False, markup=False, emoji=False, width=_WIDTH)
problems = _Plain(stderr=True, highlight=False, markup=False, emoji=False)

STOPPED = "stopped; what has ended is saved, and the same command continues from here"


def main() -> None:
    """Run a command, and end with its exit code also where code of a user's own has left threads behind."""
    before = set(threading.enumerate())
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal or a pipe may not know a letter such as ≥
    try:
        _main()
    except KeyboardInterrupt:  # another one, before a stop could be reported
        os._exit(130)
    except SystemExit as end:
        if all(thread.daemon for thread in set(threading.enumerate()) - before):
            raise
        _end(end.code if isinstance(end.code, int) else int(bool(end.code)))


def _end(code: int) -> NoReturn:
    """End without waiting for threads."""
    atexit._run_exitfuncs()
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _main() -> None:
    """Run a command; an error that a user can fix becomes one line and an exit code."""
    asked = []

    def interrupt(*_: object) -> None:
        asked.append(True)
        raise KeyboardInterrupt

    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup has SIGHUP ignored
            signal.signal(number, interrupt)  # a request to end is treated as Ctrl-C is
    try:
        code = _called()
        if code == 130:  # what typer makes of Ctrl-C
            raise KeyboardInterrupt
        sys.stdout.flush()  # reports a full disk here, and not in the interpreter when it ends
        sys.exit(code)
    except (KeyboardInterrupt, typer.Abort):
        _stop(STOPPED, 130)
    except Stopped as stop:
        _stop(str(stop), stop.exit_code)
    except UserError as error:
        _refuse(str(error), error.exit_code)
    except BrokenPipeError:
        _drop_output()
        sys.exit(1)
    except OSError as error:
        _drop_output()
        _refuse(": ".join(str(part) for part in (error.filename, error.strerror or error) if part), 2)
    except MemoryError as error:
        _refuse(f"not enough memory: {error}".rstrip(": "), 2)
    except Exception as error:
        if asked:  # pydantic, for one, makes an error of its own of what interrupts it
            _stop(STOPPED, 130)
        if "can't allocate memory" in str(error):  # what torch raises
            _refuse(f"not enough memory: {str(error).partition('memory: ')[2] or error}", 2)
        if hasattr(error, "format_message"):  # click's own: an unknown option, a missing argument
            _refuse(error.format_message(), 2)  # pyright: ignore[reportAttributeAccessIssue]
        place = line_of(error)
        if place and not os.environ.get("RECOLLECT_TRACEBACK"):
            text = str(error).partition("\n")[0]
            _refuse(f"{type(error).__name__}: {text}{place}; RECOLLECT_TRACEBACK=1 prints the whole traceback", 1)
        raise


def _called() -> int | None:
    """The exit code of a command; code of a user's own that a command calls may not end it as if all were done."""
    try:
        return app(standalone_mode=False)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer and rich end so where nobody reads on: `| head`
            raise end.__context__ from None
        _refuse(f"code that is not recollect's called sys.exit({end.code!r})", 1)


def _refuse(message: str, code: int) -> None:
    problems.print(f"error: {' '.join(message.split())}", style="red", soft_wrap=True)
    sys.exit(code)


def _stop(message: str, code: int) -> NoReturn:
    """Say that a command was stopped, and end with its exit code whatever signals still come."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    problems.print(message, soft_wrap=True)
    _end(code)


def _drop_output() -> None:
    """Discard what could not be written: Python would try again, and complain, at the end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def group(name: str, about: str) -> typer.Typer:
    """A new group of commands."""
    made = typer.Typer(callback=_help_alone, invoke_without_command=True, help=about)
    app.add_typer(made, name=name)
    return made


def _help_alone(context: typer.Context) -> None:
    """Print the help of a group that was called without a command, and end."""
    if context.invoked_subcommand is None:
        console.print(context.get_help())
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _recollect(
    context: typer.Context, version: Annotated[bool, Option("--version", help="Print the version.")] = False
) -> None:
    """How well, how fast and how reliably does a sequence model learn to recall from its context?"""
    if version:
        console.print(f"recollect {recollect.__version__}")
        raise typer.Exit
    _help_alone(context)
