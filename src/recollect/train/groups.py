"""Parameter groups: factors of the learning rate and of the optimiser's numbers for the parameters whose names match a pattern.

    groups: {"*.A_log|*.dt_proj.*": {lr: 0.1, weight_decay: 0}}

A pattern has `*` for any characters and `|` between alternatives; `!` in front of an alternative takes parameters out.
Parameters that no pattern matches have factor 1.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from recollect.models.model import outline
from recollect.spec import SpecError, nearest
from recollect.train.optimisers.base import Optimiser
from recollect.train.parametrisation import rate_factors

if TYPE_CHECKING:
    from recollect.train.spec import RunSpec

Factors = dict[str, float]
"""What multiplies numbers, by their name: `lr` and those of the optimiser."""
PRESETS: dict[str, dict[str, Factors]] = {
    "none": {},
    "ssm": {"*.A_log|*.D|*.dt_bias": {"weight_decay": 0.0}},
}
"""`ssm`: the parameters that published Mamba and Mamba2 exempt from weight decay, in a model that has any."""


def as_groups(value: Any) -> Any:
    """The groups of a specification, checked: a preset's name, or factors by pattern."""
    if isinstance(value, Mapping):
        return {pattern: _factors(pattern, factors) for pattern, factors in value.items()}
    if not isinstance(value, str) or value not in PRESETS:
        hint = "a mapping of patterns, such as {'*.A_log': {lr: 0.1}}"
        raise SpecError(f"unknown preset {value!r} of groups: {nearest(str(value), PRESETS)}; or {hint}")
    return value


def _factors(pattern: str, factors: Any) -> Factors:
    if not isinstance(factors, Mapping) or not factors:
        raise SpecError(f"{pattern!r} needs factors such as {{lr: 0.1}}, and got {factors!r}")
    checked = {}
    for name, given in factors.items():
        try:
            factor = math.nan if isinstance(given, bool) else float(given)  # YAML has 1e-1 as text
        except (TypeError, ValueError):
            factor = math.nan
        if not 0 <= factor < math.inf:
            raise SpecError(f"{pattern!r}: {name} needs a factor from 0 up, and got {given!r}")
        checked[name] = float(f"{factor:.12g}")
    return checked


def table_of(groups: str | Mapping[str, Factors]) -> Mapping[str, Factors]:
    """The factors by pattern, those of a preset where one is named."""
    return PRESETS[groups] if isinstance(groups, str) else groups


def check_factors(groups: str | Mapping[str, Factors], optimiser: Optimiser) -> None:
    """Refuse factors of numbers that the optimiser does not have, and factors that make a number invalid."""
    known = ("lr", *optimiser.per_member())
    for pattern, factors in table_of(groups).items():
        for name, factor in factors.items():
            if name not in known:
                raise SpecError(f"groups: {pattern!r}: unknown number {name!r}: {nearest(name, known)}")
            if name != "lr":
                try:
                    optimiser.changed(**{name: getattr(optimiser, name) * factor})
                except SpecError as error:
                    raise SpecError(f"groups: {pattern!r}: {name} times {factor:g}: {error}") from None


def check_run(run: "RunSpec") -> None:
    """Refuse patterns that match nothing in the run's model or overlap there, and models that the optimiser cannot train."""
    optimiser, groups = run.train.built_optimiser, run.train.groups
    if not isinstance(groups, str) or type(optimiser).check is not Optimiser.check:
        params = dict(outline(run.model, run.task.vocabulary, run.row_length).named_parameters())
        optimiser.check(params)
        split(groups, list(params))


def matching(patterns: str, names: Sequence[str]) -> list[str]:
    """The names that one of the alternatives matches and none with `!` in front."""
    wanted = [word.strip() for word in patterns.split("|")]
    without = [word[1:] for word in wanted if word.startswith("!")]
    return [
        name for name in names
        if any(fnmatchcase(name, word) for word in wanted) and not any(fnmatchcase(name, word) for word in without)
    ]  # fmt: skip


def split(groups: str | Mapping[str, Factors], names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The names that no pattern matches, under "", then each pattern and those that it matches. An alternative that matches
    nothing is refused, unless a preset names it, and so is a name that two patterns match."""
    preset = isinstance(groups, str)
    owner: dict[str, str] = {}
    for pattern in table_of(groups):
        parts = [word.strip().removeprefix("!") for word in pattern.split("|")]
        for word in [] if preset else [*parts, pattern]:
            if not matching(word, names):
                raise SpecError(f"groups: {word!r} matches no parameter; there are: {', '.join(names)}")
        for name in matching(pattern, names):
            if name in owner:
                raise SpecError(f"groups: {owner[name]!r} and {pattern!r} overlap: both match {name}")
            owner[name] = pattern
    parts = [(pattern, [name for name in names if owner.get(name, "") == pattern]) for pattern in ("", *owner.values())]
    return [(pattern, matched) for pattern, matched in dict(parts).items() if matched]


def factors_of(
    runs: Sequence["RunSpec"], names: Sequence[str]
) -> Iterator[tuple[tuple[str, ...], dict[str, list[float]]]]:
    """The parameters that share their numbers in all runs of a cohort, and by name of the number the factor of each run."""
    tables = [table_of(run.train.groups) for run in runs]
    rates = rate_factors(runs[0])
    for pattern, matched in split(runs[0].train.groups, names):
        columns = [table.get(pattern, {}) for table in tables]
        for rate in dict.fromkeys(rates.get(name, 1.0) for name in matched):
            scaled = [{**column, "lr": column.get("lr", 1.0) * rate} if rate != 1 else column for column in columns]
            numbers = dict.fromkeys(name for column in scaled for name in column)
            together = tuple(name for name in matched if rates.get(name, 1.0) == rate)
            yield together, {name: [column.get(name, 1.0) for column in scaled] for name in numbers}
