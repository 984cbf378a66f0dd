"""The weights of runs, by training them again, which gives the same numbers: no store has them."""

from collections.abc import Iterator

import safetensors.torch

from recollect.models.model import Model, build
from recollect.study.packing import CPU_COHORT, GPU_COHORT, pack
from recollect.train.events import Ended
from recollect.train.loop import train
from recollect.train.spec import RunSpec


def before_and_after(runs: list[RunSpec], device: str = "cpu") -> Iterator[tuple[RunSpec, Model, Model]]:
    """Each run with its model as it starts and as it ends."""
    for cohort in pack(runs, GPU_COHORT if device.startswith("cuda") else CPU_COHORT):
        for event in train(cohort, device, every=float("inf"), weights=True):
            if isinstance(event, Ended) and event.weights is not None:
                start, end = (_model(event.run) for _ in range(2))
                end.load_state_dict(safetensors.torch.load(event.weights), strict=False)  # buffers are not stored
                yield event.run, start, end


def _model(run: RunSpec) -> Model:
    return build(run.model, run.task.vocabulary, run.row_length, run.train.seed).eval()
