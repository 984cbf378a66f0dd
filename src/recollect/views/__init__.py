"""Interactive charts, one file each: frames in, a Plotly figure out. The report, the live page and notebooks draw the same."""

from typing import TYPE_CHECKING, Any

from recollect.spec.registry import Registry

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from recollect.views.base import Frames, View

VIEWS: "Registry[type[View]]" = Registry(
    "view",
    group="recollect.views",
    base="recollect.views.base:View",
    built_in={
        "window": "recollect.views.window:Window",
        "curves": "recollect.views.curves:Curves",
        "scaling": "recollect.views.scaling:Scaling",
        "heatmap": "recollect.views.heatmap:Heatmap",
        "tags": "recollect.views.tags:Tags",
        "parallel": "recollect.views.parallel:Parallel",
        "best_rate": "recollect.views.best_rate:BestRate",
        "mixing": "recollect.views.mixing:Mixing",
    },
)


def plot(name: str, frames: "Frames", *, title: str = "", theme: str = "light", **choices: Any) -> "go.Figure":
    """The figure of the view of this name; `choices` are those that the view offers for these frames."""
    return VIEWS.find(name)().figure(frames, title=title, theme=theme, **choices)
