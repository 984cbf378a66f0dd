"""CUDA's multi-process service (MPS): kernels of several workers run on one GPU at the same time, not in turns.

It is started for the workers of one command, in a folder of its own, and ended with them. Where one is running already, workers
use that by themselves; where none can be started, they take turns.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

CONTROL = "nvidia-cuda-mps-control"
RUNNING = Path("/tmp/nvidia-mps/control")
"""Where a service that the machine's owner started answers: CUDA's own default for CUDA_MPS_PIPE_DIRECTORY, on every machine."""
PATIENCE = 30.0
"""Seconds that the service may take to start, and to end."""
PROBE = """
import ctypes
cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
"""
"""Shows whether a process can use a GPU through the service: in some containers it starts, and no process can connect."""


class Mps:
    """A service of our own, which answers in a folder of our own."""

    def __init__(self, folder: str):
        self._folder = folder
        self.environment = {
            "CUDA_MPS_PIPE_DIRECTORY": str(Path(folder, "pipe")),
            "CUDA_MPS_LOG_DIRECTORY": str(Path(folder, "log")),
        }
        """What a process needs to use it."""

    @classmethod
    def start(cls) -> "Mps | None":
        """The service, running and tried; None where there is one already, or none can be had."""
        if not shutil.which(CONTROL) or "CUDA_MPS_PIPE_DIRECTORY" in os.environ or RUNNING.exists():
            return None
        mps = cls(tempfile.mkdtemp(prefix="recollect-mps-"))
        try:
            for folder in mps.environment.values():
                Path(folder).mkdir()
            mps._run([CONTROL, "-d"])
            mps._run([sys.executable, "-c", PROBE])
        except (OSError, subprocess.SubprocessError):
            mps.close()
            return None
        return mps

    def close(self) -> None:
        """End the service."""
        with suppress(OSError, subprocess.SubprocessError):
            self._run([CONTROL], b"quit\n")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, command: list[str], words: bytes = b"") -> None:
        subprocess.run(
            command, input=words, env=os.environ | self.environment, check=True, timeout=PATIENCE,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in a terminal must not end it before the workers have given their snapshots
        )  # fmt: skip
