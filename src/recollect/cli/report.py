"""`recollect report`: one HTML file."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from recollect.cli.app import app, console
from recollect.cli.options import DEFAULT_STORE, StoreOption


@app.command()
def report(
    studies: Annotated[
        list[str] | None, Argument(metavar="STUDY", help="Names of studies; left out: every one in the store.")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    to: Annotated[Path, Option(help="The file to write.")] = Path("report.html"),
    reproduction: Annotated[
        Path | None,
        Option(metavar="DIR", help="A folder that `reproduce` wrote: its verdicts and pictures come first."),
    ] = None,
) -> None:
    """One HTML file to read and to send: windows, curves, heatmaps, every run, specifications, failures, versions."""
    from recollect.reporting import report as write_report

    path = write_report(store, studies or [], to, reproduction)
    console.print(f"The report: {path}  ({path.stat().st_size / 1e6:.1f} MB, one file, needs no network)")
