"""An Apple GPU, as far as it can be tried without one: what has no float64 trains without it, on the same rows."""

import re

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from recollect.spec import SpecError
from recollect.study.spec import Study
from recollect.train import data
from recollect.train import device as devices
from recollect.train.events import Ended
from recollect.train.loop import train
from recollect.train.optimisers import OPTIMISERS

STUDY = {
    "task": {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32},
    "model": {"mixer": "attention", "width": 16, "layers": 1, "dropout_embedding": 0.1},
    "train": {"lr": [1e-3, 1e-2], "seed": 1, "steps": 6, "batch": 8, "eval_every": 3, "eval_rows": 16, "test_rows": 32,
              "clip": 1.0, "train_rows": 64},
}  # fmt: skip


class NoFloat64(TorchDispatchMode):
    """Raises where a tensor of float64 is computed, as an Apple GPU does; not while rows are drawn, which the CPU does."""

    drawing = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        made = out if isinstance(out, tuple | list) else [out]
        if not self.drawing and any(isinstance(x, torch.Tensor) and x.dtype == torch.float64 for x in made):
            raise TypeError(f"{func} in float64")
        return out


def ended(optimiser: str) -> list[Ended]:
    study = Study.model_validate({**STUDY, "train": {**STUDY["train"], "optimiser": optimiser}})
    return [event for event in train(study.runs()) if isinstance(event, Ended)]


@pytest.mark.parametrize("optimiser", list(OPTIMISERS))
def test_what_has_no_float64_trains_without_it_on_the_same_rows(monkeypatch, optimiser):
    usual, strict = ended(optimiser), NoFloat64()
    monkeypatch.setattr(devices, "has_float64", lambda device: False)

    def drawn(function):
        def call(*args, **kwargs):
            strict.drawing += 1
            try:
                return function(*args, **kwargs)
            finally:
                strict.drawing -= 1

        return call

    monkeypatch.setattr(data, "training_rows", drawn(data.training_rows))
    monkeypatch.setattr("recollect.tasks.mqar.MQAR.sample", drawn(type(usual[0].run.task).sample))
    monkeypatch.setattr("recollect.tasks.base.Task.batch", drawn(data.Task.batch))
    with strict:
        found = ended(optimiser)
    for one, other in zip(found, usual, strict=True):
        assert one.final["loss"] == pytest.approx(other.final["loss"], rel=1e-4)


def test_other_precisions_and_a_machine_without_one_are_refused(monkeypatch):
    with pytest.raises(SpecError, match=re.escape("device 'mps' cannot be used")):
        Study.model_validate(STUDY).run(device="mps", progress=False)
    monkeypatch.setattr(torch, "empty", lambda *args, **kwargs: None)
    assert devices.choose_device("mps") == "mps"
    for precision in ("float64", "bfloat16"):
        with pytest.raises(SpecError, match=f"precision '{precision}': device 'mps' trains in float32 only"):
            devices.check_precision("mps", precision)
