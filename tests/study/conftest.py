"""A Slurm of one node on this machine, in a folder of its own: munged, slurmctld and slurmd, without systemd."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "srun")
CONFIGURATION = """
ClusterName=recollect
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
KillWait=5
MinJobAge=10
JobRequeue=1
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=work Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Why there can be no Slurm here; empty where there can."""
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
    lacking = [name for name in PROGRAMS if not shutil.which(name, path=path)]
    if lacking:
        return f"Slurm is not installed here (no {lacking[0]}): apt-get install slurm-wlm munge"
    return "" if os.geteuid() == 0 else "its daemons are started as root"


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def running(folder: Path) -> Iterator[dict[str, str]]:
    """The environment variables under which Slurm's commands talk to this cluster."""
    for name in ("munge", "state", "spool"):
        (folder / name).mkdir(mode=0o755)
    host = socket.gethostname().partition(".")[0]
    config = folder / "slurm.conf"
    cpus = len(os.sched_getaffinity(0))
    config.write_text(CONFIGURATION.format(
        host=host, folder=folder, controller=_free_port(), daemon=_free_port(), cpus=cpus
    ))  # fmt: skip
    key = folder / "munge" / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    environment = {"SLURM_CONF": str(config), "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    both = os.environ | environment
    munge = folder / "munge"
    files = [f"--{name}-file={munge / name}" for name in ("log", "pid", "seed")]
    programs = [
        ["munged", "--foreground", "--force", f"--socket={munge}/socket", f"--key-file={key}", *files],
        ["slurmctld", "-D", "-f", str(config)],
        ["slurmd", "-D", "-f", str(config), "-N", host],
    ]
    started: list[subprocess.Popen] = []
    try:
        for words in programs:
            with (folder / f"{words[0]}.out").open("w") as out:
                started.append(subprocess.Popen(words, stdout=out, stderr=out, env=both))
            time.sleep(0.5)
        for _ in range(100):
            state = subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True, env=both).stdout.strip()
            if state == "idle":
                break
            time.sleep(0.3)
        else:
            logs = "\n".join((folder / f"{words[0]}.out").read_text()[-1500:] for words in programs)
            raise RuntimeError(f"Slurm did not start (node {state!r}):\n{logs}")
        yield environment
        subprocess.run(["scancel", "--user", "root"], env=both, capture_output=True)
        time.sleep(1)
    finally:
        for process in reversed(started):
            process.terminate()
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture
def slurm(cluster_environment) -> Iterator[dict[str, str]]:
    """The environment of the cluster, in which no job of another test is left."""
    yield cluster_environment
    both = os.environ | cluster_environment
    subprocess.run(["scancel", "--user=root"], env=both, check=True)
    for _ in range(300):
        if not subprocess.run(["squeue", "--noheader"], env=both, capture_output=True, text=True).stdout.strip():
            return
        time.sleep(0.1)


@pytest.fixture(scope="session")
def cluster_environment(tmp_path_factory) -> Iterator[dict[str, str]]:
    """The environment of a cluster that all tests share."""
    if why := missing():
        pytest.skip(why)
    pytest.importorskip("submitit", reason="needs the extra: pip install 'recollect[slurm]'")
    with running(tmp_path_factory.mktemp("slurm")) as environment:
        yield environment
