"""The notebook examples/quickstart.ipynb runs from top to bottom, and shows what it says it shows."""

import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "examples" / "quickstart.ipynb"


def shown(cell, kind: str) -> list:
    return [output["data"][kind] for output in cell.get("outputs", []) if kind in output.get("data", {})]


@pytest.mark.long
def test_the_notebook_runs_and_shows_tables_and_charts(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(tmp_path)}}).execute()
    by_start = {cell.source.partition("\n")[0].partition("  #")[0]: cell for cell in notebook.cells}
    assert all("best_lr" in table for table in shown(by_start["outcome"], "text/html"))
    for start in (
        "outcome.plot()",
        'outcome.plot("curves")',
        'outcome.plot("scaling", x="state_size")',
        "compared.plot()",
    ):
        (figure,) = shown(by_start[start], "application/vnd.plotly.v1+json")
        assert figure["data"]
    assert shown(by_start["outcome.picture()"], "image/png")
    *_, table = shown(by_start["import torch"], "text/html")
    assert "RunningProduct" in table
    assert "12 of them done before" in table
    assert (tmp_path / "quickstart.html").exists()


def test_the_notebook_is_kept_with_what_it_shows():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not [output for cell in cells for output in cell.outputs if output.output_type == "error"]
    assert sum(bool(shown(cell, "application/vnd.plotly.v1+json")) for cell in cells) == 4
