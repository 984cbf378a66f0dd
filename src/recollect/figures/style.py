"""One look for every figure: colours that colour-blind readers can tell apart, and marks that survive a grey printer."""

import io
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

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


class Picture(Figure):
    """A figure that a notebook displays by itself."""

    def _repr_png_(self) -> bytes:
        drawn = io.BytesIO()
        self.savefig(drawn, format="png", dpi=110)
        return drawn.getvalue()


def new_figure(width: float = 7.0, height: float = 4.4) -> Picture:
    """A figure that needs no display."""
    figure = Picture(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def add_caption(figure: Figure, text: str) -> None:
    """Small print under the drawing."""
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(text, int(width * 17.5))
    figure.text(0.01, 0.01, "\n".join(lines), fontsize=7.5, color="#444444", va="bottom")
    share = 0.135 * (len(lines) + 0.6) / height
    figure.set_layout_engine("constrained", rect=(0, share, 1, 1 - share))


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write the figure as PNG and as SVG."""
    with output_errors(stem.parent):
        stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_suffix(ending) for ending in (".png", ".svg")]
    with written_whole(paths[0]) as draft:
        figure.savefig(draft, dpi=160)
    with written_whole(paths[1]) as draft:
        figure.savefig(draft, metadata={"Date": None})
    return paths
