"""Mamba (Gu & Dao 2023) between its input and its output projection, as one op on a GPU.

    u, z = W_in x        u = silu(conv(u))        dt, B, C = W_dt W_r u, W_B u, W_C u
    out = selective_scan(u, dt, b_dt, -exp(A_log), B, C, D) * silu(z)        (part by part in mixers/mamba.py)

The op reads its inputs in place from the projection and writes their gradients side by side, so that the projection and its
gradients are one product each.

Shapes: projected (batch, length, 2 inner): u, then z, or u alone where there is no gate; taps (inner, kernel), b (inner,),
w_x (r + 2 n, inner): W_r, then W_B and W_C; w_dt (inner, r), b_dt, D (inner,), A_log (inner, n), out (batch, length, inner).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recollect.ops import triton as kernels
from recollect.ops.fused import has_hooks, kernel_dtype
from recollect.ops.op import op
from recollect.ops.selective_scan import side_by_side
from recollect.ops.short_conv import LONGEST, ShortConv


def fused_mamba(
    x: Tensor, in_proj: nn.Linear, conv: ShortConv | None, ssm: nn.Module, weights: tuple[Tensor, ...]
) -> Tensor | None:
    """The output for x (batch, length, width), or None where modules are to be called one by one; `weights` are those of ssm."""
    if conv is None or conv.bias is None or conv.weight.shape[1] > LONGEST or has_hooks(conv, ssm):
        return None
    # Backward computes y from out divided by the gate, however small: float16's range is too small for that.
    if kernel_dtype(x) != torch.bfloat16:
        return None
    return _by_kernels(in_proj(x).to(torch.bfloat16), conv.weight, conv.bias, *weights)


def input_parts(x: Tensor, in_proj: nn.Linear, size: int) -> list[Tensor]:
    """in_proj(x) in parts of `size` channels; on a GPU by a product each, because the gradients of parts of one product would be
    copied."""
    if x.is_cuda and not has_hooks(in_proj):
        return [F.linear(x, w) for w in in_proj.weight.split(size)]
    return list(in_proj(x).split(size, dim=-1))


def _by_kernels(
    projected: Tensor, taps: Tensor, b: Tensor, w_x: Tensor, w_dt: Tensor, b_dt: Tensor, A_log: Tensor, D: Tensor
) -> Tensor:
    """In the precision of `projected`. The op takes a member's own weights as taps with b as the last column, w_x and w_dt padded
    with zeros, and A, b_dt and D side by side; a compiler fuses this and its gradients into few kernels."""
    taps = torch.cat([taps, b[:, None]], dim=1).float()
    w_x, w_dt = _padded(w_x.to(projected.dtype), w_dt.to(projected.dtype))
    weights = (taps, w_x, w_dt, side_by_side(b_dt, -A_log.float().exp(), D))
    return _op(projected, *(t[None] for t in weights))[0]


def step_and_state(x: Tensor, w_x: Tensor, w_dt: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The step sizes dt before their bias and softplus, B and C."""
    n = (len(w_x) - w_dt.shape[1]) // 2
    if x.is_cuda:
        w_x, w_dt = _padded(w_x, w_dt)
    rank = w_dt.shape[1]
    dt, B, C, _ = F.linear(x, w_x).split([rank, n, n, len(w_x) - rank - 2 * n], dim=-1)
    return F.linear(dt, w_dt), B, C


def _padded(w_x: Tensor, w_dt: Tensor) -> tuple[Tensor, Tensor]:
    """Both padded with zeros, so that each product reads and writes multiples of 16 bytes, as a GPU wants them."""
    rank = w_dt.shape[1]
    w_r, w_BC = w_x.split([rank, len(w_x) - rank])
    w_r, w_BC = (F.pad(w, (0, 0, 0, -len(w) % 8)) for w in (w_r, w_BC))
    return torch.cat([w_r, w_BC]), F.pad(w_dt, (0, -rank % 8))


# In the op `mixed` is what w_x gives: r numbers for dt, then B and C, with padding between and after them. All that is kept for
# backward has an axis of members first. x is u after its convolution.


def _forward(
    projected: Tensor, taps: Tensor, w_x: Tensor, w_dt: Tensor, AbD: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    members, inner, rank = len(AbD), AbD.shape[2], w_dt.shape[2]
    u, z = _parts(projected, members, inner)
    x = kernels.short_conv.forward(u, taps, "silu", True)
    mixed = torch.bmm(x.flatten(1, 2), w_x.mT)
    dt = torch.bmm(mixed[..., :rank], w_dt.mT).view(x.shape)
    out, states = kernels.selective_scan.forward(x, dt, AbD, _BC(mixed, x, AbD, rank), z)
    return out.flatten(0, 1), x, mixed, dt, states


def _backward(
    grad: Tensor, projected: Tensor, taps: Tensor, w_x: Tensor, w_dt: Tensor, AbD: Tensor,
    out: Tensor, x: Tensor, mixed: Tensor, dt: Tensor, states: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    members, inner, rank = len(AbD), AbD.shape[2], w_dt.shape[2]
    dprojected, dmixed = projected.new_empty(projected.shape), mixed.new_empty(mixed.shape)
    (u, z), (du, dz) = (_parts(t, members, inner) for t in (projected, dprojected))
    BC, dBC = (_BC(t, x, AbD, rank) for t in (mixed, dmixed))
    gate = None if z is None or dz is None else kernels.selective_scan.Gate(z, out.view(x.shape), dz)
    dx, ddt, dAbD = kernels.selective_scan.backward(grad.view(x.shape), x, dt, AbD, BC, states, dBC, gate)
    ddt = ddt.flatten(1, 2)
    torch.bmm(ddt, w_dt, out=dmixed[..., :rank])
    dmixed[..., rank + dBC.shape[-1] :].zero_()
    dw_dt = torch.bmm(ddt.mT, mixed[..., :rank])
    dw_x = torch.bmm(dmixed.mT, x.flatten(1, 2))
    more = torch.bmm(dmixed, w_x).view(x.shape)
    _, dtaps = kernels.short_conv.backward(dx, u, taps, "silu", True, du, also=more)
    return dprojected, dtaps, dw_x, dw_dt, dAbD


def _parts(projected: Tensor, members: int, inner: int) -> tuple[Tensor, Tensor | None]:
    """u, and z where there is a gate, (members, batch, length, inner), where they lie."""
    u, *z = projected.unflatten(0, (members, -1)).split(inner, dim=-1)
    return u, z[0] if z else None


def _BC(mixed: Tensor, x: Tensor, AbD: Tensor, rank: int) -> Tensor:
    """(members, batch, length, 2 n), where it lies."""
    return mixed.view(*x.shape[:3], -1)[..., rank : rank + 2 * (AbD.shape[1] - 2)]


def _fake(
    projected: Tensor, taps: Tensor, w_x: Tensor, w_dt: Tensor, AbD: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    u, _ = _parts(projected, len(AbD), AbD.shape[2])
    out, states = kernels.selective_scan.outputs(u, AbD)
    x, dt = u.new_empty(u.shape), u.new_empty(u.shape)
    mixed = u.new_empty(len(AbD), u.shape[1] * u.shape[2], w_x.shape[1])
    return out.flatten(0, 1), x, mixed, dt, states


_op = op("mamba", _forward, _backward, _fake)
