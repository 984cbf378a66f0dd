"""Writes atlas.md and its picture from the table that ships with the package. `python docs/atlas.py`"""

from pathlib import Path

from recollect.figures.style import style
from recollect.probing.overview import markdown, state_figure
from recollect.probing.reference import read_table

PAGE = Path(__file__).with_name("atlas.md")
PICTURE = PAGE.parent / "pictures" / "atlas.png"
INTRODUCTION = """# The atlas: mixers on a few recall tasks

**What can you expect of a mixer, and what should a new one be compared with?** All mixers of a table are trained alike: the same
task, depth, width, learning rates and seeds. A mixer that is not in a table has not been trained there yet.

`recollect atlas` prints these tables, `recollect atlas TASK --train` trains a study of them, and `recollect atlas --to TABLE.csv`
makes a table from a store. [`recollect probe`](mixer.md) compares a mixer of your own with the two studies `probe`.

| column | meaning |
|---|---|
| best accuracy | the mean over seeds at the best rate; a run ends as soon as it recalls 99% of its validation rows |
| window | the decades of learning rates over which the mean reaches 95%; `≥` if it continues beyond the rates tried |
| sensitivity | the accuracy lost on average at a rate drawn from 3e-4 to 1e-1, compared with the best one |
| steps to 99 % | the mean over seeds, at the rate at which all seeds need the fewest steps |
| state | numbers that the model carries from token to token at the end of a row, in all layers; attention's grows with the row |

`python docs/atlas.py` writes this page from the table that ships with recollect.
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
