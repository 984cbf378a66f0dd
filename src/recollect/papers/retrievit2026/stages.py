"""The claims of Figures 8, 13, 17, 18 and 19 about how position retrieval is learnt."""

import math
from collections.abc import Callable, Sequence

import pandas as pd

from recollect.analysis.dynamics import leaves, uninformed_loss
from recollect.analysis.gates import fusion, gate_traces
from recollect.analysis.positions import SerialPosition, position_matrix, serial_position
from recollect.papers.estimates import Estimate, NotEnough, mean_of
from recollect.papers.judge import Claim, Evidence, Scale
from recollect.papers.questions import Finding, all_of, at_least, at_most, every, exceeds
from recollect.papers.retrievit2026.settings import HALF, HYBRIDS, M2_BLOCKS, SETTINGS, SSMS, learnt, of, pooled, view

ENDS_FIRST, SUDDEN, DEEPER, OPEN, LATER = 0.3, 0.35, 0.05, 0.05, 2.0
"""The least lead of an end over the middle in accuracy; the most of training that a sudden transition takes; the least by which
deep gates are more open; the least opening of an open gate; how many times as long a model that is late stays on the plateau."""


def serial(evidence: Evidence, name: str, least: float = 0.0) -> list[SerialPosition]:
    """How each run of a model that reaches an accuracy learns the positions: one per seed."""
    if evidence.slices.empty:
        raise NotEnough("there is no accuracy by position")

    def of_run(run: str) -> SerialPosition | None:
        matrix = position_matrix(evidence.slices.loc[evidence.slices["run"] == run])
        return serial_position(matrix) if matrix.size else None

    ids = learnt(of(evidence, name), name, least)["id"]
    found = [evidence.once(f"positions of {run}", lambda _, run=run: of_run(run)) for run in ids]
    return [one for one in found if one is not None]


def _measured(
    evidence: Evidence, name: str, what: Callable[[SerialPosition], float], label: str, least: float = 0.0
) -> Estimate:
    """A number of `serial`, with a variance that the item's models share."""

    def values(of: str) -> list[float]:
        return [what(one) for one in serial(evidence, of, least)]

    return mean_of(values(name), f"{name}: {label}", pooled(evidence, values))


def _ends_first(*names: str) -> Callable[[Evidence], Finding]:
    """Whether both ends lead: the first positions and the last, each at a time of its own."""

    def both(evidence: Evidence, name: str) -> Finding:
        return all_of(
            at_least(_measured(evidence, name, lambda one: one.head_lead, "lead of the first positions"), ENDS_FIRST),
            at_least(_measured(evidence, name, lambda one: one.tail_lead, "lead of the last positions"), ENDS_FIRST),
        )

    return lambda evidence: every(names, lambda name: both(evidence, name))


def _at_once(evidence: Evidence) -> Finding:
    """Whether neither end leads, in the runs of RoPE that have learnt the task."""
    label = "lead of the first or the last positions"
    return at_most(_measured(evidence, "RoPE", lambda one: max(one.head_lead, one.tail_lead), label, HALF), ENDS_FIRST)


def _rise(evidence: Evidence, name: str) -> Estimate:
    return _measured(evidence, name, lambda one: one.rise, "share of training from 10 % to 90 % of its accuracy", HALF)


def _steeper(evidence: Evidence) -> Finding:
    return every(M2_BLOCKS[1:], lambda name: exceeds(_rise(evidence, name), _rise(evidence, M2_BLOCKS[0])))


def plateau_left(evidence: Evidence, name: str) -> Estimate:
    """The examples after which the training loss stays below that of a model that knows nothing; infinite: never."""
    ids = of(evidence, name)["id"]
    if evidence.curves.empty:
        raise NotEnough("there are no curves")
    level, found = uninformed_loss(SETTINGS[evidence.scale].position), []
    for run in ids:
        curve = evidence.curves.loc[evidence.curves["run"] == run].sort_values("step")
        left = leaves(curve["examples"], curve["train_loss"], level)
        found.append(left if left == left else math.inf)
    return mean_of(found, f"{name}: examples on the plateau")


def _leave_first(names: Callable[[Scale], Sequence[str]], times: float = 1.0) -> Callable[[Evidence], Finding]:
    """Whether RoPE stays on the plateau at least `times` as long as each of these models."""

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
    """Gates of the two-stream runs; empty where no curve has a gate."""
    if evidence.curves.empty or not any(str(name).startswith("gate.") for name in evidence.curves):
        return pd.DataFrame(columns=["run", "step", "examples", "layer", "gate", "progress"])
    return gate_traces(evidence.curves.loc[evidence.curves["run"].isin(view(evidence)["id"])])


def _deep_fuse(evidence: Evidence) -> Finding:
    traces = gates(evidence)
    if traces.empty:
        raise NotEnough("there are no gates")
    ends = fusion(traces)
    return at_least(mean_of(ends["deep"] - ends["shallow"], "deep minus shallow gates"), DEEPER)


def _all_open(evidence: Evidence) -> Finding:
    traces = gates(evidence)
    middle = traces.loc[(traces["progress"] > 1 / 3) & (traces["progress"] <= 2 / 3)]
    if middle.empty:
        raise NotEnough("there are no gates")
    least = middle.groupby(["run", "layer"])["gate"].max().groupby("run").min()
    return at_least(mean_of(least, "the least open layer in the middle third of training"), OPEN)


_LEAD = (
    "the first tenth of the positions and the last tenth each lead over the middle half, at some time in training, by at least "
    f"{ENDS_FIRST} in accuracy"
)
FIG8 = (
    Claim("F5-ssm-ends", f"In Mamba2 {_LEAD}", _ends_first("M2")),
    Claim(
        "F5-rope-at-once",
        f"In the runs of RoPE that have learnt the task (accuracy at least {HALF}) neither the first nor the last tenth of "
        f"the positions ever leads by more than {ENDS_FIRST}",
        _at_once,
    ),
    Claim(
        "F5-rope-sudden",
        "In the runs of RoPE that have learnt the task accuracy goes from a tenth to nine tenths of where it ends within at "
        f"most {SUDDEN} of their training",
        lambda evidence: at_most(_rise(evidence, "RoPE"), SUDDEN),
    ),
    Claim(
        "F5-hybrids-ends",
        f"In interleaved 1:1 and two-stream Mamba2 {_LEAD}",
        _ends_first("HI-M2-1", "2S-M2"),
    ),
)
FIG13 = (
    Claim(
        "F5-sparse-like-ssm",
        f"In interleaved Mamba2 with N = 2, 3, 4 {_LEAD}",
        _ends_first(*M2_BLOCKS[1:]),
    ),
    Claim(
        "F5-dense-steeper",
        "In the runs that have learnt the task, interleaved 1:1 goes from a tenth to nine tenths of its final accuracy within a "
        "smaller share of training than N = 2, 3 and 4",
        _steeper,
    ),
)
FIG19_RIGHT = (Claim("F5-reverse-ends", f"In reverse two-stream Mamba2 {_LEAD}", _ends_first("2SR-M2")),)
FIG17 = (
    Claim(
        "hybrids-leave-first",
        "The training loss of the hybrids stays below log(length) / 2 by 2 % after fewer examples than RoPE's",
        _leave_first(HYBRIDS.__getitem__),
    ),
    Claim(
        "ssms-leave-much-sooner",
        f"RoPE's training loss needs at least {LATER:g} times as many examples as that of the SSMs to stay below "
        "log(length) / 2 by 2 % (paper: 7 M against 2 M)",
        _leave_first(SSMS.__getitem__, LATER),
    ),
)
FIG18 = (
    Claim(
        "deep-fuse",
        f"At the end of training the gates (|tanh b|) of the deep half of the layers are on average at least {DEEPER} "
        "more open than those of the shallow half",
        _deep_fuse,
    ),
    Claim(
        "all-open-midway",
        f"In the middle third of training the gate of every layer comes to at least {OPEN}",
        _all_open,
    ),
)
