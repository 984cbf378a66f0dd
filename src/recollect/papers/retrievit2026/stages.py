"""What Figures 8, 13, 17, 18 and 19 claim about how position retrieval is learnt, as questions to the runs."""

import math
from collections.abc import Callable, Sequence

import pandas as pd

from recollect.analysis.dynamics import leaves, uninformed_loss
from recollect.analysis.gates import fusion, gate_traces
from recollect.analysis.positions import SerialPosition, position_matrix, serial_position
from recollect.papers.estimates import Estimate, NotEnough, mean_of
from recollect.papers.judge import Evidence, Scale
from recollect.papers.questions import Finding, all_of, at_least, at_most, every, exceeds
from recollect.papers.retrievit2026.settings import HALF, SETTINGS, learnt, of, view

ENDS_FIRST, SUDDEN, DEEPER, OPEN, LATER = 0.3, 0.35, 0.05, 0.05, 2.0
"""How far an end is ahead of the middle in accuracy at some time; the share of training in which a sudden transition is done; by
how much deep gates are more open; from where a gate is open; how many times as long a model stays on the plateau that leaves it
late."""


def serial(evidence: Evidence, name: str, least: float = 0.0) -> list[SerialPosition]:
    """How each run of a model that has come to an accuracy learns the positions: one for each seed."""
    if evidence.slices.empty:
        raise NotEnough("no accuracy by position is there")
    ids = learnt(of(evidence, name), name, least)["id"]
    matrices = [position_matrix(evidence.slices.loc[evidence.slices["run"] == run]) for run in ids]
    return [serial_position(matrix) for matrix in matrices if matrix.size]


def ends_first(*names: str) -> Callable[[Evidence], Finding]:
    """Whether both ends lead: the first positions and the last, each at a time of its own."""

    def both(evidence: Evidence, name: str) -> Finding:
        found = serial(evidence, name)
        head, tail = [one.head_lead for one in found], [one.tail_lead for one in found]
        return all_of(
            at_least(mean_of(head, f"{name}: lead of the first positions"), ENDS_FIRST),
            at_least(mean_of(tail, f"{name}: lead of the last positions"), ENDS_FIRST),
        )

    return lambda evidence: every(names, lambda name: both(evidence, name))


def at_once(name: str) -> Callable[[Evidence], Finding]:
    """Whether neither end leads, in the runs that have learnt the task."""

    def test(evidence: Evidence) -> Finding:
        leads = [max(one.head_lead, one.tail_lead) for one in serial(evidence, name, HALF)]
        return at_most(mean_of(leads, f"{name}: lead of the first or the last positions"), ENDS_FIRST)

    return test


def sudden(evidence: Evidence) -> Finding:
    """Whether RoPE's accuracy rises within a small share of training, in the runs that have learnt the task."""
    rises = [one.rise for one in serial(evidence, "RoPE", HALF)]
    return at_most(mean_of(rises, "RoPE: share of training from 10 % to 90 % of its accuracy"), SUDDEN)


def plateau_left(evidence: Evidence, name: str) -> Estimate:
    """The examples after which the training loss stays below that of a model that knows nothing; infinite: never."""
    ids = of(evidence, name)["id"]
    if evidence.curves.empty:
        raise NotEnough("no curve is there")
    level, found = uninformed_loss(SETTINGS[evidence.scale].position), []
    for run in ids:
        curve = evidence.curves.loc[evidence.curves["run"] == run].sort_values("step")
        left = leaves(curve["examples"], curve["train_loss"], level)
        found.append(left if left == left else math.inf)
    return mean_of(found, f"{name}: examples on the plateau")


def leave_first(names: Callable[[Scale], Sequence[str]], times: float = 1.0) -> Callable[[Evidence], Finding]:
    """Whether RoPE stays on the plateau so many times as long as each of these models."""

    def test(evidence: Evidence) -> Finding:
        rope = plateau_left(evidence, "RoPE")

        def before(name: str) -> Finding:
            left = plateau_left(evidence, name)
            label = f"{left.name}, times {times:g}" if times != 1 else left.name
            scaled = Estimate(label, times * left.value, times * left.low, times * left.high, left.seeds)
            return exceeds(rope, scaled)

        return every(names(evidence.scale), before)

    return test


def gates(evidence: Evidence) -> pd.DataFrame:
    """Gates of the two-stream runs; a gate cannot be seen where no curve has one."""
    if evidence.curves.empty or not any(str(name).startswith("gate.") for name in evidence.curves):
        return pd.DataFrame(columns=["run", "step", "examples", "layer", "gate", "progress"])
    return gate_traces(evidence.curves.loc[evidence.curves["run"].isin(view(evidence)["id"])])


def deep_fuse(evidence: Evidence) -> Finding:
    """Whether the gates of the deep half of the layers are more open at the end."""
    traces = gates(evidence)
    if traces.empty:
        raise NotEnough("no gate is there")
    ends = fusion(traces)
    return at_least(mean_of(ends["deep"] - ends["shallow"], "deep minus shallow gates"), DEEPER)


def all_open(evidence: Evidence) -> Finding:
    """Whether every layer's gate opens in the middle third of training."""
    traces = gates(evidence)
    middle = traces.loc[(traces["progress"] > 1 / 3) & (traces["progress"] <= 2 / 3)]
    if middle.empty:
        raise NotEnough("no gate is there")
    least = middle.groupby(["run", "layer"])["gate"].max().groupby("run").min()
    return at_least(mean_of(least, "the least open layer in the middle third of training"), OPEN)
