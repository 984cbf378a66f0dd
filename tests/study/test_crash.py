"""Ended before or after any write, rename, commit or message, or killed at any moment, a study ends with the same bits.

`make test-faults` tries every point and a hundred kills; the long tests try a part of them, another one each day. Importing
PyTorch would take most of the time: drivers are copies of this process, and so are most of the local workers.
"""

import datetime
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest

from recollect.spec import Stopped, apart, faults
from recollect.store.frames import curves_frame, runs_frame, slices_frame
from recollect.store.store import Store
from recollect.study.run import run
from recollect.study.spec import Study

ALL = os.environ.get("RECOLLECT_TEST_FAULTS") == "all"
TODAY = datetime.date.today().toordinal()
STUDY = """
name: s
task: {kind: mqar, length: 8, pairs: 1, vocab: 16}
model: {mixer: attention, width: 8, layers: 1}
train: {lr: [0.001, 0.01, 1000.0], seed: [1, 2], steps: %d, batch: 4, eval_every: 6, eval_rows: 8, test_rows: 16}
"""
pytestmark = [pytest.mark.long, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]


@pytest.fixture(autouse=True, scope="module")
def warm(tmp_path_factory) -> None:
    """Train once in this process: its copies then have everything imported."""
    how = {"device": "cpu", "workers": 1, "progress": False}
    run(Study.from_yaml(STUDY % 6), store=tmp_path_factory.mktemp("warm") / "s.sqlite", **how)


def frames(path: Path) -> list[pd.DataFrame]:
    store = Store(path)
    timings = ["seconds", "ended", "device", "versions"]
    return [runs_frame(store, "s").drop(columns=timings), curves_frame(store, "s"), slices_frame(store, "s")]


def assert_whole(path: Path, expected: list[pd.DataFrame]) -> None:
    for mine, theirs in zip(frames(path), expected, strict=True):
        pd.testing.assert_frame_equal(mine, theirs, check_exact=True)
    assert Store(path)._query("PRAGMA integrity_check") == [("ok",)]
    assert not Store(path).checkpoints.exists()
    known = {path.name + ending for ending in ("", ".lock", "-wal", "-shm")}
    left = {file.name for file in path.parent.iterdir()} - known
    assert not left, "nothing is left behind"


def begun(path: Path, steps: int, fault: str = "", **how) -> int:
    """A process that trains the study, as a copy of this one, which has everything imported; gives its number."""
    if number := os.fork():
        return number
    code = 1
    try:
        os.setpgid(0, 0)
        if how.pop("copies", False):  # workers that are copies of this process, and not new ones
            apart._SPAWN = multiprocessing.get_context("fork")
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.default_int_handler)
        os.environ[faults.VARIABLE] = fault
        faults._passed.clear()
        run(
            Study.from_yaml(STUDY % steps), store=path, device=how.pop("device", "cpu"), progress=False,
            cohort=2, attempts=10, **how,
        )  # fmt: skip
        code = 0
    except (Stopped, KeyboardInterrupt):
        code = 130
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def ended(number: int) -> int:
    """The exit code of a process, when its workers have ended as well: copies of it hold its files until then."""
    code = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
    with suppress(ProcessLookupError):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            os.killpg(number, 0)
            time.sleep(0.02)
        raise AssertionError("its workers go on without it")
    return code


def points(folder: Path, steps: int, **how) -> list[str]:
    """All points that the study passes, and an uninterrupted store in whole.sqlite."""
    folder.mkdir()
    assert ended(begun(folder / "whole.sqlite", steps, f"@{folder}/points", **how)) == 0
    found = sorted(set((folder / "points").read_text().splitlines()))
    (folder / "points").unlink()
    return found


def part(found: list[str], size: int) -> list[str]:
    """All points, or today's."""
    return found if ALL else random.Random(TODAY).sample(found, size)


def test_ended_at_any_point_of_the_process_that_writes(tmp_path):
    how = {"workers": 1, "checkpoint_every": 0.0}
    found = points(tmp_path / "whole", 18, **how)
    expected = frames(tmp_path / "whole" / "whole.sqlite")
    kinds = {point.partition("#")[0] for point in found}
    assert kinds == {
        "file: write", "file: rename", "file: renamed", "store: rename", "store: renamed", "store: locked", "store: opened",
        "transaction: begin", "transaction: commit", "transaction: committed", "checkpoint: remove", "checkpoint: removed",
        "message: submit", "message: submitted", "message: received", "message: acted upon",
    }  # fmt: skip
    assert len(found) >= 200
    crashed = number = 0
    for number, point in enumerate(part(found, 16)):
        place = tmp_path / str(number)
        (place / "store").mkdir(parents=True)
        path = place / "store" / "s.sqlite"
        crashed += ended(begun(path, 18, f"{point}@{place}/crashed", **how)) == -signal.SIGKILL
        assert ended(begun(path, 18, **how)) == 0, point
        assert_whole(path, expected)
    print(f"{crashed} of {len(found)} points")
    assert crashed > 0.9 * number, "but for commits that depend on the clock"


def test_ended_at_any_message_of_a_worker(tmp_path):
    how = {"workers": 2, "checkpoint_every": 0.0, "copies": True}
    found = [point for point in points(tmp_path / "whole", 6, **how) if point.startswith("worker")]
    assert len(found) >= 10
    expected = frames(tmp_path / "whole" / "whole.sqlite")
    for number, point in enumerate(part(found, 2)):
        place = tmp_path / str(number)
        (place / "store").mkdir(parents=True)
        path = place / "store" / "s.sqlite"
        assert ended(begun(path, 6, f"{point}@{place}/crashed", **how)) == 0, "another worker has taken its place"
        assert (place / "crashed").exists()
        assert_whole(path, expected)


def workers_of(number: int) -> list[int]:
    """The worker processes of a driver: all that it starts but the one that keeps track of shared memory."""
    with suppress(OSError):
        children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
        return [
            int(child) for child in children if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes()
        ]
    return []


def hit(number: int, kind: str, chance: random.Random) -> bool:
    """Do one of five things that happen to a process; false where there was nothing to do it to."""
    with suppress(ProcessLookupError, IndexError):
        if kind == "worker killed":
            os.kill(chance.choice(workers_of(number)), signal.SIGKILL)
        elif kind == "group interrupted":
            os.killpg(number, signal.SIGINT)
        elif kind == "terminated":
            os.kill(number, signal.SIGTERM)
        else:
            if kind == "stopped, then killed":
                os.kill(number, signal.SIGSTOP)
                time.sleep(0.3)
            os.kill(number, signal.SIGKILL)
        return True
    return False


KINDS = ("killed", "worker killed", "group interrupted", "terminated", "stopped, then killed")


def killed(
    folder: Path, kills: int, wait: tuple[float, float], kinds: tuple[str, ...] = KINDS, batch: int = 0, **how
) -> None:
    """Kill studies at random moments, so many times in all; each must end as an uninterrupted one does."""
    points(folder / "whole", 60, workers=1)
    expected = frames(folder / "whole" / "whole.sqlite")
    chance, done, study = random.Random(100 * TODAY + batch), 0, 0
    while done < kills:
        study += 1
        path = folder / str(study) / "s.sqlite"
        path.parent.mkdir()
        while True:
            number = begun(path, 60, **how)
            until = time.monotonic() + chance.uniform(*wait)
            while (
                time.monotonic() < until and os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
            ):
                time.sleep(0.02)
            if done < kills and os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                done += hit(number, kinds[done % len(kinds)], chance)
            if (code := ended(number)) == 0:
                break
            assert code in (130, -signal.SIGKILL, -signal.SIGINT, -signal.SIGTERM)
        assert_whole(path, expected)
    print(f"{done} kills, {study} studies")


@pytest.mark.parametrize("batch", range(4 if ALL else 1))
def test_killed_at_random_with_local_workers(tmp_path, batch):
    killed(tmp_path, 15 if ALL else 5, (0.1, 2.0), batch=batch, workers=2, checkpoint_every=0.05, copies=True)


@pytest.mark.parametrize("batch", range(2 if ALL else 1))
def test_killed_at_random_with_local_workers_that_are_new_processes(tmp_path, batch):
    killed(tmp_path, 10 if ALL else 2, (1.0, 9.0), batch=batch, workers=2, checkpoint_every=0.05)


@pytest.mark.skipif(not ALL, reason="part of make test-faults")
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_killed_at_random_with_ray(tmp_path):
    pytest.importorskip("ray", reason="needs the extra: pip install 'recollect[ray]'")
    script = f"""
import sys; sys.path[:0] = {sys.path!r}
from ray.cluster_utils import Cluster
node = dict(num_cpus=2, object_store_memory=100 * 2**20, node_ip_address="127.0.0.2")
made = Cluster(initialize_head=True, head_node_args=dict(node, include_dashboard=False))
print(made.address, flush=True)
sys.stdin.read()
made.shutdown()
"""
    # Another process has the cluster: this one is copied, and must not have Ray's threads.
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as cluster:
        assert cluster.stdout is not None
        address = next(line for line in cluster.stdout if ":" in line).strip()
        kinds = ("killed", "group interrupted", "terminated", "stopped, then killed")
        killed(tmp_path, 10, (3.0, 15.0), kinds, executor="ray", options={"address": address}, checkpoint_every=0.05)
        cluster.communicate("")


@pytest.mark.filterwarnings("ignore")  # submitit's own
def test_killed_at_random_with_slurm(tmp_path, slurm, monkeypatch):
    for name, value in slurm.items():
        monkeypatch.setenv(name, value)
    kinds = ("killed", "stopped, then killed", "group interrupted")
    killed(tmp_path, 10 if ALL else 3, (3.0, 15.0), kinds, executor="slurm", workers=2, checkpoint_every=0.05)
