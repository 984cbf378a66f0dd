"""Killed at any moment, a study goes on where it stopped and ends with the same table."""

import random
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

from recollect.study.results import TIMINGS, curves_frame, runs_frame, slices_frame
from recollect.study.store import Store

STUDY = """
name: killed
task: {kind: mqar, length: 16, pairs: 2, vocab: 32}
model: {mixer: [attention, {kind: attention, conv: k}], width: 16, layers: 1}
train: {lr: "logspace(1e-3, 1e-1, 4)", seed: [1, 2], steps: 60, batch: 8, eval_every: 20, eval_rows: 16, test_rows: 64}
"""


def command(study, store) -> list[str]:
    return [sys.executable, "-m", "recollect.cli", "run", str(study), "--store", str(store), "--cohort", "2"]


def frames(path) -> list[pd.DataFrame]:
    store = Store(path)
    whole = runs_frame(store, "killed").drop(columns=list(TIMINGS))
    return [whole, curves_frame(store, "killed"), slices_frame(store, "killed")]


@pytest.mark.long
def test_killed_again_and_again_the_table_is_that_of_an_uninterrupted_study(tmp_path):
    study = tmp_path / "killed.yaml"
    study.write_text(STUDY)
    started = time.monotonic()
    subprocess.run(command(study, tmp_path / "whole.sqlite"), check=True, capture_output=True)
    whole_seconds = time.monotonic() - started

    moments = random.Random(0)
    kills, seen = 0, 0
    while True:
        process = subprocess.Popen(
            command(study, tmp_path / "cut.sqlite"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        try:
            process.wait(timeout=moments.uniform(0.2, 1.0) * whole_seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            if (tmp_path / "cut.sqlite").exists():
                done = len(Store(tmp_path / "cut.sqlite").done())
                assert done >= seen, "what had ended stays"
                seen = done
            assert kills < 100
            continue
        assert process.returncode == 0, process.stderr.read()
        break
    assert kills >= 3
    for cut, whole in zip(frames(tmp_path / "cut.sqlite"), frames(tmp_path / "whole.sqlite"), strict=True):
        pd.testing.assert_frame_equal(cut, whole, check_exact=True)
    assert Store(tmp_path / "cut.sqlite").query("PRAGMA integrity_check") == [("ok",)]
