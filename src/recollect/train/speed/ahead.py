"""Compiles a cohort's step while the cohort trains.

A cohort starts uncompiled, so that its first measurements come early. Where compiling pays, another process compiles the same
step for the same number of members, which fills the cache of compiled code; when it is done, the cohort takes the code from there
within seconds. What was compiled before, by this command or an earlier one, is taken from the cache at once.
"""

import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import torch

import recollect
from recollect.spec import digest
from recollect.train.spec import RunSpec
from recollect.train.speed import compile as speed
from recollect.train.speed.cache import claim, claimed, known, release, remember

if TYPE_CHECKING:
    from recollect.train.cohort import Cohort

COMMAND = [sys.executable, "-m", __name__]
"""Starts the other process, which reads what to compile as one line of JSON."""
NICE = 10
"""By how much the other process gives way to those that train. A step that is not compiled waits for one processor, and each
compiler starts as many threads as there are: beside six of them on 16 processors, a step of H3 (12 runs, H200) took 55 ms."""
FREE = 0.9
"""The share of free memory that the other process may take."""


class Compilation:
    """Switches a cohort to compiled code: called before each step, and when members have ended."""

    def __init__(self, cohort: "Cohort"):
        self.cohort, self.pace = cohort, speed.Pace(cohort.device)
        self.ahead: Ahead | None = None

    def before_step(self, left: int) -> None:
        """Start to compile where that pays for the steps that are left, and use the code when it is ready."""
        if self.ahead is None:
            if self.pace.pays(left, self._compiled):
                self.ahead = self._begin()
            return
        if not self.ahead.ready():
            return
        self.ahead.close()
        if self.ahead.members != self._places():  # members have left meanwhile
            self.ahead = self._begin()
            return
        remember(self.ahead.mark)  # as used now
        self.ahead = None
        if self.cohort.compiled is None:
            torch.compiler.reset()  # code of earlier cohorts, of which the compiler allows only a few
            self.cohort.compile()
        else:
            self.cohort.keep(list(range(len(self.cohort))))

    def members_left(self, step: float, left: int) -> None:
        """Compile for fewer members where half of the places are free, and that pays for the steps that are left."""
        if self.cohort.compiled is None or self.ahead is not None:
            return
        if self._places() < self.cohort.members.places and speed.worth(step, left):
            self.ahead = self._begin()

    @property
    def full_speed(self) -> bool:
        """Whether the cohort trains as fast as it will: compiled, or known to stay as it is."""
        return self.cohort.compiled is not None or not (self.pace.open or self.ahead)

    def close(self) -> None:
        """End what is being compiled."""
        if self.ahead is not None:
            self.ahead.close()

    def _begin(self) -> "Ahead":
        device = self.cohort.device
        held = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
        return Ahead(self.cohort.runs[0], self._places(), device, held)

    def _compiled(self) -> bool:
        """Whether the step is in the cache, or another process compiles it now."""
        mark = mark_of(self.cohort.runs[0], self._places(), self.cohort.device)
        return known(mark) or claimed(mark)

    def _places(self) -> int:
        """How many members the step would be compiled for now."""
        taken = self.cohort.members.places
        return taken if self.cohort.compiled is None else speed.places(len(self.cohort), taken)


def mark_of(run: RunSpec, members: int, device: torch.device) -> str:
    """What the cache knows the step of so many members of a run's shape by."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    return digest([run.shape, members, name, torch.__version__, recollect.__version__, speed.BACKEND])


class Ahead:
    """The step of a cohort, being compiled for so many members in another process, unless it is in the cache already or some
    other process compiles it now."""

    def __init__(self, run: RunSpec, members: int, device: torch.device, held: float):
        """`held`: bytes of the device's memory that a step needs."""
        self.members = members
        self.mark = mark_of(run, members, device)
        self.process: subprocess.Popen | None = None
        self.waits = False
        if known(self.mark) or not _room(device, held):
            return
        if not claim(self.mark):
            self.waits = True
            return
        order = {"run": run.model_dump_json(), "members": members, "device": str(device), "backend": speed.BACKEND}
        order["mark"] = self.mark
        paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            self.process = subprocess.Popen(
                COMMAND, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=paths,
                start_new_session=True,  # Ctrl-C in a terminal is for the parent process
            )  # fmt: skip
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:  # no memory for another process: the cohort compiles by itself
            self.close()
            release(self.mark)

    def ready(self) -> bool:
        """Whether the code is in the cache; also where the other process failed, and the cohort has to compile by itself."""
        if self.waits:
            return known(self.mark) or not claimed(self.mark)
        if self.process is not None and self.process.poll() is None:
            return False
        self._release()
        return True

    def close(self) -> None:
        """End the other process."""
        if self.process is not None:
            self.process.kill()
            self._release()

    def _release(self) -> None:
        if self.process is not None:
            self.process.communicate()
            self.process = None
            release(self.mark)


def _room(device: torch.device, held: float) -> bool:
    """Whether so many bytes of a GPU's memory are free."""
    return device.type != "cuda" or held < FREE * torch.cuda.mem_get_info(device)[0]


def compile_step(run: str, members: int, device: str, backend: str) -> None:
    """Compile a step of so many members of a run's shape, forward and backward, into the cache."""
    from recollect.train.cohort import Cohort

    cohort = Cohort([RunSpec.model_validate_json(run)] * members, torch.device(device))
    cohort.compile(backend)
    cohort.advance(0)
    if cohort.device.type == "cuda":
        torch.cuda.synchronize(cohort.device)
    if cohort.compiled is None:
        raise RuntimeError(f"not compiled: {cohort.records.notes}")


def _main() -> None:
    if hasattr(os, "nice"):  # not on Windows
        os.nice(NICE)
    order: dict[str, Any] = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_the_cohort, daemon=True).start()
    mark = order.pop("mark")
    compile_step(**order)
    remember(mark)


def _end_with_the_cohort() -> None:
    sys.stdin.read()  # ends when the parent process has ended, or no longer needs the code
    os._exit(1)


if __name__ == "__main__":
    _main()
