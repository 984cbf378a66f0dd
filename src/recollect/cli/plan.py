"""`recollect plan`: what a study will cost."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from recollect.cli.app import app, console
from recollect.cli.options import DEFAULT_STORE, CohortOption, DeviceOption, StoreOption, YesOption
from recollect.spec import SpecError, nearest


@app.command()
def plan(
    study_file: Annotated[Path, Argument(metavar="STUDY.yaml")],
    store: StoreOption = DEFAULT_STORE,
    device: DeviceOption = "auto",
    cohort: CohortOption = 0,
    machine: Annotated[
        str,
        Option(
            "--for",
            metavar="h200|a100|cpu",
            help="Plan for this machine, whatever is here. It decides the precision too.",
        ),
    ] = "",
    calibrate: Annotated[bool, Option("--calibrate", help="Time a few real steps of each shape here.")] = False,
    dollars_per_hour: Annotated[float, Option(min=0, help="What an hour of the device costs: adds a column.")] = 0.0,
    yes: YesOption = False,
) -> None:
    """What a study will cost before anything starts: runs, cohorts, tokens, operations, precision, time."""
    from recollect.cli.tables import plan_table
    from recollect.store.store import Store
    from recollect.study.cost import MACHINES
    from recollect.study.plan import make_plan
    from recollect.study.precision import chosen_precision, named_precisions
    from recollect.study.run import expand
    from recollect.study.spec import Study
    from recollect.train.device import choose_device, gpus, has_bfloat16

    study = Study.load(study_file)
    if machine and machine not in (*MACHINES, "cpu"):
        raise SpecError(f"--for {machine!r}: {nearest(machine, (*MACHINES, 'cpu'))}")
    if machine and (calibrate or device != "auto"):
        raise SpecError("--for plans for a machine that may not be here; leave out --calibrate and --device")
    device = {"": device, "cpu": "cpu"}.get(machine, "cuda")
    if calibrate or not device.startswith(("cpu", "cuda")):  # a plan may be for a device of another machine
        device = choose_device(device)
    known = Store(store) if store.exists() else None
    there = has_bfloat16(device) if gpus("cuda") and not machine else device.startswith("cuda")
    precision, why = chosen_precision(study, known, there)
    (grid,) = expand(study, allow_many=yes, precision=lambda _: precision)
    gpu = MACHINES.get(machine)
    made = make_plan(grid, known, device, cohort, calibrate, gpu)
    console.print(plan_table(grid.study.name, made, gpu.title if gpu else device, dollars_per_hour))
    console.print(f"precision: {named_precisions(grid.runs)}{why}")
    for note in made.warnings:
        console.print(f"note: {note}")
