"""Figures 3, 7 and 19 (left): how many examples each model needs."""

from collections.abc import Callable

from recollect.analysis.window import THRESHOLD
from recollect.figures.panels import lines_figure
from recollect.papers.examples import curve_table, examples_ratio, timed
from recollect.papers.item import Drawing, Item
from recollect.papers.judge import (
    Claim,
    Evidence,
    Finding,
    Scale,
    all_of,
    at_least,
    at_most,
    spread,
    where,
)
from recollect.papers.retrievit2026.settings import (
    HYBRIDS,
    SSMS,
    TITLES,
    TaskName,
    blocks,
    differs,
    families,
    states,
    studies,
    view,
)  # fmt: skip
from recollect.study.spec import Study

MORE, ORDER = 1.0, 10.0
"""Ratios of examples: what counts as more, and what as an order of magnitude."""
PERCENT = f"{100 * THRESHOLD:g} %"


def more(evidence: Evidence, slow: str, fast: str, bound: float = MORE) -> Finding:
    """Whether one model needs more examples than another."""
    return at_least(examples_ratio(evidence.curves, view(evidence), slow, fast), bound)


def never(evidence: Evidence, name: str) -> Finding:
    """Whether no run of a model reaches the accuracy."""
    runs = where(timed(evidence.curves, view(evidence)), name=name)
    return at_most(spread(runs["reached"].astype(float), f"{name}: share of runs that reach {PERCENT}"), 0.0)


def draw(title: str) -> Callable[[Evidence, str], Drawing]:
    """Accuracy against training examples, a line per model."""

    def drawing(evidence: Evidence, caption: str) -> Drawing:
        table = curve_table(evidence.curves, view(evidence), TITLES)
        figure = lines_figure(
            table, "examples", "model", title=title, caption=caption, xlabel="training examples", logx=False
        )
        return figure, table

    return drawing


def _studies(part: str, task: TaskName, models: Callable[[Scale], tuple[str, ...]]) -> Callable[[Scale], list[Study]]:
    return lambda scale: studies(part, scale, task, models(scale))


def _with_references(scale: Scale) -> tuple[str, ...]:
    return "RoPE", *states(scale)


def _blocks(scale: Scale) -> tuple[str, ...]:
    return "RoPE", *SSMS[scale], *blocks(scale)


def _hybrids_first(evidence: Evidence) -> Finding:
    return all_of(*(more(evidence, "RoPE", name) for name in HYBRIDS[evidence.scale]))


def _others_last(evidence: Evidence) -> Finding:
    return all_of(*(more(evidence, name, "RoPE") for name in ("NoPE", *SSMS[evidence.scale])))


def _interleaved_best(evidence: Evidence) -> Finding:
    return more(evidence, "2S-M2", "HI-M2-1")


def _state_helps(evidence: Evidence) -> Finding:
    return all_of(*(more(evidence, name, f"{name}x4") for name in SSMS[evidence.scale]))


def _state_is_not_enough(evidence: Evidence) -> Finding:
    return all_of(*(more(evidence, f"{name}x4", "RoPE") for name in SSMS[evidence.scale]))


def _few_blocks_beat_rope(evidence: Evidence) -> Finding:
    return all_of(*(more(evidence, "RoPE", name) for name in blocks(evidence.scale) if not name.endswith("4")))


def _one_block_beats_ssm(evidence: Evidence) -> Finding:
    return all_of(*(more(evidence, name, f"HI-{name}-4") for name in SSMS[evidence.scale]))


def _rope_first(evidence: Evidence) -> Finding:
    return all_of(*(more(evidence, name, "RoPE") for name in ("NoPE", *HYBRIDS[evidence.scale])))


def _ssms_never(evidence: Evidence) -> Finding:
    return all_of(*(never(evidence, name) for name in SSMS[evidence.scale]))


def _no_state_suffices(evidence: Evidence) -> Finding:
    return all_of(*(never(evidence, name) for name in states(evidence.scale)))


def _dense_attention_first(evidence: Evidence) -> Finding:
    return all_of(*(more(evidence, f"HI-{name}-4", f"HI-{name}-1") for name in SSMS[evidence.scale]))


FIG3A = Item(
    "fig3a",
    "N-gram retrieval: data efficiency",
    "hybrids need the fewest examples, then RoPE, then SSMs and NoPE",
    draw("Figure 3a: n-gram retrieval"),
    _studies("ngram", "suffix", families),
    (
        Claim(
            "F1-hybrids-first",
            f"Every 1:1 interleaved and two-stream hybrid reaches {PERCENT} with fewer examples than RoPE "
            "(ratio of medians above 1)",
            _hybrids_first,
        ),
        Claim(
            "F1-others-last",
            f"NoPE and the SSMs need more examples than RoPE to reach {PERCENT} (ratio above 1)",
            _others_last,
        ),
        Claim(
            "F1-order",
            f"Mamba2 needs at least {ORDER:g} times the examples of the interleaved 1:1 Mamba2 hybrid",
            lambda evidence: more(evidence, "M2", "HI-M2-1", ORDER),
        ),
        Claim(
            "F1-interleaved-best",
            "Two-stream Mamba2 needs more examples than interleaved 1:1 Mamba2 (ratio above 1)",
            _interleaved_best,
        ),
    ),
    differs(),
    ("curves",),
)
FIG3B = Item(
    "fig3b",
    "N-gram retrieval: size of the state",
    "more state helps, and is not enough to pass RoPE",
    draw("Figure 3b: n-gram retrieval, size of the state"),
    _studies("ngram-states", "suffix", _with_references),
    (
        Claim(
            "state-helps",
            f"An SSM with four times the state reaches {PERCENT} with fewer examples (ratio above 1)",
            _state_helps,
        ),
        Claim(
            "state-not-enough",
            "Even with four times the state an SSM needs more examples than RoPE (ratio above 1)",
            _state_is_not_enough,
        ),
    ),
    differs(),
    ("curves",),
)
FIG3C = Item(
    "fig3c",
    "N-gram retrieval: SSM layers to a Transformer layer",
    "up to three SSM layers to one pass RoPE",
    draw("Figure 3c: n-gram retrieval, interleaved N:1"),
    _studies("ngram-blocks", "suffix", _blocks),
    (
        Claim(
            "few-blocks",
            f"Interleaved hybrids with N < 4 reach {PERCENT} with fewer examples than RoPE (ratio above 1)",
            _few_blocks_beat_rope,
        ),
        Claim(
            "one-in-five",
            "With N = 4 a hybrid still needs fewer examples than the SSM alone (ratio above 1)",
            _one_block_beats_ssm,
        ),
    ),
    differs(),
    ("curves",),
)
FIG7A = Item(
    "fig7a",
    "Position retrieval: data efficiency",
    "RoPE first, hybrids and NoPE later, SSMs not at all",
    draw("Figure 7a: position retrieval"),
    _studies("position", "position", families),
    (
        Claim(
            "F4-rope-first",
            f"NoPE and every hybrid need more examples than RoPE to reach {PERCENT} (ratio above 1)",
            _rope_first,
        ),
        Claim("F4-ssms-never", f"No run of an SSM reaches {PERCENT} within the budget", _ssms_never),
    ),
    differs(),
    ("curves",),
)
FIG7B = Item(
    "fig7b",
    "Position retrieval: size of the state",
    "no size of the state suffices",
    draw("Figure 7b: position retrieval, size of the state"),
    _studies("position-states", "position", _with_references),
    (
        Claim(
            "F4-no-state",
            f"No run of an SSM with any of three sizes of the state reaches {PERCENT} within the budget",
            _no_state_suffices,
        ),
    ),
    differs(),
    ("curves",),
)
FIG7C = Item(
    "fig7c",
    "Position retrieval: SSM layers to a Transformer layer",
    "more Transformer layers, fewer examples",
    draw("Figure 7c: position retrieval, interleaved N:1"),
    _studies("position-blocks", "position", _blocks),
    (
        Claim(
            "F4-dense-attention",
            f"Interleaved 4:1 needs more examples than 1:1 to reach {PERCENT} (ratio above 1)",
            _dense_attention_first,
        ),
    ),
    differs(),
    ("curves",),
)
FIG19 = Item(
    "fig19",
    "Position retrieval: reverse gating (left)",
    "with the gate on the Mamba stream a two-stream model learns sooner",
    draw("Figure 19, left: two-stream, and with the gate reversed"),
    _studies("position-reverse", "position", lambda scale: ("RoPE", "2S-M2", "2SR-M2")),
    (
        Claim(
            "reverse-sooner",
            f"Two-stream needs more examples than reverse two-stream to reach {PERCENT} (ratio above 1)",
            lambda evidence: more(evidence, "2S-M2", "2SR-M2"),
        ),
    ),
    differs(),
    ("curves",),
)
