"""Questions about estimates, and how answers are combined.

A question is answered only where the whole interval gives the same answer: wrongly in 4 to 8 % of the cases where the truth is at
the bound, and less often elsewhere; a share of three seeds that agree in 12.5 %, and a best rate as `estimates.best` says. Two
numbers are compared by the interval of their difference. Where several parts must all hold, one decided no is enough, even if
others are undecided; a yes needs all of them, and is wrong no more often than for one part. A no among k parts that are all at
their bounds, and so a yes where one of k parts is enough, is wrong up to k times as often; parts far from them add nothing.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from recollect.analysis.pooled import Interval, difference
from recollect.papers.estimates import UNDECIDED, Estimate, NotEnough, Undecided


@dataclass(frozen=True)
class Finding:
    """What a test found: yes, no, or None for undecided, and the numbers it rests on."""

    holds: bool | None
    numbers: dict[str, str] = field(default_factory=dict)
    note: str = ""
    needs: Undecided = "needs more seeds"
    """What would decide it, where it is undecided."""


Part = Finding | Callable[[], Finding]
"""A finding, or a function that returns one: if that raises NotEnough, only this part is undecided."""


def at_least(estimate: Estimate, bound: float) -> Finding:
    """Whether a number is at least this: yes where all of its interval is, no where none of it is."""
    _, low, high = estimate.reach
    return _answer(low - bound, high - bound, estimate)


def at_most(estimate: Estimate, bound: float) -> Finding:
    """Whether a number is at most this."""
    _, low, high = estimate.reach
    return _answer(bound - high, bound - low, estimate)


def between(estimate: Estimate, low: float, high: float) -> Finding:
    """Whether a number is at least `low` and at most `high`."""
    return all_of(at_least(estimate, low), at_most(estimate, high))


def exceeds(more: Estimate, less: Estimate, by: float = 0.0) -> Finding:
    """Whether one number exceeds another by at least a margin. Without one, equal is not more."""
    by = by or 1e-9
    _, low, high = _apart(more.reach, less.reach)
    return _answer(low - by, high - by, more, less)


def within(one: Estimate, other: Estimate, margin: float) -> Finding:
    """Whether two numbers differ by at most a margin."""
    _, low, high = _apart(one.reach, other.reach)
    nearest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    return _answer(margin - max(abs(low), abs(high)), margin - nearest, one, other)


def most(share: Estimate) -> Finding:
    """Whether more than half of the seeds show it."""
    return at_least(share, 0.5)


def few(share: Estimate) -> Finding:
    """Whether fewer than half of the seeds show it."""
    return at_most(share, 0.5)


def all_of(*parts: Part) -> Finding:
    """Yes if all are yes, no if one is no, even if others are undecided; with the numbers of all."""
    return _joined(parts, decisive=False)


def any_of(*parts: Part) -> Finding:
    """Yes if one is yes, even if others are undecided, no if all are no; with the numbers of all."""
    return _joined(parts, decisive=True)


def every(things: Iterable[Any], test: Callable[..., Finding]) -> Finding:
    """`all_of` of a test of each thing, of which there must be one; the test of a tuple takes its parts."""
    parts = [lambda thing=thing: test(*thing) if isinstance(thing, tuple) else test(thing) for thing in things]
    if not parts:
        raise NotEnough("no run that the claim is about has ended")
    return all_of(*parts)


def not_(finding: Finding) -> Finding:
    """The other answer."""
    return replace(finding, holds=None if finding.holds is None else not finding.holds)


def _apart(one: Interval, other: Interval) -> Interval:
    """The interval of a difference; open where one of them is, and unbounded where a value is not known."""
    if one[0] != one[0] or other[0] != other[0]:
        return 0.0, float("-inf"), float("inf")
    if one[0] == other[0] == float("inf"):
        return 0.0, float("-inf"), float("inf")
    if float("inf") in (one[0], other[0]):
        return one[0] - other[0], one[1] - other[2], one[2] - other[1]
    return difference(one, other)


def _answer(worst: float, best_case: float, *estimates: Estimate) -> Finding:
    """Yes if even the worst case of the intervals is at least 0, no if even the best is not."""
    numbers = {estimate.name: str(estimate) for estimate in estimates}
    if alone := [estimate.name for estimate in estimates if estimate.seeds < 2]:
        return Finding(None, numbers, f"one seed gives no interval: {', '.join(alone)}")
    if worst >= -1e-12:
        return Finding(True, numbers)
    if best_case < 0:
        return Finding(False, numbers)
    first = min(estimates, key=lambda estimate: UNDECIDED.index(estimate.needs))
    note = f"{first.name} could be higher" if first.could_rise else "the interval over seeds spans both answers"
    return Finding(None, numbers, note, first.needs)


def _made(part: Part) -> Finding:
    if isinstance(part, Finding):
        return part
    try:
        return part()
    except NotEnough as missing:
        return Finding(None, note=str(missing), needs=missing.answer)


def _joined(parts: Iterable[Part], decisive: bool) -> Finding:
    """The `decisive` answer where one part has it, else undecided where one is, else the other answer; with the numbers of all,
    the notes of those with the same answer, and the first of what they need."""
    findings = [_made(part) for part in parts]
    answers = {finding.holds for finding in findings}
    holds = decisive if decisive in answers else None if None in answers else not decisive
    numbers: dict[str, str] = {}
    for finding in findings:
        numbers |= finding.numbers
    notes = dict.fromkeys(finding.note for finding in findings if finding.note and finding.holds == holds)
    open_: list[Undecided] = [finding.needs for finding in findings if finding.holds is None]
    needs = min(open_, key=UNDECIDED.index) if open_ else "needs more seeds"
    return Finding(holds, numbers, "; ".join(notes), needs)
