"""`recollect mad`: MAD's six tasks and the score of a mixer."""

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
    complete_mixer,
    duration,
    named,
    tell_failed,
    tell_trained,
)


@app.command()
def mad(
    mixer: Annotated[
        str, typer.Argument(metavar="MIXER", help="A mixer's name, or FILE.py:NAME.", autocompletion=complete_mixer)
    ],
    options: Annotated[list[str] | None, typer.Argument(help="Options of its constructor, as name=value.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="The baseline of each task only: 36 runs instead of 396.")
    ] = False,
    plan_only: Annotated[bool, typer.Option("--plan", help="Only say what it will cost.")] = False,
    store: StoreOption = DEFAULT_STORE,
    device: DeviceOption = "auto",
    workers: WorkersOption = 0,
    cohort: CohortOption = 0,
    stop_after: StopAfterOption = "",
) -> None:
    """A mixer's accuracy on MAD's six tasks and its score, beside what papers report. Stopped, the same command continues.

    Two layers of the mixer and a SwiGLU network, width 128, 200 epochs in each of 66 settings (with --quick: 6), the best of
    three learning rates and two weight decays. It is meant for a GPU.
    """
    from recollect.cli.tables import mad_table, reproduction_plan_table
    from recollect.papers.mad2024.settings import accuracies, mixer_studies
    from recollect.store.store import Store
    from recollect.study.cost import kind_of
    from recollect.study.plan import make_plan
    from recollect.study.progress import Progress
    from recollect.study.run import expand
    from recollect.study.run import run as train
    from recollect.train.device import choose_device, has_bfloat16

    studies, spec = mixer_studies({"kind": mixer, **named(options)}, quick)
    on = (
        device if plan_only and device != "auto" else choose_device(device)
    )  # a GPU can be planned for where there is none
    known = Store(store) if store.exists() else None
    short = has_bfloat16(on) or (plan_only and kind_of(on) == "cuda")
    grids = expand(studies, precision=lambda study: "bfloat16" if short else "float32")
    planned = {grid.study.name: make_plan(grid, known, on, cohort) for grid in grids}
    console.print(reproduction_plan_table(f"MAD with {mixer}", planned, on))
    if plan_only:
        return
    outcome = train(
        grids, store=store, device=device, workers=workers, cohort=cohort, progress=Progress(console),
        stop_after=duration(stop_after),
    )  # fmt: skip
    tell_trained(outcome)
    console.print(mad_table(accuracies(outcome.results("all")), spec.kind, quick))
    console.print(f"The numbers: recollect results {outcome.names[0]} --store {store}")
    tell_failed(outcome)
