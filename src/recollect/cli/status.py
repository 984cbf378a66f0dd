"""`recollect status`: how far each study is."""

from recollect.cli.app import app, console
from recollect.cli.options import DEFAULT_STORE, StoreOption


@app.command()
def status(store: StoreOption = DEFAULT_STORE) -> None:
    """Which studies the store has, and how far each is."""
    from recollect.cli.tables import headed
    from recollect.store.progress import by_study, progress
    from recollect.store.store import Store

    opened = Store(store)
    if not opened.studies():
        console.print(f"no study in {store} yet: recollect run STUDY.yaml trains one")
        return
    numbers = ("runs", "ended", "diverged", "failed", "left", "in training", "steps", "best so far")
    table = headed(str(opened.path), ["study"], numbers)
    for name, part in by_study(opened, progress(opened)).items():
        steps = f"{part.steps_done / part.steps:.0%}" if part.steps else "-"
        best = "-" if part.best_accuracy is None else f"{part.best_accuracy:.3f}"
        counts = (part.runs, part.ended, part.diverged, part.failed, part.left, part.begun)
        table.add_row(name, *map(str, counts), steps, best)
    console.print(table)
