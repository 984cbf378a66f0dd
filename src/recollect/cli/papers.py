"""`recollect papers`: what can be reproduced, and at what cost."""

from typing import Annotated

from typer import Argument, Option

from recollect.cli.app import app, console
from recollect.cli.options import DEFAULT_STORE, SCALES, CohortOption, StoreOption, complete_paper, completes
from recollect.papers import PAPERS
from recollect.spec import SpecError, nearest


@app.command()
def papers(
    paper: Annotated[
        str | None, Argument(help="A paper; left out: all of them.", autocompletion=complete_paper)
    ] = None,
    scale: Annotated[
        str | None,
        Option(
            help="tiny, small, medium or paper; left out: all but paper, the protocol as printed.",
            autocompletion=completes(SCALES),
        ),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    device: Annotated[str, Option(help="cpu or cuda: what the hours are for. auto: cpu for tiny, cuda else.")] = "auto",
    cohort: CohortOption = 0,
) -> None:
    """Which figures and tables can be reproduced, with how many runs and at what cost at each scale."""
    from rich.table import Table

    from recollect.papers.reproduce import chosen, grids_of, plans, total
    from recollect.store.store import Store

    if not paper and scale and scale not in SCALES:
        raise SpecError(f"unknown scale {scale!r}: {nearest(scale, SCALES)}")
    known = Store(store) if store.exists() else None
    for name in [paper] if paper else PAPERS:
        if not paper and scale and scale not in PAPERS.find(name).scales:
            continue
        found, items, _ = chosen(name, scale or "tiny")
        table = Table("item", "shows", title=f"{name}: {found.title}", title_justify="left")
        rows = {item.name: [item.name, item.shows] for item in items}
        rows["all"] = ["all", "runs that items share counted once"]
        for word in [scale] if scale else [word for word in found.scales if word != "paper"]:
            *_, size = chosen(name, word)
            where = device if device != "auto" else "cpu" if size == "tiny" else "cuda"
            made = plans(grids_of(items, size), known, where, cohort)
            known_time = size == "tiny" and where == "cpu" and "all" in found.minutes and not known
            machine = "2 cores" if known_time else "one core" if where == "cpu" else "one GPU"
            table.add_column(f"{size}, {machine}", justify="right", no_wrap=True)
            costs = {item.name: total(made[grid.study.name] for grid in item.grids(size)) for item in items}
            costs["all"] = total(made.values())
            for each, (runs, seconds) in costs.items():
                share = found.minutes["all"] * 60 * seconds / costs["all"][1] if known_time else seconds
                taken = 60 * found.minutes[each] if known_time and each in found.minutes else share
                rows[each].append(f"{runs:,} runs, {_duration(taken)}" if runs else "-")
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
        "Runs that are left, and their time. Times on 2 cores were measured; those of one core are a guess where nothing was "
        "measured yet; those of a GPU are an H200's by a model, compilation included. Runs may end early."
    )
    console.print("Next: recollect reproduce PAPER/ITEM --scale tiny")


def _duration(seconds: float) -> str:
    """A rounded time: minutes below two hours, else hours."""
    minutes = seconds / 60
    return f"{max(minutes, 1):.0f} min" if minutes < 120 else f"{minutes / 60:,.0f} h"
