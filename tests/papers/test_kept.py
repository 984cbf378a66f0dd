"""A reproduction is drawn and judged again from the runs kept beside it: the same files, without training and without a store."""

import shutil

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from recollect.analysis.embeddings import cosine, neighbour_distance, pca
from recollect.cli import app
from recollect.figures.panels import lines_figure, mean_and_range
from recollect.figures.tables import table_figure
from recollect.papers import reproduce as module
from recollect.papers.item import Item, Paper, gather
from recollect.papers.judge import Claim, Evidence
from recollect.papers.kept import _packed, _unpacked, kept
from recollect.papers.questions import at_least
from recollect.papers.reproduce import reproduce
from recollect.spec import SpecError
from recollect.store.store import Store
from recollect.study.spec import Study

TRAIN = {"lr": [1e-3, 1e-2], "seed": [1, 2], "steps": 4, "batch": 4, "eval_every": 2, "eval_rows": 4, "test_rows": 8}


def positions(scale: str) -> list[Study]:
    """One kind of model tied and one not, so that a column of snapshots is empty for some runs."""
    models = [{"mixer": "attention", "width": 8, "layers": 1, "tie": tie} for tie in (True, False)]
    train = {**TRAIN, "slices": "always", "snapshots": 2}
    return [Study(name=f"p.{scale}", task={"kind": "position", "length": 6}, model=models, train=train)]


def pairs(scale: str) -> list[Study]:
    models = [{"mixer": {"kind": "mamba", "conv": False}, "width": 8, "layers": 1}, {"width": 8, "layers": [1, 2]}]
    return [
        Study(
            name=f"m.{scale}", task={"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}, model=models, train=TRAIN
        )
    ]


def draw_runs(evidence: Evidence, caption: str):
    table = mean_and_range(evidence.runs, ["model", "train.lr"])
    figure = lines_figure(table, "train.lr", "model", title="runs", caption=caption, xlabel="learning rate")
    return figure, pd.DataFrame(
        evidence.runs, columns=["id", "model", "accuracy", "best_accuracy", "train.lr", "final.loss"]
    )


def draw_frames(evidence: Evidence, caption: str):
    first = evidence.snapshots.iloc[0]
    rows = {
        "loss": evidence.curves["train_loss"].sum(), "right": evidence.slices["right"].sum(), "steps": len(evidence.curves),
        "first": float(pca(first["input"], 2)[0][0, 0]), "tied": sum(x is None for x in evidence.snapshots["output"]),
    }  # fmt: skip
    return table_figure(pd.DataFrame([rows]), "frames", caption), pd.DataFrame([rows])


def draw_measured(evidence: Evidence, caption: str):
    return table_figure(evidence.measured, "measured", caption), evidence.measured


def measure(evidence: Evidence, runs, device: str) -> pd.DataFrame:
    return pd.DataFrame({"runs": [len(runs)], "value": [1 / 3]})


CLAIM = Claim(
    "half",
    "at least half",
    lambda evidence: at_least(evidence.best(evidence.where(model="attention"), "attention"), 0.5),
)
FRAMES = Item("frames", "", "", draw_frames, positions, (CLAIM,), needs=("curves", "slices", "snapshots"))
PAPER = Paper(
    "made2025",
    "A made-up paper",
    (
        Item("table", "", "", draw_runs, pairs, (CLAIM,)),
        FRAMES,
        Item("measured", "", "", draw_measured, pairs, measure=measure),
        Item("diagram", "", "", lambda evidence, caption: draw_runs(evidence, caption)),
    ),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The made-up paper known by name, trained once; the folder of its reproductions."""
    root = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.PAPERS, "find", {"made2025": PAPER}.__getitem__)
        out = root / "first" / "tiny" / "made2025"
        reproduce("made2025", store=root / "s.sqlite", device="cpu", workers=1, progress=False, out=out)
        yield root


def files(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


RUNS = {"runs.csv", "curves.parquet", "slices.parquet", "snapshots.parquet", "measured.measured.csv"}


def test_from_runs_gives_what_reproduce_wrote(made, tmp_path, monkeypatch):
    first = files(made / "first" / "tiny" / "made2025")
    assert first.keys() >= RUNS
    monkeypatch.chdir(tmp_path)
    again = reproduce("made2025", out=tmp_path / "out", from_runs=made / "first")
    assert files(tmp_path / "out") == {name: data for name, data in first.items() if name not in RUNS}
    assert {path.name for path in tmp_path.iterdir()} == {"out"}, "no store is made"
    assert again.outcome is None
    assert [record["item"] for record in again.records] == ["table", "frames"]


def test_what_is_kept_is_what_the_store_has(made):
    store, folder = Store(made / "s.sqlite"), made / "first" / "tiny" / "made2025"
    for item in PAPER.items[:2]:
        there, here = gather(item, "tiny", store), kept(item, "tiny", folder)
        assert list(here.runs["id"]) == list(there.runs["id"])
        assert (here.asked, here.asked_of) == (there.asked, there.asked_of)
        for column in here.runs:
            values = there.runs[column]
            assert values.fillna("-").astype(str).equals(here.runs[column].fillna("-").astype(str)), column
        for which in item.needs:
            a, b = (getattr(e, which).sort_values(["run", "step"], ignore_index=True) for e in (there, here))
            assert len(a) == len(b) > 0
            assert list(a["run"]) == list(b["run"])
            for column in set(b) & {"train_loss", "accuracy", "right", "count", "value", "share"}:
                assert np.allclose(a[column].to_numpy(float), b[column].to_numpy(float), rtol=1e-5, equal_nan=True)


def test_columns_have_the_types_of_the_items_own_runs(made):
    """`pairs` is empty for another item's runs in the same file: it is a whole number here even so."""
    runs = kept(PAPER.items[0], "tiny", made / "first" / "tiny" / "made2025").runs
    assert runs["task.pairs"].dtype.kind == "i"
    assert "task.query" not in runs
    assert set(runs["model.mixer"]) == {"mamba", "attention"}


def test_runs_kept_before_a_field_existed_have_its_default(made, tmp_path):
    folder = tmp_path / "made2025"
    shutil.copytree(made / "first" / "tiny" / "made2025", folder)
    now = kept(PAPER.items[0], "tiny", folder).runs
    text = pd.read_csv(folder / "runs.csv", dtype=str, keep_default_na=False)
    text.loc[: len(text) // 2, "train.z_loss"] = ""
    text.drop(columns="model.canon", errors="ignore").to_csv(folder / "runs.csv", index=False)
    pd.testing.assert_frame_equal(kept(PAPER.items[0], "tiny", folder).runs, now, check_like=True)
    assert set(now["train.z_loss"]) == {0.0}


def test_runs_that_the_folder_has_are_not_trained_again_in_another_store(made, tmp_path):
    folder, store = tmp_path / "made2025", Store(tmp_path / "other.sqlite", create=True)
    shutil.copytree(made / "first" / "tiny" / "made2025", folder)
    before = files(folder)
    runs = pd.read_csv(folder / "runs.csv", dtype=str, keep_default_na=False)
    lost = set(runs["id"][runs["model.mixer"] == "mamba"])
    runs[~runs["id"].isin(lost)].to_csv(folder / "runs.csv", index=False)
    again = {"store": store, "device": "cpu", "workers": 1, "progress": False, "out": folder}
    assert reproduce("made2025/frames", **again).outcome is None, "all of it is there"
    reproduce("made2025/table", **again)
    assert set(store.done()) == lost
    assert files(folder)["table.csv"] == before["table.csv"]
    (folder / "slices.parquet").unlink()
    reproduce("made2025/frames", **again)
    assert len(store.done()) == len(lost) + 8, "without its slices a run has to be trained again"
    reproduce("made2025/measured", **again)
    assert len(store.done()) == 12 + 8, "to measure models, all of them are trained"


def test_embeddings_keep_their_angles_distances_and_components():
    x = np.random.default_rng(0).normal(size=(7, 20)).astype(np.float32)
    frame = pd.DataFrame({"run": ["a", "b"], "share": [0.5, 1.0], "step": [1, 2], "input": [x, x], "output": [None, x]})
    back = _unpacked(_packed(frame))
    small = back["output"][1]
    assert back["output"][0] is None
    assert small.shape == (7, 7)
    assert np.allclose(cosine(small, 3), cosine(x, 3), atol=2e-3)
    assert np.allclose(neighbour_distance(small, (1, 2)), neighbour_distance(x, (1, 2)))
    assert np.allclose(np.abs(pca(small, 2)[0]), np.abs(pca(x, 2)[0]), atol=2e-2)


def test_an_item_again_replaces_its_runs_and_drops_those_of_an_older_form(made, tmp_path):
    folder = tmp_path / "tiny" / "made2025"
    folder.mkdir(parents=True)
    old = pd.DataFrame({"id": ["0123"], "accuracy": [0.5], "gone": ["x"]})
    old.to_csv(folder / "runs.csv", index=False)
    for item in ("table", "frames", "table"):
        reproduce(f"made2025/{item}", store=made / "s.sqlite", draw_only=True, out=folder)
    ids = list(pd.read_csv(folder / "runs.csv", dtype={"id": str})["id"])
    assert len(ids) == len(set(ids)) == 12 + 8
    assert "0123" not in ids


def test_the_command_finds_every_scale_that_is_there(made, tmp_path):
    result = CliRunner().invoke(
        app, ["reproduce", "made2025", "--from-runs", "--runs", str(made / "first"), "--to", str(tmp_path)]
    )
    assert result.exit_code == 0, result.output
    assert (tmp_path / "tiny" / "made2025" / "table.png").exists()
    assert "scale tiny" in result.output
    with pytest.raises(
        SpecError, match=r"no runs of made2025 by semantics version 2 in .*looked for SCALE/made2025/runs.csv"
    ):
        module.scales_in("made2025", tmp_path / "nowhere")
