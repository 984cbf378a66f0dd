"""The gates of two-stream models over training: |tanh b| of each layer (Pantazopoulos et al., figure 18)."""

import pandas as pd


def gate_traces(curves: pd.DataFrame) -> pd.DataFrame:
    """One row per run, measurement and layer (from 0): `step`, `examples`, `progress` in (0, 1] and `gate`, its size."""
    columns = [name for name in curves if str(name).startswith("gate.")]
    long = curves.melt(["run", "step", "examples"], columns, "layer", "gate").dropna(subset="gate")
    long["layer"] = long["layer"].str.removeprefix("gate.").astype(int)
    long["progress"] = long["step"] / long.groupby("run")["step"].transform("max")
    return long.sort_values(["run", "step", "layer"], ignore_index=True)


def fusion(traces: pd.DataFrame) -> pd.DataFrame:
    """One row per run, at its end: the mean gate of the `shallow` and of the `deep` half of its layers."""
    last = traces.loc[traces["step"] == traces.groupby("run")["step"].transform("max")]
    rows = []
    for run, layers in last.groupby("run", sort=False):
        gates = layers.sort_values("layer")["gate"].to_numpy(float)
        half = len(gates) // 2
        rows.append({"run": run, "shallow": gates[:half].mean(), "deep": gates[len(gates) - half :].mean()})
    return pd.DataFrame(rows)
