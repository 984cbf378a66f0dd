"""A model can be shown whether or not its mixers count their state and operations."""

import pytest
from torch import Tensor, nn

from recollect.mixers.base import Mixer
from recollect.models.diagram import costs
from recollect.models.model import build
from recollect.models.spec import ModelSpec
from recollect.tasks import MQAR


class Plain(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x)


class Partial(Mixer):
    def __init__(self, width: int):
        super().__init__()
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x)


def shown(mixer) -> str:
    task = MQAR(length=16, pairs=2, vocab=32)
    return costs(build(ModelSpec(mixer=mixer, width=8, layers=1), task.vocabulary, task.row_length, seed=0), task)


def test_state_and_operations_are_shown():
    text = shown("attention")
    assert "recurrent state: 256 elements per sequence after 16 tokens" in text  # 16 keys and values of 8 channels
    assert "MFLOP per row forward, logits at 2 positions" in text


@pytest.mark.parametrize(
    ("mixer", "reason"), [(Plain, "Plain has no state_size"), (Partial, "Partial must define initial_state")]
)
def test_a_mixer_that_does_not_count_them_is_named(mixer, reason):
    assert shown(mixer) == f"state and operations are unknown: {reason}"
