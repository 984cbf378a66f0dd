"""The live page: who may ask, what it reads, and that a store in any state does not end it."""

import json
import shutil
import time

import pytest

pytest.importorskip("dash")

from recollect.probing.setting import ProbeSetting, probe_study, small_task
from recollect.serve import serve
from recollect.serve.live import Live
from recollect.serve.page import choose, make_app
from recollect.serve.parts import progress_summary, progress_table, run_columns
from recollect.spec import SpecError
from recollect.store.frames import runs_frame
from recollect.store.store import Store, StoreError
from recollect.train.events import Measured
from recollect.views import VIEWS
from recollect.views.fields import varying

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
    client = make_app(Live([store.path]), host).server.test_client()
    answer = client.get("/", headers={"Host": name})
    assert answer.status_code == code
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]


def test_the_token_is_asked_for_once(store):
    client = make_app(Live([store.path]), "0.0.0.0", "secret").server.test_client()
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
    assert live.studies()[-2:] == ["made", "empty"]
    frames = live.frames(["made"], ("runs", "curves", "slices"))
    assert frames.runs["accuracy"].tolist() == runs_frame(store, "made")["accuracy"].tolist()
    assert set(frames.curves["run"]) == set(frames.runs.loc[frames.runs["at_best"], "id"]), "only what is drawn is read"
    assert set(live.frames(["made"], ("runs", "curves"), "all").curves["run"]) == set(frames.runs["id"])
    at_one = live.frames(["made"], ("runs", "curves"), "0.01").curves["run"]
    assert set(at_one) == set(frames.runs.loc[frames.runs["train.lr"] == 0.01, "id"])
    parts = live.progress(["made"])
    assert [(part.ended, part.runs) for part in parts] == [(6, 6)] * 6
    ((failure, ended),) = live.failures(["empty"])
    assert (EVIL in failure.traceback, ended) == (True, None)
    assert live.time_left(["made"]) is None
    assert "36 of 36 runs ended" in json.dumps(progress_summary(parts, None).to_plotly_json(), default=str)
    assert "100 %" in str(progress_table(parts))
    assert {c["field"]: c.get("type") for c in run_columns(frames.runs)}["accuracy"] == "rightAligned"


def test_curves_of_runs_in_training_are_there_before_they_end(made, tmp_path):
    study = made.study("growing", widths=[16], mixers=["attention"])
    store = made(tmp_path / "s.sqlite")
    runs = study.runs()
    with store.writing() as writer:
        writer.add_study(study.name, study.to_yaml(), runs)
    live = Live([store.path])
    before = live.version()
    assert live.frames(["growing"]).runs.empty

    points = {run.id: {"step": 20, "examples": 160, "accuracy": 0.25} for run in runs[:2]}
    with store.writing() as writer:
        writer.add_measured(runs[:2], Measured(20, 120, {}, points=points))
    deadline = time.monotonic() + 20
    while live.version() == before and time.monotonic() < deadline:
        time.sleep(0.05)
    frames = live.frames(["growing"], ("runs", "curves"))
    assert frames.runs["status"].tolist() == ["training"] * 2
    assert frames.curves["accuracy"].tolist() == [0.25, 0.25]
    (part,) = live.progress(["growing"])
    assert (part.begun, part.steps_done, part.steps) == (2, 40, 720)

    with store.writing() as writer:
        writer.add_results(made.results(runs[2:]), "cpu")
    live = Live([store.path])
    live.version()
    assert sorted(live.frames(["growing"]).runs["status"]) == ["finished"] * 4 + ["training"] * 2
    assert live.problems() == []


@pytest.mark.parametrize("at", [100, 30000])
def test_a_store_that_is_damaged_or_moved_is_reported_and_read_again(store, tmp_path, monkeypatch, at):
    monkeypatch.setattr("recollect.serve.live.PATIENCE", 0)
    path = tmp_path / "s.sqlite"
    shutil.copy(store.path, path)
    live = Live([path])
    live.version()
    assert "made" in live.studies()
    whole = path.read_bytes()
    path.write_bytes(whole[:at] + b"\xff" * 20000 + whole[at + 20000 :])
    live.version()
    live.frames(["made"], ("runs", "curves", "slices"))
    assert live.problems(), "it says what is wrong"
    path.unlink()
    live.version()
    assert not set(live.studies()) & {"made", "empty"}
    path.write_bytes(whole)
    live.version()
    assert len(live.frames(["made"]).runs) == 36
    assert live.problems() == []


def test_two_stores_are_compared(live, store, made, tmp_path):
    other = made(tmp_path / "other.sqlite", made.study("made", mixers=["gla"]))
    both = Live([store.path, other.path])
    both.version()
    assert both.studies()[-3:] == ["made (s.sqlite)", "empty (s.sqlite)", "made (other.sqlite)"]
    runs = both.frames(["made (s.sqlite)", "made (other.sqlite)"]).runs
    assert runs["study"].nunique() == 2
    assert set(runs["model.mixer"]) == {"attention", "mamba2", "gla"}
    assert both.frames(["made", "x"]).runs.empty


def test_stores_of_one_name_are_distinguished(made, tmp_path):
    paths = [made(tmp_path / folder / "s.sqlite", made.study()).path for folder in "ab"]
    both = Live(paths)
    both.version()
    assert both.studies()[-2:] == [f"made ({path})" for path in paths]
    assert both.frames(both.studies()[-2:]).runs["study"].nunique() == 2


def parts_of(live: Live, address: str = "http://localhost/") -> str:
    """The page's parts, as the browser at this address asks for them."""
    answer = make_app(live, "127.0.0.1").server.test_client().get("/_dash-layout", headers={"Referer": address})
    return answer.get_data(as_text=True)


def test_a_link_keeps_view_studies_choices_and_filter(live):
    chosen = choose(
        live, "curves", ["made"], "mamba2 width=32", {"y": "train_loss", "rate": "0.1", "nonsense": "x", "top": "x"}
    )
    assert chosen.choices == {"y": "train_loss", "rate": "0.1"}
    assert set(chosen.frames.runs["model.mixer"]) == {"mamba2"}
    assert set(chosen.frames.runs["id"]) >= set(chosen.frames.curves["run"]) & set(chosen.frames.runs["id"]) != set()
    assert chosen.link == "view=curves&study=made&y=train_loss&rate=0.1&filter=mamba2+width%3D32"
    parts = json.loads(parts_of(live, f"http://localhost/?{chosen.link}"))
    found = dict(_values(parts))
    assert found["views"] == "curves"
    assert found["studies"] == ["made"]
    assert found["filter"] == "mamba2 width=32"
    assert found["y"] == "train_loss"
    assert found["rate"] == "0.1"


def test_a_link_from_elsewhere_shows_the_default(live):
    for query in ("view=nonsense&study=none", "view=window&y=" + EVIL, "", "%00&&=&view=&study="):
        found = dict(_values(json.loads(parts_of(live, f"http://localhost/?{query}"))))
        assert (found["views"], found["studies"]) == ("window", ["empty"])


def _values(part):
    """The id and the value of each control in the parts of a page."""
    if isinstance(part, list):
        for each in part:
            yield from _values(each)
    elif isinstance(part, dict):
        properties = part.get("props", part)
        if "id" in properties and "value" in properties:
            name = properties["id"]
            yield (name["choice"] if isinstance(name, dict) else name), properties["value"]
        yield from _values(properties.get("children"))


def test_the_atlas_stands_beside_a_study_and_says_where_settings_differ(live, made, tmp_path):
    shipped = live.studies()[0]
    assert shipped == "atlas.probe (shipped)"
    both = live.frames([shipped, "made"])
    assert set(both.runs["study"]) == {shipped, "made"}
    assert {"rwkv7", "mamba2"} <= set(both.runs["model.mixer"])
    assert "task.kind" not in varying(both.runs), "what the atlas does not say differs from nothing"
    assert "another setting than made" in live.notes([shipped, "made"])
    assert VIEWS.find("window")().figure(both).data

    probe = probe_study("mine", [{"mixer": "gla"}], ProbeSetting(small_task("mqar", {})))
    store = Store(tmp_path / "p.sqlite", create=True)
    runs = probe.runs()[:2]
    with store.writing() as writer:
        writer.add_study("mine", probe.to_yaml(), runs)
        writer.add_results(made.results(runs), "cpu")
    own = Live([store.path])
    own.version()
    assert own.notes([shipped, "mine"]) == ""
    assert "another setting" in own.notes(["atlas.probe-2 (shipped)", "mine"])
