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

    from recollect.papers.reproduce import chosen, plans, total
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
            made = plans(items, size, known, where, cohort)
            table.add_column(f"{size}: runs left", justify="right")
            table.add_column(f"{where} hours", justify="right")
            for item in items:
                rows[item.name] += _cost(total(made[grid.study.name] for grid in item.grids(size)))
            rows["all"] += _cost(total(made.values()))
        for row in rows.values():
            table.add_row(*row, end_section=row[0] == items[-1].name)
        console.print(table)
        if paper and found.unknown:
            unknown = Table(
                "not stated", "taken here", "why", "control", title=f"{name}: unknown", title_justify="left"
            )
            for one in found.unknown:
                unknown.add_row(*one)
            console.print(unknown)
    console.print(
        "CPU hours are a guess where nothing was measured yet, GPU hours those of an H200 by a model; runs may end early."
    )
    console.print("Next: recollect reproduce PAPER/ITEM --scale tiny", markup=False)


def _cost(cost: tuple[int, float]) -> list[str]:
    from recollect.cli.tables import hours

    runs, seconds = cost
    return [f"{runs:,}", hours(seconds)] if runs else ["-", "-"]
