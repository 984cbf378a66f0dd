"""`recollect results`: the numbers."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from recollect.cli.app import app, console
from recollect.cli.options import DEFAULT_STORE, StoreOption, WhereOption, completes
from recollect.spec import SpecError, nearest

FORMATS = ("table", "csv", "latex", "markdown")
LIMIT = 50
"""Rows that a terminal shows unless more are asked for."""


@app.command()
def results(
    study: Annotated[str | None, Argument(help="A study's name; left out: every run in the store.")] = None,
    store: StoreOption = DEFAULT_STORE,
    summary: Annotated[
        bool, Option("--summary", help="One row per configuration: best rate, accuracy, window, sizes.")
    ] = False,
    form: Annotated[
        str,
        Option(
            "--format",
            help="Of a summary: table, csv, latex or markdown.",
            autocompletion=completes(FORMATS),
        ),
    ] = "table",
    sort: Annotated[str, Option(help="By this column; -COLUMN: the highest first.")] = "",
    where: WhereOption = None,
    limit: Annotated[int, Option(min=0, help="Rows at most. Left out: the last 50, or all with --to.")] = 0,
    to: Annotated[Path | None, Option(help="Write a .csv, .parquet or .json file with every column.")] = None,
    what: Annotated[str, Option(help="runs, curves (one row per measurement) or slices (accuracy by tag).")] = "runs",
) -> None:
    """The results as a table, by run or by configuration; or as CSV, Parquet or JSON."""
    import io

    from recollect.analysis import columns
    from recollect.cli.formats import formatted, summary_text
    from recollect.cli.tables import results_table, text_table
    from recollect.store import frames
    from recollect.store.store import Store
    from recollect.study.stored import summary as summarise

    makers = {"runs": frames.runs_frame, "curves": frames.curves_frame, "slices": frames.slices_frame}
    if what not in makers:
        raise SpecError(f"--what {what!r}: {nearest(what, makers)}")
    if form not in FORMATS:
        raise SpecError(f"--format {form!r}: {nearest(form, FORMATS)}")
    if summary and what != "runs":
        raise SpecError(f"--summary is of runs, not of {what}")
    if form != "table" and not summary:
        raise SpecError(f"--format {form} is for a summary: add --summary, or write every run with --to FILE.csv")
    opened = Store(store)
    frame = summarise(opened, study, conditions=where or ()) if summary else makers[what](opened, study)
    if frame.empty:
        console.print("no run has ended yet" if not where else "no run that has ended meets the conditions")
        return
    if where and not summary:
        frame = columns.where(frame, where)
    if sort:
        frame = columns.ordered(frame, sort)
    rows, newest = len(frame), not (sort or where or summary or limit)
    if limit or (to is None and form == "table"):
        frame = frame.tail(LIMIT) if newest else frame.head(limit or LIMIT)
    if to is not None:
        frames.write(frame, to)
        console.print(f"{len(frame)} rows written to {to}")
        return
    if form == "csv":
        file = io.StringIO()
        frames.write_csv(frame, file)
        console.print(file.getvalue(), end="", soft_wrap=True)
    elif form != "table":
        console.print(formatted(summary_text(frame), form), soft_wrap=True)
    elif rows == 0:
        console.print("no run that has ended meets the conditions")
    else:
        text = summary_text(frame) if summary else None
        console.print(results_table(frame) if text is None else text_table(text, list(text)[1:]))
        if len(frame) < rows:
            which = "last" if newest else "first"
            console.print(
                f"the {which} {len(frame)} of {rows:,} rows; --limit {rows} prints all, --to FILE.csv writes them"
            )
