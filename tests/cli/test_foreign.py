"""A store from elsewhere may hold anything: every command that reads it shows it as text and runs none of it."""

import json
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from recollect.serve.live import Live
from recollect.store.export import WEIGHTS, export, load, specification
from recollect.store.store import Store
from recollect.study.spec import Study

CODE = """
from pathlib import Path
from torch import nn
Path(__file__).with_name("ran").touch()

class Evil(nn.Module):
    def __init__(self, width: int):
        super().__init__()
    def forward(self, x):
        return x
"""
BAD = (
    "[/red][bold]</script><script>alert(1)</script>\x1b]0;title\x07'; DROP TABLE runs; -- ../../../evil \u202e:warning: {x} "
    + r"$\frac{$"
)
STUDY = """
name: base
task: {kind: mqar, length: 16, pairs: 2, vocab: 32}
model: {mixer: [attention, mamba2], width: 16, layers: 1}
train: {lr: [0.001, 0.01], seed: 1, steps: 10, batch: 8, eval_every: 5, eval_rows: 16, test_rows: 32}
"""
HOSTILE = """
UPDATE studies SET name = :bad, source = :source;
UPDATE study_runs SET study = :bad;
INSERT INTO failures VALUES ('lost', 1, :bad, :bad, :bad);
INSERT INTO study_runs (study, place, run) VALUES (:bad, 99, 'lost');
INSERT INTO meta VALUES (:bad, :bad);
UPDATE runs SET model = :bad || rowid, device = :bad, ended = :bad, status = :bad WHERE rowid > 1;
UPDATE runs SET versions = json_object(:bad, :bad), notes = json_array(:bad) WHERE rowid > 1;
UPDATE runs SET spec = json_set(spec, '$.model.mixer', json(:mixer)) WHERE rowid IN (2, 3);
UPDATE runs SET spec = json_set(spec, '$.train.optimiser', 'evil.py:Evil', '$.task.kind', 'evil.py:Evil') WHERE rowid = 4;
UPDATE runs SET spec = json_set(spec, '$.model.mixer', json(:module)) WHERE rowid = 5;
UPDATE runs SET spec = json_set(spec, '$.task.' || :key, :bad) WHERE rowid = 6;
UPDATE points SET run = '../../evil' WHERE run = (SELECT id FROM runs WHERE rowid = 7);
UPDATE slices SET run = '../../evil' WHERE run = (SELECT id FROM runs WHERE rowid = 7);
UPDATE snapshots SET run = '../../evil' WHERE run = (SELECT id FROM runs WHERE rowid = 7);
UPDATE study_runs SET run = '../../evil' WHERE run = (SELECT id FROM runs WHERE rowid = 7);
UPDATE runs SET id = '../../evil' WHERE rowid = 7;
UPDATE runs SET final = json_set(final, '$.' || :key, 0.5) WHERE rowid > 1;
UPDATE points SET data = json_set(data, '$.' || :key, 0.5);
UPDATE slices SET tag = tag || :bad;
"""


class Payload:
    """A pickle that runs code when it is loaded."""

    def __reduce__(self):
        return Path.touch, (Path("ran"),)


@pytest.fixture
def foreign(sound, tmp_path, monkeypatch) -> Path:
    """A store with code, HTML, markup, SQL, a path and a pickle wherever there is text, and the code that it names."""
    monkeypatch.chdir(tmp_path)
    for name in ("evil.py", "evil_module.py"):
        Path(name).write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    mixers = [{"kind": kind, "=cmd|'/C calc'!A0": BAD, "source": "0"} for kind in ("evil.py:Evil", "evil_module:Evil")]
    source = json.dumps({
        "name": "x", "task": {"kind": "evil.py:Evil"}, "model": {"mixer": "evil.py:Evil"},
        "train": {"optimiser": "evil_module:Evil", "lr": "linspace(1, 2, 90000)", "seed": "linspace(1, 90000, 90000)"},
        "search": {"kind": "evil.py:Evil", "threshold": BAD},
    })  # fmt: skip
    values = {
        "bad": BAD,
        "source": source,
        "mixer": json.dumps(mixers[0]),
        "module": json.dumps(mixers[1]),
        "key": '"[/b]<b>"',
    }
    with closing(sqlite3.connect(sound)) as db:
        for statement in HOSTILE.strip().split(";\n"):
            db.execute(statement, {name: value for name, value in values.items() if f":{name}" in statement})
        db.commit()
    for folder in (Store(sound).checkpoints, Store(sound).weights):
        folder.mkdir()
        (folder / "0123456789abcdef.safetensors").write_bytes(pickle.dumps(Payload()))
        (folder / "0123456789abcdea.safetensors").symlink_to(tmp_path / "evil.py")
    sound.with_name("store.sqlite.holder").write_text(BAD)
    return sound


@pytest.mark.filterwarnings("ignore:Glyph")  # a picture cannot show control characters
def test_every_reading_command_shows_a_foreign_store_as_text(foreign, cli, tmp_path):
    (tmp_path / "base.yaml").write_text(STUDY)
    shown = [
        ("status",), ("results", BAD), ("results", "--what", "curves"), ("results", "--what", "slices"),
        ("results", "--to", "x.csv"), ("results", "--to", "x.json"), ("results", "--to", "x.parquet"),
        ("report", BAD, "--to", "x.html"), ("plan", "base.yaml"), ("failures", "--traceback"),
        ("plot", BAD, "--to", "x.png"), ("compare", BAD, BAD), ("watch", "--once"),
    ]  # fmt: skip
    shown_by = {" ".join(words)[:20]: cli(*words, "--store", foreign) for words in shown}
    shown_by["merge"] = cli("merge", foreign, "--store", "new.sqlite")
    shown_by["check"] = cli("check", foreign)
    shown_by["backup"] = cli("backup", foreign, "--to", "copy.sqlite")
    shown_by["repair"] = cli("repair", foreign, "--to", "saved.sqlite")
    assert {name: one.err for name, one in shown_by.items() if one.code} == {}
    everything = "".join(one.out + one.err for one in shown_by.values())
    assert not set("\x1b\x07\u202e") & set(everything), "a terminal is sent no control characters"
    for name in ("status", "failures --traceback", "merge"):
        assert "[/red][bold]</script>" in shown_by[name].out, name
    assert "\\x1b]0;title\\x07" in shown_by["merge"].out
    assert "<script>alert(1)" not in Path("x.html").read_text()
    cells = pd.read_csv("x.csv", dtype=str).fillna("")
    assert not any(text.startswith(("=", "+", "-", "@")) for name in cells for text in [name, *cells[name]])
    live = Live([foreign])  # what `serve` shows
    names = live.studies()[-1:]
    assert len(live.frames(names, ("runs", "curves", "slices")).runs) == 8
    assert [failure.error for failure, _ in live.failures(names)] == [BAD]
    assert live.progress(names)
    assert live.problems() == []
    assert not Path("ran").exists(), "nothing was run"
    assert len(Store(foreign).done()) == len(Store("saved.sqlite").done()) == 8
    assert not Path("new.sqlite.weights/0123456789abcdea.safetensors").exists(), "a link is not followed"


def test_a_model_is_built_of_foreign_code_with_trust_only(foreign, cli):
    ids = list(Store(foreign).done())
    refused = cli("export", ids[1], "--to", "out", "--store", foreign)
    assert refused.refuses("evil.py:Evil is code that is not part of recollect; it is imported only with --trust")
    assert cli("export", ids[4], "--to", "out", "--store", foreign).refuses("evil_module:Evil is code", "--trust")
    assert not Path("ran").exists()
    assert not Path("out").exists()
    mine = Store(foreign).checkpoints / "my.safetensors"
    mine.write_text("not a snapshot of recollect")
    for words in [("remove", ids[2]), ("gc",)]:
        assert cli(*words, "--yes", "--store", foreign).code == 0, "removing needs no trust"
    assert mine.exists()
    assert not Path("ran").exists()
    trusted = cli("export", ids[1], "--to", "out", "--store", foreign, "--trust")
    assert Path("ran").exists(), trusted
    assert trusted.refuses("unknown option")


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Path:
    """A folder with a study of the user's own mixer that has been run, and a run of it exported to `model`."""
    folder = tmp_path_factory.mktemp("own")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("own_mixer.py").write_text(CODE.replace("ran", "own"))
        study = STUDY.replace("[attention, mamba2]", "own_mixer.py:Evil").replace("[0.001, 0.01]", "0.01")
        Path("own.yaml").write_text(study)
        store = Study.load("own.yaml").run(device="cpu", workers=1, store="store.sqlite", progress=False).store
        export(next(iter(store.done())), store, "model")
    return folder


def test_what_a_users_own_study_names_needs_no_trust(own, cli, monkeypatch):
    monkeypatch.chdir(own)
    assert "measured" in cli("plan", "own.yaml", "--store", "store.sqlite").out


def test_an_exported_model_with_code_is_evaluated_with_trust_only(own, cli, monkeypatch):
    monkeypatch.chdir(own)
    asked = ("evaluate", "model", "--task", "own", "--rows", "4", "--device", "cpu")
    assert cli(*asked).refuses("own_mixer.py:Evil is code that is not part of recollect", "--trust")
    assert not Path("model/code/own").exists()
    assert cli(*asked, "--trust").code == 0
    assert Path("model/code/own").exists()


@pytest.mark.parametrize("place", ["../evil.py", "/tmp/evil.py", "code/link.py", None])
def test_an_exported_folder_names_no_code_outside_of_it(own, place, tmp_path):
    about = json.loads((own / "model" / "spec.json").read_text())
    (tmp_path / "evil.py").write_text(CODE)
    folder = tmp_path / "model"
    (folder / "code").mkdir(parents=True)
    (folder / "code" / "link.py").symlink_to(tmp_path / "evil.py")
    (folder / WEIGHTS).write_bytes((own / "model" / WEIGHTS).read_bytes())
    about["files"] = {"own_mixer.py": place} if place else {}
    (folder / "spec.json").write_text(json.dumps(about))
    for read in (specification, load):
        with pytest.raises(ValueError, match=r"names code outside of its folder: own_mixer.py"):
            read(folder, trust=True)
    assert not (tmp_path / "ran").exists()
