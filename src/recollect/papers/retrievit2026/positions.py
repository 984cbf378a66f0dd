"""Figures 8, 13, 19 (right), 17 and 18: how position retrieval is learnt."""

import math
from collections.abc import Callable, Sequence

import pandas as pd

from recollect.analysis.dynamics import leaves, uninformed_loss
from recollect.analysis.gates import fusion, gate_traces
from recollect.analysis.positions import position_matrix, serial_position
from recollect.figures.heatmaps import heatmaps_figure, long_table
from recollect.figures.panels import lines_figure, summary
from recollect.papers.examples import curve_table
from recollect.papers.item import Drawing, Item
from recollect.papers.judge import (
    Claim,
    Estimate,
    Evidence,
    Finding,
    NotEnough,
    Scale,
    all_of,
    at_least,
    at_most,
    exceeds,
    spread,
)
from recollect.papers.retrievit2026.settings import (
    HALF,
    HYBRIDS,
    SETTINGS,
    SSMS,
    TITLES,
    differs,
    families,
    learnt,
    of,
    study,
    view,
)
from recollect.study.spec import Study

ENDS_FIRST, DEEPER = 0.3, 0.05
"""How far the ends are ahead of the middle in accuracy at some time; by how much deep gates are more open."""
M2_BLOCKS = ("HI-M2-1", "HI-M2-2", "HI-M2-3", "HI-M2-4")


def contrast(evidence: Evidence, name: str) -> Estimate:
    """The largest lead, during training, of the first and last tenth of the positions over the middle half."""
    ids = of(evidence, name)["id"]
    if evidence.slices.empty:
        raise NotEnough("no accuracy by position is there")
    matrices = [position_matrix(evidence.slices.loc[evidence.slices["run"] == run]) for run in ids]
    leads = [serial_position(matrix).contrast for matrix in matrices if matrix.size]
    return spread(leads, f"{name}: lead of the ends")


def _ends_first(*names: str) -> Callable[[Evidence], Finding]:
    return lambda evidence: all_of(*(at_least(contrast(evidence, name), ENDS_FIRST) for name in names))


def _at_once(name: str) -> Callable[[Evidence], Finding]:
    def test(evidence: Evidence) -> Finding:
        learnt(of(evidence, name), name, HALF)
        return at_most(contrast(evidence, name), ENDS_FIRST)

    return test


def draw_positions(title: str, names: Sequence[str]) -> Callable[[Evidence, str], Drawing]:
    """Accuracy by progress of training (up) and target position (along), a panel per model."""

    def drawing(evidence: Evidence, caption: str) -> Drawing:
        runs, cells = view(evidence), {}
        for name in names:
            inside = runs.loc[runs["name"] == name, "id"]
            slices = (
                evidence.slices.loc[evidence.slices["run"].isin(inside)] if len(evidence.slices) else pd.DataFrame()
            )
            if len(slices):
                cells["", TITLES[name]] = position_matrix(slices).rename(columns=lambda place: place + 1)
        figure = heatmaps_figure(
            cells, ("",), [TITLES[name] for name in names], title=title, caption=f"{caption} Progress: of each run's own length.",
            xlabel="target position", ylabel="progress of training", value="accuracy",
        )  # fmt: skip
        return figure, long_table(cells, ("progress", "position"), "accuracy")

    return drawing


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
    return spread(found, f"{name}: examples on the plateau")


def _leave_first(names: Callable[[Scale], Sequence[str]]) -> Callable[[Evidence], Finding]:
    def test(evidence: Evidence) -> Finding:
        rope = plateau_left(evidence, "RoPE")
        return all_of(*(exceeds(rope, plateau_left(evidence, name)) for name in names(evidence.scale)))

    return test


def draw_loss(evidence: Evidence, caption: str) -> Drawing:
    """Training loss against examples, and the loss of a model that knows nothing."""
    table = curve_table(evidence.curves, view(evidence), TITLES, "train_loss", carried=False)
    level = uninformed_loss(SETTINGS[evidence.scale].position)
    figure = lines_figure(
        table, "examples", "model", title="Figure 17: training loss in position retrieval", xlabel="training examples",
        caption=f"{caption} Grey: log(length) / 2 = {level:.2f}, what a model has that knows nothing.",
        ylabel="training loss in nats", logx=False, ylim=None,
    )  # fmt: skip
    figure.axes[0].axhline(level, color="#777777", linewidth=1)
    return figure, table


def gates(evidence: Evidence) -> pd.DataFrame:
    """Gates of the two-stream runs; a gate cannot be seen where no curve has one."""
    if evidence.curves.empty or not any(str(name).startswith("gate.") for name in evidence.curves):
        return pd.DataFrame(columns=["run", "step", "examples", "layer", "gate", "progress"])
    return gate_traces(evidence.curves.loc[evidence.curves["run"].isin(view(evidence)["id"])])


def draw_gates(evidence: Evidence, caption: str) -> Drawing:
    """|tanh b| of each layer over training."""
    traces = gates(evidence)
    table = summary(traces.assign(layer=[f"layer {n + 1}" for n in traces["layer"]]), ["layer", "examples"], "gate")
    figure = lines_figure(
        table, "examples", "layer", title="Figure 18: gates of the two-stream model", caption=caption,
        xlabel="training examples", ylabel="|tanh b|", logx=False, ylim=None,
    )  # fmt: skip
    return figure, table


def _deep_fuse(evidence: Evidence) -> Finding:
    traces = gates(evidence)
    if traces.empty:
        raise NotEnough("no gate is there")
    ends = fusion(traces)
    return at_least(spread(ends["deep"] - ends["shallow"], "deep minus shallow gates"), DEEPER)


def _studies(part: str, names: Sequence[str]) -> Callable[[Scale], list[Study]]:
    return lambda scale: [study(part, scale, "position", names)]


_LEAD = f"lead over the middle half by at least {ENDS_FIRST} in accuracy at some time in training"
FIG8 = Item(
    "fig8",
    "Position retrieval: accuracy by position",
    "SSMs learn the ends first, Transformers all at once",
    draw_positions("Figure 8: accuracy by target position", ("RoPE", "M2", "HI-M2-1", "2S-M2")),
    _studies("position-four", ("RoPE", "M2", "HI-M2-1", "2S-M2")),
    (
        Claim("F5-ssm-ends", f"In Mamba2 the first and last tenth of the positions {_LEAD}", _ends_first("M2")),
        Claim(
            "F5-rope-at-once",
            f"In RoPE, once it has learnt the task (accuracy at least {HALF}), the ends never lead by more than "
            f"{ENDS_FIRST}",
            _at_once("RoPE"),
        ),
        Claim(
            "F5-hybrids-ends",
            f"In interleaved 1:1 and two-stream Mamba2 the ends {_LEAD}",
            _ends_first("HI-M2-1", "2S-M2"),
        ),
    ),
    differs(),
    ("slices",),
)
FIG13 = Item(
    "fig13",
    "Position retrieval: accuracy by position, interleaved",
    "N = 1 like a Transformer, N > 1 like an SSM",
    draw_positions("Figure 13: accuracy by target position, interleaved N:1", M2_BLOCKS),
    _studies("position-m2-blocks", M2_BLOCKS),
    (
        Claim(
            "F5-sparse-like-ssm",
            f"In interleaved Mamba2 with N = 2, 3, 4 the ends {_LEAD}",
            _ends_first(*M2_BLOCKS[1:]),
        ),
        Claim(
            "F5-dense-like-transformer",
            f"In interleaved 1:1, once it has learnt the task (accuracy at least {HALF}), the ends never lead "
            f"by more than {ENDS_FIRST}",
            _at_once("HI-M2-1"),
        ),
    ),
    differs(),
    ("slices",),
)
FIG19_RIGHT = Item(
    "fig19-right",
    "Position retrieval: accuracy by position, reverse gating",
    "reverse gating learns as other hybrids do",
    draw_positions("Figure 19, right: reverse two-stream", ("2S-M2", "2SR-M2")),
    _studies("position-gating", ("2S-M2", "2SR-M2")),
    (Claim("F5-reverse-ends", f"In reverse two-stream Mamba2 the ends {_LEAD}", _ends_first("2SR-M2")),),
    differs(),
    ("slices",),
)
FIG17 = Item(
    "fig17",
    "Position retrieval: training loss",
    "SSMs leave the plateau of ignorance first, Transformers late and at once",
    draw_loss,
    lambda scale: [study("position", scale, "position", families(scale))],
    (
        Claim(
            "ssms-leave-first",
            "The training loss of the SSMs stays below log(length) / 2 by 2 % after fewer examples than RoPE's",
            _leave_first(SSMS.__getitem__),
        ),
        Claim(
            "hybrids-leave-first",
            "The training loss of the hybrids stays below log(length) / 2 by 2 % after fewer examples than RoPE's",
            _leave_first(HYBRIDS.__getitem__),
        ),
    ),
    differs(paper="NoPE is drawn too."),
    ("curves",),
)
FIG18 = Item(
    "fig18",
    "Position retrieval: gates",
    "deep layers fuse the two streams",
    draw_gates,
    _studies("position-gates", ("2S-M2",)),
    (
        Claim(
            "deep-fuse",
            f"At the end of training the gates (|tanh b|) of the deep half of the layers are on average at least {DEEPER} "
            "more open than those of the shallow half",
            _deep_fuse,
        ),
    ),
    differs(),
    ("curves",),
)
