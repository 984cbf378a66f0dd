"""What a job of a Slurm cluster does: it trains one cohort, in a folder that it shares with the process that submitted it."""

import os
import pickle
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from recollect.spec.apart import be_worker
from recollect.spec.faults import fault_point
from recollect.study.executors.order import Order
from recollect.study.executors.reports import Broken, Done, Halted, Report
from recollect.train.checkpoint import runs_in
from recollect.train.events import Ended, Measured, Saved

ORDER, SNAPSHOT, NUMBER, FILES = "order.pickle", "snapshot", "job", "files"
"""What is in the folder, besides reports: the order, the newest snapshot, Slurm's number of the job, the study's own files."""


def work(folder: str) -> None:
    """What a job does: train its cohort from where it was, and put each report into a file."""
    place, asked = Path(folder), dict[str, int]()
    be_worker()

    def note_signal(number: int, _: Any) -> None:
        asked["signal"] = number

    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
        signal.signal(number, note_signal)
    order: Order = pickle.loads((place / ORDER).read_bytes())
    if order.device == "cpu":
        torch.set_num_threads(1)
    write(place / NUMBER, _own_number().encode())
    saved = (place / SNAPSHOT).read_bytes() if (place / SNAPSHOT).exists() else None
    if saved:  # runs that ended before it was taken have reported their results
        inside = set(runs_in(saved))
        order.specs = [(spec, id) for spec, id in order.specs if id in inside]
    _report(place, order.attempt(place / FILES, saved, lambda: bool(asked)))
    if asked.get("signal") in (signal.SIGUSR1, signal.SIGUSR2):  # its time is up; else Slurm decides what becomes of it
        slurm("scontrol", "requeue", _own_number())


def _report(place: Path, reports: Iterator[Report]) -> None:
    """Write reports into files, a measurement with the results that belong to it into one."""
    begun, together, ending = os.environ.get("SLURM_RESTART_COUNT", "0"), list[Report](), 0
    for number, report in enumerate(reports):
        if isinstance(report, Halted):  # the job goes on, later
            return
        if isinstance(report, Saved):
            write(place / SNAPSHOT, report.data)
        ending = report.ending if isinstance(report, Measured) else ending - isinstance(report, Ended)
        together.append(report)
        if ending <= 0 or isinstance(report, Done | Broken):
            write(place / f"{int(begun):04}-{number:08}.report", pickle.dumps(together))
            together = []


def _own_number() -> str:
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}" if array else os.environ.get("SLURM_JOB_ID", "")


def slurm(*command: str) -> str | None:
    """What a command of Slurm's prints; None where it fails."""
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return None


def write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all; where its folder is gone, this job is no longer wanted."""
    draft = path.with_name(path.name + ".draft")
    fault_point("job: write")
    draft.write_bytes(data)
    fault_point("job: rename")
    draft.replace(path)
    fault_point("job: renamed")
