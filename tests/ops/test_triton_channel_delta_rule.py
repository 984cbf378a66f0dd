"""The kernels of the delta rule with decays per channel, run by Triton's interpreter: they are the recurrence, for any decays.

The interpreter must be asked for before Triton is imported, so a process of its own (this file as a script) computes how
far the kernels are from the definition, and the tests here judge it.
"""

import json
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import vmap

from recollect.ops.channel_delta_rule import channel_delta_rule_definition, gated_delta_rule_2, kda

CASES = {  # members, batch, length, heads, dim, dim_v
    "one of each": (1, 1, 1, 1, 1, 1),
    "two tokens": (1, 2, 2, 1, 3, 2),
    "odd sizes": (1, 2, 7, 3, 5, 9),
    "one chunk": (1, 2, 16, 1, 16, 16),
    "one token less than four chunks": (1, 1, 63, 2, 16, 16),
    "members": (2, 2, 65, 2, 20, 8),
    "whole chunks, values twice as wide as keys": (2, 1, 64, 2, 32, 64),
    "many chunks": (1, 1, 257, 1, 16, 33),
    "values wider than a program takes": (1, 1, 17, 1, 16, 130),
    "large heads": (1, 1, 33, 1, 128, 128),
}
GATES = ("beta", "gates", "erase gate only")
NAMES = {
    "beta": ("y", "q", "k", "v", "beta", "log_alpha"),
    "gates": ("y", "q", "k", "v", "erase", "write", "log_alpha"),
    "erase gate only": ("y", "q", "k", "v", "erase", "log_alpha"),
}
HARD = (-1.0, -20.0, -300.0, -1e4, -torch.inf)


def inputs(
    gates: str, members: int, batch: int, length: int, heads: int, dim: int, dim_v: int, device: str = "cpu"
) -> list[Tensor]:
    """q, k of length 1, v, gates in (0, 2) and log_alpha between about -8 and 0, as views that mixers make: time before heads."""
    torch.manual_seed(length)
    lead = (members, batch, length, heads)
    q, k = (F.normalize(torch.randn(*lead, dim, device=device), dim=-1) for _ in range(2))
    v, erase, decay = (torch.randn(*lead, size, device=device) for size in (dim_v, dim, dim))
    erase, write = 2 * erase.sigmoid(), torch.randn(*lead, dim_v, device=device).sigmoid()
    chosen = {"beta": [erase[..., 0]], "gates": [erase, write], "erase gate only": [erase]}[gates]
    return [t.transpose(2, 3) for t in (q, k, v, *chosen, -(decay - 1).exp())]


def rule(q: Tensor, k: Tensor, v: Tensor, *others: Tensor) -> Tensor:
    """The op that takes these gates."""
    if others[0].ndim == 3:
        return kda(q, k, v, *others)
    erase, write, log_alpha = others if len(others) == 3 else (others[0], None, others[1])
    return gated_delta_rule_2(q, k, v, erase, write, log_alpha)


def definition(q: Tensor, k: Tensor, v: Tensor, *others: Tensor) -> Tensor:
    erase = others[0][..., None] if others[0].ndim == 3 else others[0]
    write = erase if others[0].ndim == 3 else others[1] if len(others) == 3 else 1
    return channel_delta_rule_definition(q, k, write * v, erase * k, others[-1])


def results(op, tensors: list[Tensor]) -> list[Tensor]:
    leaves = [t.detach().requires_grad_() for t in tensors]
    y = vmap(op)(*leaves)
    weights = torch.linspace(-1, 1, y.numel(), device=y.device).bfloat16().to(y.dtype).view(y.shape)
    return [y, *torch.autograd.grad((y * weights).sum(), leaves)]


def errors(gates: str, tensors: list[Tensor]) -> dict[str, float]:
    """||kernel - definition|| / ||definition|| of the result and of every gradient."""
    got = results(rule, tensors)
    expected = results(definition, [t.double() for t in tensors])
    pairs = zip(NAMES[gates], got, expected, strict=True)
    return {name: ((a.double() - b).norm() / b.norm().clamp(min=1e-9)).item() for name, a, b in pairs}


def hard_decays(value: float, gates: str = "beta", device: str = "cpu") -> list[Tensor]:
    """Some channels forget by `value` at some tokens, the others almost nothing."""
    *others, log_alpha = inputs(gates, 1, 1, 65, 1, 8, 8, device=device)
    hard = (torch.arange(65, device=device) % 7 == 3)[:, None] & (torch.arange(8, device=device) % 2 == 0)
    return [*others, torch.where(hard, value, 1e-3 * log_alpha)]


def always_forgotten(value: float, device: str = "cpu") -> list[Tensor]:
    """Every channel forgets by `value` at every token."""
    *others, log_alpha = inputs("beta", 1, 1, 65, 1, 8, 8, device=device)
    return [*others, torch.full_like(log_alpha, value)]


def one_key(most: float) -> list[Tensor]:
    """All keys the same, mostly erased and written with a beta of `most`, and hardly any decay: A is large."""
    q, k, v, beta, log_alpha = inputs("beta", 1, 1, 65, 1, 8, 8)
    return [q, k[:, :, :, :1].expand_as(k), v, torch.where(torch.arange(65) % 3 == 0, beta, most), 1e-3 * log_alpha]


def measured_cases() -> dict[str, dict[str, float]]:
    found = {
        f"{case}, {gates}": errors(gates, inputs(gates, *sizes)) for case, sizes in CASES.items() for gates in GATES
    }
    for value in HARD:
        found[f"decays of {value}"] = errors("beta", hard_decays(value))
        pairs = zip(NAMES["beta"], *(results(op, always_forgotten(value)) for op in (rule, definition)), strict=True)
        found[f"only decays of {value}"] = {name: (a - b).abs().max().item() for name, a, b in pairs}
    return found | {f"one key, beta {most}": errors("beta", one_key(most)) for most in (1.0, 2.0)}


def assert_small(measured: dict[str, float], allowed: float = 1e-4) -> None:
    for name, error in measured.items():
        assert error < allowed, f"{name} is off by {error}"


@pytest.mark.parametrize("gates", GATES)
@pytest.mark.parametrize("case", CASES)
def test_kernels_are_the_recurrence_forward_and_backward(case, gates, measured):
    assert list(measured[f"{case}, {gates}"]) == list(NAMES[gates])
    assert_small(measured[f"{case}, {gates}"])


@pytest.mark.parametrize("value", HARD)
def test_channels_that_forget_everything_spoil_nothing(value, measured):
    assert_small(measured[f"decays of {value}"])


@pytest.mark.parametrize("value", HARD)
def test_where_everything_is_forgotten_nothing_overflows(value, measured):
    assert_small(measured[f"only decays of {value}"], 1e-5)


@pytest.mark.parametrize("most", [1.0, 2.0])
def test_a_key_written_again_and_again_is_exact(most, measured):
    assert_small(measured[f"one key, beta {most}"])


if __name__ == "__main__":
    found = measured_cases()
    assert "recollect.ops.triton.channel_delta_rule" in sys.modules, "the plain form was measured"
    json.dump(found, sys.stdout)
