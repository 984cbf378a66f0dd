"""Writes atlas.md and its picture from the table that ships with the package. `python docs/atlas.py`"""

from pathlib import Path

from recollect.figures.style import style
from recollect.probing.overview import markdown, state_figure
from recollect.probing.reference import read_table

PAGE = Path(__file__).with_name("atlas.md")
PICTURE = PAGE.parent / "pictures" / "atlas.png"
INTRODUCTION = """# The atlas: every mixer on a few recall tasks

What to expect of a mixer, and what to compare a new one with. Every mixer is trained alike: the same task, depth and width, a
grid of learning rates, two seeds. `recollect atlas` shows these tables in a terminal; `recollect atlas TASK --train` trains a
study of them, and `recollect atlas --to TABLE.csv` makes a table from a store. [`recollect probe`](mixer.md) puts a mixer of your
own beside the two studies `probe`.

- **Best accuracy** is the mean over seeds at the best rate. A run ends as soon as it recalls 99 % of its validation rows.
- **Window**: the decades of learning rate over which the mean reaches 95 %; `≥` where it goes on beyond the rates tried.
- **Sensitivity**: how much accuracy a rate drawn from 3e-4 to 1e-1 costs over the best one, on average.
- **Steps to 99 %**: mean over seeds, at the rate at which all seeds need the fewest steps.
- **State**: numbers that the model carries from token to token at the end of a row, all layers; attention's grows with the row.

The page is written by `python docs/atlas.py`.
"""


def page() -> str:
    """The whole page."""
    table = read_table()
    shown = (
        "\n![Accuracy at the best rate against the size of the state](pictures/atlas.png)\n" if _known(table) else ""
    )
    return f"{INTRODUCTION}{shown}\n{markdown()}"


def _known(table) -> bool:
    return bool(table["state_size"].notna().any())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    if _known(read_table()):
        with style():
            state_figure(read_table()).savefig(PICTURE, dpi=160)
