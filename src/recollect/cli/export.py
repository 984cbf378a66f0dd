"""Trained models out of the store: export."""

from pathlib import Path
from typing import Annotated, Any

import typer

from recollect.cli.app import DEFAULT_STORE, StoreOption, app, console


@app.command()
def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or the beginning of it.")],
    to: Annotated[Path, typer.Option(help="The folder to make.")],
    store: StoreOption = DEFAULT_STORE,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, or auto: as the run was trained.")] = "auto",
) -> None:
    """A trained model as a folder: weights, specification, and an example that loads it.

    The store keeps no weights: the run is trained again from its specification, on the CPU to the bit.
    """
    from rich.progress import Progress

    from recollect.export import export as write
    from recollect.export import find
    from recollect.study.store import Store
    from recollect.tables import number

    opened = Store(store)
    found = find(run, opened)
    console.print(f"run {found.id} ({found.run.model.title}): the store keeps no weights, so it is trained again")
    with Progress(console=console, disable=not console.is_terminal) as progress:
        row = progress.add_task("training", total=found.run.train.total_steps)

        def watch(event: Any) -> None:
            progress.update(row, completed=event.step)

        made = write(found.id, opened, to, device, watch)
    then, now = number(made.stored["accuracy"]), number(made.final["accuracy"])
    console.print(
        f"accuracy {now}: the very result of the store"
        if made.same
        else f"accuracy {now}, and the store has {then}: made on another kind of device, processor or version"
    )
    console.print(f"written to {to}; try: python {to / 'load.py'}", markup=False)
