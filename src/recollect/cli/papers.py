"""Reproducing papers: papers, reproduce."""

from pathlib import Path
from typing import Annotated, Any

import typer

from recollect.cli.app import DEFAULT_STORE, CohortOption, DeviceOption, StoreOption, app, console, problems

ScaleOption = Annotated[
    str, typer.Option(help="tiny: minutes on a CPU; small: one GPU; paper: the protocol as printed.")
]


@app.command()
def papers(
    paper: Annotated[str | None, typer.Argument(help="A paper; left out: all of them.")] = None,
    scale: Annotated[str | None, typer.Option(help="tiny, small or paper; left out: all three.")] = None,
    store: StoreOption = DEFAULT_STORE,
    device: Annotated[
        str, typer.Option(help="cpu or cuda: what the hours are for. auto: cpu for tiny, cuda else.")
    ] = "auto",
    cohort: CohortOption = 0,
) -> None:
    """Which figures and tables can be reproduced, with how many runs and at what cost at each scale."""
    from rich.table import Table

    from recollect.papers import PAPERS
    from recollect.papers.judge import SCALES
    from recollect.papers.reproduce import chosen, plans, total
    from recollect.store.store import Store

    known = Store(store) if store.exists() else None
    scales = [scale] if scale else list(SCALES)
    for name in [paper] if paper else PAPERS:
        found, items, _ = chosen(name, None, scales[0])
        table = Table("item", "shows", title=f"{name}: {found.title}", title_justify="left")
        rows = {item.name: [item.name, item.shows] for item in items}
        rows["all"] = ["all", "runs that items share counted once"]
        for word in scales:
            *_, size = chosen(name, None, word)
            where = device if device != "auto" else "cpu" if size == "tiny" else "cuda"
            made = plans(items, size, known, where, cohort)
            table.add_column(f"{size}: runs left", justify="right")
            table.add_column(f"{where} hours", justify="right")
            for item in items:
                rows[item.name] += _cost(total(made[study.name] for study in item.unfolded(size)))
            rows["all"] += _cost(total(made.values()))
        for row in rows.values():
            table.add_row(*row, end_section=row[0] == items[-1].name)
        console.print(table)
    console.print(
        "CPU hours are a guess where nothing was measured yet, GPU hours those of an H200 by a model; runs may end early."
    )
    console.print("Next: recollect reproduce PAPER/ITEM --scale tiny", markup=False)


@app.command()
def reproduce(
    what: Annotated[str, typer.Argument(metavar="PAPER[/ITEM]", help="A figure or table, or a whole paper.")],
    scale: ScaleOption = "tiny",
    store: StoreOption = DEFAULT_STORE,
    device: DeviceOption = "auto",
    out: Annotated[Path | None, typer.Option(help="Folder for the results; results/reproductions/SCALE/PAPER.")] = None,
    workers: Annotated[
        int, typer.Option(min=0, help="Worker processes; several may share a GPU. 0: one a GPU, or one a processor.")
    ] = 0,
    cohort: CohortOption = 0,
    draw_only: Annotated[
        bool, typer.Option("--draw-only", help="Train nothing: draw and judge what there is.")
    ] = False,
) -> None:
    """Train what a figure, a table or a whole paper needs, draw it, and judge the claims it stands for."""
    from recollect.cli.studies import tell_failures, train_runs
    from recollect.papers.reproduce import chosen, plans, studies_of, workers_on
    from recollect.papers.reproduce import reproduce as make
    from recollect.store.store import Store
    from recollect.study.executors import open_executor
    from recollect.study.run import distinct
    from recollect.train.device import choose_device

    paper, _, item = what.partition("/")
    found, items, size = chosen(paper, item or None, scale)
    broken: dict[str, str] = {}
    if draw_only or not studies_of(items, size):
        records = make(paper, item or None, scale, store, out=out, draw_only=True)
    else:
        device = choose_device(device)
        known = Store(store) if store.exists() else None
        console.print(_plan_table(f"{what} at scale {scale}", plans(items, size, known, device, cohort), device))
        with open_executor(device=device, workers=workers or workers_on(device)) as place:

            def train(studies: list[Any]) -> None:
                broken.update(train_runs(studies, Store(store, create=True), place, cohort))

            records = make(paper, item or None, scale, store, device, out, cohort=cohort, train=train)
    folder = out or Path("results/reproductions") / scale / paper
    names = {one.name for one in items}
    console.print(_verdict_table(found.title, [record for record in records if record["item"] in names]))
    console.print(f"Pictures, numbers and verdicts: {folder}")
    if broken:
        tell_failures(broken, len(distinct(studies_of(items, size))))
        problems.print("The same command tries them again.")
        raise typer.Exit(1)


def _plan_table(title: str, made: dict[str, Any], device: str) -> Any:
    from rich.table import Table

    from recollect.papers.reproduce import total

    table = Table("study", title=f"{title}, on {device}", title_justify="left")
    for heading in ("runs", "done", "left", "hours", "rate from"):
        table.add_column(heading, justify="right")
    for name, plan in made.items():
        basis = ", ".join(dict.fromkeys(part.basis for part in plan.parts))
        counts = (f"{plan.total('runs'):,.0f}", f"{plan.total('done'):,.0f}", f"{plan.left:,}")
        table.add_row(name, *counts, _hours(plan.total("seconds")), basis)
    table.add_section()
    left, seconds = total(made.values())
    table.add_row(
        "all, shared runs once", "", "", f"{left:,}", _hours(seconds), "one device or core; runs may end early"
    )
    return table


def _verdict_table(title: str, records: list[dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table("item", "claim", "verdict", "numbers", title=title, title_justify="left")
    for record in records:
        numbers = "; ".join(f"{name}: {value}" for name, value in record["numbers"].items())
        table.add_row(
            record["item"], record["says"], record["answer"], " -- ".join(filter(None, (numbers, record["note"])))
        )
    return table


def _cost(cost: tuple[int, float]) -> list[str]:
    runs, seconds = cost
    return [f"{runs:,}", _hours(seconds)] if runs else ["-", "-"]


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.2f}" if seconds < 36_000 else f"{seconds / 3600:,.0f}"
