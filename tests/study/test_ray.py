"""On a Ray cluster a study gives the same table, also when a node is lost; what is wrong with a cluster is one line."""

import signal
import socket
import subprocess
import sys
import threading
import time
from itertools import chain
from pathlib import Path

import pandas as pd
import pytest

from recollect.spec import SpecError, Stopped
from recollect.store.checkpoints import read_header, snapshot_files
from recollect.store.frames import curves_frame, runs_frame, slices_frame
from recollect.store.store import Store
from recollect.study.executors.base import Resources
from recollect.study.executors.order import files_of, placed
from recollect.study.executors.ray import Ray, refuse_silent_address
from recollect.study.run import run
from recollect.study.spec import Study
from recollect.study.trainer import Note
from recollect.train.events import Measured

OWN = """
from torch import nn
class Own(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)
    def forward(self, x):
        return self.mix(x.cumsum(1))
"""


def study(steps=600) -> Study:
    task = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
    train = {"steps": steps, "batch": 8, "eval_every": 50, "eval_rows": 16, "test_rows": 32}
    train |= {"lr": [1e-3, 1e-2, 1e3], "seed": [1, 2]}
    return Study(
        name="s", task=task, model={"mixer": ["attention", "own.py:Own"], "width": 16, "layers": 1}, train=train
    )


def frames(store: Store) -> list[pd.DataFrame]:
    timings = ["seconds", "ended", "device", "versions"]
    return [runs_frame(store, "s").drop(columns=timings), curves_frame(store, "s"), slices_frame(store, "s")]


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cluster():
    """A cluster of two nodes with a CPU each, on this machine."""
    pytest.importorskip("ray", reason="needs the extra: pip install 'recollect[ray]'")
    from ray.cluster_utils import Cluster

    # On the loopback, under a name that Ray does not take for the machine's own address.
    node = {"num_cpus": 1, "object_store_memory": 100 * 2**20, "node_ip_address": "127.0.0.2"}
    made = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    made.second = made.add_node(**node)
    yield made
    made.shutdown()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_lost_node_costs_what_came_after_the_last_snapshot_and_no_run(here, cluster):
    alone, shared = Store("alone.sqlite", create=True), Store("shared.sqlite", create=True)
    run(study(steps=1200), store=alone, device="cpu", workers=1, cohort=3, progress=False)
    notes, steps, lost = [], {}, []

    def in_training() -> list[tuple[str, ...]]:
        return [runs for runs, seen in steps.items() if seen[-1] < 900]

    def snapshotted() -> set[str]:
        found = map(read_header, snapshot_files(shared.checkpoints))
        return {name for header in found if header.step > 50 for name in header.runs}

    def watch(cohort, event):
        if isinstance(event, Note):
            notes.append(event.text)
        if isinstance(event, Measured):
            steps.setdefault(tuple(run.id for run in cohort), []).append(event.step)
            known = snapshotted() if len(in_training()) >= 2 and not lost else set()
            if known and all(known & set(runs) for runs in in_training()):
                lost.append(
                    cluster.second
                )  # both nodes are in the middle of a cohort, of which there is a snapshot after step 50
                cluster.remove_node(cluster.second, allow_graceful=False)

    with Ray.start(Resources(checkpoint_every=0.2, options={"address": cluster.address})) as nodes:
        assert (nodes.device, nodes.slots) == ("cpu", 4)
        outcome = run(study(steps=1200), store=shared, executor=nodes, cohort=3, sinks=[watch], progress=False)
    assert lost
    assert any("node it was running on is dead" in text and text.endswith("trying again") for text in notes)
    assert not outcome.failed, shared.failures()[-1].traceback
    assert sum(outcome.ended.values()) == 12
    for a, b in zip(frames(shared), frames(alone), strict=True):
        pd.testing.assert_frame_equal(a, b, check_exact=True)
    started = [runs for runs, seen in steps.items() if 50 in seen]
    assert sorted(chain(*started)) == sorted(run.id for run in study(steps=1200).runs()), "each run started once"
    assert all(seen.count(50) <= 1 for seen in steps.values()), "what was lost went on from a snapshot"
    assert shared._query("PRAGMA integrity_check") == [("ok",)]
    assert not shared.checkpoints.exists()
    errors = [failure.error for failure in shared.failures()]
    assert errors
    assert all("NodeDiedError" in error for error in errors)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_stopped_study_keeps_what_the_nodes_have_trained(here, cluster):
    alone, shared = Store("alone.sqlite", create=True), Store("shared.sqlite", create=True)
    run(study(), store=alone, device="cpu", workers=1, cohort=3, progress=False)
    steps: list[int] = []
    with Ray.start(Resources(checkpoint_every=1000, options={"address": cluster.address})) as nodes:

        def watch(cohort, event):
            if isinstance(event, Measured):
                steps.append(event.step)
                if event.step == 200 and steps.count(200) == 1:  # a second signal would end this process
                    signal.raise_signal(signal.SIGINT)

        with pytest.raises(Stopped, match="in training are kept at step"):
            run(study(), store=shared, executor=nodes, cohort=3, sinks=[watch], progress=False)
        assert shared.checkpoints.exists()
        run(study(), store=shared, executor=nodes, cohort=3, progress=False)
    for a, b in zip(frames(shared), frames(alone), strict=True):
        pd.testing.assert_frame_equal(a, b, check_exact=True)


@pytest.mark.long
def test_the_command_line_runs_on_a_cluster(here, cluster):
    (here / "s.yaml").write_text(study(steps=50).to_yaml())
    words = [sys.executable, "-m", "recollect.cli", "run", "s.yaml", "--store", "ray.sqlite"]
    done = subprocess.run([*words, "--executor", "ray", "--address", cluster.address], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "trained: 4 diverged, 8 finished" in done.stdout
    alone = Store("alone.sqlite", create=True)
    run(study(steps=50), store=alone, device="cpu", workers=1, progress=False)
    for a, b in zip(frames(Store("ray.sqlite")), frames(alone), strict=True):
        pd.testing.assert_frame_equal(a, b, check_exact=True)


@pytest.mark.long
def test_a_study_whose_driver_is_killed_goes_on_from_the_store(here, cluster):
    (here / "s.yaml").write_text(study(steps=300).to_yaml())
    words = [
        sys.executable,
        "-m",
        "recollect.cli",
        "run",
        "s.yaml",
        "--store",
        "ray.sqlite",
        "--checkpoint-every",
        "0.2",
    ]
    words += ["--cohort", "3", "--executor", "ray", "--address", cluster.address]
    store, alone = Store("ray.sqlite", create=True), Store("alone.sqlite", create=True)
    run(study(steps=300), store=alone, device="cpu", workers=1, cohort=3, progress=False)
    driver = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    while not store.checkpoints.exists():
        assert driver.poll() is None
        time.sleep(0.05)
    driver.kill()
    driver.wait()
    assert len(store.done()) < 12
    subprocess.run(words, check=True, capture_output=True)
    for a, b in zip(frames(store), frames(alone), strict=True):
        pd.testing.assert_frame_equal(a, b, check_exact=True)
    assert not store.checkpoints.exists()


@pytest.mark.parametrize("name", ["../x.py", "a/../../x.py", "/tmp/x.py"])
def test_a_file_that_would_lie_outside_the_folder_of_a_node_is_refused(tmp_path, name):
    with pytest.raises(SpecError, match="would lie outside"), placed({name: b""}, tmp_path / "a" / "b"):
        pass
    assert not list(tmp_path.rglob("x.py"))


def test_a_file_outside_the_working_directory_gets_a_name_inside_it_on_a_node(here, monkeypatch):
    (here / "below").mkdir()
    monkeypatch.chdir(here / "below")
    asked = study().changed(model={"mixer": "../own.py:Own", "width": 16, "layers": 1})
    (name,) = files_of(asked.runs()[0])
    assert ".." not in name
    with placed(files_of(asked.runs()[0]), here / "node"):
        assert [path.name for path in (here / "node").rglob("*.py")] == ["own.py"]
        assert Path.cwd() == here / "node"


def silent_port() -> socket.socket:
    """A port that takes connections and says nothing."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    return listening


def test_an_address_where_nothing_answers_is_one_line_within_fifteen_seconds(here):
    pytest.importorskip("ray", reason="needs the extra: pip install 'recollect[ray]'")
    (here / "s.yaml").write_text(study().to_yaml())
    with silent_port() as closed:
        address = f"127.0.0.2:{closed.getsockname()[1]}"
    words = [sys.executable, "-m", "recollect.cli", "run", "s.yaml", "--executor", "ray", "--address", address]
    started = time.monotonic()
    result = subprocess.run(words, capture_output=True, text=True)
    assert time.monotonic() - started < 15
    assert result.returncode == 2
    assert f"no Ray cluster answers at {address} ([Errno 111] Connection refused)" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_port_that_stays_silent_or_speaks_otherwise_is_refused(monkeypatch):
    monkeypatch.setattr("recollect.study.executors.ray._PATIENCE", 0.3)
    with silent_port() as silent:
        with pytest.raises(SpecError, match=r"no Ray cluster answers at .*timed out"):
            refuse_silent_address(f"127.0.0.1:{silent.getsockname()[1]}")

        def speak():
            connection, _ = silent.accept()  # that of the first attempt
            connection.close()
            with silent.accept()[0] as connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        speaker = threading.Thread(target=speak)
        speaker.start()
        with pytest.raises(SpecError, match="is not a Ray cluster's head"):
            refuse_silent_address(f"127.0.0.1:{silent.getsockname()[1]}")
        speaker.join()


@pytest.mark.parametrize("address", ["ray://head:10001", "head", "head:port", "127.0.0.1:6379x"])
def test_an_address_of_another_form_is_refused(address):
    pytest.importorskip("ray", reason="needs the extra: pip install 'recollect[ray]'")
    with pytest.raises(SpecError, match="expected host:port"):
        Ray.start(Resources(options={"address": address}))


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SpecError, match=r'executor \'ray\' needs an extra: pip install "recollect\[ray\]"'):
        Ray.start(Resources())


def test_no_cluster_on_this_machine_is_reported(monkeypatch):
    services = pytest.importorskip("ray._private.services", reason="needs the extra: pip install 'recollect[ray]'")
    monkeypatch.setattr(services, "find_gcs_addresses", set)
    monkeypatch.setattr(services, "find_bootstrap_address", lambda _: None)
    with pytest.raises(
        SpecError, match="cannot use the Ray cluster at 'auto': Could not find any running Ray instance"
    ):
        Ray.start(Resources())


def test_a_cluster_of_this_machine_that_is_gone_is_one_line(monkeypatch):
    services = pytest.importorskip("ray._private.services", reason="needs the extra: pip install 'recollect[ray]'")
    monkeypatch.setattr(services, "find_gcs_addresses", set)
    monkeypatch.setattr(services, "find_bootstrap_address", lambda _: "127.0.0.2:1")
    with pytest.raises(SpecError, match=r"no Ray cluster answers at 127\.0\.0\.2:1"):
        Ray.start(Resources())
