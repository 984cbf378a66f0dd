"""Figures 3, 7 and 19 (left): how many examples each model needs."""

from collections.abc import Callable

from recollect.figures.panels import lines_figure
from recollect.papers.examples import curve_table
from recollect.papers.item import Drawing, Item
from recollect.papers.judge import Claim, Evidence, Scale
from recollect.papers.retrievit2026.needed import (
    ALIKE,
    ORDER,
    PERCENT,
    alike,
    dense_attention_first,
    few_blocks_beat_rope,
    hybrids_first,
    hybrids_like_nope,
    mamba2_hybrids_first,
    more,
    no_state_suffices,
    one_block_beats_ssm,
    others_last,
    rope_first,
    ssms_never,
    state_helps,
    state_is_not_enough,
)
from recollect.papers.retrievit2026.settings import (
    SSMS,
    TITLES,
    TaskName,
    blocks,
    differs,
    families,
    states,
    study,
    view,
)  # fmt: skip
from recollect.study.spec import Study


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
    return lambda scale: [study(part, scale, task, models(scale))]


def _with_references(scale: Scale) -> tuple[str, ...]:
    return "RoPE", *states(scale)


def _blocks(scale: Scale) -> tuple[str, ...]:
    return "RoPE", *SSMS[scale], *blocks(scale)


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
            hybrids_first,
        ),
        Claim(
            "F1-others-last",
            f"NoPE and the SSMs need more examples than RoPE to reach {PERCENT} (ratio above 1)",
            others_last,
        ),
        Claim(
            "F1-order",
            f"Mamba2 needs at least {ORDER:g} times the examples of the interleaved 1:1 Mamba2 hybrid",
            lambda evidence: more(evidence, "M2", "HI-M2-1", ORDER),
        ),
        Claim(
            "F1-interleaved-best",
            "Two-stream Mamba2 needs more examples than interleaved 1:1 Mamba2 (ratio above 1)",
            lambda evidence: more(evidence, "2S-M2", "HI-M2-1"),
        ),
        Claim(
            "F1-nope-like-ssms",
            f"NoPE and Mamba2 need as many examples to reach {PERCENT}, up to a factor {ALIKE:g}",
            lambda evidence: alike(evidence, "NoPE", "M2"),
        ),
        Claim(
            "F1-mamba2-hybrids-first",
            "Interleaved 1:1 and two-stream hybrids of Mamba need more examples than those of Mamba2 (ratio above 1)",
            mamba2_hybrids_first,
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
            state_helps,
        ),
        Claim(
            "state-not-enough",
            "Even with four times the state an SSM needs more examples than RoPE (ratio above 1)",
            state_is_not_enough,
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
            few_blocks_beat_rope,
        ),
        Claim(
            "one-in-five",
            "With N = 4 a hybrid still needs fewer examples than the SSM alone (ratio above 1)",
            one_block_beats_ssm,
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
            rope_first,
        ),
        Claim(
            "F4-hybrids-like-nope",
            f"Every hybrid needs as many examples as NoPE to reach {PERCENT}, up to a factor {ALIKE:g}",
            hybrids_like_nope,
        ),
        Claim(
            "F4-ssms-never",
            f"Fewer than half of the runs of an SSM reach {PERCENT} within the budget (paper: none)",
            ssms_never,
        ),
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
            f"With each of three sizes of the state fewer than half of an SSM's runs reach {PERCENT} (paper: none)",
            no_state_suffices,
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
            dense_attention_first,
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
        Claim(
            "reverse-like-rope",
            f"Reverse two-stream and RoPE need as many examples to reach {PERCENT}, up to a factor {ALIKE:g}",
            lambda evidence: alike(evidence, "2SR-M2", "RoPE"),
        ),
    ),
    differs(),
    ("curves",),
)
