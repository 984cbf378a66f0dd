"""`recollect results`: the numbers."""

from pathlib import Path
from typing import Annotated

import typer

from recollect.cli.app import app, console
from recollect.cli.options import DEFAULT_STORE, StoreOption
from recollect.spec import SpecError, nearest


@app.command()
def results(
    study: Annotated[str | None, typer.Argument(help="A study's name; left out: every run in the store.")] = None,
    store: StoreOption = DEFAULT_STORE,
    to: Annotated[Path | None, typer.Option(help="Write a .csv, .parquet or .json file with every column.")] = None,
    what: Annotated[
        str, typer.Option(help="runs, curves (one row per measurement) or slices (accuracy by tag).")
    ] = "runs",
) -> None:
    """The results as a table, or as CSV, Parquet or JSON."""
    from recollect.cli.tables import results_table
    from recollect.store import frames
    from recollect.store.store import Store

    makers = {"runs": frames.runs_frame, "curves": frames.curves_frame, "slices": frames.slices_frame}
    if what not in makers:
        raise SpecError(f"--what {what!r}: {nearest(what, makers)}")
    frame = makers[what](Store(store), study)
    if to is not None:
        frames.write(frame, to)
        console.print(f"{len(frame)} rows written to {to}")
    elif frame.empty:
        console.print("no run has ended yet")
    else:
        console.print(results_table(frame))
