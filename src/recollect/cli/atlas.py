"""`recollect atlas`: the results of every mixer on a few recall tasks, and how their table is made."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from recollect.cli.app import app, console
from recollect.cli.options import Training, completes, print_failed, print_outcome, trains

TASKS = ("mqar-64-4", "mqar-128-8", "ngram", "position", "copy", "probe", "probe-2")


@app.command()
@trains
def atlas(
    training: Training,
    task: Annotated[
        str | None, Argument(help=f"{', '.join(TASKS)}; left out: all of them.", autocompletion=completes(TASKS))
    ] = None,
    scale: Annotated[str, Option(help="medium (for a GPU) or tiny (for two CPU cores).")] = "medium",
    train: Annotated[bool, Option("--train", help="Train what the store does not have yet.")] = False,
    to: Annotated[
        Path | None,
        Option(help="Write the store's runs of the atlas into this table, and show it.", metavar="TABLE.csv"),
    ] = None,
    hardware: Annotated[str, Option(help="With --to: what the runs were trained on.")] = "",
) -> None:
    """Every known mixer on a few recall tasks: learning-rate windows, best rates, steps to learn, sizes.

    Shows the table that ships with recollect. `--train` trains its studies, and `--to` makes a table from a store.
    """
    from recollect.cli.tables import atlas_table
    from recollect.probing.atlas import NAMES, atlas_study
    from recollect.probing.overview import overview
    from recollect.probing.reference import TABLE, about, collect, read_table
    from recollect.study.run import expand, run

    store = training["store"]
    studies = [atlas_study(name, scale) for name in ([task] if task else NAMES)]  # pyright: ignore[reportArgumentType]
    if train:
        outcome = run(expand(studies), **training)
        print_outcome(outcome)
        console.print(f"Next: recollect atlas --store {store} --to TABLE.csv")
        print_failed(outcome)
        return
    if to:
        for name, runs in collect([store], to, hardware).items():
            console.print(f"{name}: {runs} runs written to {to}")
    table, made = read_table(to or TABLE), about(to or TABLE)
    for study in studies:
        rows = table.loc[table["study"] == study.name]
        if len(rows):
            origin = "made on {made} on {hardware}".format(**made[study.name])
            console.print(atlas_table(overview(rows), f"{study.name}: {origin}"))
        elif task:
            console.print(
                f"the table has no runs of {study.name}; recollect atlas {task} --scale {scale} --train trains them"
            )
