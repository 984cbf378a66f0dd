"""Settings of the whole process that code of a user's own may change, and on which the numbers of other runs depend."""

import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from recollect.spec.errors import SpecError, line_of

_COMPILERS = ("TORCHINDUCTOR_", "TRITON_", "PYTEST_")
"""How environment variables begin that tools set for themselves while code is compiled or tested: these are left alone."""
_FILTERS = "filters of warnings"
_changed_on_import: dict[str, list[str]] = {}


class _Setting(NamedTuple):
    """One setting: how it is read, and how it is set to what was read."""

    read: Callable[[], Any]
    write: Callable[[Any], object]


class GlobalState:
    """The settings as they are when it is made: it reports which have changed since, and restores them."""

    def __init__(self) -> None:
        self._settings = _settings()
        self._before = {name: setting.read() for name, setting in self._settings.items()}
        self._generators = _generators()

    def changes(self) -> list[str]:
        """What has another value now, each with both values where these are short; but for the filters of warnings, which
        libraries change when they are first used."""
        now = {name: setting.read() for name, setting in self._settings.items() if name != _FILTERS}
        return [_shown(name, self._before[name], value) for name, value in now.items() if value != self._before[name]]

    def restore(self) -> None:
        """Set back what has changed, and the random generators, which every initialisation of a layer advances."""
        for name, before in self._before.items():
            if self._settings[name].read() != before:
                self._settings[name].write(before)
        for write, value in self._generators:
            write(value)


def _settings() -> dict[str, _Setting]:
    import torch  # not at the head: `recollect --help` does without it
    from torch.backends import cuda, cudnn
    from torch.utils import deterministic

    def algorithms(value: tuple[bool, bool]) -> None:
        torch.use_deterministic_algorithms(value[0], warn_only=value[1])

    return {
        "default dtype": _Setting(torch.get_default_dtype, torch.set_default_dtype),
        "default device": _Setting(
            lambda: str(torch.get_default_device()), lambda name: torch.set_default_device(None if name == "cpu" else name)
        ),
        "number of threads": _Setting(torch.get_num_threads, torch.set_num_threads),
        "seed": _Setting(torch.initial_seed, torch.manual_seed),
        "deterministic algorithms": _Setting(
            lambda: (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
            algorithms,
        ),
        "filling of uninitialised memory": _attribute(deterministic, "fill_uninitialized_memory"),
        **{f"cudnn.{name}": _attribute(cudnn, name) for name in ("enabled", "benchmark", "deterministic", "allow_tf32")},
        "matmul precision": _Setting(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        "flash attention": _Setting(cuda.flash_sdp_enabled, cuda.enable_flash_sdp),
        "grad mode": _Setting(torch.is_grad_enabled, torch._C._set_grad_enabled),
        "anomaly detection": _Setting(torch.is_anomaly_enabled, torch.set_anomaly_enabled),
        "autocast": _Setting(
            lambda: torch.is_autocast_enabled("cpu"), lambda value: torch.set_autocast_enabled("cpu", value)
        ),
        "flushing of denormal numbers": _Setting(
            lambda: (torch.full((1,), 1e-40, dtype=torch.float32, device="cpu") * 1).item() == 0, torch.set_flush_denormal
        ),
        "environment": _Setting(_environment, _set_environment),
        _FILTERS: _Setting(lambda: list(warnings.filters), _set_filters),
        "working directory": _Setting(Path.cwd, os.chdir),
    }  # fmt: skip


def _attribute(module: Any, name: str) -> _Setting:
    return _Setting(lambda: getattr(module, name), lambda value: setattr(module, name, value))


def _generators() -> list[tuple[Callable[[Any], object], Any]]:
    """The states of the random generators, each with what sets it."""
    import torch

    found = [(torch.set_rng_state, torch.get_rng_state()), (random.setstate, random.getstate())]
    if numpy := sys.modules.get("numpy"):
        found.append((numpy.random.set_state, numpy.random.get_state()))
    return found


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_COMPILERS)}


def _set_environment(before: dict[str, str]) -> None:
    for name in _environment().keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


def _set_filters(before: list[Any]) -> None:
    filters: Any = warnings.filters
    filters[:] = before
    warnings._filters_mutated()  # pyright: ignore[reportAttributeAccessIssue]


def _shown(name: str, before: Any, now: Any) -> str:
    if name == "environment":
        changed = sorted(n for n in before.keys() | now.keys() if before.get(n) != now.get(n))
        return f"environment ({', '.join(changed)})"
    return name if name == "seed" else f"{name} ({before} to {now})"


@contextmanager
def watched_import(module: str, what: str, shown: str = "") -> Iterator[None]:
    """Notes which settings the import of a module of a user's own changes, and sets them back. Whatever it raises becomes a
    SpecError that begins with `what`."""
    state = None if module in sys.modules else GlobalState()
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        text = error.msg if isinstance(error, SyntaxError) else error
        raise SpecError(f"{what} raised {type(error).__name__}: {text}{line_of(error, any_code=True)}") from error
    finally:
        if state is not None:
            if changes := state.changes():
                _changed_on_import[shown or module] = changes
            state.restore()


def changed_on_import() -> list[str]:
    """What the user's own code that this process has imported changed on import, a sentence for each file or module."""
    sentence = "importing {} changes {}, which was set back"
    return [sentence.format(name, ", ".join(what)) for name, what in _changed_on_import.items()]
