"""Pictures with few and with many lines: each can be distinguished, belongs to its mixer, and leaves room for the axes."""

import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from recollect.figures.looks import WRITTEN, look, looks, written
from recollect.figures.panels import lines_figure, mean_and_range
from recollect.figures.style import COLUMNS, add_caption, new_figure, save
from recollect.figures.tables import table_figure
from recollect.figures.window import window_caption, window_figure
from recollect.mixers import MIXERS
from recollect.spec import SpecError

LONG = "attention with a convolution on k, four heads and rotary positions, width"
LABELS = [*WRITTEN, LONG + " 64", LONG + " 128", "own"]


def runs(labels: list[str]) -> pd.DataFrame:
    rates = np.logspace(-5, -1, 9)
    rows = [
        (label, lr, seed, 0.99 if 1e-4 < lr < 1e-2 else 0.1 * seed)
        for label in labels
        for lr in rates
        for seed in (1, 2)
    ]
    return pd.DataFrame(rows, columns=["configuration", "train.lr", "train.seed", "accuracy"])


def test_every_built_in_mixer_is_written_as_people_write_it():
    assert set(WRITTEN) == set(MIXERS)
    assert [written(x) for x in ("mamba2, width 64", "mamba", "RoPE", "own.py:Own")] == [
        "Mamba-2, width 64", "Mamba", "RoPE", "own.py:Own"]  # fmt: skip


def test_a_look_belongs_to_the_mixer_and_no_two_lines_have_the_same():
    alone, among = looks(["mamba"]), looks(["attention, width 64", "attention, width 128", "own", "mamba"])
    assert alone["mamba"] == among["mamba"] == look(list(WRITTEN).index("mamba"))
    assert among["attention, width 64"] == look(0) != among["attention, width 128"]
    seen = [tuple(map(str, one.values())) for one in looks([str(i) for i in range(56)]).values()]
    assert len(set(seen)) == 56
    assert len({look(i)["color"] for i in range(len(WRITTEN))}) == len(WRITTEN)
    assert len({(look(i)["marker"], str(look(i)["linestyle"])) for i in range(56)}) == 56, "they differ in grey"


@pytest.mark.parametrize("count", [1, 4, 9, 12, 20])
@pytest.mark.parametrize("kind", ["window", "lines"])
def test_axes_keep_their_room_beside_the_legend(kind, count):
    frame = runs(LABELS[-count:])
    if kind == "window":
        figure = window_figure(frame, "title", "caption " * 30)
    else:
        table = mean_and_range(frame, ["configuration", "train.lr"])
        figure = lines_figure(table, "train.lr", "configuration", title="t", caption="c " * 90, xlabel="learning rate")
    figure.canvas.draw()
    axes, page = figure.axes[0], figure.bbox
    shown = axes.get_legend()
    assert shown is not None
    assert len(shown.get_texts()) == count
    box, legend = axes.get_window_extent(), shown.get_window_extent()
    assert box.width > (0.8 if kind == "window" else 0.45) * page.width
    assert box.height > 0.35 * page.height
    assert not box.overlaps(legend)
    assert legend.x0 >= 0
    assert legend.x1 <= page.width + 1
    assert legend.y0 >= 0


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("kind", ["window", "lines"])
@pytest.mark.parametrize("labels", [LABELS[:9], LABELS[-9:]], ids=["short", "long"])
def test_figures_for_a_page_have_its_width_and_legible_text(labels, kind, columns, tmp_path):
    frame = runs(labels)
    table = mean_and_range(frame, ["configuration", "train.lr"])
    figure = (
        window_figure(frame, "title", "caption " * 30)
        if kind == "window"
        else lines_figure(table, "train.lr", "configuration", title="t", caption="c " * 90, xlabel="learning rate")
    )
    paths = save(figure, tmp_path / "a.b", ("pdf", "png"), columns)
    assert [path.name for path in paths] == ["a.b.pdf", "a.b.png"]
    assert all(path.stat().st_size > 1000 for path in paths)
    assert figure.get_size_inches()[0] == pytest.approx(COLUMNS[columns])
    assert not any("caption" in text.get_text() or "title" in text.get_text() for text in figure.texts)
    axes = figure.axes[0]
    shown = axes.get_legend() or figure.legends[0]
    assert len(shown.get_texts()) == 9
    assert min(text.get_fontsize() for text in shown.get_texts()) >= 5.5
    assert not axes.get_window_extent().overlaps(shown.get_window_extent())
    assert shown.get_window_extent().x0 >= 0
    assert shown.get_window_extent().x1 <= figure.bbox.width + 1
    assert not shown.get_frame_on()
    assert axes.get_window_extent().width > 0.45 * figure.bbox.width


def test_rates_of_others_do_not_stretch_the_picture():
    frame = runs(["mamba"])
    frame = frame[frame["train.lr"] >= 1e-3].assign(**{"step": 1, "task.kind": "mqar", "model.width": 8})
    frame = frame.assign(**{"model.layers": 1, "train.batch": 8})
    (axes,) = window_figure(frame, "title", "caption").axes
    assert axes.get_xlim()[0] > 5e-4
    assert "dotted: 2 of the four rates of Zoology" in window_caption(frame)
    assert "dotted" not in window_caption(frame[frame["train.lr"] > 0.02])
    assert "rates x 1 seed per model" in window_caption(frame[frame["train.seed"] == frame["train.seed"].min()])
    assert "(s)" not in window_caption(frame)


def test_unknown_formats_and_columns_are_refused(tmp_path):
    figure = window_figure(runs(["mamba"]), "title", "caption")
    with pytest.raises(SpecError, match="no format jpg: choose from png, svg, pdf"):
        save(figure, tmp_path / "a", ("jpg",))
    with pytest.raises(SpecError, match="columns 3"):
        save(figure, tmp_path / "a", columns=3)


@pytest.mark.parametrize("count", [1, 4, 9, 12, 20])
def test_nothing_is_drawn_over_the_small_print_or_cut_off(count):
    table = mean_and_range(runs(LABELS[:count]), ["configuration", "train.lr"])
    table = pd.concat([table.assign(panel=f"panel {i}") for i in range(4)])
    figure = lines_figure(
        table, "train.lr", "configuration", "panel", title="t", caption="long caption " * 40, xlabel="learning rate"
    )
    figure.canvas.draw()
    (caption,) = figure.texts[-1:]
    visible = [axes for axes in figure.axes if axes.get_visible()]
    boxes = [axes.get_tightbbox() for axes in visible]
    assert all(box is not None and not box.overlaps(caption.get_window_extent()) for box in boxes)
    assert all(box is not None and box.x1 <= figure.bbox.width + 1 for box in boxes)
    insides = [axes.get_window_extent() for axes in visible]
    assert not any(a.overlaps(b) for i, a in enumerate(insides) for b in insides[:i])


@pytest.mark.parametrize(
    "values", [[1400, 2408, 14816, 20512, 27520], [622336, 671872, 2_646_016], [50, 62, 75, 87, 100, 150, 200]]
)
def test_labels_of_an_axis_do_not_touch(values):
    rows = [(panel, x, "mamba", 0.5, 0.4, 0.6) for panel in ("one layer", "two layers") for x in values]
    table = pd.DataFrame(rows, columns=["panel", "x", "model", "mean", "low", "high"])
    figure = lines_figure(table, "x", "model", "panel", title="t", caption="c", xlabel="x", logx=values[0] > 1000)
    figure.canvas.draw()
    for axes in figure.axes:
        boxes = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
        assert len(boxes) > 1
        assert not any(one.overlaps(other) for one, other in pairwise(boxes))


def test_small_print_keeps_a_number_and_its_percent_sign_together():
    for filling in range(60):
        (small_print,) = window_figure(runs(["mamba"]), "t", "n" * filling + " to 99 % and more " * 20).texts[-1:]
        assert "\n%" not in small_print.get_text()


def test_a_caption_of_wide_letters_stays_within_the_figure():
    figure = new_figure(7.2, 4.0)
    add_caption(figure, "MW 88888888 (0.94), " * 12)
    (caption,) = figure.texts
    assert caption.get_window_extent().x1 <= figure.bbox.x1


def test_a_drawn_table_has_large_numbers_in_full_and_says_never():
    rows = pd.DataFrame({"model": ["a", "b"], "examples": [54_400.0, math.inf], "share": [0.12345, math.nan]})
    (axes,) = table_figure(rows, "title", "caption").axes
    cells = {cell.get_text().get_text() for table in axes.tables for cell in table.get_celld().values()}
    assert {"54,400", "never", "0.123", "-"} <= cells
