"""The claims of Figures 3, 7 and 19 (left) about the examples that models need."""

import pandas as pd

from recollect.analysis.window import THRESHOLD
from recollect.papers.estimates import share_of
from recollect.papers.examples import examples_needed, examples_ratio
from recollect.papers.judge import Claim, Evidence, where
from recollect.papers.questions import Finding, at_least, between, every, few
from recollect.papers.retrievit2026.settings import HYBRIDS, SSMS, blocks, states, view

MORE, ORDER, ALIKE = 1.0, 10.0, 2.0
"""Ratios of examples that count as more, as an order of magnitude, and (up to this factor) as equal."""
PERCENT = f"{100 * THRESHOLD:g} %"


def _more(evidence: Evidence, slow: str, fast: str, bound: float = MORE) -> Finding:
    """Whether one model needs more examples than another."""
    return at_least(examples_ratio(evidence.curves, _both(evidence, slow, fast), slow, fast), bound)


def _alike(evidence: Evidence, one: str, other: str) -> Finding:
    """Whether two models need as many examples, up to a factor."""
    return between(examples_ratio(evidence.curves, _both(evidence, one, other), one, other), 1 / ALIKE, ALIKE)


def _both(evidence: Evidence, *names: str) -> pd.DataFrame:
    """The runs of all models; NotEnough if runs of these are missing."""
    runs = view(evidence)
    for name in names:
        evidence.whole(where(runs, name=name))
    return runs


def _never(evidence: Evidence, name: str) -> Finding:
    """Whether fewer than half of the runs of a model reach the accuracy."""
    runs = evidence.whole(where(examples_needed(evidence.curves, view(evidence)), name=name))
    return few(share_of(runs["reached"], f"{name}: share of runs that reach {PERCENT}"))


def _few_blocks_beat_rope(evidence: Evidence) -> Finding:
    few_blocks = [name for name in blocks(evidence.scale) if not name.endswith("4")]
    return every(few_blocks, lambda name: _more(evidence, "RoPE", name))


FIG3A = (
    Claim(
        "F1-hybrids-first",
        f"Every 1:1 interleaved and two-stream hybrid reaches {PERCENT} with fewer examples than RoPE "
        "(ratio of medians above 1)",
        lambda e: every(HYBRIDS[e.scale], lambda name: _more(e, "RoPE", name)),
    ),
    Claim(
        "F1-others-last",
        f"NoPE and the SSMs need more examples than RoPE to reach {PERCENT} (ratio above 1)",
        lambda e: every(("NoPE", *SSMS[e.scale]), lambda name: _more(e, name, "RoPE")),
    ),
    Claim(
        "F1-order",
        f"Mamba2 needs at least {ORDER:g} times the examples of the interleaved 1:1 Mamba2 hybrid",
        lambda e: _more(e, "M2", "HI-M2-1", ORDER),
    ),
    Claim(
        "F1-interleaved-best",
        "Two-stream Mamba2 needs more examples than interleaved 1:1 Mamba2 (ratio above 1)",
        lambda e: _more(e, "2S-M2", "HI-M2-1"),
    ),
    Claim(
        "F1-nope-like-ssms",
        f"NoPE and Mamba2 need as many examples to reach {PERCENT}, up to a factor {ALIKE:g}",
        lambda e: _alike(e, "NoPE", "M2"),
    ),
    Claim(
        "F1-mamba2-hybrids-first",
        "Interleaved 1:1 and two-stream hybrids of Mamba need more examples than those of Mamba2 (ratio above 1)",
        lambda e: every(("HI-{}-1", "2S-{}"), lambda name: _more(e, name.format("M"), name.format("M2"))),
    ),
)
FIG3B = (
    Claim(
        "state-helps",
        f"An SSM with four times the state reaches {PERCENT} with fewer examples (ratio above 1)",
        lambda e: every(SSMS[e.scale], lambda name: _more(e, name, f"{name}x4")),
    ),
    Claim(
        "state-not-enough",
        "Even with four times the state an SSM needs more examples than RoPE (ratio above 1)",
        lambda e: every(SSMS[e.scale], lambda name: _more(e, f"{name}x4", "RoPE")),
    ),
)
FIG3C = (
    Claim(
        "few-blocks",
        f"Interleaved hybrids with N < 4 reach {PERCENT} with fewer examples than RoPE (ratio above 1)",
        _few_blocks_beat_rope,
    ),
    Claim(
        "one-in-five",
        "With N = 4 a hybrid still needs fewer examples than the SSM alone (ratio above 1)",
        lambda e: every(SSMS[e.scale], lambda name: _more(e, name, f"HI-{name}-4")),
    ),
)
FIG7A = (
    Claim(
        "F4-rope-first",
        f"NoPE and every hybrid need more examples than RoPE to reach {PERCENT} (ratio above 1)",
        lambda e: every(("NoPE", *HYBRIDS[e.scale]), lambda name: _more(e, name, "RoPE")),
    ),
    Claim(
        "F4-hybrids-like-nope",
        f"Every hybrid needs as many examples as NoPE to reach {PERCENT}, up to a factor {ALIKE:g}",
        lambda e: every(HYBRIDS[e.scale], lambda name: _alike(e, name, "NoPE")),
    ),
    Claim(
        "F4-ssms-never",
        f"Fewer than half of the runs of an SSM reach {PERCENT} within the budget (paper: none)",
        lambda e: every(SSMS[e.scale], lambda name: _never(e, name)),
    ),
)
FIG7B = (
    Claim(
        "F4-no-state",
        f"With two and with four times the state fewer than half of an SSM's runs reach {PERCENT} (paper: none)",
        lambda e: every([name for name in states(e.scale) if "x" in name], lambda name: _never(e, name)),
    ),
)
FIG7C = (
    Claim(
        "F4-dense-attention",
        f"Interleaved 4:1 needs more examples than 1:1 to reach {PERCENT} (ratio above 1)",
        lambda e: every(SSMS[e.scale], lambda name: _more(e, f"HI-{name}-4", f"HI-{name}-1")),
    ),
)
FIG19 = (
    Claim(
        "reverse-sooner",
        f"Two-stream needs more examples than reverse two-stream to reach {PERCENT} (ratio above 1)",
        lambda e: _more(e, "2S-M2", "2SR-M2"),
    ),
    Claim(
        "reverse-like-rope",
        f"Reverse two-stream and RoPE need as many examples to reach {PERCENT}, up to a factor {ALIKE:g}",
        lambda e: _alike(e, "2SR-M2", "RoPE"),
    ),
)
