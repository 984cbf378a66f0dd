"""A cohort on its way to another machine: its runs, and the user's own files that they need, put into a folder there."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from recollect.spec import SpecError
from recollect.spec.source import files_at, own_files
from recollect.study.executors.base import Job, Resources, attempt, received, sent
from recollect.study.executors.reports import Report
from recollect.train.spec import RunSpec


@dataclass
class Order:
    """What another machine is asked to train."""

    specs: list[tuple[str, str]]
    """The runs, each as JSON and with its id."""
    files: dict[str, bytes]
    """The study's own."""
    device: str
    every: float
    weights: bool

    @classmethod
    def of(cls, job: Job, device: str, asked: Resources) -> "Order":
        """The order for a cohort."""
        files = files_of(job.runs[0])
        return cls([sent(run) for run in job.runs], files, device, asked.checkpoint_every, asked.keep_weights)

    def attempt(self, folder: Path, saved: bytes | None, stop: Callable[[], bool]) -> Iterator[Report]:
        """Train the cohort, with its files in a folder, from a snapshot if there is one."""
        with placed(self.files, folder):
            runs = [received(*spec) for spec in self.specs]
            yield from attempt(runs, self.device, saved, self.every, self.weights, stop)


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
