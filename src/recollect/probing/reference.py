"""The shipped table of the atlas, one row per run: known mixers, to look up and for a probe to stand beside.

A probe shows those shipped runs in which everything but mixer, positions, learning rate and seed is what it trains with.
`recollect atlas --to TABLE` makes the table from stores.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from recollect.probing.atlas import NAMES, SCALES, AtlasScale, atlas_study, study_name
from recollect.spec import SpecError, digest
from recollect.store.frames import runs_frame
from recollect.store.store import Store
from recollect.train.spec import SEMANTICS, RunSpec

TABLE = Path(__file__).with_name("atlas.csv")
COLUMNS = ("model", "model.layers", "train.lr", "train.seed", "accuracy", "status", "step", "parameters")
"""What a probe compares."""
KEPT = ("study", "setting", *COLUMNS, "best_accuracy", "final.valid", "model.width", "state_size")
"""The columns of the table."""


def setting_key(run: RunSpec) -> str:
    """What two runs that may be compared have in common: all but mixer, positions, learning rate and seed."""
    data = run.canonical()
    model = {name: value for name, value in data["model"].items() if name not in ("mixer", "positions")}
    train = {name: value for name, value in data["train"].items() if name not in ("lr", "seed")}
    return digest({"semantics": SEMANTICS, **data, "model": model, "train": train})


def read_table(path: Path = TABLE) -> pd.DataFrame:
    """The table, by default the shipped one."""
    return pd.read_csv(path, dtype={"setting": str})


def shipped(runs: list[RunSpec]) -> pd.DataFrame:
    """The shipped runs that may stand beside these."""
    keys, table = {setting_key(run) for run in runs}, read_table()
    return table.loc[[key in keys for key in table["setting"]], list(COLUMNS)]


def about(path: Path = TABLE) -> dict[str, dict[str, Any]]:
    """How each study of the table was made: date, hardware, versions, number of runs."""
    return yaml.safe_load(path.with_suffix(".yaml").read_text(encoding="utf-8"))


def collect(stores: list[Path], path: Path, hardware: str = "") -> dict[str, int]:
    """Write the runs of the atlas that stores have to a table, in place of those that it had of the same studies; give how many
    there are of each study. `hardware`: what they were trained on, in words."""
    studies: dict[str, tuple[str, AtlasScale]] = {
        study_name(task, scale): (task, scale) for task in NAMES for scale in SCALES
    }
    parts: dict[str, pd.DataFrame] = {}
    for store in map(Store, stores):
        for name in (name for name in studies if name in store.studies()):
            known = {run.id: run for run in atlas_study(*studies[name]).runs()}
            found = runs_frame(store, name)
            found = found.loc[found["id"].isin(known)] if len(found) else found
            if len(found):
                parts[name] = found.assign(study=name, setting=setting_key(next(iter(known.values()))))
    if not parts:
        raise SpecError(
            f"no runs of the atlas in {', '.join(map(str, stores))}: recollect atlas TASK --train trains them"
        )
    old = read_table(path) if path.exists() else pd.DataFrame(columns=list(KEPT))
    rest = old.loc[~old["study"].isin(parts)]
    table = pd.concat([part for part in (rest, *parts.values()) if len(part)], ignore_index=True)
    table = table.reindex(columns=list(KEPT))
    order = {name: place for place, name in enumerate(studies)}
    table = table.sort_values("study", key=lambda column: column.map(order), kind="stable")
    table.round({"accuracy": 4, "best_accuracy": 4, "final.valid": 4}).to_csv(path, index=False)
    made = about(path) if path.with_suffix(".yaml").exists() else {}
    made |= {name: _made(part, hardware) for name, part in parts.items()}
    text = yaml.safe_dump({name: made[name] for name in order if name in made}, sort_keys=False, width=120)
    path.with_suffix(".yaml").write_text(text, encoding="utf-8")
    return {name: len(part) for name, part in parts.items()}


def _made(runs: pd.DataFrame, hardware: str) -> dict[str, Any]:
    last = runs.sort_values("ended").iloc[-1]
    return {
        "made": str(last["ended"])[:10],
        "hardware": hardware or str(last["device"]),
        "versions": json.loads(last["versions"]),
        "runs": len(runs),
    }
