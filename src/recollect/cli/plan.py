"""`recollect plan`: what a study will cost."""

from pathlib import Path
from typing import Annotated

import typer

from recollect.cli.app import app, console
from recollect.cli.options import DEFAULT_STORE, CohortOption, DeviceOption, StoreOption, YesOption


@app.command()
def plan(
    study_file: Annotated[Path, typer.Argument(metavar="STUDY.yaml")],
    store: StoreOption = DEFAULT_STORE,
    device: DeviceOption = "auto",
    cohort: CohortOption = 0,
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Time a few real steps of each shape here.")] = False,
    dollars_per_hour: Annotated[
        float, typer.Option(min=0, help="What an hour of the device costs: adds a column.")
    ] = 0.0,
    yes: YesOption = False,
) -> None:
    """What a study will cost before anything starts: runs, cohorts, tokens, operations, time, dollars."""
    from recollect.cli.tables import plan_table
    from recollect.store.store import Store
    from recollect.study.plan import make_plan
    from recollect.study.precision import chosen_precision, named_precisions
    from recollect.study.run import expand
    from recollect.study.spec import Study
    from recollect.train.device import choose_device, gpus, has_bfloat16

    study = Study.load(study_file)
    if calibrate or not device.startswith(("cpu", "cuda")):  # a plan may be for a device of another machine
        device = choose_device(device)
    known = Store(store) if store.exists() else None
    there = has_bfloat16(device) if gpus("cuda") else device.startswith("cuda")
    precision, why = chosen_precision(study, known, there)
    (grid,) = expand(study, allow_many=yes, precision=lambda _: precision)
    made = make_plan(grid, known, device, cohort, calibrate)
    console.print(plan_table(grid.study.name, made, device, dollars_per_hour))
    console.print(f"precision: {named_precisions(grid.runs)}{why}")
    for note in made.warnings:
        console.print(f"note: {note}")
