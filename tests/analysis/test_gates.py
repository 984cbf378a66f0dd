"""Gates over training."""

import numpy as np
import pandas as pd
import pytest

from recollect.analysis.gates import fusion, gate_traces

CURVES = pd.DataFrame(
    {"run": ["a"] * 2 + ["b"], "step": [10, 20, 10], "examples": [640, 1280, 640], "accuracy": [0.1, 0.2, 0.3],
     "gate.0": [0.1, 0.0, 0.5], "gate.1": [0.2, 0.1, 0.4], "gate.2": [0.3, 0.5, np.nan], "gate.3": [0.4, 0.7, np.nan]}
)  # fmt: skip


def test_traces_by_layer():
    traces = gate_traces(CURVES)
    assert len(traces) == 10, "a model of two layers has two gates"
    first = traces[(traces["run"] == "a") & (traces["layer"] == 3)]
    assert list(first["gate"]) == [0.4, 0.7]
    assert list(first["progress"]) == [0.5, 1.0]
    assert list(first["examples"]) == [640, 1280]


def test_deep_layers_fuse_or_do_not():
    found = fusion(gate_traces(CURVES)).set_index("run")
    assert found.loc["a"].tolist() == [pytest.approx(0.05), pytest.approx(0.6)]
    assert found.loc["b"].tolist() == [0.5, 0.4]
