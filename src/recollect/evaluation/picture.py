"""Accuracy against length, and against the position in the answer and in the context."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from recollect.evaluation.score import Evaluation
from recollect.figures.looks import look
from recollect.figures.style import add_caption, new_figure, style

_AXES = {"token": "token of the answer", "tenth": "tenth of the context that has it"}
_PANELS = 2
"""The most tags that are drawn per task."""


def evaluation_figure(evaluation: Evaluation, title: str) -> Figure:
    """The accuracy of all tasks by length, and below it a row per task: accuracy by tag, a line per length."""
    tasks = list(dict.fromkeys(evaluation.accuracy["task"]))
    with style():
        figure = new_figure(8.0, 3.2 + 2.3 * len(tasks))
        grid = figure.add_gridspec(1 + len(tasks), _PANELS, height_ratios=[1.3, *[1.0] * len(tasks)])
        _lengths(figure.add_subplot(grid[0, :]), evaluation.accuracy, tasks)
        for row, task in enumerate(tasks, 1):
            points = evaluation.positions.query("task == @task")
            varying = [str(tag) for tag, own in points.groupby("tag", sort=False) if len(set(own["value"])) > 1]
            for column, tag in enumerate(varying[:_PANELS]):
                axes = figure.add_subplot(grid[row, column])
                _by_value(axes, points.query("tag == @tag"))
                axes.set(title=task, xlabel=_AXES.get(tag, tag), ylabel="tokens right", ylim=(-0.03, 1.03))
        figure.suptitle(title)
        add_caption(figure, _caption(evaluation.accuracy))
    return figure


def _lengths(axes, accuracy: pd.DataFrame, tasks: list[str]) -> None:
    for i, task in enumerate(tasks):
        of_task = look(i)
        curve = accuracy.query("task == @task").sort_values("length")
        axes.fill_between(curve["length"], curve["low"], curve["high"], color=of_task["color"], alpha=0.15, linewidth=0)
        axes.plot(curve["length"], curve["accuracy"], label=task, **of_task)
    lengths = sorted(set(accuracy["length"]))
    if 0 not in lengths:
        axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [str(length or "as trained") for length in lengths])
    axes.set(xlabel="length", ylabel="accuracy", ylim=(-0.03, 1.03))
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _by_value(axes, points: pd.DataFrame) -> None:
    for i, (length, curve) in enumerate(points.groupby("length")):
        of_length = {**look(i), "marker": "." if len(curve) < 40 else ""}
        axes.plot(curve["value"], curve["accuracy"], label=f"{length}" if length else "as trained", **of_length)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(title="length", fontsize=7.5, title_fontsize=7.5)


def _caption(accuracy: pd.DataFrame) -> str:
    first = accuracy.iloc[0]
    return (
        f"{first['model']}: {first['rows']} rows per point, written as {', '.join(accuracy['form'].unique())}, "
        f"{max(accuracy['shots'])} solved examples before each (needles: none). Top: answers right, averaged over the rows, with "
        "95 % interval. Below: single tokens, each after the right ones before it."
    )
