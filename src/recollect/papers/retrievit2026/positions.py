"""Figures 8, 13, 19 (right), 17 and 18: how position retrieval is learnt."""

from collections.abc import Callable, Sequence

import pandas as pd

from recollect.analysis.dynamics import uninformed_loss
from recollect.analysis.positions import position_matrix
from recollect.figures.heatmaps import heatmaps_figure, long_table
from recollect.figures.panels import lines_figure, mean_and_range
from recollect.papers.drawing import lines
from recollect.papers.examples import ENDED, curve_table
from recollect.papers.item import Drawing, Item
from recollect.papers.judge import Claim, Evidence, Scale
from recollect.papers.retrievit2026 import stages
from recollect.papers.retrievit2026.captions import differs
from recollect.papers.retrievit2026.settings import (
    HALF,
    M2_BLOCKS,
    SETTINGS,
    TITLES,
    best_learnt,
    families,
    studies,
    view,
)
from recollect.study.spec import Study


def draw_positions(title: str, names: Sequence[str]) -> Callable[[Evidence, str], Drawing]:
    """Accuracy by progress of training (up) and target position (along), a panel per model."""

    def drawing(evidence: Evidence, caption: str) -> Drawing:
        runs, cells = view(evidence), {}
        for name in names:
            inside = best_learnt(runs.loc[runs["name"] == name])["id"]
            slices = (
                evidence.slices.loc[evidence.slices["run"].isin(inside)] if len(evidence.slices) else pd.DataFrame()
            )
            if len(slices):
                cells["", TITLES[name]] = position_matrix(slices).rename(columns=lambda place: place + 1)
        note = f"Progress: of each run's own length; of runs that have learnt (accuracy {HALF}), where some have."
        figure = heatmaps_figure(
            cells, ("",), [TITLES[name] for name in names], title=title, caption=f"{caption} {note}", xlabel="target position",
            ylabel="progress of training", value="accuracy",
        )  # fmt: skip
        return figure, long_table(cells, ("progress", "position"), "accuracy")

    return drawing


def draw_loss(evidence: Evidence, caption: str) -> Drawing:
    """Training loss against examples, and the loss of a model that knows nothing."""
    table = curve_table(evidence.curves, view(evidence), TITLES, "train_loss")
    level = uninformed_loss(SETTINGS[evidence.scale].position)
    figure = lines_figure(
        table, "examples", "model", title="Training loss in position retrieval", xlabel="training examples",
        caption=f"{caption} {ENDED} Grey: log(length) / 2 = {level:.2f}, the loss of a model that knows nothing.",
        ylabel="training loss in nats", logx=False, ylim=None,
    )  # fmt: skip
    figure.axes[0].axhline(level, color="#777777", linewidth=1)
    return figure, table


def _gates(evidence: Evidence) -> pd.DataFrame:
    """|tanh b| of each layer over training."""
    traces = stages.gates(evidence)
    wide = traces.pivot_table(index="examples", columns=["layer", "run"], values="gate").ffill()
    long = wide.T.reset_index().melt(["layer", "run"], var_name="examples", value_name="gate")
    return mean_and_range(long.assign(layer=[f"layer {n + 1}" for n in long["layer"]]), ["layer", "examples"], "gate")


def _studies(part: str, names: Sequence[str]) -> Callable[[Scale], list[Study]]:
    return lambda scale: studies(part, scale, "position", names)


def _by_position(
    name: str, title: str, shows: str, drawn: str, part: str, models: Sequence[str], claims: tuple[Claim, ...]
) -> Item:
    """An item that shows accuracy by target position."""
    return Item(
        name,
        title,
        shows,
        draw_positions(drawn, models),
        _studies(part, models),
        claims,
        differs("position"),
        ("slices",),
    )


FIG8 = _by_position(
    "fig8", "Position retrieval: accuracy by position", "SSMs learn the ends first, Transformers all at once",
    "Accuracy by target position", "position-four", ("RoPE", "M2", "HI-M2-1", "2S-M2"), stages.FIG8,
)  # fmt: skip
FIG13 = _by_position(
    "fig13", "Position retrieval: accuracy by position, interleaved", "N = 1 is learnt more suddenly, N > 1 like an SSM",
    "Accuracy by target position, interleaved N:1", "position-m2-blocks", M2_BLOCKS, stages.FIG13,
)  # fmt: skip
FIG19_RIGHT = _by_position(
    "fig19-right", "Position retrieval: accuracy by position, reverse gating", "reverse gating learns as other hybrids do",
    "Accuracy by target position, reverse two-stream", "position-gating", ("2S-M2", "2SR-M2"), stages.FIG19_RIGHT,
)  # fmt: skip
FIG17 = Item(
    "fig17",
    "Position retrieval: training loss",
    "SSMs leave the plateau of the uninformed loss first, Transformers late and suddenly",
    draw_loss,
    lambda scale: studies("position", scale, "position", families(scale)),
    stages.FIG17,
    differs("position", paper="NoPE is drawn too."),
    ("curves",),
)
_DRAW_GATES = lines(
    _gates, "examples", "layer", title="Gates of the two-stream model", xlabel="training examples", ylabel="|tanh b|",
    logx=False, ylim=None, note=ENDED,
)  # fmt: skip
FIG18 = Item(
    "fig18",
    "Position retrieval: gates",
    "deep layers fuse the two streams",
    _DRAW_GATES,
    _studies("position-gates", ("2S-M2",)),
    stages.FIG18,
    differs("position"),
    ("curves",),
)
