"""Figure 6: loss and accuracy of one-layer models over training.

The text says that Mamba's loss has a bump, as attention's has; the caption calls Mamba's dynamics smooth. Both are judged.
A *sudden change* is a bump, or a fall after a plateau, as `analysis.dynamics` defines them; a curve without either is smooth.
"""

import numpy as np
import pandas as pd

from recollect.analysis.dynamics import dynamics
from recollect.analysis.rates import at_best_rate
from recollect.analysis.window import THRESHOLD
from recollect.figures.panels import lines_figure, mean_and_range
from recollect.papers.estimates import Estimate, NotEnough, mean_of, share_of
from recollect.papers.item import Drawing, Item
from recollect.papers.judge import Claim, Evidence, Scale, claim, claims
from recollect.papers.okpekpe2025.cells import pairs, printed
from recollect.papers.okpekpe2025.settings import MAIN, SETTINGS, SIX_RATES, WIDTHS, differs, rates_at, study
from recollect.papers.okpekpe2025.widths import ONE_PAIR
from recollect.papers.questions import Finding, all_of, at_least, at_most, few, most
from recollect.study.spec import Study

SHOWN = [*MAIN, "h3", "rwkv"]
"""The figure's models, and two that an earlier version names; `medium` has the figure's."""
_OWN = printed((256, 16))
SMOOTH = {"mamba": "(caption) ", "hyena": "", "h3": "(earlier version) ", "rwkv": "(earlier version) "}
"""The models whose loss is called smooth, and where; nothing: in the text."""
TOGETHER = 0.9
"""The least rank correlation, over training, of accuracy with the negative of the loss where the two move together."""


def studies(scale: Scale) -> list[Study]:
    """The one-layer models of Figure 3 at (256, 16), which the short version names."""
    if scale == "medium":  # the widths that the figure shows, and the rates around the best
        parts = {"attention": (256, rates_at(5, 7)), "mamba": (64, rates_at(8, 9, 10)), "hyena": (512, rates_at(7))}
        return [
            study(f"dynamics-{mixer}", scale, [mixer], width, 1, [(256, 16)], rates=rates)
            for mixer, (width, rates) in parts.items()
        ]
    setting = [(256, 16)] if scale == "paper" else SETTINGS[scale]
    rates = SIX_RATES if scale == "tiny" else None
    return [study("dynamics", scale, SHOWN, WIDTHS[scale], 1, setting, rates=rates)]


def chosen(evidence: Evidence, name: str) -> pd.DataFrame:
    """The runs that are drawn: the smallest width that solves (attention: the largest), at its best rate."""
    runs = evidence.where(model=name)
    table = at_best_rate(runs, ["model", "model.width"])
    solving = table.loc[table["accuracy"] >= THRESHOLD, "model.width"]
    width = table["model.width"].max() if name == "attention" or solving.empty else solving.min()
    lr = table.loc[table["model.width"] == width, "lr"].iloc[0]
    return runs.loc[(runs["model.width"] == width) & (runs["train.lr"] == lr)]


def draw(evidence: Evidence, caption: str) -> Drawing:
    """Loss and accuracy against epoch or step, training and validation, a panel per model and measure."""
    curves, x = pd.DataFrame(columns=["panel", "step", "line", "value"]), "step"
    if len(evidence.runs) and len(evidence.curves):
        curves = pd.concat(_long(evidence, name) for name in SHOWN if name in set(evidence.runs["model"]))
        epochs = evidence.runs["train.epochs"].to_numpy(float).max() if "train.epochs" in evidence.runs else 0
        if epochs:
            x, per_epoch = "epoch", evidence.runs["step"].max() / epochs
            curves = curves.assign(epoch=curves["step"] / per_epoch)
    table = mean_and_range(curves, ["panel", "line", x], "value")
    figure = lines_figure(
        table, x, "line", "panel", title="Training of 1-layer models", caption=caption, xlabel=x,
        ylabel=("loss, nats", "accuracy"), logx=False, columns=2, sharey="col", ylim=None,
    )  # fmt: skip
    return figure, table


def _long(evidence: Evidence, name: str) -> pd.DataFrame:
    runs = chosen(evidence, name)
    curves = evidence.curves.loc[evidence.curves["run"].isin(runs["id"])]
    head = f"{name} (width {runs['model.width'].iloc[0]})"
    parts = [
        curves.assign(panel=f"{head}: {what}", line=kind, value=curves[column])
        for what, columns in (("loss", ("train_loss", "test_loss")), ("accuracy", ("train_accuracy", "accuracy")))
        for kind, column in zip(("training", "validation"), columns, strict=True)
    ]
    return pd.DataFrame(pd.concat(parts), columns=["run", "panel", "line", "step", "value"])


def _curves(evidence: Evidence, name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The runs that are drawn, and their curves."""
    runs, curves = evidence.whole(chosen(evidence, name)), evidence.curves
    if curves.empty or not set(runs["id"]) <= set(curves["run"]):
        raise NotEnough(f"no curves of {name}")
    return runs, curves.loc[curves["run"].isin(runs["id"])]


def _found(evidence: Evidence, name: str) -> tuple[Estimate, Estimate, Estimate, int]:
    """The share of seeds whose loss changes suddenly, and the share in which accuracy moved with it; the accuracy in the end; and
    how many pairs the task has."""
    runs, curves = _curves(evidence, name)
    rows = dynamics(curves)
    sudden, moved = rows[["bump_share", "transition_share"]].notna(), rows[["bump_moved", "transition_moved"]]
    return (
        share_of(map(any, sudden.to_numpy()), f"{name}: seeds with a sudden change"),
        share_of(map(any, moved.to_numpy()), f"{name}: seeds in which accuracy moved"),
        evidence.best(runs, f"{name}: accuracy"),
        pairs(runs),
    )


def _bump_without_accuracy(evidence: Evidence) -> Finding:
    sudden, moved, accuracy, pairs = _found(evidence, "attention")
    return all_of(most(sudden), few(moved), at_most(accuracy, ONE_PAIR[1] / pairs))


def _bump_and_accuracy(evidence: Evidence) -> Finding:
    sudden, moved, accuracy, _ = _found(evidence, "mamba")
    return all_of(most(sudden), most(moved), at_least(accuracy, THRESHOLD))


@claim("attention-does-not-fit", _OWN)
def _does_not_fit(evidence: Evidence) -> Finding:
    """1-layer attention does not fit its training rows: at the end it recalls at most {ONE_PAIR[1]:g} pairs of K on them"""
    runs, curves = _curves(evidence, "attention")
    last = curves.sort_values("step").drop_duplicates("run", keep="last")
    return at_most(mean_of(last["train_accuracy"], "attention: accuracy on training rows"), ONE_PAIR[1] / pairs(runs))


@claims("{name}-smooth", SMOOTH, _OWN)
def _smooth(name: str, evidence: Evidence) -> Finding:
    """{words}1-layer {name}'s validation loss has no sudden change in most seeds, and accuracy ends at {THRESHOLD} or more"""
    sudden, _, accuracy, _ = _found(evidence, name)
    return all_of(few(sudden), at_least(accuracy, THRESHOLD))


@claim("hyena-loss-with-accuracy", _OWN)
def _together(evidence: Evidence) -> Finding:
    """1-layer Hyena's accuracy rises as its validation loss falls: their rank correlation over training is at least
    {TOGETHER}, but for the sign"""
    _, curves = _curves(evidence, "hyena")
    ranks = [
        -float(np.corrcoef(curve[["test_loss", "accuracy"]].rank().to_numpy(float), rowvar=False)[0, 1])
        for _, curve in curves.dropna(subset=["test_loss", "accuracy"]).groupby("run", sort=False)
    ]
    return at_least(mean_of(ranks, "hyena: rank correlation of accuracy with the falling loss"), TOGETHER)


_WIDTH = "Smallest width that solves; where none does, the largest."
FIG6 = Item(
    "fig6", "Training dynamics of one-layer models",
    "attention's loss changes suddenly without a gain in accuracy; Hyena's falls smoothly", draw, studies,
    (
        Claim("attention-bump-without-accuracy", "1-layer attention's validation loss changes suddenly (a bump, or a fall after "
              f"a plateau) in most seeds, accuracy does not move with it in most, and ends at no more than {ONE_PAIR[1]:g} pairs "
              "of K", _bump_without_accuracy, _OWN),
        _does_not_fit,
        Claim("mamba-bump-and-accuracy", "(text) 1-layer Mamba's validation loss changes suddenly in most seeds, accuracy moves "
              f"with it in most, and ends at {THRESHOLD} or more", _bump_and_accuracy, _OWN),
        *_smooth, _together,
    ),
    differs(
        "(256, 16) by the short version; width: the smallest that solves, for attention the largest.", tiny=_WIDTH, small=_WIDTH,
        medium="MQAR (256, 16) in this item; attention of width 256, Mamba of 64, Hyena of 512, 1 to 3 rates each.",
    ),
    needs=("curves",),
)  # fmt: skip
