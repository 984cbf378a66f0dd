"""What Figures 3, 7 and 19 (left) claim about the examples that models need, as questions to the runs."""

import pandas as pd

from recollect.analysis.window import THRESHOLD
from recollect.papers.estimates import share_of
from recollect.papers.examples import examples_ratio, timed
from recollect.papers.judge import Evidence, where
from recollect.papers.questions import Finding, at_least, between, every, few
from recollect.papers.retrievit2026.settings import HYBRIDS, SSMS, blocks, states, view

MORE, ORDER, ALIKE = 1.0, 10.0, 2.0
"""Ratios of examples: what counts as more, what as an order of magnitude, and up to what factor models need as many."""
PERCENT = f"{100 * THRESHOLD:g} %"


def more(evidence: Evidence, slow: str, fast: str, bound: float = MORE) -> Finding:
    """Whether one model needs more examples than another."""
    return at_least(examples_ratio(evidence.curves, _both(evidence, slow, fast), slow, fast), bound)


def alike(evidence: Evidence, one: str, other: str) -> Finding:
    """Whether two models need as many examples, up to a factor."""
    return between(examples_ratio(evidence.curves, _both(evidence, one, other), one, other), 1 / ALIKE, ALIKE)


def _both(evidence: Evidence, *names: str) -> pd.DataFrame:
    """The runs of all models, of which these are all there."""
    runs = view(evidence)
    for name in names:
        evidence.whole(where(runs, name=name))
    return runs


def never(evidence: Evidence, name: str) -> Finding:
    """Whether fewer than half of the runs of a model reach the accuracy."""
    runs = evidence.whole(where(timed(evidence.curves, view(evidence)), name=name))
    return few(share_of(runs["reached"], f"{name}: share of runs that reach {PERCENT}"))


def hybrids_first(evidence: Evidence) -> Finding:
    """Whether every hybrid needs fewer examples than RoPE."""
    return every(HYBRIDS[evidence.scale], lambda name: more(evidence, "RoPE", name))


def others_last(evidence: Evidence) -> Finding:
    """Whether NoPE and the SSMs need more examples than RoPE."""
    return every(("NoPE", *SSMS[evidence.scale]), lambda name: more(evidence, name, "RoPE"))


def mamba2_hybrids_first(evidence: Evidence) -> Finding:
    """Whether hybrids of Mamba need more examples than those of Mamba2."""
    return every(("HI-{}-1", "2S-{}"), lambda name: more(evidence, name.format("M"), name.format("M2")))


def state_helps(evidence: Evidence) -> Finding:
    """Whether an SSM needs more examples than one with four times the state."""
    return every(SSMS[evidence.scale], lambda name: more(evidence, name, f"{name}x4"))


def state_is_not_enough(evidence: Evidence) -> Finding:
    """Whether an SSM with four times the state needs more examples than RoPE."""
    return every(SSMS[evidence.scale], lambda name: more(evidence, f"{name}x4", "RoPE"))


def few_blocks_beat_rope(evidence: Evidence) -> Finding:
    """Whether interleaved models with up to three SSM layers to one need fewer examples than RoPE."""
    few_blocks = [name for name in blocks(evidence.scale) if not name.endswith("4")]
    return every(few_blocks, lambda name: more(evidence, "RoPE", name))


def one_block_beats_ssm(evidence: Evidence) -> Finding:
    """Whether an SSM needs more examples than with a Transformer layer after each four."""
    return every(SSMS[evidence.scale], lambda name: more(evidence, name, f"HI-{name}-4"))


def rope_first(evidence: Evidence) -> Finding:
    """Whether NoPE and every hybrid need more examples than RoPE."""
    return every(("NoPE", *HYBRIDS[evidence.scale]), lambda name: more(evidence, name, "RoPE"))


def hybrids_like_nope(evidence: Evidence) -> Finding:
    """Whether every hybrid needs as many examples as NoPE."""
    return every(HYBRIDS[evidence.scale], lambda name: alike(evidence, name, "NoPE"))


def ssms_never(evidence: Evidence) -> Finding:
    """Whether fewer than half of the runs of each SSM get there."""
    return every(SSMS[evidence.scale], lambda name: never(evidence, name))


def no_state_suffices(evidence: Evidence) -> Finding:
    """Whether that is so with each size of the state."""
    return every(states(evidence.scale), lambda name: never(evidence, name))


def dense_attention_first(evidence: Evidence) -> Finding:
    """Whether interleaved 4:1 needs more examples than 1:1."""
    return every(SSMS[evidence.scale], lambda name: more(evidence, f"HI-{name}-4", f"HI-{name}-1"))
