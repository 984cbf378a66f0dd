"""Accuracy against learning rate, with each model's window shaded (the first figure of Okpekpe & Orvieto)."""

import textwrap

import numpy as np
import pandas as pd

from recollect.analysis.window import THRESHOLD, ZOOLOGY_RATES, windows
from recollect.figures.looks import looks, written
from recollect.figures.style import Picture, add_caption, new_figure, style

FEW = 4
"""The most models whose windows are shaded behind the curves as well; more would hide each other."""
LONG = 80
"""The most characters in a line of the legend; labels of at most half as many are in two columns."""


def window_figure(frame: pd.DataFrame, title: str, caption: str, threshold: float = THRESHOLD) -> Picture:
    """Draw runs as `runs_frame` gives them: one line per configuration, mean and band from lowest to highest seed, windows at
    the threshold as bars under the curves."""
    found = windows(frame, threshold=threshold, resamples=1).set_index("configuration").to_dict("index")
    models = list(dict.fromkeys(frame["configuration"]))
    labels = [textwrap.fill(_label(model, found[model]), LONG) for model in models]
    columns = 2 if len(models) > 1 and max(map(len, labels)) <= LONG // 2 else 1
    lines = sum(label.count("\n") + 1 for label in labels) / columns
    with style():
        figure = new_figure(7.2, 4.0 + 0.08 * len(models) + 0.19 * lines)
        axes = figure.add_subplot()
        for i, (model, look) in enumerate(looks(models).items()):
            curve = frame[frame["configuration"] == model].groupby("train.lr")["accuracy"].agg(["min", "mean", "max"])
            rates, low, mean, high = curve.reset_index().to_numpy(float).T
            axes.fill_between(rates, low, high, color=look["color"], alpha=0.15, linewidth=0)
            axes.plot(rates, mean, label=labels[i], **look)
            if found[model]["decades"] > 0:
                edges = found[model]["low"], found[model]["high"]
                if len(models) <= FEW:
                    axes.axvspan(*edges, color=look["color"], alpha=0.07, linewidth=0)
                y = -0.06 - 0.045 * i  # the windows as bars under the curves, so that overlaps stay visible
                axes.plot(edges, (y, y), color=look["color"], linewidth=5, solid_capstyle="butt", alpha=0.9)
        for rate in _zoology_rates(frame):
            axes.axvline(rate, color="#555555", linestyle=(0, (2, 3)), linewidth=1, zorder=0)
        axes.axhline(threshold, color="#999999", linewidth=0.8, zorder=0)
        if any(one["decades"] > 0 for one in found.values()):
            axes.text(0.005, 0.01, "windows", fontsize=8, color="#555555", transform=axes.transAxes)
        axes.set(xscale="log", xlabel="learning rate", ylabel="accuracy")
        figure.suptitle(title)
        axes.set_ylim(-0.06 - 0.045 * len(models), 1.03)
        axes.set_yticks(np.linspace(0, 1, 6))
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=columns, fontsize=9)
        add_caption(figure, caption)
    return figure


def _label(model: str, found: dict) -> str:
    model = written(model)
    if found["decades"] == 0:
        return f"{model}: no window (best {found['best']:.2f})"
    at_least = "≥\u00a0" if found["open_low"] or found["open_high"] else ""
    return f"{model}: {at_least}{found['decades']:.2f} decades"


def window_caption(frame: pd.DataFrame, threshold: float = THRESHOLD) -> str:
    """What the figure of these runs shows and at which scale; the threshold is the one it was drawn with."""

    def values(column: str) -> str:
        return ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in sorted(frame[column].unique()))

    def count(number: int, what: str) -> str:
        return f"{number} {what}{'s' * (number != 1)}"

    rates, seeds = (len(frame[name].unique()) for name in ("train.lr", "train.seed"))
    each = f"{count(rates, 'rate')} x {count(seeds, 'seed')} per model"
    size, layers = f"{count(len(frame), 'run')}: {each}", values("model.layers")
    setting = f"width {values('model.width')}, {layers} layer{'s' * (layers != '1')}, batch {values('train.batch')}"
    return (
        f"{size}; task {values('task.kind')}, {setting}, at most {frame['step'].max()} steps. Line: mean over seeds; "
        f"band: lowest to highest seed; shaded and bars: accuracy at least {threshold:g}{_dotted(frame)}."
    )


def _zoology_rates(frame: pd.DataFrame) -> list[float]:
    """The rates of Zoology between those that were tried; others would stretch the axis over an empty picture."""
    rates = frame["train.lr"].to_numpy(float)
    return [rate for rate in ZOOLOGY_RATES if rates.min() * 0.99 <= rate <= rates.max() * 1.01]


def _dotted(frame: pd.DataFrame) -> str:
    within = len(_zoology_rates(frame))
    which = "the four rates" if within == len(ZOOLOGY_RATES) else f"{within} of the four rates"
    return f"; dotted: {which} of Zoology" if within else ""
