"""The kernels of attention, of the answers' loss and of AdamW, run by Triton's interpreter.

The interpreter must be asked for before Triton is imported, so a process of its own (this file as a script) computes how
far the kernels are from the plain forms, and the tests here judge it.
"""

import json
import sys

import pytest
import torch
from torch import Tensor
from torch.func import vmap

ATTENTION = {  # members, rows, length, heads, dim
    "one token": (1, 1, 1, 1, 1),
    "an odd head": (1, 2, 7, 1, 5),
    "one full block": (2, 1, 64, 1, 16),
    "two blocks and members": (2, 1, 65, 2, 8),
    "three blocks": (1, 1, 130, 1, 4),
}
LOSS = {  # members, rows, answers, width, vocabulary
    "one of each": (1, 1, 1, 1, 1),
    "odd sizes and members": (2, 3, 2, 5, 70),
    "several blocks of answers": (1, 5, 14, 16, 33),
}
ADAMW = {"a matrix": (3, 5, 7), "a vector": (2, 1100)}


def far(got: list[Tensor], expected: list[Tensor]) -> float:
    """The largest ||got - expected|| / ||expected||."""
    return max(((a.double() - b.double()).norm() / b.double().norm().clamp(min=1e-6)).item()
               for a, b in zip(got, expected, strict=True))  # fmt: skip


def gradients(y: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype, device=y.device).view_as(y)
    return [y, *torch.autograd.grad((y * weights).sum(), leaves)]


def attention_error(
    members: int, rows: int, length: int, heads: int, dim: int, dtype=torch.float32, device="cpu"
) -> float:
    from recollect.ops.attention import _packed, attention_definition

    def plain(qkv: Tensor) -> Tensor:
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        return attention_definition(q, k, v).transpose(1, 2)

    torch.manual_seed(length)
    qkv = torch.randn(members, rows, length, 3, heads, dim, device=device).to(dtype)
    ours, theirs = qkv.clone().requires_grad_(), qkv.double().requires_grad_()
    return far(
        gradients(vmap(lambda x: _packed(x)[0])(ours), [ours]), gradients(vmap(plain)(theirs), [theirs])
    )  # fmt: skip


def loss_error(
    members: int, rows: int, answers: int, width: int, vocabulary: int, dtype=torch.float32, device="cpu"
) -> float:
    from recollect.ops.answer_loss import _fused, cross_entropy

    torch.manual_seed(vocabulary)
    x = torch.randn(members, rows * answers, width, device=device).to(dtype)
    w = torch.randn(members, vocabulary, width, device=device).to(dtype).float()
    right = torch.randint(0, vocabulary, (members, rows * answers), device=device)
    leaves = [x.clone().requires_grad_(), w.clone().requires_grad_()]
    losses, _, best = vmap(lambda x, w, a: tuple(t[0] for t in _fused(x[None], w[None], a[None])))(*leaves, right)
    plain = [x.double().requires_grad_(), w.double().requires_grad_()]
    logits = plain[0] @ plain[1].mT
    assert torch.equal(best, logits.argmax(-1)), "the best token is another"
    return far(gradients(losses, leaves), gradients(cross_entropy(logits, right), plain))


def adamw_error(*shape: int, device="cpu") -> float:
    from recollect.ops.triton import adamw as kernels
    from recollect.train.adamw import Rates, _scales, _step
    from recollect.train.run import TrainSpec

    torch.manual_seed(len(shape))
    specs = [TrainSpec(lr=1e-2 * (i + 1), steps=9, clip=0.5 * i) for i in range(shape[0])]
    rates = Rates.of(specs, torch.device(device))
    ours = [torch.randn(shape, device=device) for _ in range(3)]
    ours[2] = ours[2].abs()
    theirs = [t.double() for t in ours]
    for number in (1, 2):
        g = torch.randn(shape, device=device)
        scales = _scales(g.flatten(1).norm(dim=1).double(), rates, number, 0.7)
        kernels.step(ours[0], g, ours[1], ours[2], scales.float().contiguous(), True)
        _step(theirs[0], g.double(), theirs[1], theirs[2], scales, True, True)
    return far(ours, theirs)


KINDS = {"attention": (ATTENTION, attention_error), "loss": (LOSS, loss_error), "adamw": (ADAMW, adamw_error)}
NAMES = [(kind, case) for kind, (cases, _) in KINDS.items() for case in cases]


@pytest.mark.parametrize(("kind", "case"), NAMES)
def test_kernels_are_the_plain_forms_forward_and_backward(kind, case, measured):
    assert measured[kind][case] < 1e-4


if __name__ == "__main__":
    found = {kind: {case: error(*sizes) for case, sizes in cases.items()} for kind, (cases, error) in KINDS.items()}
    json.dump(found, sys.stdout)
