"""Reproduces an item or a whole paper: trains what is missing, draws, writes the numbers, and judges every claim.

OUT/ITEM.png, ITEM.svg, ITEM.csv      the drawing and the numbers in it
OUT/verdicts.md, verdicts.json        what became of each claim, what did not hold first
"""

import dataclasses
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from recollect.figures.style import save
from recollect.papers import paper as find_paper
from recollect.papers.item import Item, Paper, gather
from recollect.papers.judge import ANSWERS, SCALES, Evidence, Scale, judge
from recollect.spec import SpecError, digest, nearest
from recollect.store.store import Store
from recollect.store.versions import release
from recollect.study.executors import open_executor
from recollect.study.plan import Plan, make_plan
from recollect.study.run import default_cohort, run_study
from recollect.study.spec import Study
from recollect.train.device import choose_device, cores

Train = Callable[[list[Study]], None]
Record = dict[str, Any]
"""A verdict as plain data, with the paper, the item, the command, the version and those that trained its runs."""


def chosen(paper: str, item: str | None, scale: str) -> tuple[Paper, list[Item], Scale]:
    """The paper, the items that are meant and the scale, by name."""
    if scale not in SCALES:
        raise SpecError(f"unknown scale {scale!r}: {nearest(scale, SCALES)}")
    found = find_paper(paper)
    return found, [found.item(item)] if item else list(found.items), scale


def studies_of(items: list[Item], scale: Scale) -> list[Study]:
    """The studies of these items, each once."""
    return list({study.name: study for item in items for study in item.unfolded(scale)}.values())


def plans(items: list[Item], scale: Scale, store: Store | None, device: str, cohort: int) -> dict[str, Plan]:
    """What each study of these items will cost, by its name."""
    size = cohort or default_cohort(device)
    return {study.name: make_plan(study, store, device, size) for study in studies_of(items, scale)}


def total(made: Iterable[Plan]) -> tuple[int, float]:
    """Runs still to train, and the seconds they need; a run that several plans have is counted once."""
    cost = {run.id: part.seconds / len(part.left) for plan in made for part in plan.parts for run in part.left}
    return len(cost), sum(cost.values())


def reproduce(
    paper: str,
    item: str | None = None,
    scale: str = "tiny",
    store: str | Path = "results/store.sqlite",
    device: str = "auto",
    out: str | Path | None = None,
    workers: int = 0,
    cohort: int = 0,
    draw_only: bool = False,
    train: Train | None = None,
) -> list[Record]:
    """The verdicts on an item's claims, or on those of all items; drawings and numbers are written on the way.

    `draw_only` trains nothing and takes what the store has. `train` is called with all studies; left out, they are run here,
    without progress. `workers`: processes that train; 0 is one a GPU or, from Python on a CPU, this one.
    """
    found, items, size = chosen(paper, item, scale)
    kept, folder = Store(store, create=True), Path(out or Path("results/reproductions") / scale / paper)
    studies = studies_of(items, size)
    if draw_only:
        with kept.writing() as writer:
            for study in studies:
                writer.add_study(study.name, study.to_yaml(), study.runs())
    elif train is not None:
        train(studies)
    elif studies:
        with open_executor(device=device, workers=workers) as place:
            run_study(studies, kept, cohort=cohort, executor=place)
    records = []
    for one in items:
        evidence = _with_measured(one, gather(one, size, kept), kept, "" if draw_only else device)
        records += _show(found, one, evidence, folder, f"recollect reproduce {paper}/{one.name} --scale {scale}")
    return write_verdicts(records, found, folder)


def _with_measured(item: Item, evidence: Evidence, store: Store, device: str) -> Evidence:
    """The evidence with what the item measures on trained models: kept beside the store, as it takes training again."""
    if item.measure is None or evidence.runs.empty:
        return evidence
    runs = item.runs(evidence.scale)
    mark = digest(sorted(evidence.runs["id"]))
    path = store.path.with_name(store.path.name + ".measured") / f"{item.name}-{mark}.csv"
    if not path.exists() and device:
        path.parent.mkdir(parents=True, exist_ok=True)
        item.measure(evidence, runs, choose_device(device)).to_csv(path, index=False)
    return dataclasses.replace(evidence, measured=pd.read_csv(path)) if path.exists() else evidence


def _show(paper: Paper, item: Item, evidence: Evidence, folder: Path, command: str) -> list[Record]:
    """Draw an item, write its numbers, and judge its claims."""
    figure, numbers = item.draw(evidence, item.caption(evidence))
    save(figure, folder / item.name)
    numbers.to_csv(folder / f"{item.name}.csv", index=False)
    about = {"paper": paper.name, "item": item.name}
    trained = sorted(
        {json.loads(text)["recollect"] for text in evidence.runs["versions"]} if len(evidence.runs) else ()
    )
    made_by = {"command": command, "version": release(), "trained": trained}
    return [{**about, **dataclasses.asdict(judge(claim, evidence)), **made_by} for claim in item.claims]


def write_verdicts(records: list[Record], paper: Paper, folder: Path) -> list[Record]:
    """Write verdicts, beside those of the paper's other items that the folder has; give all of them, what failed first."""
    path = folder / "verdicts.json"
    places = {item.name: place for place, item in enumerate(paper.items)}
    new = {record["item"] for record in records}
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    records = [*records, *(r for r in known if r["item"] not in new and r["item"] in places)]
    records.sort(key=lambda record: (ANSWERS.index(record["answer"]), places[record["item"]]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "verdicts.md").write_text(_markdown(records, paper), encoding="utf-8")
    return records


def _markdown(records: list[Record], paper: Paper) -> str:
    counts = {answer: sum(record["answer"] == answer for record in records) for answer in ANSWERS}
    lines = [f"# {paper.title}", "", "; ".join(f"{n} {answer}" for answer, n in counts.items() if n) + ".", ""]
    lines += [
        "| item | claim | verdict | numbers (interval over seeds) | scale | runs | seeds |",
        "|---|---|---|---|---|---|---|",
    ]
    for record in records:
        numbers = "; ".join(f"{name}: {value}" for name, value in record["numbers"].items())
        noted = " -- ".join(filter(None, (numbers, record["note"])))
        runs = f"{record['runs']} of {record['asked']}"
        cells = (
            record["item"],
            record["says"],
            f"**{record['answer']}**",
            noted,
            record["scale"],
            runs,
            record["seeds"],
        )
        lines.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |")
    lines += ["", "Made by:", "", *dict.fromkeys(map(_made_by, records))]
    return "\n".join(lines) + "\n"


def _made_by(record: Record) -> str:
    trained = ", ".join(record.get("trained", []))
    others = f"; runs by {trained}" if trained and trained != record["version"] else ""
    return f"- `{record['command']}` (recollect {record['version']}{others})"


def workers_on(device: str) -> int:
    """On a CPU a process for each processor; elsewhere as the executor chooses."""
    return cores() if choose_device(device) == "cpu" else 0
