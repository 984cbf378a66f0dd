"""`recollect status`: how far each study is."""

from recollect.cli.app import app, console
from recollect.cli.options import DEFAULT_STORE, StoreOption


@app.command()
def status(store: StoreOption = DEFAULT_STORE) -> None:
    """Which studies the store has, and how far each is."""
    from recollect.cli.tables import status_table
    from recollect.store.store import Store

    console.print(status_table(Store(store)))
