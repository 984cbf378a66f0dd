"""The base class of executors: cohorts go in, a stream of reports comes out. It trains and stores nothing."""

import copyreg
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Self
from weakref import WeakValueDictionary

import torch

from recollect.mixers.spec import MixerSpec
from recollect.models.spec import ModelSpec
from recollect.spec import SpecError
from recollect.spec.source import named_code
from recollect.spec.state import GlobalState, changed_on_import
from recollect.study.executors.reports import Broken, Done, Halted, Report, Warned
from recollect.testing.mixers import looks_ahead
from recollect.train.checkpoint import EVERY
from recollect.train.device import choose_device, has_bfloat16
from recollect.train.events import Ended, Saved
from recollect.train.loop import train
from recollect.train.spec import RunSpec
from recollect.train.speed.memory import members_that_fit

_sent: WeakValueDictionary[str, RunSpec] = WeakValueDictionary()


def sent(run: RunSpec) -> tuple[str, str]:
    """A run as it travels: JSON, as classes from a user's own file have no importable name to be pickled by; and its id."""
    _sent[run.id] = run
    return run.model_dump_json(), run.id


def received(text: str, id: str) -> RunSpec:
    """The run that was sent, under the id that it had there, as files may have been edited since. What comes back to the process
    that sent it is the same object."""
    if (known := _sent.get(id)) is not None:
        return known
    run = RunSpec.model_validate_json(text)
    object.__setattr__(run, "id", id)
    return run


copyreg.pickle(RunSpec, lambda run: (received, sent(run)))


AHEAD = 64
"""Tokens of the rows on which a user's own mixer is checked to be causal: whole chunks of one that works in chunks."""


@dataclass(eq=False)
class Job:
    """A cohort on its way."""

    runs: list[RunSpec]
    """Those that have not ended."""
    tries: int = 0
    """How often it failed since its last snapshot."""
    ending: int = 0
    """How many results its last measurement announced .."""
    ended: list[Ended] = field(default_factory=list)
    """.. and those of them that have come."""


TICK = 0.1
"""Seconds between two looks at whether an end is asked for."""
GRACE = 30.0
"""Seconds for which a cohort that was asked to stop is waited for."""


class StopAsked:
    """Whether an end is asked for, by a look now and then: one takes as long as a small model's layer."""

    def __init__(self, look: Callable[[], bool], every: float = TICK):
        self._look, self._every, self._asked, self._looked = look, every, False, 0.0

    def __call__(self) -> bool:
        if not self._asked and time.monotonic() - self._looked > self._every:
            self._looked = time.monotonic()
            self._asked = self._look()
        return self._asked


def attempt(
    runs: list[RunSpec],
    device: str,
    saved: bytes | None,
    every: float,
    weights: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Report]:
    """Train a cohort and say how it ended, whatever happens: the part that runs where the device is.

    When `stop` says so it gives a snapshot and ends. Settings of the process that the user's own code changes, such as the
    default dtype, are named in the results' notes, and set back for the next cohort.
    """
    state = None
    try:
        _same_code(runs[0])
        state = GlobalState() if own_code(runs[0]) else None
        if (fits := _room(runs, device)) < len(runs):
            error = f"{device} has memory for {fits} runs of {runs[0].model.title} at once, not for {len(runs)}"
            yield Broken("memory", error, error, fits)
            return
        for text in _looking_ahead(runs[0].model):
            yield Warned(text)
        for event in train(runs, device, saved, every, weights, stop):
            if isinstance(event, Ended) and state is not None:
                event.notes += _notes(runs[0], state)
            yield event
            if isinstance(event, Saved) and stop():
                yield Halted()
                return
    except BaseException as error:  # the user's own code may also raise SystemExit
        if isinstance(error, GeneratorExit) or (isinstance(error, KeyboardInterrupt) and state is None):
            raise
        report = Broken.by(error)
    else:
        report = Done()
    finally:
        if state is not None:
            state.restore()
    yield report  # outside, where the error and the tensors that its frames hold are gone


def _notes(run: RunSpec, state: GlobalState) -> list[str]:
    """What a reader should know about settings of the process that a run's own code has changed."""
    during = f"{run.model.title}: its code changes {', '.join(changes)}" if (changes := state.changes()) else ""
    return [*filter(None, [during]), *changed_on_import()]


def _looking_ahead(model: ModelSpec) -> list[str]:
    """A warning for each mixer of a user's own whose outputs depend on later tokens. Built-in ones say so where they may."""
    mixers = dict.fromkeys(block.mixer for block in model.layer_blocks() if block.mixer.source)
    return [text for mixer in mixers if (text := _ahead(mixer, model.width, model.layers))]


@cache
def _ahead(mixer: MixerSpec, width: int, layers: int) -> str:
    place = {"length": AHEAD, "layer": 0, "layers": layers, "positions": "none", "base_width": 0}
    found = looks_ahead(lambda: mixer.build(width, **place).eval(), width, AHEAD)
    return f"{mixer.kind} is {found}; its accuracy is not that of a causal model" if found else ""


def own_code(run: RunSpec) -> tuple[str, ...]:
    """The hashes of all code of a user's own that a run needs; empty where everything is built in."""
    return tuple(sorted({source for _, source in named_code(run.model_dump(mode="json"))}))


def _room(runs: list[RunSpec], device: str) -> int:
    """How many of these runs the device can train at once, as far as that can be measured beforehand."""
    if len(runs) <= 4 or not device.startswith("cuda"):
        return len(runs)
    return members_that_fit(runs[0], torch.device(device))


def _same_code(run: RunSpec) -> None:
    """A result must not be kept under the name of other code than it was made with: name the run again, and compare."""
    if RunSpec.model_validate_json(run.model_dump_json()).id != run.id:
        raise SpecError(
            f"{run.model.title} or its task is other code here than when the study began; run the study again"
        )


@dataclass(frozen=True)
class Resources:
    """What an executor is asked to train with."""

    device: str = "auto"
    """`cpu`, `cuda`, `cuda:1`, or `auto`: a GPU where there is one."""
    workers: int = 0
    """Cohorts that train at once. 0: as many as suit the device."""
    runs: Sequence[RunSpec] = ()
    """The runs that may have to be trained, which decide how many workers suit them; empty: not known."""
    checkpoint_every: float = EVERY
    """Seconds of training between snapshots of a cohort."""
    timeout: float = 0.0
    """Seconds that a cohort may take; then its worker is killed, and its runs have failed. 0: any time."""
    keep_weights: bool = False
    """Whether results bring the trained parameters along, so that the store keeps them."""
    folder: Path = Path("jobs")
    """Where an executor that needs files of its own keeps them: a folder beside the store."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What one executor alone needs, such as the address of a cluster."""


class Executor(ABC):
    """A place where cohorts are trained; a context manager, left with nothing running."""

    device: str
    """The kind of device it trains on, as results name it."""
    stop: Callable[[], bool] = staticmethod(lambda: False)
    """Whether an end is asked for: set by the runner. Every cohort in training then gives a snapshot, and `Halted`."""
    goes_on: str = ""
    """A note for a user who has stopped a study, about cohorts that train without this process."""

    @classmethod
    def has_bfloat16(cls, resources: Resources) -> bool:
        """Whether its devices compute in bfloat16: asked before it is started, as precision is part of what a run is."""
        return has_bfloat16(choose_device(resources.device))

    @classmethod
    def start(cls, resources: Resources) -> "Executor":
        """An executor with these resources, ready to be used."""
        return cls(resources)

    def __init__(self, resources: Resources):
        self.resources, self.device = resources, choose_device(resources.device)

    @property
    @abstractmethod
    def slots(self) -> int:
        """How many cohorts it takes at once."""

    def expect(self, cohorts: Sequence[Sequence[RunSpec]]) -> None:  # noqa: B027
        """Receive the cohorts that will be submitted, in order, to prepare for them."""

    def resume(self, pending: Sequence[RunSpec], done: Collection[str]) -> list[Job]:
        """Cohorts of these runs that an earlier process submitted and that go on without it: they count as submitted. `done` are
        the ids of runs that have ended."""
        return []

    @abstractmethod
    def submit(self, job: Job, saved: bytes | None) -> None:
        """Start a cohort, from a snapshot if there is one."""

    @abstractmethod
    def next(self) -> tuple[Job, Report]:
        """Wait for the next report of any cohort."""

    @abstractmethod
    def close(self) -> None:
        """Stop what is running."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
