"""The kernels of Lion and of schedule-free AdamW, run by Triton's interpreter (tests/ops/conftest.py)."""

import json
import sys

import pytest
import torch

SHAPES = {"a matrix": (3, 5, 7), "a vector": (2, 1100), "a number": (4,)}


def lion_error(*shape: int, device="cpu") -> float:
    from recollect.ops.optimisers import lion_definition, lion_scales
    from recollect.ops.triton import optimisers as kernels

    def step(kernel, tensors, g, numbers, number, decays):
        scales = lion_scales(numbers).to(g.dtype)
        if kernel:
            kernels.lion_step(tensors[0], g, tensors[1], scales, decays)
        else:
            lion_definition(tensors[0], g, tensors[1], scales, decays, True)

    return _error(step, shape, device)


def schedule_free_error(*shape: int, device="cpu") -> float:
    from recollect.ops.optimisers import schedule_free_definition, schedule_free_scales
    from recollect.ops.triton import optimisers as kernels

    def step(kernel, tensors, g, numbers, number, decays):
        scales = schedule_free_scales(numbers, number, 0.3 + 0.1 * numbers["clip"]).to(g.dtype)
        y, z, v = tensors
        if kernel:
            kernels.schedule_free_step(y, g, z, v, scales, decays)
        else:
            schedule_free_definition(y, g, z, v, scales, decays, True)

    return _error(step, shape, device)


def _error(step, shape, device) -> float:
    """How far a kernel in float32 is from the definition in float64 after two steps."""
    torch.manual_seed(len(shape))
    each = torch.linspace(0, 1, shape[0], dtype=torch.float64, device=device)
    numbers = {"lr": 0.01 + 0.1 * each, "clip": 1 - 0.5 * each, "weight_decay": 0.1 + each, "beta1": 0.9 - 0.5 * each,
               "beta2": 0.999 - 0.1 * each, "eps": 1e-8 + 1e-3 * each}  # fmt: skip
    ours = [torch.randn(shape, device=device) for _ in range(3)]
    ours[2] = ours[2].abs()
    theirs = [t.double() for t in ours]
    for number in (1, 2):
        g = torch.randn(shape, device=device)
        step(True, ours, g, numbers, number, number == 2)
        step(False, theirs, g.double(), numbers, number, number == 2)
    return max(((a - b).norm() / b.norm()).item() for a, b in zip(ours, theirs, strict=True))


KINDS = {"lion": lion_error, "schedule_free": schedule_free_error}


@pytest.mark.parametrize("case", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_is_the_plain_form(kind, case, measured):
    assert measured[kind][case] < 1e-5


if __name__ == "__main__":
    json.dump({kind: {case: error(*s) for case, s in SHAPES.items()} for kind, error in KINDS.items()}, sys.stdout)
