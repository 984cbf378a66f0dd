"""`recollect failures`: what went wrong, and where."""

from typing import Annotated

from typer import Argument, Option

from recollect.cli.app import app, console
from recollect.cli.options import DEFAULT_STORE, StoreOption, some
from recollect.spec import SpecError
from recollect.store.store import Store


@app.command()
def failures(
    run: Annotated[str, Argument(help="A run's id, or the beginning of it; left out: all.")] = "",
    store: StoreOption = DEFAULT_STORE,
    traceback: Annotated[bool, Option("--traceback", help="Print the whole traceback of each error.")] = False,
    ended: Annotated[bool, Option("--ended", help="Also of runs that have ended since.")] = False,
) -> None:
    """The last error of each run that failed; each error once, with the runs that had it."""
    opened = Store(store)
    done = set() if ended or run else set(opened.done())
    last = {one.run: one for one in opened.failures() if one.run.startswith(run) and one.run not in done}
    if run and not last:
        raise SpecError(f"no run {run!r} has failed in {store}; `recollect failures` lists those that have")
    if not last:
        console.print(
            f"no run has failed in {store}"
            + ("" if ended else "; --ended also lists attempts of runs that ended later")
        )
        return
    errors: dict[tuple[str, str], list] = {}
    for one in last.values():
        errors.setdefault((one.error, one.traceback if traceback else ""), []).append(one)
    for (error, trace), found in errors.items():
        console.print(error, style="red", soft_wrap=True)
        console.print(
            f"  {some([one.run for one in found])}; the last at {max(one.when for one in found)}", soft_wrap=True
        )
        if trace:
            console.print(trace, soft_wrap=True)
    if not traceback:
        console.print(
            f"recollect failures {run or 'RUN'} --traceback --store {store} prints the traceback", soft_wrap=True
        )
