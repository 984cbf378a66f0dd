"""`recollect mad`: MAD's six tasks and the score of a mixer."""

from typing import Annotated

from typer import Argument, Option

from recollect.cli.app import app, console
from recollect.cli.options import Training, complete_mixer, named, print_failed, print_trained, trains


@app.command()
@trains
def mad(
    training: Training,
    mixer: Annotated[
        str, Argument(metavar="MIXER", help="A mixer's name, or FILE.py:NAME.", autocompletion=complete_mixer)
    ],
    options: Annotated[list[str] | None, Argument(help="Options of its constructor, as name=value.")] = None,
    quick: Annotated[bool, Option("--quick", help="The baseline of each task only: 36 runs instead of 396.")] = False,
    plan_only: Annotated[bool, Option("--plan", help="Only say what it will cost.")] = False,
) -> None:
    """A mixer's accuracy on MAD's six tasks and its score, beside what papers report. Stopped, the same command continues.

    Two layers of the mixer and a SwiGLU network, width 128, 200 epochs in each of 66 settings (with --quick: 6), the best of
    three learning rates and two weight decays. It is meant for a GPU.
    """
    from recollect.cli.tables import mad_table, reproduction_plan_table
    from recollect.papers.mad2024 import accuracies, mixer_studies
    from recollect.store.store import Store
    from recollect.study.cost import kind_of
    from recollect.study.plan import make_plan
    from recollect.study.run import expand, run
    from recollect.train.device import choose_device, has_bfloat16

    studies, spec = mixer_studies({"kind": mixer, **named(options)}, quick)
    store, device = training["store"], training["device"]
    elsewhere = plan_only and device != "auto"  # a plan may be for a GPU that is not here
    on = device if elsewhere else choose_device(device)
    known = Store(store) if store.exists() else None
    half = has_bfloat16(on) or (plan_only and kind_of(on) == "cuda")
    grids = expand(studies, precision=lambda study: "bfloat16" if half else "float32")
    planned = {grid.study.name: make_plan(grid, known, on, training["cohort"]) for grid in grids}
    console.print(reproduction_plan_table(f"MAD with {mixer}", planned, on))
    if plan_only:
        return
    outcome = run(grids, **training)
    print_trained(outcome)
    console.print(mad_table(accuracies(outcome.results("all")), spec.kind, quick))
    console.print(f"The numbers: recollect results {outcome.names[0]} --store {store}")
    print_failed(outcome)
