"""A mixer is developed in a notebook: a class in a cell, a sweep beside built-in mixers, progress, a table and a picture."""

import nbformat
import pytest
from nbclient import NotebookClient

CELLS = [
    """
import numpy as np
from torch import nn
from recollect import Study
from recollect.tasks import MQAR

SHIFT = 1
""",
    """
def before(x):
    return nn.functional.pad(x, (0, 0, SHIFT, -SHIFT))


class Shifted(nn.Module):
    def __init__(self, width, *, gain: float = 1.0):
        super().__init__()
        self.out = nn.Linear(width, width)
        self.gain = gain

    def forward(self, x):
        return self.out((x * before(x)).cumsum(1)) * self.gain
""",
    """
study = Study(
    task=MQAR(length=16, pairs=2, vocab=32), model={"mixer": [Shifted, "attention", "deltanet"], "width": 16, "layers": 1},
    lr=np.logspace(-3, -1, 3), train={"steps": 20, "batch": 8, "eval_every": 5, "eval_rows": 16, "test_rows": 32},
)
outcome = study.run(device="cpu", workers=2)
""",
    "outcome",
    "outcome.plot()",
    "assert set(outcome.results()['configuration']) == {'Shifted', 'attention', 'deltanet'}\nlen(outcome.results())",
    "SHIFT = 2\nassert study.changed(model={'mixer': Shifted}).runs()[0].id != study.runs()[0].id",
]


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source.strip()) for source in CELLS])
    folder = tmp_path_factory.mktemp("notebook")
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return notebook.cells


def shown(cell, kind: str) -> list[str]:
    return [output["data"][kind] for output in cell.outputs if kind in output.get("data", {})]


def test_training_shows_progress(cells):
    (bar,) = shown(cells[2], "text/html")
    assert "<progress" in bar
    assert "9 of 9 runs" in bar
    assert "100% of the work" in bar


def test_a_result_shows_as_a_table(cells):
    (table,) = shown(cells[3], "text/html")
    assert "<table" in table
    assert all(name in table for name in ("Shifted", "attention", "deltanet", "best_lr"))


def test_a_plot_shows_as_a_picture(cells):
    (figure,) = shown(cells[4], "application/vnd.plotly.v1+json")
    assert len(figure["data"]) >= 3
    assert shown(cells[5], "text/plain") == ["9"]
