"""How the file of a store is read where nothing can be written, and held by the one process that writes to it."""

import atexit
import os
import shutil
import socket
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import filelock

from recollect.store.files import StoreBusy, StoreError, write_errors, write_whole
from recollect.store.writer import now

_NETWORK = ("nfs", "cifs", "smb", "fuse.sshfs", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "9p")
_LOGS = ("-wal", "-journal")
_copies: dict[tuple, Path] = {}
"""Copies of stores that cannot be read where they lie, by what the files were; removed when the process ends."""


def read_only(path: Path) -> str:
    """The address under which SQLite reads a store and cannot write to it.

    Even reading wants to put an index beside a store that has a write-ahead log. Where it may not, as on a read-only or full
    disk, the file is read as it is if no log is there: then it is whole and nobody writes to it. With a log, file and log are
    copied to the temporary folder and read there.
    """
    real = path.resolve()
    with closing(sqlite3.connect(f"{real.as_uri()}?mode=ro", uri=True)) as connection:
        try:
            connection.execute("SELECT count(*) FROM sqlite_master")  # only now is the file looked at
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorname.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_FULL")):
                logs = [log for ending in _LOGS if _size(log := real.with_name(real.name + ending))]
                return f"{(_copied(real, logs) if logs else real).as_uri()}?mode=ro&immutable=1"
    return f"{real.as_uri()}?mode=ro"


def _copied(real: Path, logs: list[Path]) -> Path:
    """A copy of a store with its log worked in."""
    files = [real, *logs]
    try:
        key = tuple((str(file), stat.st_size, stat.st_mtime_ns) for file in files for stat in [file.stat()])
        if key not in _copies:
            with ExitStack() as stack:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="recollect-"))
                for file in files:
                    shutil.copyfile(file, Path(folder) / file.name)
                with closing(sqlite3.connect(Path(folder) / real.name)) as connection:
                    connection.execute("PRAGMA journal_mode = DELETE")
                _copies[key] = Path(folder) / real.name
                atexit.register(stack.pop_all().close)
        return _copies[key]
    except (OSError, sqlite3.Error) as error:
        raise StoreError(
            f"{real} cannot be read here: its log needs a place to be written, and copying both to {tempfile.gettempdir()} "
            f"failed ({error})"
        ) from None


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


@contextmanager
def held(path: Path, create: Callable[[], None]) -> Iterator[None]:
    """Hold a store for this process; another gets an error that names the holder. `create` makes the file where there is none.

    Two locks: that of the file `.lock` beside the store works on network file systems too; that of the store's file itself
    belongs to it by whatever name it is reached, and cannot be removed.
    """
    real = path.resolve()
    beside, holder = (real.with_name(real.name + ending) for ending in (".lock", ".holder"))
    try:
        if beside.is_symlink():
            raise StoreError(f"cannot lock {beside}: it is a symbolic link")
        os.close(os.open(beside, os.O_RDWR | os.O_CREAT, 0o644))  # says why not, where it cannot be made
        lock = filelock.FileLock(beside, blocking=False)
        lock.acquire()
    except filelock.Timeout:
        raise _busy(path, holder) from None
    except OSError as error:
        raise StoreError(f"cannot lock {beside}: {error.strerror}") from None
    try:
        create()
        with _file_held(path, real, holder):
            with write_errors(holder):
                write_whole(holder, f"process {os.getpid()} on {socket.gethostname()} since {now()}\n".encode())
            try:
                yield
            finally:
                holder.unlink(missing_ok=True)
    finally:
        lock.release()


@contextmanager
def _file_held(path: Path, real: Path, holder: Path) -> Iterator[None]:
    """Hold the file itself, where its file system and this one's locks allow SQLite to go on using its own locks on it."""
    if sys.platform != "linux" or journal_mode(path) != "WAL":
        yield
        return
    import fcntl

    with write_errors(real):
        descriptor = os.open(real, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _busy(path, holder) from None
        yield
    finally:
        os.close(descriptor)


def _busy(path: Path, holder: Path) -> StoreBusy:
    return StoreBusy(f"{path} is in use by {_holder(holder)}; wait for it, or stop it, or use another --store")


def _holder(path: Path) -> str:
    """Who holds the lock; a moment's patience, as the name is written just after the lock is taken."""
    for _ in range(20):
        with suppress(OSError, ValueError):
            if path.is_file() and not path.is_symlink() and (name := path.read_text()[:200].strip()):
                return name
        time.sleep(0.05)
    return "another process"


def journal_mode(path: Path) -> str:
    """WAL on local disks; a rollback journal on network file systems, where WAL's shared memory does not work."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "WAL"
    folder = path.resolve().parent
    over = [(mount, kind) for mount, kind in mounts if folder.is_relative_to(mount)]
    kind = max(over, key=lambda pair: len(pair[0]), default=("/", ""))[1]
    return "DELETE" if kind.startswith(_NETWORK) else "WAL"
