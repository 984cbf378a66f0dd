"""One command plans, trains or resumes, draws and judges; and nothing that fails on the way is lost or hidden."""

import dataclasses
import json
import subprocess
import sys

import pandas as pd
import pytest
import yaml

import recollect
from recollect.figures.tables import table_figure
from recollect.papers import PAPERS
from recollect.papers import reproduce as module
from recollect.papers.estimates import best
from recollect.papers.item import Item, Paper
from recollect.papers.judge import Claim, Evidence, Verdict
from recollect.papers.okpekpe2025.decay import DECAY, NEWER
from recollect.papers.questions import at_least, at_most
from recollect.papers.reproduce import grids_of, plans, reproduce, total
from recollect.spec import SpecError
from recollect.store.frames import runs_frame
from recollect.store.store import Store
from recollect.study.run import run
from recollect.study.spec import Study

TRAIN = {"lr": [1e-3, 1e-2], "seed": [1, 2], "steps": 3, "batch": 4, "eval_rows": 4, "test_rows": 8}
TASK = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
BROKEN = """
from recollect.mixers.attention import Attention

class Broken(Attention):
    def forward(self, x):
        raise RuntimeError("broken on purpose")
"""


def small(name: str, mixer: str = "attention", **train: object):
    def studies(scale: str) -> list[Study]:
        model = {"mixer": mixer, "width": 8, "layers": 1}
        return [Study(name=f"made2025.{name}.{scale}", task=TASK, model=model, train={**TRAIN, **train})]

    return studies


def draw(evidence: Evidence, caption: str):
    columns = ["model", "train.lr", "accuracy"]
    table = evidence.runs[columns] if len(evidence.runs) else pd.DataFrame(columns=columns)
    return table_figure(table, "made up", caption), table


def always(evidence: Evidence):
    return at_least(best(evidence.where(model="attention"), "attention"), 0.0)


def never(evidence: Evidence):
    return at_most(best(evidence.where(model="attention"), "attention"), -1.0)


def paper(*more: Item) -> Paper:
    first = Item(
        "one", "First", "first", draw, small("one"), (Claim("always", "at least 0", always),), {"tiny": "all of it"}
    )
    second = Item("two", "Second", "second", draw, small("one"), (Claim("never", "at most -1", never, ("tiny",)),))
    return Paper("made2025", "A made-up paper", (first, second, *more))


@pytest.fixture
def made(monkeypatch):
    """Make `reproduce` know a paper."""

    def know(found: Paper) -> None:
        monkeypatch.setattr(module.PAPERS, "find", {"made2025": found}.__getitem__)

    know(paper())
    return know


def made_up(store, out, item: str = "", **options) -> list[dict]:
    """The verdicts on the made-up paper, or on one item of it."""
    return reproduce(
        f"made2025{item}", store=store, device="cpu", workers=1, out=out, progress=False, **options
    ).records


def trained(store) -> int:
    return len(Store(store).done())


def test_a_paper_is_trained_drawn_and_judged(made, tmp_path):
    store, out = tmp_path / "s.sqlite", tmp_path / "out"
    records = made_up(store, out)
    assert trained(store) == 4, "items share runs"
    assert {p.name for p in out.iterdir()} == {
        "one.png", "one.svg", "one.csv", "two.png", "two.svg", "two.csv", "verdicts.json", "verdicts.md", "runs.csv",
    }  # fmt: skip
    assert [r["answer"] for r in records] == ["does not hold", "holds"], "what did not hold comes first"
    assert json.loads((out / "verdicts.json").read_text()) == records
    first = records[0]
    assert (first["paper"], first["item"], first["scale"], first["runs"], first["asked"], first["seeds"]) == (
        "made2025", "two", "tiny", 4, 4, 2,
    )  # fmt: skip
    assert first["numbers"]["attention"].endswith(")")
    assert first["command"] == "recollect reproduce made2025/two --scale tiny"
    assert first["version"].split(" at ")[0] == recollect.__version__
    assert first["trained"] == [first["version"]]
    text = (out / "verdicts.md").read_text()
    assert "Of 2 claims: 1 does not hold; 1 holds." in text
    assert text.index("does not hold") < text.index("**holds**")
    assert first["command"] in text
    assert "all of it" in (out / "one.svg").read_text(), "the caption says what differs"
    assert len(pd.read_csv(out / "one.csv")) == 4


def test_again_trains_nothing_and_one_item_keeps_the_others_verdicts(made, tmp_path):
    store, out = tmp_path / "s.sqlite", tmp_path / "out"
    made_up(store, out)
    before = runs_frame(Store(store))[["id", "ended"]]
    assert {record["item"] for record in made_up(store, out, "/one")} == {"one"}
    assert runs_frame(Store(store))[["id", "ended"]].equals(before)
    assert {record["item"] for record in json.loads((out / "verdicts.json").read_text())} == {"one", "two"}


def test_draw_only_trains_nothing_and_says_what_is_missing(made, tmp_path):
    store, out = tmp_path / "s.sqlite", tmp_path / "out"
    records = made_up(store, out, draw_only=True)
    assert trained(store) == 0
    assert {record["answer"] for record in records} == {"runs are missing"}
    assert records[0]["note"] == "0 of 4 runs have ended"
    assert (out / "one.png").exists()


def test_a_failed_run_does_not_stop_the_rest(made, tmp_path):
    file = tmp_path / "broken.py"
    file.write_text(BROKEN)
    broken = Item(
        "broken", "Broken", "broken", draw, small("broken", f"{file}:Broken"), (Claim("always", "x", always),)
    )
    made(Paper("made2025", "A made-up paper", (broken, *paper().items)))
    records = made_up(tmp_path / "s.sqlite", tmp_path / "out")
    assert {r["item"]: r["answer"] for r in records} == {
        "broken": "runs are missing",
        "one": "holds",
        "two": "does not hold",
    }


def test_what_is_measured_on_models_is_measured_once(made, tmp_path):
    calls = []

    def measure(evidence: Evidence, runs, device: str) -> pd.DataFrame:
        calls.append((len(evidence.runs), len(runs), device))
        return pd.DataFrame({"value": [0.5, 1.0]})

    def held(evidence: Evidence):
        return at_least(best(evidence.runs.assign(accuracy=evidence.measured["value"].mean()), "measured"), 0.6)

    item = Item("m", "Measured", "m", draw, small("m"), (Claim("held", "x", held),), measure=measure)
    made(paper(item))
    for draw_only in (False, False, True):
        records = made_up(tmp_path / "s.sqlite", tmp_path / "out", "/m", draw_only=draw_only)
        assert [record["answer"] for record in records] == ["holds"]
    assert calls == [(4, 4, "cpu")]


def test_the_plan_counts_shared_runs_once_and_forgets_what_is_done(made, tmp_path):
    other = Item("other", "Other", "other", draw, small("other", lr=[1e-3, 1e-2, 1e-1]))
    items = list(paper(other).items)
    planned = plans(grids_of(items, "tiny"), None, "cpu")
    assert list(planned) == ["made2025.one.tiny", "made2025.other.tiny"]
    assert [plan.left for plan in planned.values()] == [4, 6]
    runs, seconds = total(planned.values())
    assert runs == 6
    assert 0 < seconds < sum(plan.total("seconds") for plan in planned.values())
    made(paper(other))
    made_up(tmp_path / "s.sqlite", tmp_path / "out", "/one")
    assert total(plans(grids_of(items, "tiny"), Store(tmp_path / "s.sqlite"), "cpu").values())[0] == 2


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(SpecError, match="did you mean 'okpekpe2025'"):
        reproduce("okpekpe", store=tmp_path / "s.sqlite")
    with pytest.raises(SpecError, match="did you mean 'fig1'"):
        reproduce("okpekpe2025/fig_1", store=tmp_path / "s.sqlite")
    with pytest.raises(SpecError, match="unknown scale 'large'"):
        reproduce("okpekpe2025/fig1", scale="large", store=tmp_path / "s.sqlite")


def test_a_paper_without_a_scale_says_which_it_has(tmp_path):
    with pytest.raises(SpecError, match="zoology2024 has no scale 'medium'; choose from: tiny, small, paper"):
        reproduce("zoology2024", scale="medium", store=tmp_path / "s.sqlite")


def test_decay_is_measured_at_the_best_rate_before_and_after(tmp_path):
    study = Study(name="d", task=TASK, model={"mixer": NEWER, "width": [8, 16], "layers": 1}, train=TRAIN)
    store = Store(tmp_path / "s.sqlite", create=True)
    run(study, store=store, device="cpu", workers=1, progress=False)
    runs = module.gather(Item("d", "", "", draw, lambda scale: [study]), "tiny", store)
    assert DECAY.measure is not None
    found = DECAY.measure(runs, study.runs(), "cpu")
    assert set(found["model"]) == set(NEWER)
    assert set(found["when"]) == {"start", "end"}
    assert set(found["seed"]) == {1, 2}
    assert found.groupby("model")["lr"].nunique().eq(1).all()
    assert (found["size"] >= 0).all()
    start, end = (found[found["when"] == when]["size"].to_numpy() for when in ("start", "end"))
    assert (start != end).any(), "training moved the matrices"


def command(*words: object, cwd) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "recollect.cli", *map(str, words)], capture_output=True, text=True, cwd=cwd
    )


def test_the_commands(tmp_path):
    listed = command("papers", "zoology2024", "--scale", "tiny", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert "tradeoff" in listed.stdout
    printed = command("papers", "okpekpe2025", "--scale", "tiny", cwd=tmp_path)
    assert "tiny, 2 cores" in printed.stdout
    assert "task.filler" in printed.stdout, "what the paper does not state is printed too"
    drawn = command("reproduce", "okpekpe2025/fig8-10", cwd=tmp_path)
    assert drawn.returncode == 0, drawn.stderr
    folder = tmp_path / "results" / "reproductions" / "tiny" / "okpekpe2025"
    assert {p.name for p in folder.iterdir()} == {
        "fig8-10.png",
        "fig8-10.svg",
        "fig8-10.csv",
        "verdicts.json",
        "verdicts.md",
    }
    wrong = command("reproduce", "okpekpe2025/figure1", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "did you mean 'fig1'" in wrong.stderr
    assert len(wrong.stderr.strip().splitlines()) == 1


def test_what_does_not_hold_has_a_reason_or_none_is_known():
    known = yaml.safe_load(module.REASONS.read_text())
    for name, kinds in known.items():
        assert kinds.keys() == {"observed", "theory"}
        for reasons in kinds.values():
            assert reasons.keys() <= PAPERS.find(name).claims.keys()
    claim = Claim("mamba-is-narrow", "it is", never)
    verdict = Verdict(claim.name, claim.says, "does not hold", None, {}, "", "medium", 1, 1, 1)
    assert module.reason("okpekpe2025", verdict).startswith("Likely the task")
    assert module.reason("retrievit2026", verdict) == "unknown"
    assert module.reason("okpekpe2025", dataclasses.replace(verdict, answer="holds")) == ""
    unseen = dataclasses.replace(verdict, answer="not seen at this scale")
    assert module.reason("okpekpe2025", unseen) == "", "what was observed at one scale is no reason at another"
    assert module.reason("okpekpe2025", dataclasses.replace(unseen, claim="s6-mlp")).startswith("S6 is the scan alone")
