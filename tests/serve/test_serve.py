"""The live page: who may ask, what it reads, and that a store in any state does not end it."""

import json
import shutil
import time

import pytest

pytest.importorskip("dash")

from recollect.serve import serve
from recollect.serve.live import Live
from recollect.serve.page import make_app
from recollect.serve.parts import progress_table, run_columns, summary
from recollect.spec import SpecError
from recollect.store.frames import runs_frame
from recollect.store.store import StoreError
from recollect.train.events import Measured

EVIL = "</script><script>alert(1)</script>"


@pytest.fixture(scope="module")
def store(made, tmp_path_factory):
    store = made(tmp_path_factory.mktemp("serve") / "s.sqlite", made.study())
    with store.writing() as writer:
        writer.add_study("empty", "name: empty\n", made.study(seeds=[9]).runs())
        writer.add_failure(made.study(seeds=[9]).runs()[0].id, 1, f"RuntimeError: {EVIL}", f"Traceback\n  {EVIL}")
    return store


@pytest.fixture
def live(store) -> Live:
    live = Live([store.path])
    live.version()
    return live


@pytest.mark.parametrize(("host", "name", "code"), [
    ("127.0.0.1", "127.0.0.1:8050", 200), ("127.0.0.1", "localhost:8050", 200), ("127.0.0.1", "[::1]:8050", 200),
    ("127.0.0.1", "evil.example", 403), ("127.0.0.1", "evil.example:8050", 403), ("127.0.0.1", "192.168.1.2", 403),
])  # fmt: skip
def test_a_foreign_host_is_refused(store, host, name, code):
    client = make_app([store.path], host).server.test_client()
    answer = client.get("/", headers={"Host": name})
    assert answer.status_code == code
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]


def test_the_token_is_asked_for_once(store):
    client = make_app([store.path], "0.0.0.0", "secret").server.test_client()
    at = {"Host": "10.0.0.7:8050"}
    assert client.get("/", headers=at).status_code == 403
    assert client.get("/_dash-layout", headers=at).status_code == 403
    assert client.get("/?token=wrong", headers=at).status_code == 403
    assert client.get("/?token=secret", headers=at).status_code == 302
    assert client.get("/_dash-layout", headers=at).status_code == 200, "the browser remembers it"
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 403


def test_other_machines_need_a_token_and_a_store_must_be_one(store, tmp_path):
    with pytest.raises(SpecError, match="--token"):
        serve([store.path], host="0.0.0.0")
    with pytest.raises(StoreError, match="no store at"):
        serve([tmp_path / "none.sqlite"])


def test_frames_progress_and_failures_are_the_stores(live, store):
    assert live.studies() == {"0/made": "made", "0/empty": "empty"}
    frames = live.frames(["0/made"], ("runs", "curves", "slices"))
    assert frames.runs["accuracy"].tolist() == runs_frame(store, "made")["accuracy"].tolist()
    assert set(frames.curves["run"]) == set(frames.runs["id"])
    parts = live.progress(["0/made"])
    assert [(part.ended, part.runs) for part in parts] == [(6, 6)] * 6
    ((failure, ended),) = live.failures(["0/empty"])
    assert (EVIL in failure.traceback, ended) == (True, None)
    assert live.time_left(["0/made"]) is None
    assert "36 of 36 runs ended" in json.dumps(summary(parts, None).to_plotly_json(), default=str)
    assert "100 %" in str(progress_table(parts))
    assert run_columns(frames.runs[["id", "accuracy"]])[1]["type"] == "rightAligned"


def test_curves_of_runs_in_training_are_there_before_they_end(made, tmp_path):
    study = made.study("growing", widths=[16], mixers=["attention"])
    store = made(tmp_path / "s.sqlite")
    runs = study.runs()
    with store.writing() as writer:
        writer.add_study(study.name, study.to_yaml(), runs)
    live = Live([store.path])
    before = live.version()
    assert live.frames(["0/growing"]).runs.empty

    points = {run.id: {"step": 20, "examples": 160, "accuracy": 0.25} for run in runs[:2]}
    with store.writing() as writer:
        writer.add_measured(runs[:2], Measured(20, 120, {}, points=points))
    deadline = time.monotonic() + 20
    while live.version() == before and time.monotonic() < deadline:
        time.sleep(0.05)
    frames = live.frames(["0/growing"], ("runs", "curves"))
    assert frames.runs["status"].tolist() == ["training"] * 2
    assert frames.curves["accuracy"].tolist() == [0.25, 0.25]
    (part,) = live.progress(["0/growing"])
    assert (part.begun, part.steps_done, part.steps) == (2, 40, 720)


@pytest.mark.parametrize("at", [100, 30000])
def test_a_store_that_is_damaged_or_moved_is_told_and_read_again(store, tmp_path, monkeypatch, at):
    monkeypatch.setattr("recollect.serve.live.PATIENCE", 0)
    path = tmp_path / "s.sqlite"
    shutil.copy(store.path, path)
    live = Live([path])
    live.version()
    assert live.studies()
    whole = path.read_bytes()
    path.write_bytes(whole[:at] + b"\xff" * 20000 + whole[at + 20000 :])
    live.version()
    live.frames(["0/made"], ("runs", "curves", "slices"))
    assert live.problems(), "it says what is wrong"
    path.unlink()
    live.version()
    assert live.studies() == {}
    path.write_bytes(whole)
    live.version()
    assert len(live.frames(["0/made"]).runs) == 36
    assert live.problems() == []


def test_two_stores_are_compared(live, store, made, tmp_path):
    other = made(tmp_path / "other.sqlite", made.study("made", mixers=["gla"]))
    both = Live([store.path, other.path])
    both.version()
    assert list(both.studies().values()) == ["made (s.sqlite)", "empty (s.sqlite)", "made (other.sqlite)"]
    runs = both.frames(["0/made", "1/made"]).runs
    assert runs["study"].nunique() == 2
    assert set(runs["model.mixer"]) == {"attention", "mamba2", "gla"}
    assert both.frames(["7/made", "x"]).runs.empty
