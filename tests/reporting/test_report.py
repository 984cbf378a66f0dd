"""The report: one file that opens without a network, says what the store says, and breaks on nothing that a store may hold."""

import base64
import gzip
import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pandas as pd
import pytest

from recollect import Study
from recollect.reporting import curves, report
from recollect.reporting.charts import page_views
from recollect.reporting.content import Content
from recollect.spec import SpecError
from recollect.store.frames import curves_frame, runs_frame, slices_frame
from recollect.store.store import Store, StoreError
from recollect.views.base import Frames

EVIL = "</script><script>document.title='broken'</script>"


def small(name="small", **train) -> Study:
    steps = {"steps": 12, "batch": 8, "eval_every": 4, "eval_rows": 16, "test_rows": 32, "slices": "always"}
    return Study(
        name=name, task={"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32},
        model={"mixer": ["attention", {"kind": "attention", "conv": "k"}], "width": 16, "layers": 1},
        train={"lr": [0.001, 0.01, 0.1], "seed": [1, 2], **steps, **train},
    )  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with a trained study, one that diverged, one with failures, one without results, and one with an evil name."""
    path = tmp_path_factory.mktemp("report") / "store.sqlite"
    small().run(device="cpu", workers=1, store=path, progress=False)
    small("wild", lr=[1e30], seed=[1]).run(device="cpu", workers=1, store=path, progress=False)
    store = Store(path)
    with store.writing() as writer:
        runs, broken = small().runs(), small("broken", seed=[1, 9])
        writer.add_study("broken", broken.to_yaml(), broken.runs())
        failed = next(run for run in broken.runs() if run.train.seed == 9)
        writer.add_failure(failed.id, 1, f"RuntimeError: {EVIL}", "Traceback (most recent call last):\n  it broke here")
        writer.add_failure(runs[0].id, 1, "OSError: lost", "Traceback of what went well later")
        writer.add_study("empty", "name: empty\n", small("empty", lr=[0.5]).runs())
        writer.add_study(EVIL, f"name: x # {EVIL}\n", runs[:2])
    return store


def data_of(path) -> dict:
    """The data in a page, as a browser finds it: the first script ends at the first end tag."""
    packed = re.search(r'<script type="application/octet-stream" id="data">(.*?)</script>', path.read_text(), re.S)[1]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def shell_of(path) -> str:
    """The page without Plotly's script."""
    return re.sub(r"<script>.*?</script>", "", path.read_text(), count=1, flags=re.S)


def test_the_data_are_the_stores_to_the_last_digit(store, tmp_path):
    data = data_of(report(store, ["small"], tmp_path / "r.html"))
    runs, frame = data["runs"], runs_frame(store, "small")
    for column in ("id", "configuration", "status", "accuracy", "best_accuracy", "final.loss", "seconds", "train.lr"):
        assert runs[column] == frame[column].tolist()
    points = curves_frame(store, "small").groupby("run")
    assert [data["curves"][number]["run"] for number in runs["curve"]] == runs["id"]
    for column in ("step", "accuracy", "train_loss", "test_loss", "grad_norm"):
        found = {curve["run"]: curve[column] for curve in data["curves"]}
        assert found == {id: own[column].tolist() for id, own in points}
    best = {row["configuration"]: row["best_rate"] for row in Content(store, ["small"]).configurations()}
    at_best = [best[c] == lr for c, lr in zip(runs["configuration"], runs["train.lr"], strict=True)]
    assert [bool(x) for x in runs["at_best"]] == at_best


def test_answers_by_tag_are_the_sums_over_seeds_at_the_best_rate(store, tmp_path):
    data = data_of(report(store, ["small"], tmp_path / "r.html"))
    runs, frame, tags = runs_frame(store, "small"), slices_frame(store, "small"), data["tags"]
    best = {row["configuration"]: row["best_rate"] for row in Content(store, ["small"]).configurations()}
    names = data["lines"]["configuration"]["names"]
    for line, tag, end, step, value, count, right in zip(
        *(tags[key] for key in ("line", "tag", "end", "step", "value", "count", "right")), strict=True
    ):
        if not end:
            name = names[line]
            ids = runs.loc[(runs["configuration"] == name) & (runs["train.lr"] == best[name]), "id"]
            own = frame[
                frame["run"].isin(ids) & (frame["tag"] == tag) & (frame["step"] == step) & (frame["value"] == value)
            ]
            assert (count, right) == (own["count"].sum(), own["right"].sum())


def test_no_text_of_a_store_leaves_its_place(store, tmp_path):
    path = report(store, [], tmp_path / "r.html")
    scripts = []

    class Scripts(HTMLParser):
        def handle_starttag(self, tag, attributes):
            if tag == "script":
                scripts.append(dict(attributes))

    Scripts().feed(path.read_text())
    assert scripts == [{"type": "application/octet-stream", "id": "data"}, {}, {}]
    assert EVIL in data_of(path)["runs"]["study"]
    assert EVIL not in path.read_text()
    assert "<title>&lt;/script&gt;" in report(store, [EVIL], tmp_path / "evil.html").read_text()


def test_nothing_in_the_file_points_elsewhere(store, tmp_path):
    path = report(store, [], tmp_path / "r.html")
    assert not re.search(r"https?://|@import|url\(|<link(?! rel=\"icon\" href=\"data:,\")", shell_of(path))
    assert "default-src 'none'" in path.read_text()


def test_a_study_without_results_one_that_diverged_and_one_with_failures(store, tmp_path):
    content = Content(store, ["empty", "wild", "broken"])
    empty, wild, broken = (content.study(name) for name in content.names)
    assert (empty["planned"], empty["ended"]) == (4, 0)
    assert wild["statuses"] == {"diverged": 2}
    assert broken["failed"] == 1
    lost, mended = broken["failures"]
    assert (lost["error"], lost["ended"], mended["ended"]) == (f"RuntimeError: {EVIL}", None, "finished")
    text = shell_of(report(store, ["empty", "wild", "broken"], tmp_path / "r.html"))
    assert "No run of this study has ended yet." in text
    assert "it broke here" in text
    assert "seed 9" in text
    assert data_of(report(store, ["empty"], tmp_path / "e.html"))["views"] == []


def test_a_figure_that_the_page_does_not_draw_itself_has_its_cells_for_the_keyboard_and_for_csv():
    matrix = pd.DataFrame({"matrix": "m", "token": [0, 1, 1], "reads": [0, 0, 1], "size": [1.0, 0.25, 0.75]})
    ((view, _),) = page_views(Frames(pd.DataFrame(), mixing=matrix), "")
    (trace,) = view["figures"]["m"]["data"]
    assert trace["customdata"] == [[["0", "0", 1.0], ["0", "1", None]], [["1", "0", 0.25], ["1", "1", 0.75]]]


def test_the_report_has_what_a_protocol_chose_itself(store, tmp_path):
    study = Study(name="unstated", model={"width": 16, "layers": 1}, train={"protocol": "okpekpe2025"})
    with store.writing() as writer:
        writer.add_study("unstated", study.to_yaml(), study.runs())
    described = Content(store, ["unstated"]).study("unstated")
    assert any("train.schedule" in text and "decay" in text for text in described["unknowns"])


def test_a_large_study_is_thinned_and_taken_together_and_says_so(store, monkeypatch):
    monkeypatch.setattr(curves, "FEWEST", 2)
    monkeypatch.setattr(curves, "NUMBERS", 8)
    content = Content(store, ["small"])
    steps = curves_frame(store, "small")["step"]
    assert {tuple(curve["step"]) for curve in content.curves()} == {(steps.min(), steps.max())}, (
        "the first and the last measurement"
    )
    assert "at most 2 of up to 3 measurements" in content.curves_note
    monkeypatch.setattr(curves, "SINGLE", 3)
    content = Content(store, ["small"])
    points, best = content.frames.curves, content.frames.runs
    assert points["run"].nunique() == 2, "one curve per configuration"
    assert set(points["weight"]) == {2}
    ids = best.loc[best["at_best"] & (best["configuration"] == best["configuration"][0]), "id"]
    raw = curves_frame(store, "small")
    last = raw[raw["run"].isin(ids)].sort_values("step").groupby("run")["accuracy"].last()
    own = points[points["run"].isin(ids)].sort_values("step").iloc[-1]
    assert (own["accuracy"], own["accuracy.low"], own["accuracy.high"]) == (last.mean(), last.min(), last.max())


def test_a_name_that_the_store_lacks_is_refused_with_those_it_has(store, tmp_path):
    with pytest.raises(StoreError, match=r"no study 'smal'.*did you mean 'small'.*broken, empty, small"):
        report(store, ["smal"], tmp_path / "r.html")
    with pytest.raises(SpecError, match="there is no folder"):
        report(store, ["small"], tmp_path / "no" / "r.html")
    with pytest.raises(SpecError, match="it is a folder"):
        report(store, ["small"], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_from_the_command_line(store, tmp_path):
    def recollect(*words):
        command = [sys.executable, "-m", "recollect.cli", "report", *words, "--store", str(store.path)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    done = recollect("small", "--to", "out.html")
    assert done.returncode == 0, done.stderr
    assert "out.html" in done.stdout
    assert "recollect report small --store" in shell_of(tmp_path / "out.html")
    lost = recollect("smal")
    assert lost.returncode == 2
    assert len(lost.stderr.strip().splitlines()) == 1
    assert "did you mean 'small'" in lost.stderr


@pytest.fixture
def reproduced(tmp_path, store):
    """A folder as `recollect reproduce` leaves it, and a store with a study of that paper."""
    folder = tmp_path / "tiny" / "made2025"
    folder.mkdir(parents=True)
    record = {"paper": "made2025", "item": "fig1", "claim": "wide", "note": "", "scale": "tiny", "runs": 4}
    answers = {"holds": "it holds", "does not hold": f"it does not {EVIL}"}
    numbers = {"wide": "1.5 (1 .. 2)"}
    verdicts = [{**record, "says": says, "answer": answer, "numbers": numbers} for answer, says in answers.items()]
    (folder / "verdicts.json").write_text(json.dumps(verdicts))
    square = '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><rect width="8" height="8"/></svg>'
    (folder / "fig1.svg").write_text(square)
    (folder / "fig1.csv").write_text("model,accuracy\nattention,0.875\nmamba,\n")
    with store.writing() as writer:
        writer.add_study("made2025.fig1.tiny", "name: made2025.fig1.tiny\n", small().runs()[:4])
    return folder


def test_a_reproduction_brings_its_verdicts_pictures_and_studies(store, reproduced, tmp_path):
    path = report(store, [], tmp_path / "r.html", reproduced)
    text = shell_of(path)
    assert set(data_of(path)["runs"]["study"]) == {"made2025.fig1.tiny"}
    assert text.index("✗ does not hold") < text.index("✓ holds"), "what did not hold comes first"
    assert '<img src="data:image/svg+xml;base64,' in text
    assert ">0.875</td>" in text
    assert "made2025: reproduced at scale tiny" in text
    with pytest.raises(SpecError, match=r"no verdicts\.json"):
        report(store, [], tmp_path / "r.html", tmp_path)
