"""On a Ray cluster: each cohort is a task that streams its reports, snapshots included, to this process.

Ray decides where a task runs. It does not repeat one by itself: the cohort goes on from its last snapshot, which only
the process that writes the store knows. Every node needs recollect; a study's own files, with those beside them that they
import, are sent along.
"""

import os
import re
import signal
import socket
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from recollect.spec import SpecError, digest
from recollect.spec.apart import be_worker
from recollect.study.executors.base import GRACE, Executor, Job, Resources, StopAsked, own_code
from recollect.study.executors.order import Order
from recollect.study.executors.reports import LAST, Began, Broken, Halted, Report

_PATIENCE = 5.0
"""Seconds that a cluster's port may take to answer."""
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How gRPC begins: then empty settings."""
_TICK = 0.5
"""Seconds between two looks at whether an end is asked for."""
_WITHOUT_BFLOAT16 = ("K80", "P4", "P100", "T4", "V100")
"""The types of NVIDIA GPUs, as Ray names them, that do not compute in bfloat16."""
_SETTINGS = 4
"""The type of the frame with which gRPC answers."""


class Ray(Executor):
    """Cohorts as tasks, each with a GPU or a CPU of the cluster to itself."""

    @classmethod
    def has_bfloat16(cls, resources: Resources) -> bool:
        """Whether every GPU of the cluster does."""
        found = _connected(resources).cluster_resources()
        types = [name.partition(":")[2] for name in found if name.startswith("accelerator_type:")]
        return bool(found.get("GPU")) and resources.device != "cpu" and not set(types) & set(_WITHOUT_BFLOAT16)

    def __init__(self, resources: Resources):
        self.resources, self._ray = resources, (ray := _connected(resources))
        self._jobs: dict[Any, Job] = {}
        self._began: dict[Any, float] = {}  # when a task was first seen
        found = ray.cluster_resources()
        self.device = ("cuda" if found.get("GPU") else "cpu") if resources.device == "auto" else resources.device
        if self.device not in ("cpu", "cuda"):
            ray.shutdown()
            raise SpecError(f"device {self.device!r}: Ray picks the device itself; choose auto, cpu or cuda")
        self._resource = "GPU" if self.device == "cuda" else "CPU"
        if not found.get(self._resource):
            warnings.warn(f"the Ray cluster has no {self._resource} now; cohorts wait until one joins", stacklevel=2)
        needs: dict[str, Any] = {"num_gpus": 1, "num_cpus": 0} if self.device == "cuda" else {"num_cpus": 1}
        needs |= {"num_returns": "streaming", "max_retries": 0}
        self._task: Any = ray.remote(**needs)(_attempt)
        self._own_task: Any = ray.remote(max_calls=1, **needs)(_attempt)  # in a process that trains nothing else
        self._new_flag()

    @property
    def slots(self) -> int:
        """Twice what the cluster can hold now: nothing waits for this process, and an autoscaler sees what is wanted."""
        return 2 * max(1, int(self._ray.cluster_resources().get(self._resource, 0)))

    def submit(self, job: Job, saved: bytes | None) -> None:
        """Hand a cohort to Ray."""
        if self._asked and not self.stop():  # a study was stopped, and this is another
            self._new_flag()
        task = self._own_task if own_code(job.runs[0]) else self._task
        self._jobs[task.remote(Order.of(job, self.device, self.resources), saved, self._flag)] = job

    def next(self) -> tuple[Job, Report]:
        """Wait for any of the tasks."""
        ready, timeout = list[Any](), self.resources.timeout
        while not ready:
            ready, waiting = self._ray.wait(list(self._jobs), num_returns=1, timeout=_TICK)
            if self.stop() and not self._asked:
                self._asked = time.monotonic()
                self._flag.ask.remote()
            if self._asked and not ready and time.monotonic() - self._asked > GRACE:
                return self._jobs.pop(waiting[0]), Halted()
            for stream in waiting if timeout else ():
                if self._age(stream) > timeout:
                    self._ray.cancel(stream, force=True)
                    return self._jobs.pop(stream), Broken.late(timeout)
        (stream,) = ready
        job = self._jobs[stream]
        try:
            report = self._ray.get(next(stream))
        except self._ray.exceptions.RayTaskError as error:  # raised before the cohort could be tried
            report = Broken.by(error.cause or error)
        except (self._ray.exceptions.RayError, StopIteration) as error:
            text = " ".join(str(error).split()) or "the task ended without a word"
            report = Broken("lost", f"{type(error).__name__}: {text[:300]}", text)
        if isinstance(report, Began):
            self._began[stream] = time.monotonic()
        if isinstance(report, LAST):
            del self._jobs[stream]
            self._began.pop(stream, None)
        return job, report

    def _age(self, stream: Any) -> float:
        """Seconds for which a task has run; 0 while it waits for its turn."""
        return time.monotonic() - self._began.get(stream, time.monotonic())

    def _new_flag(self) -> None:
        self._asked = 0.0  # when the tasks were asked to stop
        self._flag: Any = self._ray.remote(num_cpus=0)(_Flag).remote()

    def close(self) -> None:
        """Leave the cluster, which ends this process's tasks."""
        self._jobs.clear()
        self._ray.shutdown()


class _Flag:
    """An actor that knows whether training should stop."""

    def __init__(self) -> None:
        self.asked = False

    def ask(self) -> None:
        self.asked = True

    def look(self) -> bool:
        return self.asked


def _imported() -> Any:
    try:
        import ray  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise SpecError("executor 'ray' needs an extra: pip install \"recollect[ray]\"") from None
    return ray


def refuse_silent_address(address: str) -> None:
    """Refuse an address where no Ray cluster answers; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE) as connection:
            connection.sendall(_PREFACE)
            answer = connection.recv(9)
    except (OSError, OverflowError) as error:
        raise SpecError(f"no Ray cluster answers at {address} ({error or 'no answer'}); is it running there?") from None
    if not os.environ.get("RAY_USE_TLS") and (len(answer) < 4 or answer[3] != _SETTINGS):
        raise SpecError(f"what answers at {address} is not a Ray cluster's head (its default port is 6379)")


def _connected(resources: Resources) -> Any:
    """Ray, joined to the cluster whose head is at `options["address"]`, or to the one running on this machine; unless this
    process has joined one already."""
    ray, address = _imported(), str(resources.options.get("address") or "auto")
    if ray.is_initialized():
        return ray
    if address != "auto" and not re.fullmatch(r"[^/]+:\d+", address):
        raise SpecError(
            f"Ray address {address!r}: expected host:port of a cluster's head, such as 10.0.0.1:6379, or auto"
        )
    ours = signal.getsignal(signal.SIGTERM)
    try:
        address = _resolved(address)
        refuse_silent_address(address)
        ray.init(address=address, logging_level="error", log_to_driver=False)
    except (ConnectionError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise SpecError(f"cannot use the Ray cluster at {address!r}: {reason}") from None
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, ours)  # Ray puts its own there
    return ray


def _resolved(address: str) -> str:
    """Where Ray will look: it finds `auto` in its files, which may be old, and takes this machine's address for localhost."""
    try:
        from ray._private.services import canonicalize_bootstrap_address  # pyright: ignore[reportMissingImports]
    except ImportError:
        return address
    return canonicalize_bootstrap_address(address) or address


def _attempt(order: Order, saved: bytes | None, flag: Any) -> Iterator[Report]:
    """What a node does."""
    be_worker()

    def look() -> bool:
        ray = _imported()
        with suppress(ray.exceptions.RayError):  # its node is lost: a stop then costs what came after the last snapshot
            return bool(ray.get(flag.look.remote(), timeout=_TICK))
        return False

    yield Began()
    place = Path(_folder().name, digest({name: source.hex() for name, source in order.files.items()}))
    yield from order.attempt(place, saved, StopAsked(look, _TICK))


@cache
def _folder() -> tempfile.TemporaryDirectory:
    """Where this process keeps the study's own files: as long as it lives, since modules point to their sources."""
    return tempfile.TemporaryDirectory(prefix="recollect-")
