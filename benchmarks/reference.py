"""The windows of known mixers that ship with the package, for `recollect probe` to show a mixer beside.

    python benchmarks/reference.py [--device cpu] [--workers 2] [--store results/reference.sqlite]

Every mixer of `recollect.probing.reference.MADE`, with the search that a probe makes; then src/recollect/probe/reference.csv
(a row per run) and reference.yaml (how it was made) are written. Interrupted, the same command goes on.
"""

import argparse
import json
import platform
import shlex
import sys
import time
from pathlib import Path

import torch
import yaml
from rich.console import Console

from recollect.cli.tables import search_table
from recollect.probing.reference import ABOUT, COLUMNS, MADE, TABLE, setting_key
from recollect.probing.setting import baseline, probe_study
from recollect.store.frames import runs_frame
from recollect.store.store import Store
from recollect.study.run import Grid, run
from recollect.study.spec import distinct
from recollect.train.device import cores


def grid() -> list[Grid]:
    """All runs that any of the searches may ask for, as one study."""
    studies = [probe_study("reference", [baseline(mixer) for mixer in mixers], setting) for setting, mixers in MADE]
    return [Grid(studies[0], distinct([study.runs() for study in studies]))]


def hardware(device: str) -> str:
    """The device in words."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name()
    table = Path("/proc/cpuinfo")
    lines = table.read_text().splitlines() if table.exists() else []
    name = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
    return f"{cores()} cores of {name}"


def main() -> None:
    """Train what is missing, and write what the package ships."""
    parser = argparse.ArgumentParser(description="Makes the windows that ship with the package.")
    parser.add_argument("--store", type=Path, default=Path("results/reference.sqlite"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cohort", type=int, default=4)
    chosen = parser.parse_args()
    store, console = Store(chosen.store, create=True), Console(width=140)
    outcome = run(grid(), store=store, device=chosen.device, workers=chosen.workers, cohort=chosen.cohort)
    if outcome.failed:
        raise SystemExit(f"{len(outcome.failed)} runs failed: {outcome.failed}")
    found = outcome.searches["reference"]
    console.print(search_table(found))
    keys = {one.id: setting_key(one) for one in found.asked}
    frame = runs_frame(store, "reference")
    frame = frame.assign(setting=[keys[id] for id in frame["id"]]).round({"accuracy": 4})
    frame.to_csv(TABLE, columns=["setting", *COLUMNS], index=False)
    about = {
        "command": shlex.join(["python", *sys.argv]),
        "made": time.strftime("%Y-%m-%d", time.gmtime()),
        "hardware": hardware(chosen.device),
        "versions": json.loads(frame["versions"].iloc[-1]),
        "runs": len(frame),
        "settings": [f"{setting}, layers {list(setting.layers)}, {setting.seeds} seeds" for setting, _ in MADE],
        "note": "attention has rotary positions, the others what they have by default",
    }
    heading = "# How reference.csv was made, by benchmarks/reference.py.\n"
    ABOUT.write_text(heading + yaml.safe_dump(about, sort_keys=False, width=120))
    console.print(f"{len(frame)} runs written to {TABLE}")


if __name__ == "__main__":
    main()
