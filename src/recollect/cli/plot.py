"""`recollect plot`: any number of a study against any of its fields, for a paper or a page."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from recollect.cli.app import app, console
from recollect.cli.options import DEFAULT_STORE, StoreOption, WhereOption
from recollect.spec import SpecError, nearest


@app.command()
def plot(
    study: Annotated[str, Argument(help="A study's name.")],
    x: Annotated[str, Option(help="A field or size: lr, width, layers, length, state_size, parameters, ..")] = "lr",
    y: Annotated[str, Option(help="accuracy, best_accuracy, best_step, seconds, final.loss, ..")] = "accuracy",
    lines: Annotated[str, Option(help="What lines stand for: configuration, mixer, width, ..")] = "configuration",
    where: WhereOption = None,
    title: Annotated[str, Option(help="Above the picture; left out: the study's name.")] = "",
    size: Annotated[str, Option(metavar="WxH", help="Inches, such as 7x4. Left out: as the lines need.")] = "",
    store: StoreOption = DEFAULT_STORE,
    to: Annotated[Path, Option(help="A .pdf, .svg, .png or (interactive) .html file.")] = Path("plot.pdf"),
) -> None:
    """Draw a number against a field: mean over runs, band from lowest to highest, each configuration at its best rate.

    recollect plot mine --x width --y accuracy --lines mixer --to fig.pdf
    """
    from recollect.analysis.columns import column
    from recollect.analysis.columns import where as chosen
    from recollect.figures.plot import ENDINGS, plot_figure, save_as
    from recollect.store.frames import runs_frame
    from recollect.store.store import Store

    if to.suffix not in (endings := (*ENDINGS, ".html")):
        raise SpecError(f"cannot draw {to.name!r}: {nearest(to.suffix, endings)}")
    runs = runs_frame(Store(store), study)
    runs = runs if runs.empty else chosen(runs, where or ())
    if to.suffix == ".html":
        from recollect.spec.output import written_whole
        from recollect.views import plot as interactive
        from recollect.views.base import Frames

        if runs.empty:
            raise SpecError("no runs to draw")
        x, y, lines = (column(runs, name) for name in (x, y, lines))
        chart = {"name": "window", "y": y} if x == "train.lr" else {"name": "scaling", "x": x, "y": y}
        with written_whole(to) as draft:
            interactive(**chart, frames=Frames(runs), title=title or study, lines=lines).write_html(draft)
    else:
        figure = plot_figure(runs, x, y, lines, title or study)
        if size:
            figure.set_size_inches(*_inches(size))
        save_as(figure, to)
    console.print(f"The picture: {to}")


def _inches(size: str) -> tuple[float, float]:
    try:
        width, height = (float(part) for part in size.lower().split("x"))
    except ValueError:
        raise SpecError(f"--size {size!r}: write WIDTHxHEIGHT in inches, such as 7x4") from None
    if not (1 <= width <= 50 and 1 <= height <= 50):
        raise SpecError(f"--size {size!r}: between 1 and 50 inches each")
    return width, height
