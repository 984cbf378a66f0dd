"""The rules of `recollect.testing`, one after another, on one mixer or task: which hold, which are broken, and where."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch

from recollect.models.spec import ADDED, ModelSpec
from recollect.spec import SpecError
from recollect.spec.errors import line_of
from recollect.tasks.base import Task
from recollect.testing import MIXER_CHECKS, TASK_CHECKS, Check
from recollect.testing.measure import Make, build, in_one_line, numbers, results
from recollect.testing.mixers import causality, determinism, finite, flops, output_shape

LENGTH = 33
"""Tokens of the rows that rules are checked on: an odd number, so that nothing fits by chance."""
FORM = {"shapes", "positions"}
"""The rules without which a row of a task cannot be drawn."""
LONGEST = 1024
"""The longest row that a mixer is built for: one rule goes that far."""


@dataclass(frozen=True)
class Checked:
    """The result of checking one rule."""

    name: str
    outcome: Literal["holds", "note", "broken"]
    """`note`: the rule does not apply, or holds within a limit that the text gives."""
    text: str
    """The rule where it holds, else what is wrong and where."""
    fatal: bool = False
    """Whether training such a mixer would mean nothing."""


def maker(model: ModelSpec) -> Make:
    """What builds the mixer of a model, checked to build once."""
    positions = "none" if model.positions in ADDED else model.positions

    place = {"length": LONGEST, "layer": 0, "layers": model.layers, "positions": positions, "base_width": 0}

    def make() -> torch.nn.Module:
        return model.mixer.build(model.width, **place)

    try:
        make()
    except SpecError:
        raise
    except Exception as error:
        raised = in_one_line(error)
        raise SpecError(f"{model.mixer.kind}: building it with width {model.width} raised {raised}") from error
    return make


def check_rules(model: str) -> Iterator[Checked]:
    """Check the mixer of a model, given as JSON, rule by rule. What does not map rows to rows is no mixer at all: a SpecError.

    Numbers that are not finite, or that change from call to call, break every rule that compares numbers: such a rule is then
    not checked, so that only the cause is reported.
    """
    spec = ModelSpec.model_validate_json(model)
    make, width, cause = maker(spec), spec.width, ""
    for check in MIXER_CHECKS:
        if check.function is output_shape:
            _is_mixer(spec.mixer.kind, make, width)
        if cause and check.function is not flops:
            yield Checked(check.name, "note", f"not checked, because {cause} is broken")
            continue
        checked = _checked(check, make, width)
        if checked.fatal and check.function in (finite, determinism):
            cause = check.name
        yield checked


def _is_mixer(kind: str, make: Make, width: int) -> None:
    try:
        output_shape(make, width, LENGTH)
    except SpecError:  # such as a layer whose kernels need a GPU
        raise
    except Exception as error:
        if _is_verdict(error):
            raise SpecError(f"{kind}: {error}") from None
        raise SpecError(f"{kind}: a row of {LENGTH} tokens raised {in_one_line(error)}{_hint(make, width)}") from error


def _is_verdict(error: Exception) -> bool:
    """Whether a rule says that it is broken, and it is not an assertion of the user's own code that failed."""
    return isinstance(error, AssertionError) and not line_of(error)


def _hint(make: Make, width: int) -> str:
    """The usual reason for a mixer that fails here and not in its author's hands: rules are checked in float64."""
    try:
        build(make, torch.float32)(numbers(1, LENGTH, width, kind=torch.float32))
    except Exception:
        return ""
    return " in float64, and not in float32: give new tensors the type of the input, as x.new_zeros does"


def _checked(check: Check, make: Make, width: int) -> Checked:
    try:
        note = check.function(make, width, LENGTH)
    except Exception as error:
        if _is_verdict(error):
            message = str(error)
            if check.function is causality and _causal_to_rounding(make, width):
                return Checked(check.name, "note", f"only to rounding, as where FFTs convolve ({message})")
            return Checked(check.name, "broken", message, _ends_all(check, make, width))
        fatal = check.function in (causality, finite, determinism)
        return Checked(check.name, "broken", f"could not be checked: {in_one_line(error)}", fatal)
    return Checked(check.name, "note", note) if note else Checked(check.name, "holds", check.description)


def _causal_to_rounding(make: Make, width: int) -> bool:
    try:
        causality(make, width, LENGTH, exact=False)
    except AssertionError:
        return False
    return True


def _ends_all(check: Check, make: Make, width: int) -> bool:
    """Whether a broken rule makes training meaningless. A parameter that is never used breaks `finite` too, and a buffer that
    forward writes breaks `determinism`: neither is fatal."""
    if check.function is finite:
        values = results(build(make, torch.float32), numbers(2, LENGTH, width, kind=torch.float32)).values()
        return not all(value.isfinite().all() for value in values)
    if check.function is determinism:
        module, x = build(make), numbers(2, LENGTH, width)
        return not torch.equal(module(x), module(x))
    return check.function is causality


def broken_rules(task: Task) -> dict[str, str]:
    """The rules that a task breaks, and where. It stops at rows of a wrong form, which would break most of the others too."""
    broken: dict[str, str] = {}
    for check in TASK_CHECKS:
        try:
            check.function(task)
        except Exception as error:
            broken[check.name] = str(error) if _is_verdict(error) else in_one_line(error)
            if check.name in FORM:
                break
    return broken
