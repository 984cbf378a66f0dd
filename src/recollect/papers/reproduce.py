"""Reproduces an item or a whole paper: trains what is missing, draws, writes the numbers, and judges every claim.

OUT/ITEM.png, ITEM.svg, ITEM.csv      the drawing and the numbers in it
OUT/verdicts.md, verdicts.json        the verdict on each claim, those that do not hold first
OUT/runs.csv and others               the runs, from which all of this can be drawn again (papers/kept.py)
"""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from recollect.figures.style import check_formats, save, style
from recollect.papers import PAPERS
from recollect.papers.item import Item, Paper, gather
from recollect.papers.judge import ANSWERS, SCALES, Evidence, Scale, Verdict, judge, one_per_claim
from recollect.papers.kept import RUNS, keep, kept, kept_ids
from recollect.spec import SpecError, digest, nearest
from recollect.spec.output import written_whole
from recollect.store import DEFAULT_STORE
from recollect.store.store import Store
from recollect.store.versions import release
from recollect.study.outcome import Outcome
from recollect.study.plan import Plan, make_plan
from recollect.study.run import Grid, run
from recollect.train.device import choose_device
from recollect.train.spec import SEMANTICS

Record = dict[str, Any]
"""A verdict as plain data, with the paper, the item, the reason, the command, the version and those that trained its runs."""
REASONS = Path(__file__).with_name("reasons.yaml")


@dataclass(frozen=True)
class Reproduction:
    """The result for an item or for a whole paper. It displays as a table of verdicts in a notebook."""

    paper: Paper
    scale: Scale
    folder: Path
    """Where pictures, numbers and verdicts are."""
    records: list[Record]
    """The verdicts on the chosen items, those that do not hold first."""
    outcome: Outcome | None = None
    """The outcome of the runs; None if nothing was trained."""

    @property
    def verdicts(self) -> pd.DataFrame:
        """One row per claim."""
        return pd.DataFrame(self.records, columns=["item", "says", "answer", "numbers", "note"])

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {answer}" for answer, count in _counts(self.records).items())
        return f"Reproduction({self.paper.name} at scale {self.scale}: {counts or 'no claims'}; see {self.folder})"

    def _repr_html_(self) -> str:
        return self.verdicts.to_html(index=False, escape=True)


def chosen(what: str, scale: str) -> tuple[Paper, list[Item], Scale]:
    """The paper, the items that `PAPER`, `PAPER/ITEM` or `PAPER/ITEM,ITEM` means, and the scale."""
    if scale not in SCALES:
        raise SpecError(f"unknown scale {scale!r}: {nearest(scale, SCALES)}")
    name, _, named = what.partition("/")
    paper = PAPERS.find(name)
    if scale not in paper.scales:
        raise SpecError(f"{name} has no scale {scale!r}; choose from: {', '.join(paper.scales)}")
    return paper, [paper.item(item) for item in named.split(",")] if named else list(paper.items), scale


def grids_of(items: Iterable[Item], scale: Scale) -> list[Grid]:
    """The studies of these items, each once, with their runs."""
    return list({grid.study.name: grid for item in items for grid in item.grids(scale)}.values())


def grids_to_train(items: Sequence[Item], scale: Scale, store: Store | None, folder: Path) -> list[Grid]:
    """The same without the runs that only the folder of results has, perhaps from another machine: they are not trained again."""
    elsewhere = kept_ids(items, scale, folder).difference(store.done() if store else ())
    return [Grid(grid.study, [run for run in grid.runs if run.id not in elsewhere]) for grid in grids_of(items, scale)]


def plans(grids: Iterable[Grid], store: Store | None, device: str, cohort: int = 0) -> dict[str, Plan]:
    """What each of these studies will cost, by its name; those with nothing to train are left out."""
    return {grid.study.name: make_plan(grid, store, device, cohort) for grid in grids if grid.runs}


def total(made: Iterable[Plan]) -> tuple[int, float]:
    """Runs still to train, and the seconds they need; a run that several plans have is counted once."""
    cost = {run.id: part.seconds / len(part.left) for plan in made for part in plan.parts for run in part.left}
    return len(cost), sum(cost.values())


def reproduce(
    what: str,
    *,
    scale: str = "tiny",
    store: Store | str | Path = DEFAULT_STORE,
    out: str | Path | None = None,
    draw_only: bool = False,
    from_runs: str | Path | None = None,
    formats: Sequence[str] = ("png", "svg"),
    columns: int = 0,
    device: str = "auto",
    **options: Any,
) -> Reproduction:
    """Train what a paper's item, or all of a paper, needs; draw it, write its numbers, and judge its claims.

    Args:
        what: `PAPER`, `PAPER/ITEM` or `PAPER/ITEM,ITEM`, such as `okpekpe2025/fig7`.
        scale: `tiny`, `small`, `medium` or `paper`.
        store: the results file.
        out: the folder for pictures, numbers, verdicts and runs; `results/reproductions/SCALE/PAPER` unless given. Runs that it
            has already, perhaps from another machine, are not trained again.
        draw_only: train nothing, and draw and judge what the store has.
        from_runs: a folder with reproductions by scale and paper, such as `docs/reproductions`: draw and judge again what it has
            from the runs kept there, without training and without a store.
        formats: of pictures: `png`, `svg`, `pdf`.
        columns: 1 or 2 makes pictures as wide as one or two columns of a page, without title and caption.
        device: where runs are trained and models measured.
        options: those of `recollect.run`: `executor`, `workers`, `cohort`, `progress` and others.
    """
    paper, items, size = chosen(what, scale)
    check_formats(formats)
    folder = Path(out or Path("results/reproductions") / scale / paper.name)
    command = f"recollect reproduce {paper.name}/{{}} --scale {scale}"
    outcome, records = None, []
    if from_runs:
        source = Path(from_runs) / scale / paper.name
        items = items if "/" in what else [item for item in items if (source / f"{item.name}.csv").exists()]
        for item in items:
            records += _show(paper, item, kept(item, size, source), folder, command.format(item.name), formats, columns)
    else:
        store = store if isinstance(store, Store) else Store(store, create=True)
        grids = grids_of(items, size) if draw_only else grids_to_train(items, size, store, folder)
        outcome = _train(grids, store, draw_only, device, options)
        for item in items:
            found = _with_measured(item, gather(item, size, store), store, "" if draw_only else device)
            found = keep(paper, item, found, folder)
            records += _show(paper, item, found, folder, command.format(item.name), formats, columns)
    names = {item.name for item in items}
    every = write_verdicts(records, paper, folder)
    return Reproduction(paper, size, folder, [record for record in every if record["item"] in names], outcome)


def scales_in(what: str, folder: Path) -> list[Scale]:
    """The scales at which a folder has runs of a paper, by the current semantics: those of older ones are not mixed with them."""
    paper = PAPERS.find(what.partition("/")[0])
    found: list[Scale] = [
        scale for scale in paper.scales if _semantics(folder / scale / paper.name / RUNS) == SEMANTICS
    ]
    if not found:
        raise SpecError(
            f"no runs of {paper.name} by semantics version {SEMANTICS} in {folder}: looked for SCALE/{paper.name}/{RUNS}"
        )
    return found


def _semantics(path: Path) -> int:
    """The version of the saved runs; 0 where there are none, 1 where none is recorded."""
    if not path.exists():
        return 0
    first = pd.read_csv(path, nrows=1)
    return int(first["semantics"].iloc[0]) if "semantics" in first and len(first) else 1


def _train(grids: list[Grid], store: Store, draw_only: bool, device: str, options: dict[str, Any]) -> Outcome | None:
    """Train the runs that the store does not have; or, with `draw_only`, only register the studies in it."""
    idle = grids if draw_only else [grid for grid in grids if not grid.runs]
    with store.writing() as writer:
        for grid in idle:
            writer.add_study(grid.study.name, grid.study.to_yaml(), grid.runs)
    busy = [] if draw_only else [grid for grid in grids if grid.runs]
    return run(busy, store=store, device=device, **options) if busy else None


def _with_measured(item: Item, evidence: Evidence, store: Store, device: str) -> Evidence:
    """The evidence with what the item measures on trained models: saved beside the store, because measuring needs training
    again."""
    if item.measure is None or evidence.runs.empty:
        return evidence
    runs = item.runs(evidence.scale)
    mark = digest(sorted(evidence.runs["id"]))
    path = store.path.with_name(store.path.name + ".measured") / f"{item.name}-{mark}.csv"
    if not path.exists() and device:
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as draft:
            item.measure(evidence, runs, choose_device(device)).to_csv(draft, index=False)
    return dataclasses.replace(evidence, measured=pd.read_csv(path)) if path.exists() else evidence


def _show(
    paper: Paper, item: Item, evidence: Evidence, folder: Path, command: str, formats: Sequence[str], columns: int
) -> list[Record]:
    """Draw an item, write its numbers, and judge its claims."""
    figure, numbers = item.draw(evidence, item.caption(evidence))
    with style():  # the salt of an SVG's ids, so that the same picture is the same file
        save(figure, folder / item.name, formats, columns)
    with written_whole(folder / f"{item.name}.csv") as draft:
        numbers.to_csv(draft, index=False, float_format="%.9g")  # the same digits on every machine
    about = {"paper": paper.name, "item": item.name}
    trained = sorted({json.loads(text)["recollect"] for text in evidence.runs["versions"]})
    made_by = {"command": command, "version": release(), "trained": trained}
    found = [judge(claim, evidence) for claim in item.claims]
    return [{**about, **dataclasses.asdict(one), "reason": reason(paper.name, one), **made_by} for one in found]


def reason(paper: str, verdict: Verdict) -> str:
    """Why a claim does not hold, as far as is known (reasons.yaml); where it was not seen, what theory says; else nothing."""
    if verdict.answer not in ("does not hold", "not seen at this scale"):
        return ""
    known = yaml.safe_load(REASONS.read_text(encoding="utf-8")).get(paper, {})
    theory = known.get("theory", {}).get(verdict.claim, "")
    if verdict.answer != "does not hold":
        return theory
    return known.get("observed", {}).get(verdict.claim, theory or "unknown")


def write_verdicts(records: list[Record], paper: Paper, folder: Path) -> list[Record]:
    """Write verdicts, beside those of the paper's other items that the folder has; give all of them, those that do not hold
    first."""
    path = folder / "verdicts.json"
    places = {item.name: place for place, item in enumerate(paper.items)}
    new = {record["item"] for record in records}
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    records = [*records, *(r for r in known if r["item"] not in new and r["item"] in places)]
    order = {answer: place for place, answer in enumerate(ANSWERS)}  # an unknown answer of another version comes first
    records.sort(key=lambda record: (order.get(record["answer"], -1), places[record["item"]]))
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = {
        path: json.dumps(records, indent=1, ensure_ascii=False) + "\n",
        folder / "verdicts.md": _markdown(records, paper),
    }
    for place, text in texts.items():
        with written_whole(place) as draft:
            draft.write_text(text, encoding="utf-8")
    return records


def _markdown(records: list[Record], paper: Paper) -> str:
    counts = _counts(records)
    left = len(paper.claims) - sum(counts.values())
    counted = [f"{count} {answer}" for answer, count in counts.items()] + [f"{left} not judged"] * (left > 0)
    lines = [f"# {paper.title}", "", f"Of {len(paper.claims)} claims: {'; '.join(counted)}.", ""]
    lines += [
        "| item | claim | verdict | numbers (90 % interval over seeds) | scale | runs | seeds |",
        "|---|---|---|---|---|---|---|",
    ]
    for record in records:
        numbers = "; ".join(f"{name}: {value}" for name, value in record["numbers"].items())
        why = f"reason: {record['reason']}" if record.get("reason") else ""
        noted = " -- ".join(filter(None, (numbers, record["note"], why)))
        runs = f"{record['runs']} of {record['asked']}"
        shown = {**record, "answer": f"**{record['answer']}**", "numbers": noted, "runs": runs}
        cells = [shown[name] for name in ("item", "says", "answer", "numbers", "scale", "runs", "seeds")]
        lines.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |")
    lines += ["", "Made by:", "", *dict.fromkeys(map(_made_by, records))]
    return "\n".join(lines) + "\n"


def _counts(records: list[Record]) -> dict[str, int]:
    """How many distinct claims got each answer; answers without a claim are left out."""
    answers = [record["answer"] for record in one_per_claim(records)]
    counts = {answer: answers.count(answer) for answer in dict.fromkeys([*ANSWERS, *answers])}
    return {answer: count for answer, count in counts.items() if count}


def _made_by(record: Record) -> str:
    trained = ", ".join(record.get("trained", []))
    others = f"; runs by {trained}" if trained and trained != record["version"] else ""
    return f"- `{record['command']}` (recollect {record['version']}{others})"
