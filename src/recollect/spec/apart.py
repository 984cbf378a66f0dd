"""Processes for code of a user's own, which may end, hang or change the process that it runs in."""

import atexit
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakSet

from recollect.spec.errors import SpecError, line_of
from recollect.spec.state import GlobalState

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that request a stop: Ctrl-C, a batch system, a terminal that is closed."""
TIMEOUT = 600.0
"""Seconds for which one result of a call is waited for."""
IDLE = 60.0
"""Seconds after which a process that is not used any more ends."""
_PR_SET_PDEATHSIG = 1
_SPAWN = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA, nor torch's threads
_worker_of_another = False
_idle: list["_Apart"] = []
_spawned: WeakSet[SpawnProcess] = WeakSet()


def run_apart(what: str, function: Callable[..., Iterable[Any]], *given: Any, quiet: bool = False) -> Iterator[Any]:
    """Yield what a generator function yields in another process, each value as soon as it is known.

    An error that it raises is raised here as a SpecError, and so is the end of that process, or no value for ten minutes; `what`
    then begins the message. `quiet` keeps what is printed there from the user.
    """
    apart = _free() or _Apart()
    finished = False
    try:
        apart.pipe.send((what, str(Path.cwd()), sys.path, dict(os.environ), quiet))
        apart.pipe.send((function, given))
        while True:
            if not apart.pipe.poll(TIMEOUT):
                raise SpecError(f"{what} gave no result within {TIMEOUT:g} seconds")
            kind, value = apart.pipe.recv()
            if kind != "value":
                finished = True
                break
            yield value
        if kind == "error":
            raise value
    except (EOFError, OSError):
        raise SpecError(f"{what} ended the process that it ran in ({how_it_ended(apart.process)})") from None
    finally:
        if finished:
            apart.used = time.monotonic()
            _idle.append(apart)
        else:
            apart.end()


def spawn(target: Callable[..., None], *given: Any) -> tuple[SpawnProcess, Connection]:
    """A new process that calls `target` with its end of a pipe and with `given`, and the other end of the pipe.

    It does not run the user's script again, and the signals that a terminal sends to the whole group do not end it, from its
    first moment on: this process decides what becomes of it.
    """
    pipe, inside = _SPAWN.Pipe()
    process = _SPAWN.Process(target=target, args=(inside, *given), daemon=True)
    with _another_main(), _signals_blocked():
        process.start()
    _spawned.add(process)
    inside.close()  # so that the pipe ends when the process does
    return process, pipe


def settle(pipe: Connection) -> None:
    """What a spawned process does first: it ignores signals and ends with its parent. A process that the user's own code forks
    from it reports nothing."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    os.register_at_fork(after_in_child=lambda: _leave(pipe))
    threading.Thread(target=_die_with_parent, daemon=True).start()


def how_it_ended(process: SpawnProcess) -> str:
    """The exit code or the signal with which a process has ended."""
    process.join()
    code = process.exitcode or 0
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def be_worker() -> None:
    """Record that another process, perhaps on another machine, notices when this one ends."""
    global _worker_of_another
    _worker_of_another = True


def is_worker() -> bool:
    """Whether another process notices when this one ends."""
    return _worker_of_another or multiprocessing.parent_process() is not None


class _Apart:
    """A process that runs one function after another."""

    def __init__(self) -> None:
        self.process, self.pipe = spawn(_serve)
        self.owner, self.used = os.getpid(), time.monotonic()

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _free() -> _Apart | None:
    """A process that has nothing to do and will not end by itself soon; one of this process, which may be a copy of another."""
    while _idle:
        found = _idle.pop()
        if found.owner == os.getpid():
            if time.monotonic() - found.used < IDLE / 2 and found.process.is_alive():
                return found
            found.end()
    return None


@atexit.register
def _end_all() -> None:
    """They ignore the signal with which Python would end them, and would be waited for."""
    for process in multiprocessing.active_children():
        if process in _spawned:
            process.kill()


def _serve(pipe: Connection) -> None:
    settle(pipe)
    with suppress(EOFError, OSError):
        while pipe.poll(IDLE):
            what, place, path, environment, quiet = pipe.recv()
            os.chdir(place)
            sys.path[:] = path
            os.environ.clear()
            os.environ.update(environment)
            with _silenced() if quiet else nullcontext():
                pipe.send(_answer(pipe, what))


def _answer(pipe: Connection, what: str) -> tuple[str, Any]:
    """Run a function, send what it yields, and return how it ended. What it needs is found where the caller is now."""
    state = GlobalState()
    try:
        function, given = pipe.recv()  # loads the user's own code
        for value in function(*given):
            pipe.send(("value", value))
    except SpecError as error:
        return "error", SpecError(str(error))
    except BaseException as error:  # the user's own code may also raise SystemExit
        text = " ".join(str(error).split())
        return "error", SpecError(f"{what} raised {type(error).__name__}: {text}{line_of(error)}")
    finally:
        state.restore()
    return "end", None


@contextmanager
def _silenced() -> Iterator[None]:
    kept = [(number, os.dup(number)) for number in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number, _ in kept:
        os.dup2(nowhere, number)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, before in kept:
            os.dup2(before, number)
            os.close(before)
        os.close(nowhere)


@contextmanager
def _another_main() -> Iterator[None]:
    """Keeps a new process from running the user's script again: it would, to find what the script defines."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Signals that arrive meanwhile are delivered to this process afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # else it is started inside, and unblocks signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _leave(pipe: Connection) -> None:
    pipe.close()
    with suppress(OSError, AttributeError):  # Linux has it, others not
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
