"""The delta rule's kernels, run by Triton's interpreter: they are the recurrence, for keys and decays of any kind.

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

from recollect.ops.delta_rule import delta_rule, delta_rule_definition

CASES = {  # members, batch, length, heads, dim, dim_v, gated
    "one of each": (1, 1, 1, 1, 1, 1, False),
    "one token, decayed": (1, 1, 1, 1, 3, 2, True),
    "odd sizes": (1, 2, 7, 3, 5, 9, False),
    "odd sizes, decayed": (1, 2, 7, 3, 5, 9, True),
    "a chunk and one token": (1, 1, 33, 1, 8, 20, False),
    "a chunk and one token, decayed": (1, 1, 33, 1, 8, 20, True),
    "members": (2, 2, 65, 2, 20, 8, False),
    "members with decays": (2, 2, 65, 2, 20, 8, True),
    "values twice as wide as keys": (1, 1, 40, 2, 16, 32, True),
    "many chunks": (1, 1, 130, 1, 20, 33, False),
    "many chunks, decayed": (1, 1, 130, 1, 20, 33, True),
}
NAMES = ("y", "q", "k", "v", "beta", "log_alpha")


def inputs(
    members: int, batch: int, length: int, heads: int, dim: int, dim_v: int, gated: bool, device: str = "cpu"
) -> list[Tensor]:
    """q, k of length 1, v, beta in (0, 1) and log_alpha <= 0, as views that mixers make: time before heads."""
    torch.manual_seed(length)
    lead = (members, batch, length, heads)
    q, k = (F.normalize(torch.randn(*lead, dim, device=device), dim=-1) for _ in range(2))
    beta, decay = torch.randn(2, *lead, device=device)
    tensors = [q, k, torch.randn(*lead, dim_v, device=device), beta.sigmoid(), -(decay - 1).exp()]
    return [t.transpose(2, 3) for t in tensors[: 5 if gated else 4]]


def results(op, tensors: list[Tensor]) -> list[Tensor]:
    leaves = [t.detach().requires_grad_() for t in tensors]
    y = vmap(op)(*leaves)
    weights = torch.linspace(-1, 1, y.numel(), device=y.device).bfloat16().to(y.dtype).view(y.shape)
    return [y, *torch.autograd.grad((y * weights).sum(), leaves)]


def errors(tensors: list[Tensor]) -> dict[str, float]:
    """||kernel - definition|| / ||definition|| of the result and of every gradient."""
    got = results(delta_rule, tensors)
    expected = results(delta_rule_definition, [t.double() for t in tensors])
    pairs = zip(NAMES, got, expected, strict=False)
    return {name: ((a - b).norm() / b.norm().clamp(min=1e-9)).item() for name, a, b in pairs}


def hard_decays(value: float) -> list[Tensor]:
    """Some tokens forget by `value`, the others almost nothing."""
    *others, log_alpha = inputs(1, 1, 65, 1, 8, 8, True)
    return [*others, torch.where(torch.arange(65) % 7 == 3, value, 1e-3 * log_alpha)]


def one_key(most: float) -> list[Tensor]:
    """All keys the same, and mostly written with a beta of `most`: 1 overwrites in full, 2 flips the sign of what is held."""
    q, k, v, beta = inputs(1, 1, 65, 1, 8, 8, False)
    k = k[:, :, :, :1].expand_as(k)
    return [q, k, v, torch.where(torch.arange(65) % 3 == 0, most * beta, most)]


def measured_cases() -> dict[str, dict[str, float]]:
    found = {case: errors(inputs(*sizes)) for case, sizes in CASES.items()}
    hard = {f"decays of {value}": errors(hard_decays(value)) for value in (-30.0, -1e4, -torch.inf)}
    return found | hard | {f"one key, beta {most}": errors(one_key(most)) for most in (1.0, 2.0)}


@pytest.mark.parametrize("case", CASES)
def test_kernels_are_the_recurrence_forward_and_backward(case, measured):
    assert len(measured[case]) == 5 + CASES[case][-1]
    for name, error in measured[case].items():
        assert error < 1e-4, f"{name} is off by {error}"


@pytest.mark.parametrize("value", ["-30.0", "-10000.0", "-inf"])
def test_tokens_that_forget_everything_spoil_nothing(value, measured):
    for name, error in measured[f"decays of {value}"].items():
        assert error < 1e-4, f"{name} is off by {error}"


@pytest.mark.parametrize("most", [1.0, 2.0])
def test_a_key_written_again_and_again_is_exact(most, measured):
    """Powers of A are large then."""
    for name, error in measured[f"one key, beta {most}"].items():
        assert error < 1e-4, f"{name} is off by {error}"


if __name__ == "__main__":
    found = measured_cases()
    assert "recollect.ops.triton.delta_rule" in sys.modules, "the plain form was measured"
    json.dump(found, sys.stdout)
