"""The delta rule: the chunked form is the recurrence, with gates near 0 and 1, and agrees with transformers."""

import sys

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import vmap
from torch.utils.flop_counter import FlopCounterMode

from recollect.ops.delta_rule import delta_rule, delta_rule_definition, delta_rule_flops, solve_flops

with pytest.MonkeyPatch.context() as hidden:
    hidden.setitem(sys.modules, "fla", None)  # transformers would take its kernels, which need a GPU
    from transformers.models.qwen3_next import modeling_qwen3_next as qwen

LENGTHS = [1, 2, 63, 65, 257]


def inputs(length: int, dim: int = 5, dim_v: int = 7, dtype: torch.dtype = torch.float64, lead: tuple = (2, 3)):
    """q, k of length 1, v, beta in (0, 1), log_alpha <= 0 between about -8 and 0."""
    draw = torch.Generator().manual_seed(length)
    q, k, v, beta, decay = (
        torch.randn(*lead, length, *size, generator=draw, dtype=dtype) for size in ((dim,), (dim,), (dim_v,), (), ())
    )
    q, k = (F.normalize(t, dim=-1) for t in (q, k))
    return [t.requires_grad_() for t in (q, k, v, beta.sigmoid(), -(decay - 1).exp())]


def gradients(y: Tensor, tensors: list[Tensor]) -> tuple[Tensor, ...]:
    weight = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=y.dtype)
    return torch.autograd.grad((y * weight).sum(), tensors)


def relative(a: Tensor, b: Tensor) -> float:
    return ((a - b).abs().max() / b.abs().max()).item()


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("gated", [False, True])
def test_chunks_give_the_recurrence(length, gated):
    tensors = inputs(length)[: 5 if gated else 4]
    fast, slow = delta_rule(*tensors), delta_rule_definition(*tensors)
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-9)
    for a, b in zip(gradients(fast, tensors), gradients(slow, tensors), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dims", [(7, 5), (16, 16)])
@pytest.mark.parametrize("reference", [qwen.torch_chunk_gated_delta_rule, qwen.torch_recurrent_gated_delta_rule])
def test_the_same_as_transformers(length, dims, reference):
    tensors = inputs(length, *dims, dtype=torch.float32)
    q, k, v, beta, log_alpha = tensors
    ours = delta_rule(q * dims[0] ** -0.5, k, v, beta, log_alpha)
    time_first = [t.transpose(1, 2) for t in (q, k, v, log_alpha, beta)]
    theirs = reference(*time_first)[0].transpose(1, 2)
    assert relative(ours, theirs) < 1e-5
    for a, b in zip(gradients(ours, tensors), gradients(theirs, tensors), strict=True):
        assert relative(a, b) < 1e-5 or (length == 1 and b.abs().max() == a.abs().max() == 0)


def test_without_decay_is_with_alpha_one():
    q, k, v, beta, log_alpha = inputs(130)
    torch.testing.assert_close(delta_rule(q, k, v, beta), delta_rule(q, k, v, beta, 0 * log_alpha))


def test_a_written_value_is_read_back_and_overwritten():
    k = F.one_hot(torch.tensor([0, 1, 0, 0, 1]), 4).double()[None, None]
    v = torch.arange(5.0, dtype=torch.float64)[None, None, :, None]
    q = F.one_hot(torch.tensor([0, 0, 0, 1, 0]), 4).double()[None, None]
    y = delta_rule(q, k, v, torch.ones(1, 1, 5, dtype=torch.float64))
    assert y.flatten().tolist() == [0, 0, 2, 1, 3]


def test_one_key_whose_sign_flips_stays_exact_in_float32():
    q, k, v, beta, _ = (t.detach() for t in inputs(1000, dtype=torch.float32, lead=(1, 2)))
    tensors = [q, k[:, :, :1].expand_as(k), v, torch.where(torch.arange(1000) % 5 == 0, beta, 2.0)]
    y, exact = delta_rule(*tensors), delta_rule_definition(*(t.double() for t in tensors))
    assert relative(y.double(), exact) < 1e-4


@pytest.mark.parametrize("same_key", [False, True])
def test_gates_at_their_ends_in_float32(same_key):
    length = 4096
    q, k, v, beta, log_alpha = (t.detach() for t in inputs(length, dtype=torch.float32, lead=(1, 2)))
    k = k[:, :, :1].expand_as(k) if same_key else k
    hard = torch.arange(length) % 7 == 3
    tensors = [
        q, k.contiguous(), v,
        torch.where(torch.arange(length) % 3 == 0, 1.0, beta),  # some tokens overwrite fully
        torch.where(hard, -1e4, 1e-6 * log_alpha),  # some forget everything, the others almost nothing
    ]  # fmt: skip
    tensors = [t.requires_grad_() for t in tensors]
    y = delta_rule(*tensors)
    assert all(t.isfinite().all() for t in (y, *gradients(y, tensors)))
    short = [t[:, :, :200].double() for t in tensors]
    torch.testing.assert_close(y[:, :, :200].double(), delta_rule_definition(*short), rtol=1e-4, atol=1e-5)


def test_alpha_may_be_exactly_zero():
    tensors = inputs(130)
    with torch.no_grad():
        tensors[4][:, :, ::5] = -torch.inf
    y = delta_rule(*tensors)
    torch.testing.assert_close(y, delta_rule_definition(*tensors))
    assert all(g.isfinite().all() for g in gradients(y, tensors))


@pytest.mark.parametrize(("length", "dim"), [(9, 5), (64, 16), (131, 7)])
def test_a_member_has_the_same_bits_among_any_others(length, dim):
    tensors = [t.detach() for t in inputs(length, dim, dim, torch.float32, (8, 3, 2))]
    seen = []
    for members in (2, 3, 8):
        own = [t[:members].clone().requires_grad_() for t in tensors]
        y = vmap(delta_rule)(*own)
        seen.append([t[:2] for t in (y, *torch.autograd.grad(y.square().sum(), own))])
    for others in seen[1:]:
        assert all(torch.equal(a, b) for a, b in zip(seen[0], others, strict=True))


@pytest.mark.parametrize("length", [1, 64, 131])
def test_flops_are_those_of_the_products_and_the_solve(length):
    with FlopCounterMode(display=False) as counter:
        delta_rule(*inputs(length, lead=(1, 1)))
    solves = solve_flops(length, 7) if length <= 64 else 3 * solve_flops(64, 12)
    assert delta_rule_flops(length, 5, 7) == counter.get_total_flops() + solves
