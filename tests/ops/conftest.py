"""Kernels without a GPU: Triton's interpreter must be asked for before Triton is imported, so it runs in a process of its own."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest


@pytest.fixture(scope="module")
def measured(request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    """What a test file prints when run as a script under the interpreter: how far its kernels are from the plain forms."""
    pytest.importorskip("triton", reason="the kernels need Triton")
    environment = os.environ | {"TRITON_INTERPRET": "1", "RECOLLECT_TRITON": "1"}
    process = subprocess.run([sys.executable, request.path], env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)
