"""A study's own files on another machine: the files that a run needs, put into a folder there."""

from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from pathlib import Path, PurePosixPath

from recollect.spec import SpecError
from recollect.spec.source import files_at, own_files
from recollect.train.spec import RunSpec


def files_of(run: RunSpec) -> dict[str, bytes]:
    """The content of the user's files that a run needs, by the names that they get elsewhere."""
    return {name: path.read_bytes() for name, path in own_files(run.model_dump(mode="json")).items()}


@contextmanager
def placed(files: Mapping[str, bytes], folder: Path) -> Iterator[None]:
    """Within, these files lie in a folder, which is the working directory. Names that lead out of the folder are refused."""
    for name, content in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise SpecError(f"the study's file {name!r} would lie outside {folder}")
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    folder.mkdir(parents=True, exist_ok=True)
    with chdir(folder), files_at(folder):
        yield
