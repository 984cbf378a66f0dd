"""A store is read wherever it lies, and has one writer by whatever name it is reached."""

import os
import shutil
import sqlite3
import subprocess
import tempfile
from contextlib import closing, suppress
from pathlib import Path

import pytest

from recollect.store import frames, opening
from recollect.store.merge import merge
from recollect.store.store import Store, StoreBusy, StoreError


def copy_with_log(store: Path, folder: Path) -> Path:
    """A copy of a store as it is while a process writes to it: a failure that was kept is in the log only."""
    with closing(sqlite3.connect(store)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("INSERT INTO failures VALUES ('r', 1, 'in the log', '', '')")
        db.commit()
        for ending in ("", "-wal"):
            shutil.copyfile(f"{store}{ending}", folder / f"live.sqlite{ending}")
    return folder / "live.sqlite"


@pytest.fixture
def closed(sound):
    """A folder in which this process may write nothing, with a store `s.sqlite` and one with a live log, `live.sqlite`."""
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to other users
    live = copy_with_log(sound, folder)
    with closing(sqlite3.connect(sound)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(sound, folder / "s.sqlite")
    for path in (live, folder / "live.sqlite-wal", folder / "s.sqlite"):
        path.chmod(0o444)
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:  # who may write anywhere
        os.seteuid(65534)
    yield folder
    if root:
        os.seteuid(0)
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize(("name", "errors"), [("s.sqlite", ["in the log"]), ("live.sqlite", ["in the log"])])
def test_a_store_is_read_where_nothing_can_be_written(closed, name, errors):
    store = Store(closed / name)
    assert len(frames.runs_frame(store)) == len(store.done()) == 8
    assert [failure.error for failure in store.failures()] == errors, "what is in the log counts"
    assert sorted(path.name for path in closed.iterdir()) == ["live.sqlite", "live.sqlite-wal", "s.sqlite"]
    with tempfile.TemporaryDirectory() as folder:
        assert merge(Store(Path(folder) / "new.sqlite", create=True), [store.path]).added == 8


def test_a_log_that_cannot_be_copied_is_reported(closed, monkeypatch):
    monkeypatch.setattr(opening, "_copies", {})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(StoreError, match=r"live.sqlite cannot be read here: its log needs a place .*No space left"):
        Store(closed / "live.sqlite")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MB of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", place], capture_output=True)
    if made.returncode:
        pytest.skip("a file system cannot be mounted here")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_store_on_a_full_and_on_a_read_only_disk_can_be_read(sound, small_disk):
    live = copy_with_log(sound, small_disk)
    store = Path(shutil.copy(sound, small_disk / "s.sqlite"))
    with closing(sqlite3.connect(store)) as db:
        db.execute("PRAGMA journal_mode = WAL")
    with (small_disk / "filler").open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    assert len(Store(store).done()) == 8
    assert [failure.error for failure in Store(live).failures()] == ["in the log"]
    with pytest.raises(StoreError, match=r"No space left on device|disk is full"), Store(store).writing() as writer:
        writer.add_failure("r", 1, "x" * 2_000_000, "")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    assert len(frames.runs_frame(Store(store), "old")) == 8
    assert [failure.error for failure in Store(live).failures()][:1] == ["in the log"]
    with pytest.raises(StoreError, match=r"cannot lock .*Read-only file system"), Store(store).writing():
        pass


@pytest.mark.parametrize("way", ["a symbolic link", "a hard link", "the lock's file removed"])
def test_a_store_has_one_writer_by_any_name(sound, way):
    other = sound.with_name("other.sqlite")
    with Store(sound).writing() as writer:
        if way == "a symbolic link":
            other.symlink_to(sound)
        elif way == "a hard link":
            other.hardlink_to(sound)
        else:
            sound.with_name("store.sqlite.lock").unlink()
            other = sound
        with pytest.raises(StoreBusy, match="in use by"), Store(other).writing():
            pass
        writer.add_failure("r", 1, "kept", "")
    with Store(other).writing():
        pass
    assert [failure.error for failure in Store(other).failures()] == ["kept"]


def test_files_beside_a_store_are_those_of_the_file_and_not_of_a_link(sound, tmp_path):
    (tmp_path / "link.sqlite").symlink_to(sound)
    assert Store(tmp_path / "link.sqlite").weights == Store(sound).weights
    assert Store(tmp_path / "link.sqlite").checkpoints == Store(sound).checkpoints


@pytest.mark.parametrize("ending", [".holder", ".draft"])
def test_a_link_in_place_of_the_holders_file_is_not_followed(sound, tmp_path, ending):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    sound.with_name(f"store.sqlite{ending}").symlink_to(victim)
    with Store(sound).writing():
        pass
    assert victim.read_text() == "mine"


def test_a_link_in_place_of_the_lock_is_refused(sound, tmp_path):
    sound.with_name("store.sqlite.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(StoreError, match="it is a symbolic link"), Store(sound).writing():
        pass
    assert not (tmp_path / "victim").exists()


def test_a_folder_in_place_of_the_holders_file_is_reported(sound):
    sound.with_name("store.sqlite.holder").mkdir()
    with pytest.raises(StoreError, match=r"store.sqlite.holder .*Is a directory"), Store(sound).writing():
        pass


def test_names_that_look_like_addresses_are_names(tmp_path, monkeypatch, sound):
    monkeypatch.chdir(tmp_path)
    for name in ("file:st.sqlite", "a?mode=memory.sqlite", "100%41#.sqlite"):
        merge(Store(name, create=True), [sound])
        assert len(Store(name).done()) == 8
        assert Path(name).is_file()


def test_what_cannot_be_a_store_is_refused_in_one_line(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    proc = Path("/proc/1/x.sqlite")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path, message in [
        (tmp_path / ("x" * 300), "File name too long"), (Path("/dev/null"), "not a file, but a device"),
        (Path("/dev/full"), "not a file, but a device"), (tmp_path / "pipe", "not a file, but a device or a pipe"),
        (tmp_path / "loop", "there can be no store|no store at"), (Path("x\0y"), "there can be no store"),
    ]:  # fmt: skip
        for create in (False, True):
            if path.name == "loop" and create:
                continue
            with pytest.raises(StoreError, match=message):
                Store(path, create)
    with (
        pytest.raises(StoreError, match=r"cannot lock /proc/1/x.sqlite.lock|cannot put a store at"),
        Store(proc, True).writing(),
    ):
        pass


def test_a_study_cannot_have_the_name_of_one_of_the_stores_files(sound):
    for name in (
        "store.sqlite",
        "store.sqlite.lock",
        "store.sqlite-wal",
        "store.sqlite.holder",
        "store.sqlite.weights",
    ):
        with pytest.raises(StoreError, match=r"a file of the store .* has that name"):
            Store(sound).refuse_name(name)
    Store(sound).refuse_name("store")
