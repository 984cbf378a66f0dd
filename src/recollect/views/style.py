"""One look for every view, on light and on dark: colours belong to the mixer, as in the static figures."""

import html
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from recollect.figures.looks import ALL_COLOURS, WRITTEN, mixer_of
from recollect.spec import SpecError, nearest

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
MARKERS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star")
THEMES = {
    "light": {"text": "#1f2328", "soft": "#59636e", "line": "#d1d9e0", "back": "#ffffff", "panel": "#ffffff"},
    "dark": {"text": "#e6edf3", "soft": "#9198a1", "line": "#3d444d", "back": "#0d1117", "panel": "#151b23"},
}
SCALE = "Viridis"
FEW = 6
"""Bands above which they are fainter."""
DARKEST = 0.44
"""Luminance under which a colour is lightened on a dark page."""


def colours(theme: str) -> list[str]:
    """The palette; on dark, colours that would not be seen are lightened."""
    return [_lightened(colour) for colour in ALL_COLOURS] if theme == "dark" else list(ALL_COLOURS)


def looks(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The number of its `colour`, `dash`, `symbol` and `opacity` for each label. Lines of one mixer share its colour and differ
    in the rest; where a chart has a single mixer, its lines differ in colour."""
    names = list(dict.fromkeys(mixer_of(label) for label in labels))
    order = list(WRITTEN)
    number = {name: order.index(name) for name in names if name in order}
    free = (i for i in range(len(ALL_COLOURS) + len(names)) if i not in set(number.values()))
    number |= {name: next(free) for name in names if name not in number}
    seen: dict[str, int] = {}
    found = {}
    for i, label in enumerate(labels):
        k = seen[mixer_of(label)] = seen.get(mixer_of(label), -1) + 1
        colour = number[mixer_of(label)] + (i if len(names) == 1 else 0)
        look = {"dash": DASHES[k % len(DASHES)], "symbol": MARKERS[k % len(MARKERS)]}
        opacity = 1.0 if len(names) == 1 else max(0.7, 1 - 0.1 * k)
        found[label] = {"colour": colour % len(ALL_COLOURS), **look, "opacity": opacity}
    return found


def template(theme: str) -> dict[str, Any]:
    """Plotly's template: what all charts share, in the layout and in their traces."""
    tone = THEMES[theme]
    axis = {
        "gridcolor": tone["line"], "linecolor": tone["soft"], "zeroline": False, "ticks": "outside", "ticklen": 4,
        "tickcolor": tone["line"], "automargin": True, "title": {"standoff": 8}, "exponentformat": "power",
    }  # fmt: skip
    layout = {
        "font": {"family": FONT, "size": 13, "color": tone["text"]}, "paper_bgcolor": tone["panel"],
        "plot_bgcolor": tone["panel"], "colorway": colours(theme),
        "margin": {"l": 56, "r": 16, "t": 16, "b": 52}, "hovermode": "closest", "autosize": True,
        "shapedefaults": {"line": {"color": tone["soft"], "width": 1}, "layer": "below"},
        "hoverlabel": {"bgcolor": tone["back"], "bordercolor": tone["soft"], "align": "left",
                       "font": {"family": FONT, "size": 12, "color": tone["text"]}, "namelength": -1},
        "legend": {"font": {"size": 12}, "tracegroupgap": 0, "itemwidth": 30}, "xaxis": axis, "yaxis": axis,
    }  # fmt: skip
    bar = {"title": {"side": "right"}, "thickness": 12, "outlinewidth": 0}
    grid = {"colorscale": SCALE, "xgap": 1, "ygap": 1, "hoverongaps": False, "colorbar": bar}
    return {
        "layout": layout,
        "data": {"heatmap": [grid], "parcoords": [{"line": {"colorscale": SCALE}, "labelangle": 0}]},
    }


def set_theme(figure: go.Figure, theme: str, title: str = "") -> go.Figure:
    """The figure in a theme: everything that a view does not set itself, and its colours, which it gives as numbers."""
    if theme not in THEMES:
        raise SpecError(f"theme {theme!r}: {nearest(theme, THEMES)}")
    palette = colours(theme)
    figure.layout.template = template(theme)
    traces: Any = figure.data
    faint = 0.14 if sum(bool(trace.fill) for trace in traces if "fill" in trace) <= FEW else 0.07
    for trace in traces:
        if isinstance(trace.meta, dict) and "colour" in trace.meta:
            colour = palette[trace.meta["colour"]]
            if trace.fill:  # a band
                trace.fillcolor = "rgba({},{},{},{})".format(*_rgb(colour), faint)
            else:
                trace.update(line_color=colour, marker_color=colour)
    if title:
        figure.update_layout(
            title={"text": html.escape(title, quote=False), "x": 0.01, "font": {"size": 16}}, margin={"t": 48}
        )
    return figure


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _lightened(colour: str) -> str:
    """A colour mixed with white until it is light enough for a dark page."""
    rgb = [float(c) for c in _rgb(colour)]
    while (0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]) / 255 < DARKEST:
        rgb = [c + 0.1 * (255 - c) + 2 for c in rgb]
    return "#" + "".join(f"{min(255, round(c)):02x}" for c in rgb)
