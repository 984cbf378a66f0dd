"""`recollect merge`: several stores into one."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from recollect.cli.app import app, console
from recollect.cli.options import DEFAULT_STORE, StoreOption


@app.command()
def merge(
    others: Annotated[list[Path], Argument(metavar="OTHER.sqlite...", help="The stores to bring in.")],
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Bring the results of other stores into one; a run that both have is kept once."""
    from recollect.cli.tables import number
    from recollect.store.merge import merge as bring
    from recollect.store.store import Store

    merged = bring(Store(store, create=True), others)
    console.print(f"{merged.added} runs added to {store}, {merged.same} were there with the same result")
    if merged.weights:
        console.print(f"weights of {merged.weights} runs copied")
    if merged.studies:
        console.print(f"studies: {', '.join(merged.studies)}")
    if merged.differing:
        console.print(f"{len(merged.differing)} were there with another result, which was kept:")
        for id, (mine, theirs) in list(merged.differing.items())[:20]:
            console.print(f"  {id}: accuracy {number(mine)} here, {number(theirs)} left out")
