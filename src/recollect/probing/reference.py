"""The windows of known mixers, made in advance and shipped with the package: `benchmarks/reference.py` makes them.

A shipped run counts only where everything but mixer, positions, learning rate and seed is what the probe trains with.
"""

from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from recollect.probing.setting import Setting, small_task
from recollect.spec import digest
from recollect.train.spec import SEMANTICS, RunSpec

TABLE = Path(__file__).with_name("reference.csv")
"""One row per run."""
ABOUT = Path(__file__).with_name("reference.yaml")
"""How the table was made: command, hardware, versions, date, settings."""
COLUMNS = ("model", "model.layers", "train.lr", "train.seed", "accuracy", "status", "step", "parameters")
SMALL = small_task("mqar", {})
MIXERS = ["attention", {"kind": "attention", "conv": "k"}, "based", "deltanet", "linear_attention", "mamba2", "rwkv7"]
MADE = [(Setting(SMALL, layers=(1,)), MIXERS), (Setting(SMALL, layers=(2,)), ["attention"])]
"""What is in it: the mixers at each setting."""


def setting_key(run: RunSpec) -> str:
    """What two runs that may be compared have in common: all but mixer, positions, learning rate and seed."""
    data = run.canonical()
    model = {name: value for name, value in data["model"].items() if name not in ("mixer", "positions")}
    train = {name: value for name, value in data["train"].items() if name not in ("lr", "seed")}
    return digest({"semantics": SEMANTICS, **data, "model": model, "train": train})


def shipped(runs: list[RunSpec]) -> pd.DataFrame:
    """The shipped runs that may stand beside these."""
    keys = {setting_key(run) for run in runs}
    table = pd.read_csv(TABLE, dtype={"setting": str})
    return table.loc[[key in keys for key in table["setting"]]].drop(columns="setting")


def about() -> dict[str, Any]:
    """How the table was made."""
    return yaml.safe_load(ABOUT.read_text())
