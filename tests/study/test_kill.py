"""Killed at any moment, a study goes on where it stopped and ends with the same table."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest

from recollect.store.frames import curves_frame, runs_frame, slices_frame
from recollect.store.store import Store

STUDY = """
name: killed
task: {kind: mqar, length: 16, pairs: 2, vocab: 32}
model: {mixer: [attention, {kind: attention, conv: k}], width: 16, layers: 1}
train: {lr: [0.001, 0.01, 0.1, 1000.0], seed: [1, 2], steps: 90, batch: 8, eval_every: 30, eval_rows: 16, test_rows: 64}
"""
KILLS = 60


def command(study: Path, store: Path, *words: str) -> list[str]:
    """A snapshot about every tenth step, so that most kills come between one and the next."""
    options = ["--cohort", "4", "--checkpoint-every", "0.05", "--attempts", "10", *words]
    return [sys.executable, "-m", "recollect.cli", "run", str(study), "--store", str(store), *options]


def frames(path: Path) -> list[pd.DataFrame]:
    store = Store(path)
    whole = runs_frame(store, "killed").drop(columns=["seconds", "ended", "device", "versions"])
    return [whole, curves_frame(store, "killed"), slices_frame(store, "killed")]


def workers(pid: int) -> list[int]:
    """The worker processes of a process; none where it has just ended."""
    with suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]
    return []


def first_line(process: subprocess.Popen) -> float:
    """Seconds until the study has begun."""
    started = time.monotonic()
    assert process.stdout is not None
    process.stdout.readline()
    return time.monotonic() - started


@pytest.mark.long
def test_killed_sixty_times_the_tables_are_those_of_an_uninterrupted_study(tmp_path):
    study = tmp_path / "killed.yaml"
    study.write_text(STUDY)
    whole_command = command(study, tmp_path / "whole.sqlite", "--workers", "1")
    with subprocess.Popen(whole_command, stdout=subprocess.PIPE, text=True) as whole:
        startup = first_line(whole)
        started = time.monotonic()
        whole.communicate()
    assert whole.returncode == 0
    training = time.monotonic() - started
    expected = frames(tmp_path / "whole.sqlite")
    moments = random.Random(0)
    kills = lost_workers = finished = resumed = 0
    while kills < KILLS:  # study after study, as each ends some time between two kills
        path, seen = tmp_path / f"cut{finished}.sqlite", 0
        while True:
            of_worker = kills % 6 == 5
            words = ("--workers", "2" if of_worker else "1")
            with (tmp_path / "output.txt").open("w") as output:
                process = subprocess.Popen(command(study, path, *words), stdout=output, stderr=output)
            if of_worker:
                while not (busy := workers(process.pid)) and process.poll() is None:
                    time.sleep(0.01)
                time.sleep(moments.uniform(0.3, 1.0) * startup + moments.uniform(0.0, 0.5) * training)
                with suppress(ProcessLookupError, IndexError):  # it was done already, or had nothing left to do
                    os.kill(moments.choice(busy), signal.SIGKILL)  # else the study goes on by itself
                    kills, lost_workers = kills + 1, lost_workers + 1
                process.wait()
            else:
                during = moments.random()  # most often while it trains, sometimes while it starts
                wait = moments.uniform(0, startup) if during < 0.1 else startup + moments.uniform(0, 0.4) * training
                try:
                    process.wait(timeout=wait)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    kills += 1
                    resumed += Store(path, create=True).checkpoints.exists()
                    done = len(Store(path, create=True).done())
                    assert done >= seen, "what had ended stays"
                    seen = done
                    continue
            assert process.returncode == 0, (tmp_path / "output.txt").read_text()
            break
        for cut, table in zip(frames(path), expected, strict=True):
            pd.testing.assert_frame_equal(cut, table, check_exact=True)
        assert Store(path)._query("PRAGMA integrity_check") == [("ok",)]
        assert not Store(path).checkpoints.exists()
        finished += 1
    print(f"{kills} kills, {lost_workers} of a worker; {resumed} left a snapshot; {finished} studies ended")
    assert finished >= 2
    assert resumed >= 10
    assert lost_workers >= 2


@pytest.mark.long
def test_killed_once_it_goes_on_from_its_snapshot_and_ends_with_the_same_table(tmp_path):
    study = tmp_path / "killed.yaml"
    study.write_text(STUDY.replace("[attention, {kind: attention, conv: k}]", "attention"))
    subprocess.run(command(study, tmp_path / "whole.sqlite"), check=True, capture_output=True)
    cut = Store(tmp_path / "cut.sqlite", create=True)
    process = subprocess.Popen(command(study, cut.path), stdout=subprocess.DEVNULL)
    while not cut.checkpoints.exists():
        assert process.poll() is None, "it ended before its first snapshot"
    process.kill()
    process.wait()
    subprocess.run(command(study, cut.path), check=True, capture_output=True)
    for a, b in zip(frames(cut.path), frames(tmp_path / "whole.sqlite"), strict=True):
        pd.testing.assert_frame_equal(a, b, check_exact=True)
    assert cut._query("PRAGMA integrity_check") == [("ok",)]
