"""`recollect reproduce`: a figure, a table or a whole paper."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from recollect.cli.app import app, console
from recollect.cli.options import SCALES, Training, complete_paper, completes, print_failed, print_trained, trains


@app.command()
@trains
def reproduce(
    training: Training,
    what: Annotated[
        str,
        Argument(
            metavar="PAPER[/ITEM[,ITEM]]",
            help="One or more figures or tables, or a whole paper.",
            autocompletion=complete_paper,
        ),
    ],
    scale: Annotated[
        str,
        Option(
            help="tiny: for two cores, about an hour per paper; small: for one GPU, up to two hours per paper; medium: for an "
            "H200, up to three hours; paper: the protocol as printed. Left out: tiny, or all of --from-runs.",
            autocompletion=completes(SCALES),
        ),
    ] = "",
    to: Annotated[Path, Option(help="Folder for the results, which go to SCALE/PAPER in it.")] = Path(
        "results/reproductions"
    ),
    draw_only: Annotated[bool, Option("--draw-only", help="Train nothing: draw and judge what there is.")] = False,
    from_runs: Annotated[
        bool, Option("--from-runs", help="Train nothing: draw and judge again from runs kept in files.")
    ] = False,
    formats: Annotated[str, Option("--format", help="Of pictures: png, svg, pdf; several with commas.")] = "png,svg",
    columns: Annotated[
        int, Option(min=0, max=2, help="Pictures for 1 or 2 columns of a page, without title and caption.")
    ] = 0,
    runs: Annotated[Path, Option(help="Where --from-runs finds SCALE/PAPER/runs.csv.")] = Path("docs/reproductions"),
) -> None:
    """Train what a figure, a table or a whole paper needs, draw it, and judge its claims.

    At scale tiny an item of okpekpe2025 or retrievit2026 takes at most ten minutes on two cores, the papers an hour and half an
    hour; small and medium need a GPU. `recollect papers` prints the cost of each item.
    """
    from recollect.cli.tables import reproduction_plan_table, verdict_table
    from recollect.papers.reproduce import chosen, grids_of, grids_to_train, plans, scales_in
    from recollect.papers.reproduce import reproduce as make
    from recollect.store.store import Store
    from recollect.study.spec import distinct
    from recollect.train.device import choose_device

    paper = what.partition("/")[0]
    if from_runs:
        for word in [scale] if scale else scales_in(what, runs):
            made = make(
                what, scale=word, out=to / word / paper, from_runs=runs, formats=formats.split(","), columns=columns
            )
            console.print(verdict_table(f"{made.paper.title}, scale {word}", made.records))
            console.print(f"Pictures, numbers and verdicts: {made.folder}")
        return
    scale = scale or "tiny"
    _, items, size = chosen(what, scale)
    if grids_of(items, size) and not draw_only:
        device, store = training["device"], training["store"]
        on = choose_device(device) if training["executor"] == "local" else device
        known = Store(store) if store.exists() else None
        folder = to / scale / paper
        grids = grids_to_train(items, size, known, folder)
        planned = plans(grids, known, "cuda" if on == "auto" else on, training["cohort"])
        console.print(reproduction_plan_table(f"{what} at scale {scale}", planned, on))
        asked, trained = (len(distinct([grid.runs for grid in part])) for part in (grids_of(items, size), grids))
        if kept := asked - trained:
            console.print(f"{kept} more runs are in {folder} already and are not trained again")
    made = make(
        what, scale=scale, out=to / scale / paper, draw_only=draw_only, formats=formats.split(","), columns=columns, **training
    )  # fmt: skip
    if made.outcome:
        print_trained(made.outcome)
    console.print(verdict_table(made.paper.title, made.records))
    console.print(f"Pictures, numbers and verdicts: {made.folder}")
    if made.outcome:
        print_failed(made.outcome)
