"""`recollect watch` and `status`: how far each configuration is, live in the terminal; how far each study is."""

import time
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from rich.table import Table
from typer import Argument, Option

from recollect.cli.app import app, console
from recollect.cli.options import DEFAULT_STORE, StoreOption
from recollect.store.progress import ConfigurationProgress, by_study, progress
from recollect.store.store import Store

ROOM = 110
"""Columns of a terminal below which steps are a percentage instead of a bar."""


@app.command()
def watch(
    study: Annotated[str | None, Argument(help="A study's name; left out: all that are not done.")] = None,
    store: StoreOption = DEFAULT_STORE,
    every: Annotated[float, Option(min=0.2, help="Seconds between two looks.")] = 2.0,
    once: Annotated[bool, Option("--once", help="Look once, print, and end.")] = False,
) -> None:
    """How far each configuration is while another process trains: runs, steps, best accuracy so far, time left."""
    from rich.live import Live

    if (opened := _with_studies(store)) is None:
        return
    began = None
    with Live(console=console, auto_refresh=False, transient=False) as live:
        while True:
            found = progress(opened, study)
            shown = [part for part in found if study or part.left] or found
            now, done = time.monotonic(), sum(part.steps_done for part in found)
            began = began or (now, done)
            live.update(console.fitting(_table(opened, shown, _left(found, began, (now, done)))), refresh=True)
            if once or not any(part.left for part in found):
                return
            time.sleep(every)


@app.command()
def status(store: StoreOption = DEFAULT_STORE) -> None:
    """Which studies the store has, and how far each is."""
    from recollect.cli.tables import or_dash, table_of

    if (opened := _with_studies(store)) is None:
        return
    rows = [{
        "study": name, "runs": str(part.runs), "ended": str(part.ended), "diverged": str(part.diverged),
        "failed": str(part.failed), "left": str(part.left), "in training": str(part.begun),
        "steps": f"{part.steps_done / part.steps:.0%}" if part.steps else "-",
        "best so far": or_dash(part.best_accuracy, ".3f"),
    } for name, part in by_study(opened, progress(opened)).items()]  # fmt: skip
    console.print(table_of(rows, str(opened.path)))


def _with_studies(path: Path) -> Store | None:
    """A store, or where it has no study yet, what to do."""
    if (opened := Store(path)).studies():
        return opened
    console.print(f"no study in {path} yet: recollect run STUDY.yaml trains one")
    return None


def _left(found: list[ConfigurationProgress], began: tuple[float, int], now: tuple[float, int]) -> str:
    """The time left by the steps done since the first look, as soon as there are enough of them."""
    seconds, done = now[0] - began[0], now[1] - began[1]
    left = sum(part.steps - part.steps_done for part in found)
    if not left or seconds < 5 or done <= 0:
        return ""
    return f", about {timedelta(seconds=round(left * seconds / done))} left"


def _table(store: Store, shown: list[ConfigurationProgress], left: str) -> Table:
    from rich.progress_bar import ProgressBar

    by = store.holder()
    who = f"written to by {by}" if by else "no process writes to it now"
    table = Table(title=f"{store.path}: {who}{left}", title_justify="left")
    several = len({part.study for part in shown}) > 1
    for heading in [*["study"] * several, "configuration"]:
        table.add_column(heading, overflow="fold")
    narrow = console.width < ROOM
    table.add_column("steps", min_width=0 if narrow else 12)
    for heading in ("ended", "in training", "failed", "best so far", "at rate", "measured"):
        table.add_column(heading, justify="right", no_wrap=True)
    for part in shown:
        names = [*[part.study] * several, part.configuration]
        best = "-" if part.best_accuracy is None else f"{part.best_accuracy:.3f}"
        ago = "-" if part.measured is None else f"{max(0.0, time.time() - part.measured):,.0f} s ago"
        table.add_row(
            *names, f"{part.steps_done / max(1, part.steps):.0%}" if narrow
            else ProgressBar(total=max(1, part.steps), completed=part.steps_done, width=12),
            f"{part.ended} of {part.runs}", str(part.begun), str(part.failed) if part.failed else "-", best,
            "-" if part.best_lr is None else f"{part.best_lr:.1e}", ago,
        )  # fmt: skip
    return table
