"""`recollect check`, `backup` and `repair`: keeping a store sound."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from recollect.cli.app import app, console
from recollect.cli.options import DEFAULT_STORE, TrustOption

StoreArgument = Annotated[Path, Argument(metavar="STORE.sqlite", envvar="RECOLLECT_STORE", help="The results file.")]
STYLES = {"ok": "green", "note": "yellow", "wrong": "bold red"}


@app.command()
def check(store: StoreArgument = DEFAULT_STORE, trust: TrustOption = False) -> None:
    """Is a store sound: file, schema, rows, weights, checkpoints, code of its runs? Exit code 1 where something is wrong."""
    from rich.text import Text

    from recollect.store.check import check as look

    wrong = False
    for finding in look(store, trust):
        wrong |= finding.answer == "wrong"
        text = Text.assemble(f"{finding.what:<12}", (f"{finding.answer:<6}", STYLES[finding.answer]), " ")
        console.print(text, console.render_str(finding.text), sep="", soft_wrap=True)
    if wrong:
        console.print(f"recollect repair {store} --to NEW.sqlite saves what can be read")
        raise typer.Exit(1)


@app.command()
def backup(store: StoreArgument, to: Annotated[Path, Option(metavar="FILE", help="The file to make.")]) -> None:
    """Copy a store as it is at one moment, also while a study runs. Weights and checkpoints lie beside it."""
    from recollect.store.repair import backup as copy

    made = copy(store, to)
    console.print(f"{store} as it is now: {to} ({made.stat().st_size / 1e6:.1f} MB)")


@app.command()
def repair(store: StoreArgument, to: Annotated[Path, Option(metavar="FILE", help="The store to make.")]) -> None:
    """Write what can be read of a damaged store to a new one; the old one is not touched."""
    from recollect.store.repair import repair as save

    saved = save(store, to)
    console.print(f"{saved.runs} runs and {saved.studies} studies of {store} are in {to}")
    if saved.partly:
        console.print(f"without some of their measurements: {len(saved.partly)} ({', '.join(saved.partly[:20])})")
    if saved.lost:
        console.print(
            f"could not be read, the same study trains them again: {len(saved.lost)} ({', '.join(saved.lost[:20])})"
        )
