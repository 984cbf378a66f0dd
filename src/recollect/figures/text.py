"""Terminal output as a picture: a model's diagram, an example of a task."""

from matplotlib.figure import Figure
from rich.console import Console, RenderableType

from recollect.figures.style import add_caption, new_figure, style


def rendered(renderable: RenderableType) -> str:
    """What a rich renderable prints, without colours."""
    console = Console(width=100, color_system=None, force_terminal=False, highlight=False)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def text_figure(text: str, title: str, caption: str) -> Figure:
    """Fixed-width text as a picture."""
    lines = text.rstrip().splitlines()
    with style():
        figure = new_figure(max(6.4, 0.078 * max(map(len, lines)) + 0.4), 1.2 + 0.155 * len(lines))
        axes = figure.add_subplot()
        axes.set_axis_off()
        axes.set_title(title, fontsize=11)
        axes.text(0, 1, "\n".join(lines), family="monospace", fontsize=8.5, va="top", transform=axes.transAxes)
        add_caption(figure, caption)
    return figure
