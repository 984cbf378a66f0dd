"""Planted faults in mixers: each is caught by its check, with a message that says what is wrong and where."""

import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from recollect.mixers.attention import Attention
from recollect.mixers.base import Mixer
from recollect.ops.op import op
from recollect.testing import MIXER_CHECKS, TASK_CHECKS, MixerConformance, TaskConformance

WIDTH, LENGTH = 8, 17
RULES = {check.name: check for check in MIXER_CHECKS}


def broken(rule: str, mixer: type[nn.Module]) -> str:
    """What the check called `rule` says about a mixer that breaks it."""
    with pytest.raises(AssertionError) as caught:
        RULES[rule].function(mixer, WIDTH, LENGTH)
    return str(caught.value)


class Sound(Mixer):
    """A leaky running sum, h_t = a h_{t-1} + W x_t: nothing wrong with it. The faults below derive from it."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Linear(WIDTH, WIDTH)
        self.decay = nn.Parameter(torch.full((WIDTH,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        h, out = torch.zeros_like(x[:, 0]), []
        for x_t in self.into(x).unbind(1):
            h = self.decay.tanh() * h + x_t
            out.append(h)
        return torch.stack(out, dim=1)

    def initial_state(self, batch: int) -> dict[str, Tensor]:
        return {"h": self.decay.new_zeros(batch, WIDTH)}

    def step(self, x: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        h = self.decay.tanh() * state["h"] + self.into(x)
        return h, {"h": h}

    def state_size(self, length: int) -> int:
        return WIDTH

    def flops(self, length: int) -> int:
        return 2 * length * (WIDTH * WIDTH + WIDTH)


class TestSound(MixerConformance):
    """The suite as a user inherits it, on a mixer without faults."""

    width, length = WIDTH, LENGTH

    def make(self) -> nn.Module:
        return Sound()


class TestByOptions(MixerConformance):
    """The same with a class and its options."""

    mixer, options = Attention, {"heads": 2}


def test_a_test_for_each_check():
    for suite, rules in ((MixerConformance, MIXER_CHECKS), (TaskConformance, TASK_CHECKS)):
        for rule in rules:
            assert getattr(suite, f"test_{rule.name}").__doc__ == rule.description
            assert rule.description


def test_pytest_is_not_needed_to_check():
    code = "import sys; sys.modules['pytest'] = None; import recollect.testing"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class LooksAhead(Sound):
    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return torch.cat([y[:, :5], y[:, 5:6] + x[:, 9:10], y[:, 6:]], dim=1)


def test_non_causal():
    message = broken("causality", LooksAhead)
    assert message.startswith("not causal: token 9 moves the output by ")
    assert "position 5, channel" in message
    assert "batch row" in message


class LooksAheadByGradient(Sound):
    """The value of the future is taken away again, its gradient is not."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        leak = (x[:, -1:] - x[:, -1:].detach()) * torch.eye(x.shape[1], dtype=x.dtype)[:, :1]  # at position 0 only
        return y + leak


def test_non_causal_by_gradient():
    message = broken("causality", LooksAheadByGradient)
    assert "the output at position 0 has a gradient of" in message
    assert f"position {LENGTH - 1}, channel" in message


class RoundsAhead(Sound):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 1e-14 * x.sum(dim=1, keepdim=True)


class ConvolvesByFFT(RoundsAhead):
    exact_causality = False


def test_rounding_is_not_causal_unless_allowed():
    assert "not causal" in broken("causality", RoundsAhead)
    RULES["causality"].function(RoundsAhead, WIDTH, LENGTH, exact=False)
    RULES["causality"].function(ConvolvesByFFT, WIDTH, LENGTH)


class MixesBatch(Sound):
    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y + 0.01 * x.mean(dim=0) * (torch.arange(x.shape[1]) == 4)[:, None]


def test_mixing_the_batch():
    message = broken("batch_independence", MixesBatch)
    assert message.startswith("batch row 0 depends on the rows beside it")
    assert "position 4, channel" in message


class Remembers(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.last = torch.zeros(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x) + self.last
        self.last = x[0, 0].detach()
        return y


class Counts(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x)


class Drops(Sound):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(super().forward(x), 0.5)


class RemembersShape(Sound):
    """It adds what it gave last, where that has the same shape: a row of another length wipes it out."""

    last: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        kept, self.last = self.last, y.detach()
        return y if kept is None or kept.shape != y.shape else y + kept


def test_hidden_state_between_calls():
    assert broken("determinism", Remembers).startswith("the same call twice: output moves by ")
    assert broken("determinism", RemembersShape).endswith("the module keeps something from call to call")
    assert broken("determinism", Drops).startswith("the same call twice: output moves by ")
    assert broken("determinism", Counts) == "forward changed 'calls' of the module"


class Mixes(Sound):
    """A running sum with a bias, of values that are x unless others are given."""

    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:
        return (x if values is None else values).cumsum(dim=1) + self.decay


class MixesSquares(Mixes):
    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:
        return super().mix(x, values).square()


class MixesAhead(Mixes):
    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:
        y = super().mix(x, values)
        return y + 0.1 * y[:, -1:]


class MixesFlat(Mixes):
    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:
        return super().mix(x, values).flatten(1)


def test_wrong_mix():
    assert RULES["mixing"].function(Mixes, WIDTH, LENGTH) is None
    assert broken("mixing", MixesSquares).startswith("mix is not linear in its values")
    assert broken("mixing", MixesAhead).startswith("mix looks ahead")
    assert broken("mixing", MixesFlat).startswith("mix gives (2, 136) for 2 rows of 17 tokens")


class WrongStep(Sound):
    def step(self, x: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        h = state["h"] + self.into(x)  # forgets to forget
        return h, {"h": h}


def test_wrong_step():
    message = broken("recurrence", WrongStep)
    assert message.startswith("step at position 1 is not what forward gives: off by ")
    assert "batch row" in message


class NaNGradient(Sound):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + (0 * self.decay).abs().sqrt()  # the root has no slope at 0


class Unused(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.spare = nn.Parameter(torch.ones(3))


class Explodes(Sound):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x.square().square().exp().log()


def test_gradients_that_are_not_numbers():
    message = broken("finite", NaNGradient)
    assert "gradient of 'decay' is not finite, first at index [0]" in message
    assert "'spare' gets no gradient" in broken("finite", Unused)
    assert "inputs x50, length 17: output is not finite" in broken("extremes", Explodes)


class WrongStateSize(Sound):
    def state_size(self, length: int) -> int:
        return WIDTH * length


class StateWithoutBatch(Sound):
    def step(self, x: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        y, state = super().step(x, {"h": state["h"]})
        return y, state | {"scale": torch.ones(WIDTH)}


def test_wrong_state_size():
    assert broken("state_size", WrongStateSize) == "state_size(2) says 16, the state holds {'h': 8}"
    assert "state 'scale' is (8,): axis 0 must be the batch" in broken("state_size", StateWithoutBatch)


class ShrinkingFlops(Sound):
    def flops(self, length: int) -> int:
        return 1000 // length


def test_wrong_flops():
    assert broken("flops", ShrinkingFlops).startswith("flops must grow with the length: {1: 1000, 2: 500")


class WrongShape(Sound):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)[:, :-1]


class WrongType(Sound):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).float()


def test_wrong_shape_and_type():
    expected = "input (1, 17, 8) gives output (1, 16, 8): the shapes must be equal"
    assert broken("output_shape", WrongShape) == expected
    assert "torch.float64 give an output of torch.float32" in broken("dtype", WrongType)


class EvenOnly(Sound):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.unflatten(1, (-1, 2)).flatten(1, 2))


class CountsLength(Sound):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / x.shape[1]


def test_lengths():
    assert broken("odd_lengths", EvenOnly).startswith("a row of 65 tokens fails: RuntimeError")
    assert "the first 63 tokens of a row of 65, on their own, give something else" in broken(
        "odd_lengths", CountsLength
    )


class RandomBuffer(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("features", torch.randn(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.features


class SharedMemory(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.rate = nn.Parameter(self.decay.data[:4])


def test_parameters_of_its_own():
    assert "buffer 'features' differs between two builds" in broken("cohort", RandomBuffer)
    assert broken("parameters", SharedMemory) == "parameters 'decay' and 'rate' share memory; each needs its own"


def _times_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    return x * len(x), x.new_zeros(len(x))


def _times_rows_backward(grad: Tensor, x: Tensor) -> tuple[Tensor]:
    return (grad * len(x),)


_scaled = op("times_rows", _times_rows, _times_rows_backward, _times_rows)


class FoldsWrong(Sound):
    """An op that counts its rows, given all members' rows at once."""

    def forward(self, x: Tensor) -> Tensor:
        return _scaled(super().forward(x))[0] / len(x)


def test_members_that_depend_on_the_others():
    message = broken("cohort", FoldsWrong)
    assert message.startswith("output depends on the other members: among 2 and among 8 it differs by ")
    assert "at member " in message


class Branches(Sound):
    """Python asks for a number, which vmap cannot give: a limit, not a fault."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if self.decay.sum().item() < 1e9 else x


class Plain(nn.Module):
    """Any module can be a mixer: no step, no state, no flops."""

    def forward(self, x: Tensor) -> Tensor:
        return x.cumsum(dim=1)


def test_what_is_noted_and_not_a_fault():
    note = RULES["cohort"].function(Branches, WIDTH, LENGTH)
    assert note is not None
    assert note.startswith("cannot be vmapped (RuntimeError: ")
    assert note.endswith("members are trained one after another")
    notes = {
        name: RULES[name].function(Plain, WIDTH, LENGTH) for name in ("mixing", "recurrence", "state_size", "flops")
    }
    assert notes == {
        "mixing": "has no mix", "recurrence": "has no step", "state_size": "has no step and state_size", "flops": "has no flops"
    }  # fmt: skip
    with pytest.raises(pytest.skip.Exception, match="has no step"):
        type("Suite", (MixerConformance,), {"make": lambda self: Plain()})().hold(RULES["recurrence"])
