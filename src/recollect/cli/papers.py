"""`recollect papers`: what can be reproduced, and at what cost."""

from typing import Annotated

import typer

from recollect.cli.app import app, console
from recollect.cli.options import DEFAULT_STORE, CohortOption, StoreOption, complete_paper, completes
from recollect.papers import PAPERS


@app.command()
def papers(
    paper: Annotated[
        str | None, typer.Argument(help="A paper; left out: all of them.", autocompletion=complete_paper)
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            help="tiny, small, medium or paper; left out: all that the paper has.",
            autocompletion=completes(("tiny", "small", "medium", "paper")),
        ),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    device: Annotated[
        str, typer.Option(help="cpu or cuda: what the hours are for. auto: cpu for tiny, cuda else.")
    ] = "auto",
    cohort: CohortOption = 0,
) -> None:
    """Which figures and tables can be reproduced, with how many runs and at what cost at each scale."""
    from rich.table import Table

    from recollect.papers.reproduce import chosen, grids_of, plans, total
    from recollect.store.store import Store

    known = Store(store) if store.exists() else None
    for name in [paper] if paper else PAPERS:
        if not paper and scale and scale not in PAPERS.find(name).scales:
            continue
        found, items, _ = chosen(name, scale or "tiny")
        table = Table("item", "shows", title=f"{name}: {found.title}", title_justify="left")
        rows = {item.name: [item.name, item.shows] for item in items}
        rows["all"] = ["all", "runs that items share counted once"]
        for word in [scale] if scale else found.scales:
            *_, size = chosen(name, word)
            where = device if device != "auto" else "cpu" if size == "tiny" else "cuda"
            made = plans(grids_of(items, size), known, where, cohort)
            table.add_column(f"{size}: runs left", justify="right")
            known_time = size == "tiny" and where == "cpu" and "all" in found.minutes and not known
            table.add_column("minutes on 2 cores" if known_time else f"{where} hours", justify="right")
            costs = {item.name: total(made[grid.study.name] for grid in item.grids(size)) for item in items}
            costs["all"] = total(made.values())
            for each, cost in costs.items():
                share = found.minutes["all"] * cost[1] / costs["all"][1] if known_time else 0.0
                rows[each] += _cost(cost, found.minutes.get(each, share) if known_time else None)
        for row in rows.values():
            table.add_row(*row, end_section=row[0] == items[-1].name)
        console.print(table)
        if paper and found.unknown:
            unknown = Table(
                "not stated", "taken here", "why", "control", title=f"{name}: unknown", title_justify="left"
            )
            for one in found.unknown:
                unknown.add_row(*one[:4])
            console.print(unknown)
    console.print(
        "Minutes on 2 cores are from measured times of a step, or of all runs of a paper shared out by operations; CPU hours are "
        "of one core and a guess where nothing was measured yet; GPU hours are those of an H200 by a model. Runs may end early."
    )
    console.print("Next: recollect reproduce PAPER/ITEM --scale tiny")


def _cost(cost: tuple[int, float], minutes: float | None = None) -> list[str]:
    """The runs that are left, and their minutes where these are known, else their hours."""
    from recollect.cli.tables import hours

    runs, seconds = cost
    return [f"{runs:,}", hours(seconds) if minutes is None else f"{minutes:.0f}"] if runs else ["-", "-"]
