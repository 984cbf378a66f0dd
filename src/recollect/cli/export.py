"""Trained models out of the store: export."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from recollect.cli.app import app, console
from recollect.cli.options import DEFAULT_STORE, StoreOption, TrustOption


@app.command()
def export(
    run: Annotated[str, Argument(metavar="RUN", help="A run's id, or the beginning of it.")],
    to: Annotated[Path, Option(help="The folder to make.")],
    store: StoreOption = DEFAULT_STORE,
    trust: TrustOption = False,
    device: Annotated[str, Option(help="cpu, cuda, cuda:1, or auto: as the run was trained.")] = "auto",
) -> None:
    """A trained model as a folder: weights, specification, and an example that loads it.

    Weights are there after `recollect run STUDY.yaml --keep-weights`. Any other run is trained again from its specification, on
    the CPU to the bit.
    """
    from rich.progress import Progress

    from recollect.cli.tables import number
    from recollect.store.export import export as write
    from recollect.store.export import find
    from recollect.store.store import Store

    opened = Store(store)
    found = find(run, opened, trust)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        row = progress.add_task("training", total=found.trusted.train.total_steps, visible=False)

        def watch(event: Any) -> None:
            progress.update(row, completed=event.step, visible=True)

        made = write(found.id, opened, to, device, watch, trust)
    then, now = number(made.stored["accuracy"]), number(made.final["accuracy"])
    if made.kept:
        how = "the weights that were kept"
    elif made.same:
        how = "its weights were not kept, so it was trained again, with the very result of the store"
    else:
        how = (
            f"its weights were not kept, so it was trained again; the store has accuracy {then}, from another kind of device, "
            "processor or version"
        )
    console.print(f"run {found.id} ({found.trusted.model.title}), accuracy {now}: {how}")
    console.print(f"written to {to}; try: python {to / 'load.py'}")
