"""`recollect reproduce`: a figure, a table or a whole paper."""

from pathlib import Path
from typing import Annotated

import typer

from recollect.cli.app import app, console
from recollect.cli.options import (
    DEFAULT_STORE,
    AddressOption,
    CohortOption,
    DeviceOption,
    ExecutorOption,
    ScaleOption,
    StopAfterOption,
    StoreOption,
    WorkersOption,
    complete_paper,
    duration,
    tell_failed,
    tell_trained,
)


@app.command()
def reproduce(
    what: Annotated[
        str,
        typer.Argument(
            metavar="PAPER[/ITEM]", help="A figure or table, or a whole paper.", autocompletion=complete_paper
        ),
    ],
    scale: ScaleOption = "tiny",
    store: StoreOption = DEFAULT_STORE,
    device: DeviceOption = "auto",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; left out: results/reproductions/SCALE/PAPER.")
    ] = None,
    executor: ExecutorOption = "local",
    address: AddressOption = "auto",
    workers: WorkersOption = 0,
    cohort: CohortOption = 0,
    stop_after: StopAfterOption = "",
    draw_only: Annotated[
        bool, typer.Option("--draw-only", help="Train nothing: draw and judge what there is.")
    ] = False,
) -> None:
    """Train what a figure, a table or a whole paper needs, draw it, and judge the claims it stands for."""
    from recollect.cli.tables import reproduction_plan_table, verdict_table
    from recollect.papers.reproduce import chosen, grids_of, plans
    from recollect.papers.reproduce import reproduce as make
    from recollect.store.store import Store
    from recollect.study.progress import Progress
    from recollect.train.device import choose_device

    _, items, size = chosen(what, scale)
    if grids_of(items, size) and not draw_only:
        on = choose_device(device) if executor == "local" else device
        known = Store(store) if store.exists() else None
        planned = plans(items, size, known, "cuda" if on == "auto" else on, cohort)
        console.print(reproduction_plan_table(f"{what} at scale {scale}", planned, on))
    made = make(
        what, scale=scale, store=store, out=out, draw_only=draw_only, device=device, executor=executor, workers=workers,
        cohort=cohort, progress=Progress(console), stop_after=duration(stop_after), options={"address": address},
    )  # fmt: skip
    if made.outcome:
        tell_trained(made.outcome)
    console.print(verdict_table(made.paper.title, made.records))
    console.print(f"Pictures, numbers and verdicts: {made.folder}")
    if made.outcome:
        tell_failed(made.outcome)
