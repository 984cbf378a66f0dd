"""A copy of a store as it is at one moment, also while a study runs."""

import sqlite3
from contextlib import closing
from pathlib import Path

from recollect.store.files import StoreError, write_errors
from recollect.store.opening import read_only
from recollect.store.store import Store


def backup(path: str | Path, to: str | Path) -> Path:
    """Copy a store to a new file by SQLite's online backup: all of it as it is at one moment, while others read and write."""
    store, to = Store(path), new_file(to)
    draft = to.with_name(to.name + ".draft")
    try:
        address = read_only(store.path)
        with closing(sqlite3.connect(address, uri=True)) as source, closing(sqlite3.connect(draft)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, which can be read anywhere
        Store(draft)  # refuses what is not a whole store
        with write_errors(to):
            draft.replace(to)
    except sqlite3.Error as error:
        raise StoreError(f"cannot copy {store.path} to {to}: {error}") from None
    finally:
        draft.unlink(missing_ok=True)
    return to


def new_file(path: str | Path) -> Path:
    """The place of a file that is not there yet, in a folder that is."""
    path = Path(path)
    with write_errors(path):
        if path.exists() or path.is_symlink():
            raise StoreError(f"{path} is there already; name a new file with --to")
        if not path.parent.is_dir():
            raise StoreError(f"cannot write {path}: there is no folder {path.parent}")
        return path.resolve()
