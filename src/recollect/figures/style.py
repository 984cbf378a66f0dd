"""One look for every figure: colours that colour-blind readers can distinguish, and marks that survive a grey printer."""

import io
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from recollect.spec import SpecError
from recollect.spec.output import output_errors, written_whole


@contextmanager
def style() -> Iterator[None]:
    """A context in which figures are drawn in this style."""
    settings = {
        "font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25,
        "grid.linewidth": 0.6, "lines.linewidth": 1.8, "lines.markersize": 5, "legend.frameon": False,
        "svg.hashsalt": "recollect", "svg.fonttype": "none",
    }  # fmt: skip
    with matplotlib.rc_context(settings):  # pyright: ignore[reportArgumentType]
        yield


CAPTION = "caption"
"""Marks the caption in a figure."""
FORMATS: dict[str, dict[str, Any]] = {
    "png": {"dpi": 160}, "svg": {"metadata": {"Date": None}}, "pdf": {"metadata": {"CreationDate": None}},
}  # fmt: skip
"""With what `savefig` takes for each, so that the same figure is the same file."""
COLUMNS = {1: 3.35, 2: 6.9}
"""Inches of one and of two columns of a page."""
LONG = 52
"""The most characters in a line of a legend that is as wide as one column."""


class Picture(Figure):
    """A figure that a notebook displays by itself."""

    def _repr_png_(self) -> bytes:
        drawn = io.BytesIO()
        self.savefig(drawn, format="png", dpi=110)
        return drawn.getvalue()


def new_figure(width: float = 7.0, height: float = 4.4) -> Picture:
    """A figure that needs no display, with the resolution that it is saved with, so that text is measured as it will be."""
    figure = Picture(figsize=(width, height), layout="constrained", dpi=FORMATS["png"]["dpi"])
    FigureCanvasAgg(figure)
    return figure


def add_caption(figure: Figure, text: str) -> None:
    """The caption under the drawing."""
    width, height = figure.get_size_inches()
    text, letters = text.replace(" %", "\u00a0%"), int(width * 17.5)
    drawn = figure.text(0.01, 0.01, "", fontsize=7.5, color="#444444", va="bottom", gid=CAPTION)
    while letters > 1:
        lines = textwrap.wrap(text, letters)
        drawn.set_text("\n".join(lines))
        if drawn.get_window_extent().x1 <= figure.bbox.x1:
            break
        letters -= 1  # a line of wide letters, such as digits
    share = 0.135 * (len(lines) + 0.6) / height
    figure.set_layout_engine("constrained", rect=(0, share, 1, 1 - share))


def save(figure: Figure, stem: Path, formats: Sequence[str] = ("png", "svg"), columns: int = 0) -> list[Path]:
    """Write the figure in these formats. `columns`: fitted to one or two columns of a page (`fit`)."""
    check_formats(formats)
    with output_errors(stem.parent):
        stem.parent.mkdir(parents=True, exist_ok=True)
    if columns:
        fit(figure, columns)
    paths = [stem.with_name(f"{stem.name}.{ending}") for ending in formats]
    show_text(figure)
    for path, ending in zip(paths, formats, strict=True):
        with written_whole(path) as draft:
            figure.savefig(draft, **FORMATS[ending])
    return paths


def check_formats(formats: Sequence[str]) -> None:
    """Refuse a format in which no picture can be written."""
    if wrong := [one for one in formats if one not in FORMATS]:
        raise SpecError(f"no format {', '.join(wrong)}: choose from {', '.join(FORMATS)}")


def show_text(figure: Figure) -> None:
    """Have names with dollar signs shown as they are, and not read as formulas; the labels of ticks stay what they are."""
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if "$" in text.get_text() and not text.get_text().startswith("$\\mathdefault{"):
            text.set_parse_math(False)


def fit(figure: Figure, columns: int) -> None:
    """Make a figure as wide as one or two columns of a page, without its title and caption, which a page's own caption has.

    Text and lines shrink less than the figure, text to 7 points or so. In one column legends stand under the drawing.
    """
    if columns not in COLUMNS:
        raise SpecError(f"columns {columns}: a page has 1 or 2")
    width, height = figure.get_size_inches()
    share = COLUMNS[columns] / width
    for text in [text for text in figure.texts if text.get_gid() == CAPTION]:
        height -= 0.135 * (text.get_text().count("\n") + 1.6)
        text.remove()
    figure.suptitle("")
    for text in figure.findobj(Text):
        text.set_fontsize(text.get_fontsize() * min(1.0, max(share, 0.7)))  # pyright: ignore
    for line in figure.findobj(Line2D):
        line.set(linewidth=line.get_linewidth() * min(1, share), markersize=line.get_markersize() * min(1, share))  # pyright: ignore
    figure.set_size_inches(COLUMNS[columns], height * max(share, 0.55))
    figure.set_layout_engine("constrained", rect=(0, 0, 1, 1))
    if columns == 1:
        _legends_below(figure)


def _legends_below(figure: Figure) -> None:
    """Put the legends of panels under all of them, and make the figure taller by as much."""
    for axes in figure.axes:
        legend = axes.get_legend()
        if legend is None:
            continue
        labels = [_wrapped(text.get_text()) for text in legend.get_texts()]
        handles = [handle for handle in legend.legend_handles if handle]
        legend.remove()
        side_by_side = 2 if max(map(len, labels)) <= 24 else 1
        rows = sum(label.count("\n") + 1 for label in labels) / side_by_side
        figure.set_size_inches(COLUMNS[1], figure.get_size_inches()[1] + 0.13 * rows)
        figure.legend(handles, labels, loc="outside lower center", ncols=side_by_side, fontsize=6.5, frameon=False)


def _wrapped(label: str) -> str:
    return "\n".join(part for line in label.split("\n") for part in textwrap.wrap(line, LONG))
