"""Damaged stores: every reader says in one line what is wrong; `check` finds it, `repair` saves the rest."""

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from recollect.spec import UserError
from recollect.store import frames
from recollect.store.check import check
from recollect.store.checkpoints import Checkpoints
from recollect.store.merge import merge
from recollect.store.repair import backup, repair
from recollect.store.store import Store, StoreError

ENDLESS = (
    "CREATE VIEW points AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
    "SELECT 'r' run, x step, '{}' data FROM n"
)
BY_SQL = {
    "schema abc": "UPDATE meta SET value = 'abc' WHERE key = 'schema'",
    "schema 0": "UPDATE meta SET value = '0' WHERE key = 'schema'",
    "schema -1": "UPDATE meta SET value = '-1' WHERE key = 'schema'",
    "schema empty": "UPDATE meta SET value = '' WHERE key = 'schema'",
    "schema 1.5": "UPDATE meta SET value = '1.5' WHERE key = 'schema'",
    "no schema": "DELETE FROM meta",
    "no points": "DROP TABLE points",
    "an endless view of points": f"DROP TABLE points; {ENDLESS}",
    "runs of another shape": "DROP TABLE runs; CREATE TABLE runs (x)",
    "broken JSON": "UPDATE runs SET final = '{broken' WHERE rowid = 2",
    "a list for a specification": "UPDATE runs SET spec = '[1, 2]' WHERE rowid = 2",
    "text for an accuracy": "UPDATE runs SET accuracy = 'high' WHERE rowid = 2",
    "bytes for a status": "UPDATE runs SET status = x'ff00' WHERE rowid = 2",
    "a text for a rate": """UPDATE runs SET spec = json_set(spec, '$.train.lr', 'fast') WHERE rowid = 2""",
    "a number for notes": "UPDATE runs SET notes = '5' WHERE rowid = 2",
    "what is no text": "UPDATE runs SET model = CAST(x'ff41' AS TEXT) WHERE rowid = 2",
}
MESSAGES = (
    "store.sqlite is not a recollect store",
    "store.sqlite has schema",
    "store.sqlite is damaged",
    "cannot read ",
    "has a row",
)


def damage(store: Path, sql: str) -> Path:
    with closing(sqlite3.connect(store)) as db:
        db.executescript(sql)
    return store


def read_all(path: Path) -> None:
    """All that the reading commands ask a store."""
    store = Store(path)
    store.studies(), store.done(), store.failures(), store.accuracies(), store.precisions("old")
    for name in (None, *store.studies()):
        for read in (frames.runs_frame, frames.curves_frame, frames.slices_frame, frames.snapshots_frame):
            read(store, name)
    store.recent(100)


@pytest.mark.parametrize("case", BY_SQL)
def test_a_damaged_store_is_reported_in_one_line_and_what_is_whole_is_saved(sound, tmp_path, case):
    damage(sound, BY_SQL[case])
    before = sound.read_bytes()
    with pytest.raises(StoreError) as refusal:
        read_all(sound)
    assert any(words in str(refusal.value) for words in MESSAGES), refusal.value
    assert "\n" not in str(refusal.value)
    assert any(finding.answer == "wrong" for finding in check(sound))
    saved = repair(sound, tmp_path / "new.sqlite")
    read_all(tmp_path / "new.sqlite")
    assert saved.runs == (0 if "shape" in case else 7 if "rowid" in BY_SQL[case] else 8)
    assert len(saved.lost) == ("rowid" in BY_SQL[case])
    assert (sound.read_bytes(), saved.studies) == (before, 1)


def test_every_reading_command_refuses_a_damaged_store(sound, cli, tmp_path):
    damage(sound, BY_SQL["text for an accuracy"])
    for words in [
        ("results", "old", "--store", sound), ("results", "--to", tmp_path / "x.csv", "--store", sound),
        ("report", "old", "--to", tmp_path / "x.html", "--store", sound),
    ]:  # fmt: skip
        assert cli(*words).refuses("has a row that cannot be read", "recollect check"), words
    result = cli("check", sound)
    assert (result.code, "rows        wrong" in result.out, "recollect repair" in result.out) == (1, True, True)
    damage(sound, BY_SQL["no points"])
    study = tmp_path / "s.yaml"
    study.write_text("train: {steps: 10}")
    for words in [
        ("status",),
        ("results",),
        ("report",),
        ("plan", study),
        ("run", study),
        ("export", "a", "--to", "x"),
    ]:
        assert cli(*words, "--store", sound).refuses("damaged: it has no table points"), words
    assert cli("merge", sound, "--store", tmp_path / "new.sqlite").refuses("damaged: it has no table points")
    assert cli("backup", sound, "--to", tmp_path / "b.sqlite").refuses("damaged: it has no table points")


@pytest.mark.parametrize(
    "row",
    ["spec = '{broken'", "spec = '[1, 2]'", "spec = json_set(spec, '$.train.lr', 'fast')", "best_accuracy = 'high'"],
)
def test_status_and_watch_refuse_a_row_that_cannot_be_read(sound, cli, row):
    damage(sound, f"UPDATE runs SET {row}")
    for words in [("status",), ("watch", "--once")]:
        assert cli(*words, "--store", sound).refuses("has a row that cannot be read", "recollect check"), words


def test_an_empty_file_is_a_store_without_runs(cli, tmp_path):
    (tmp_path / "empty.sqlite").touch()
    checked = cli("check", tmp_path / "empty.sqlite")
    assert (checked.code, "wrong" in checked.out) == (0, False)


def test_measures_that_are_not_finite_are_read_as_none(sound, cli, tmp_path):
    damage(sound, """UPDATE points SET data = '{"step": 5, "accuracy": NaN, "train_loss": Infinity}'""")
    read_all(sound)
    assert frames.curves_frame(Store(sound))["accuracy"].isna().all()
    assert cli("report", "old", "--store", sound, "--to", tmp_path / "r.html").code == 0


@pytest.mark.parametrize("seed", range(4))
def test_random_bytes_in_the_file_are_reported_and_what_is_whole_is_saved(sound, tmp_path, seed):
    expected = frames.runs_frame(Store(sound)).set_index("id")["accuracy"]
    data = bytearray(sound.read_bytes())
    place = random.Random(seed).randrange(4096, len(data) - 8192)
    data[place : place + 8192] = random.Random(seed).randbytes(8192)
    sound.write_bytes(data)
    with pytest.raises(UserError) as refusal:
        read_all(sound)
    assert "\n" not in str(refusal.value)
    assert next(check(sound)).answer == "wrong"
    saved = repair(sound, tmp_path / "new.sqlite")
    read_all(tmp_path / "new.sqlite")
    rest = frames.runs_frame(Store(tmp_path / "new.sqlite"))
    assert len(rest) == saved.runs
    assert saved.runs == 0 or (rest.set_index("id")["accuracy"] == expected[rest["id"]]).all(), (
        "as it was, or not at all"
    )


def test_a_file_that_is_no_store(tmp_path):
    for name, data in {"zero": b"", "text": b"hello" * 1000, "short": b"SQLite format 3\0"}.items():
        path = tmp_path / name
        path.write_bytes(data)
        if data:
            with pytest.raises(StoreError, match=r"is not a recollect store|cannot read"):
                Store(path)
            with pytest.raises(StoreError, match=r"nothing in .* can be read"):
                repair(path, tmp_path / "new.sqlite")
        else:
            assert Store(path).studies() == {}, "it has not been written to yet"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["short", "text", "zero"], "nothing is left behind"


def test_a_sound_store_is_found_sound_and_repaired_to_the_same(sound, tmp_path):
    found = {finding.what: finding for finding in check(sound)}
    assert {finding.answer for finding in found.values()} == {"ok"}, found
    assert set(found) == {"integrity", "schema", "rows", "orphans", "code", "weights", "checkpoints"}
    saved = repair(sound, tmp_path / "new.sqlite")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.sqlite", "store.sqlite"]
    assert (saved.runs, len(frames.curves_frame(Store(tmp_path / "new.sqlite")))) == (8, 16)
    with pytest.raises(StoreError, match="is there already"):
        repair(sound, tmp_path / "new.sqlite")


def test_what_check_finds_beside_rows(sound, tmp_path):
    store = Store(sound)
    damage(sound, "INSERT INTO points VALUES ('gone', 1, '{}'); DELETE FROM study_runs WHERE place = 0")
    store.weights.mkdir()
    store.weights_file("gone").write_bytes(b"")
    folder = Checkpoints(store.checkpoints)
    folder.save(["r"], b"some bytes")
    (whole,) = store.checkpoints.iterdir()
    (store.checkpoints / "0123456789abcdef.safetensors").write_bytes(whole.read_bytes()[:-1])
    (store.checkpoints / "notes.txt").write_text("mine")
    found = {finding.what: finding for finding in check(sound)}
    assert found["orphans"].text == "1 rows of points belong to no run that has ended"
    assert "1 of no run that has ended: gone.safetensors" in found["weights"].text
    assert "1 damaged; their runs start anew: 0123456789abcdef.safetensors" in found["checkpoints"].text
    damage(sound, "DELETE FROM points WHERE run = 'gone'")
    assert {f.what: f.text for f in check(sound)}["orphans"] == "1 runs belong to no study"


def test_check_finds_code_that_has_changed_without_running_it(sound, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    from recollect.spec.imports import closure, digest_of

    mixer = Path("mixer.py")
    mixer.write_text("raise SystemExit('it was run')")
    source = digest_of(closure(mixer.resolve()))
    row = "UPDATE runs SET spec = json_set(spec, '$.model.mixer', json('{}'))"
    damage(sound, row.format(json.dumps({"kind": "mixer.py:Mine", "source": source})))
    assert "as it was" in {f.what: f.text for f in check(sound)}["code"]
    mixer.write_text("raise SystemExit('it was run, too')")
    assert "changed since" in {f.what: f.text for f in check(sound)}["code"]
    mixer.unlink()
    assert "not looked for" in {f.what: f.text for f in check(sound)}["code"]
    damage(
        sound,
        "UPDATE runs SET spec = json_set(spec, '$.train.batch', 7, '$.model.mixer', json('{\"kind\": \"mamba\"}'))",
    )
    assert "changed since" in {f.what: f.text for f in check(sound)}["code"]


def test_a_backup_is_the_store_at_one_moment_while_another_writes(sound, tmp_path):
    with Store(sound).writing() as writer:
        writer.add_failure("r", 1, "kept", "")
        made = backup(sound, tmp_path / "copy.sqlite")
        writer.add_failure("r", 2, "later", "")
    assert [failure.error for failure in Store(made).failures()] == ["kept"]
    assert len(frames.runs_frame(Store(made), "old")) == 8
    assert {finding.answer for finding in check(made)} == {"ok"}
    for path, message in [(made, "is there already"), (tmp_path / "no" / "x", "there is no folder")]:
        with pytest.raises(StoreError, match=message):
            backup(sound, path)


def test_an_endless_view_cannot_be_merged(sound, tmp_path):
    damage(sound, BY_SQL["an endless view of points"])
    with pytest.raises(StoreError, match="it has no table points"):
        merge(Store(tmp_path / "new.sqlite", create=True), [sound])
