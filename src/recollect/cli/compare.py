"""`recollect compare`: two studies, or two stores, side by side."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from recollect.cli.app import app, console
from recollect.cli.options import DEFAULT_STORE, StoreOption, ToFileOption, WhereOption, write_too
from recollect.spec import SpecError

PANELS = 12
"""Configurations that the picture shows: those whose accuracies differ most."""


@app.command()
def compare(
    a: Annotated[str, Argument(metavar="A", help="A study of the store, a store's file, or FILE:STUDY.")],
    b: Annotated[str, Argument(metavar="B", help="What to compare it with.")],
    store: StoreOption = DEFAULT_STORE,
    where: WhereOption = None,
    to: Annotated[Path | None, Option(help="The picture: a .pdf, .svg or .png file.")] = None,
    csv: ToFileOption = None,
) -> None:
    """Accuracy, best rate and window of each configuration in two studies or stores, and their difference."""
    from recollect.analysis.columns import where as chosen
    from recollect.analysis.compare import compare as beside
    from recollect.cli.tables import beside_table
    from recollect.figures.panels import lines_figure, mean_and_range
    from recollect.figures.plot import save_as
    from recollect.study.stored import one_side

    (first, ours), (second, theirs) = (one_side(word, store) for word in (a, b))
    first, second = f"{first} (A)", f"{second} (B)"
    ours, theirs = (chosen(part, where or ()) for part in (ours, theirs))
    if ours.empty or theirs.empty:
        raise SpecError(f"no run of {first if ours.empty else second} meets the conditions")
    found = beside(ours, theirs, (first, second))
    console.print(beside_table(found.table, first, second))
    for name, (mine, other) in found.differ.items():
        console.print(f"{name}: {mine} in {first}, {other} in {second}")
    write_too(found.table, csv)
    if to is None:
        return
    apart = found.table.assign(apart=found.table["difference"].abs())
    order = apart.sort_values(by="apart", ascending=False, na_position="last").index[:PANELS]
    shown = found.runs.loc[found.runs["configuration"].isin(list(found.table.loc[order, "configuration"]))]
    rates = shown["train.lr"].nunique() > 1
    x, xlabel = ("train.lr", "learning rate") if rates else ("train.seed", "seed")
    some = (
        f"{PANELS} of {len(found.table)} configurations, those that differ most. " if len(found.table) > PANELS else ""
    )
    figure = lines_figure(
        mean_and_range(shown, ["configuration", "side", x]), x, "side", "configuration", title=f"{first} and {second}",
        caption=f"{some}Line: mean over seeds; band: lowest to highest.", xlabel=xlabel, logx=rates,
    )  # fmt: skip
    save_as(figure, to)
    console.print(f"The picture: {to}")
