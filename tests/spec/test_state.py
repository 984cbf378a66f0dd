"""Settings of the whole process that code changes are reported by name, and set back."""

import os
import random
import warnings

import pytest
import torch

from recollect.spec.state import GlobalState

CHANGES = {
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "default device": lambda: torch.set_default_device("meta"),
    "number of threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "seed": lambda: torch.manual_seed(torch.initial_seed() % 1000 + 1),
    "deterministic algorithms": lambda: torch.use_deterministic_algorithms(True),
    "cudnn.benchmark": lambda: setattr(torch.backends.cudnn, "benchmark", True),
    "matmul precision": lambda: torch.set_float32_matmul_precision("medium"),
    "flash attention": lambda: torch.backends.cuda.enable_flash_sdp(False),
    "grad mode": lambda: torch._C._set_grad_enabled(False),
    "anomaly detection": lambda: torch.set_anomaly_enabled(True),
    "flushing of denormal numbers": lambda: torch.set_flush_denormal(True),
    "environment": lambda: os.environ.update(RECOLLECT_TRIED="1"),
    "working directory": lambda: os.chdir("/"),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_a_changed_setting_is_named_and_set_back(name):
    state = GlobalState()
    try:
        CHANGES[name]()
        assert [change.partition(" (")[0] for change in state.changes()] == [name]
    finally:
        state.restore()
    assert state.changes() == []


def test_generators_and_filters_are_set_back_without_a_word():
    before, state = (random.random(), torch.rand(1).item()), GlobalState()
    expected = random.random(), torch.rand(1).item(), list(warnings.filters)
    warnings.simplefilter("ignore")
    assert state.changes() == []
    state.restore()
    assert (random.random(), torch.rand(1).item(), list(warnings.filters)) == expected
    assert before != expected[:2]
