"""The kernels of attention, of the MLP, of the answers' loss and of AdamW, run by Triton's interpreter.

The interpreter must be asked for before Triton is imported, so a process of its own (this file as a script) computes how
far the kernels are from the plain forms, and the tests here judge it.
"""

import json
import sys

import pytest
import torch
from torch import Tensor
from torch.func import vmap

ATTENTION = {  # members, rows, length, heads, dim; biased unless it says False
    "one token": (1, 1, 1, 1, 1),
    "an odd head": (1, 2, 7, 1, 5),
    "one full block": (2, 1, 64, 1, 16),
    "two blocks and members": (2, 1, 65, 2, 8),
    "three blocks": (1, 1, 130, 1, 4),
    "two full blocks": (1, 2, 128, 1, 16),
    "no biases": (2, 1, 65, 2, 8, False),
}
LOSS = {  # members, rows, answers, width, vocabulary
    "one of each": (1, 1, 1, 1, 1),
    "odd sizes and members": (2, 3, 2, 5, 70),
    "several blocks of answers": (1, 5, 14, 16, 33),
    "full blocks": (2, 16, 8, 16, 128),
}
MLP = {  # members, rows, width, hidden
    "one of each": (1, 1, 1, 1),
    "odd sizes and members": (2, 7, 5, 70),
    "several blocks, parts and spans": (1, 2100, 16, 130),
    "full blocks and parts": (2, 64, 16, 64),
}
ADAMW = {"a matrix": (3, 5, 7), "a vector": (2, 1100)}


def far(got: list[Tensor], expected: list[Tensor]) -> float:
    """The largest ||got - expected|| / ||expected||."""
    return max(((a.double() - b.double()).norm() / b.double().norm().clamp(min=1e-6)).item()
               for a, b in zip(got, expected, strict=True))  # fmt: skip


def gradients(y: Tensor, leaves: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """y and the gradients of a weighted sum of it, with weights that `dtype` holds exactly and whose sums do not vanish."""
    weights = torch.linspace(-1, 2, y.numel(), dtype=dtype, device=y.device).view_as(y).to(y.dtype)
    return [y, *torch.autograd.grad((y * weights).sum(), leaves, materialize_grads=True)]


def attention_error(
    members: int, rows: int, length: int, heads: int, dim: int, biased: bool = True, dtype=torch.float32, device="cpu"
) -> float:
    from recollect.ops.attention import _packed, attention_definition

    def plain(qkv: Tensor, bias: Tensor) -> Tensor:
        q, k, v = (qkv + (bias.view(3, heads, dim) if biased else 0)).permute(2, 0, 3, 1, 4)
        return attention_definition(q, k, v).transpose(1, 2)

    torch.manual_seed(length)
    shapes = (members, rows, length, 3, heads, dim), (members, 3 * heads * dim * biased)
    ours = [torch.randn(shape, device=device).to(dtype).requires_grad_() for shape in shapes]
    theirs = [t.detach().double().requires_grad_() for t in ours]
    y = vmap(lambda qkv, bias: _packed(qkv, bias[None] if biased else None)[0])(*ours)
    return far(gradients(y, ours, dtype), gradients(vmap(plain)(*theirs), theirs, dtype))


def loss_error(
    members: int, rows: int, answers: int, width: int, vocabulary: int, dtype=torch.float32, device="cpu"
) -> float:
    from recollect.ops.answer_loss import _fused, cross_entropy

    torch.manual_seed(vocabulary)
    x = torch.randn(members, rows * answers, width, device=device).to(dtype)
    w = torch.randn(members, vocabulary, width, device=device).to(dtype).float()
    right = torch.randint(0, vocabulary, (members, rows * answers), device=device)
    leaves = [x.clone().requires_grad_(), w.clone().requires_grad_()]
    losses, _, hits = vmap(lambda x, w, a: tuple(t[0] for t in _fused(x[None], w[None], a[None])))(*leaves, right)
    plain = [x.double().requires_grad_(), w.double().requires_grad_()]
    logits = plain[0] @ plain[1].mT
    assert torch.equal(hits, logits.argmax(-1) == right), "other answers are right"
    return far(gradients(losses, leaves, dtype), gradients(cross_entropy(logits, right), plain, dtype))


def certain_error(dtype=torch.float32, device="cpu") -> float:
    """Of answers that are nearly certain, with logits of a thousand: slopes are small differences of large numbers."""
    from recollect.ops.answer_loss import _fused, cross_entropy

    right = torch.arange(4, device=device)[None]
    x = 992 + 8 * torch.eye(16, device=device)[right]
    ours, plain = (x.to(t).requires_grad_() for t in (dtype, torch.float64))
    losses = _fused(ours, torch.eye(16, device=device)[None], right)[0]
    return far(gradients(losses, [ours], dtype), gradients(cross_entropy(plain, right), [plain], dtype))


def mlp_error(members: int, rows: int, width: int, hidden: int, dtype=torch.float32, device="cpu") -> float:
    from recollect.ops.mlp import _fused, mlp_definition

    torch.manual_seed(hidden)
    shapes = (rows, width), (hidden, width), (hidden,), (width, hidden), (width,)
    x, *weights = (torch.randn(members, *shape, device=device) for shape in shapes)
    ours = [t.requires_grad_() for t in (x.to(dtype), *weights)]
    plain = [t.detach().double().requires_grad_() for t in ours]
    y = vmap(lambda *tensors: _fused(*(t[None] for t in tensors))[0][0])(*ours)
    return far(gradients(y, ours, dtype), gradients(vmap(mlp_definition)(*plain), plain, dtype))


def adamw_error(*shape: int, device="cpu") -> float:
    from recollect.ops.optimisers import adamw_definition, adamw_scales
    from recollect.ops.triton import optimisers as kernels

    torch.manual_seed(len(shape))
    each = torch.linspace(0, 1, shape[0], dtype=torch.float64, device=device)
    numbers = {"lr": 0.01 + 0.1 * each, "clip": 1 - 0.5 * each, "weight_decay": 0.1 + each, "beta1": 0.9 - 0.5 * each,
               "beta2": 0.999 - 0.1 * each, "eps": 1e-8 + 1e-3 * each}  # fmt: skip
    ours = [torch.randn(shape, device=device) for _ in range(3)]
    ours[2] = ours[2].abs()
    theirs = [t.double() for t in ours]
    for number in (1, 2):
        g = torch.randn(shape, device=device)
        scales = adamw_scales(numbers, number)
        kernels.adamw_step(ours[0], g, ours[1], ours[2], scales.float(), True)
        adamw_definition(theirs[0], g.double(), theirs[1], theirs[2], scales, True, True)
    return far(ours, theirs)


KINDS = {
    "attention": (ATTENTION, attention_error),
    "loss": (LOSS, loss_error),
    "certain": ({"answers": ()}, certain_error),
    "mlp": (MLP, mlp_error),
    "adamw": (ADAMW, adamw_error),
}
NAMES = [(kind, case) for kind, (cases, _) in KINDS.items() for case in cases]


@pytest.mark.parametrize(("kind", "case"), NAMES)
def test_kernels_are_the_plain_forms_forward_and_backward(kind, case, measured):
    assert measured[kind][case] < 1e-4


if __name__ == "__main__":
    found = {kind: {case: error(*sizes) for case, sizes in cases.items()} for kind, (cases, error) in KINDS.items()}
    json.dump(found, sys.stdout)
