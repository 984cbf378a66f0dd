"""`recollect atlas`: what every mixer comes to on a few recall tasks; and how its table is made."""

from pathlib import Path
from typing import Annotated

import typer

from recollect.cli.app import app, console
from recollect.cli.options import (
    DEFAULT_STORE,
    CohortOption,
    DeviceOption,
    StopAfterOption,
    StoreOption,
    WorkersOption,
    completes,
    duration,
    tell_failed,
    tell_trained,
)

TASKS = ("mqar-64-4", "mqar-128-8", "ngram", "position", "copy", "probe", "probe-2")


@app.command()
def atlas(
    task: Annotated[
        str | None, typer.Argument(help=f"{', '.join(TASKS)}; left out: all of them.", autocompletion=completes(TASKS))
    ] = None,
    scale: Annotated[str, typer.Option(help="medium (for a GPU) or tiny (for two CPU cores).")] = "medium",
    train: Annotated[bool, typer.Option("--train", help="Train what the store does not have yet.")] = False,
    to: Annotated[
        Path | None,
        typer.Option(help="Write the store's runs of the atlas into this table, and show it.", metavar="TABLE.csv"),
    ] = None,
    hardware: Annotated[str, typer.Option(help="With --to: what the runs were trained on.")] = "",
    store: StoreOption = DEFAULT_STORE,
    device: DeviceOption = "auto",
    workers: WorkersOption = 0,
    cohort: CohortOption = 0,
    stop_after: StopAfterOption = "",
) -> None:
    """Every known mixer on a few recall tasks: learning-rate windows, best rates, steps to learn, sizes.

    Shows the table that ships with recollect. `--train` trains its studies, and `--to` makes a table from a store.
    """
    from recollect.cli.tables import atlas_table
    from recollect.probing.atlas import NAMES, atlas_study
    from recollect.probing.overview import overview
    from recollect.probing.reference import TABLE, about, collect, read_table
    from recollect.study.progress import Progress
    from recollect.study.run import expand, run

    studies = [atlas_study(name, scale) for name in ([task] if task else NAMES)]  # pyright: ignore[reportArgumentType]
    if train:
        outcome = run(
            expand(studies), store=store, device=device, workers=workers, cohort=cohort, progress=Progress(console),
            stop_after=duration(stop_after),
        )  # fmt: skip
        tell_trained(outcome)
        tell_failed(outcome)
        console.print(f"Next: recollect atlas --store {store} --to TABLE.csv", markup=False)
        return
    if to:
        for name, runs in collect([store], to, hardware).items():
            console.print(f"{name}: {runs} runs written to {to}", markup=False)
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
