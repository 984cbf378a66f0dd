"""MAD has its 66 settings, its score is the one published, and its claims are judged right on made-up results."""

import pandas as pd
import pytest

import recollect
from recollect.cli.tables import mad_table
from recollect.papers.item import evidence_of
from recollect.papers.judge import judge
from recollect.papers.mad2024 import (
    CHANGES,
    PAPER,
    PUBLISHED,
    TASKS,
    accuracies,
    mixer_studies,
    score,
    settings,
    studies,
)
from recollect.tasks import as_task

ITEM = PAPER.item("score")


def test_there_are_66_settings_and_396_runs_per_mixer():
    assert [len(settings(task)) for task in TASKS] == [11, 14, 11, 6, 11, 13]
    for task in TASKS:
        for fields, _ in settings(task):
            assert as_task(fields).kind == task
    runs = [run for study in mixer_studies("deltanet", quick=False)[0] for run in study.runs()]
    assert len({run.id for run in runs}) == 396
    assert {(run.train.lr, run.train.weight_decay) for run in runs} == {
        (lr, decay) for lr in (1e-4, 5e-4, 1e-3) for decay in (0.0, 0.1)
    }
    assert {run.train.train_rows for run in runs} == {256, 12_800, 6400, 3200, 1600, 800}
    assert {run.model.head for run in runs if run.task.kind == "mad_compression"} == {"autoencoder"}
    assert {(run.model.width, run.model.layers, run.model.mlp, run.model.positions) for run in runs} == {
        (128, 2, "swiglu", "none")
    }


def test_baselines_are_the_released_ones():
    found = {task: as_task(task) for task in CHANGES}
    lengths = {task.removeprefix("mad_"): found[task].length for task in found}
    assert lengths == {
        "recall": 128,
        "noisy": 128,
        "fuzzy": 128,
        "memorization": 32,
        "compression": 32,
        "selective_copy": 256,
    }
    vocabularies = {task.removeprefix("mad_"): found[task].vocab for task in found}
    assert vocabularies == {
        "recall": 16,
        "noisy": 32,
        "fuzzy": 16,
        "memorization": 256,
        "compression": 16,
        "selective_copy": 16,
    }
    assert (found["mad_noisy"].noises, found["mad_noisy"].noise, found["mad_selective_copy"].items) == (16, 0.2, 16)


def test_the_score_takes_the_best_of_each_setting_then_means():
    rows = [
        {"model": "m", "task.kind": task, "task.vocab": vocab, "train.lr": lr, "train.weight_decay": decay, "train.seed": 42,
         "accuracy": (0.4 if vocab == 16 else 0.2) + (0.2 if (lr, decay) == (1e-3, 0.1) else 0.0)}
        for task in TASKS for vocab in (16, 32) for lr in (1e-4, 1e-3) for decay in (0.0, 0.1)
    ]  # fmt: skip
    found = accuracies(pd.DataFrame(rows))
    assert found["accuracy"].tolist() == pytest.approx([0.5] * 6)
    assert set(found["settings"]) == {2}
    assert score(found) == {"m": pytest.approx(0.5)}
    assert score(found.iloc[:5])["m"] != score(found.iloc[:5])["m"], "without a task there is no score"
    assert accuracies(pd.DataFrame()).empty


def test_published_means_are_the_printed_averages():
    means = {name: round(100 * sum(values.values()) / 6, 1) for name, values in PUBLISHED.items()}
    assert means == {"attention": 74.5, "hyena": 66.0, "mamba": 69.3, "gla": 60.0, "deltanet": 71.8, "rwkv7": 79.3}


def test_a_mixer_goes_through_all_tasks(tmp_path):
    small = {
        "epochs": 0,
        "steps": 1,
        "train_rows": 0,
        "batch": 2,
        "test_rows": 2,
        "eval_rows": 2,
        "lr": 1e-3,
        "weight_decay": 0.0,
    }
    made = studies("mad.deltanet", ["deltanet"], changed=False, **small)
    outcome = recollect.run(made, store=tmp_path / "s.sqlite", device="cpu", workers=1, progress=False)
    table = mad_table(accuracies(outcome.results("all")), "deltanet", quick=True)
    assert table.row_count == 7
    assert list(table.columns[2].cells) == ["1"] * 6 + ["6"]
    assert list(table.columns[3].cells)[-1] == "0.718"


def by(kinds: dict, otherwise: float = 0.5):
    return lambda run: kinds.get((run.model.mixer.kind, run.task.kind.removeprefix("mad_")), otherwise)


CASES = {
    "delta-rule-recalls": (lambda run: 0.99, lambda run: 0.5),
    "attention-copies": (lambda run: 0.99, lambda run: 0.5),
    "deltanet-memorises-less": (by({("attention", "memorization"): 0.9}), lambda run: 0.5),
    "hyena-is-not-fuzzy": (by({("attention", "fuzzy"): 0.9}), lambda run: 0.5),
    "attention-is-less-fuzzy": (by({("deltanet", "fuzzy"): 0.9}), by({("attention", "fuzzy"): 0.9})),
}


@pytest.mark.parametrize("name", CASES)
def test_claims_are_judged(name, made_up):
    yes, no = CASES[name]
    for law, answer in ((yes, "holds"), (no, "not seen at this scale")):
        verdict = judge(PAPER.claims[name], made_up(ITEM, "tiny", law))
        assert verdict.answer == answer, (verdict.numbers, verdict.note)
    assert CASES.keys() == PAPER.claims.keys()


def test_the_item_is_drawn_with_and_without_runs(made_up):
    for evidence in (made_up(ITEM, "tiny", lambda run: 0.7), evidence_of(ITEM, "tiny")):
        figure, numbers = ITEM.draw(evidence, ITEM.caption(evidence))
        figure.canvas.draw()
        assert len(numbers) == (5 if len(evidence.runs) else 0)
