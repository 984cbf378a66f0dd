"""Mamba2 (Dao & Gu 2024) between its input and its output projection, as one op on a GPU.

    z, (x, B, C), dt = W_in x        x, B, C = silu(conv(x, B, C))        dt = softplus(dt + b_dt)
    y = ssd(dt x, -exp(A_log) dt, B, C) + D x        (ops/ssd.py; part by part in mixers/mamba2.py)
    out = w * g / sqrt(mean g^2 + eps)        g = y * silu(z); the mean is over the channels of one group

The op reads its inputs in place from the projection and writes their gradients side by side, so that the projection and its
gradients are one product each.

Shapes: projected (batch, length, inner + channels + heads): z, then x, B, C, then dt, and perhaps columns that are not read;
taps (channels, kernel), b (channels,), b_dt, A_log, D (heads,), w (inner,), out (batch, length, inner), where
channels = inner + 2 groups n, and a group is the heads that share their B and C, or their channels.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recollect.ops import triton as kernels
from recollect.ops.fused import chunk_dtype, has_hooks
from recollect.ops.op import op
from recollect.ops.short_conv import LONGEST, ShortConv

EPS = 1e-5
WIDEST = 8192
"""The norm's kernels hold whole rows: wider ones do not fit their registers."""


def fused_mamba2(
    x: Tensor, in_proj: nn.Linear, conv: ShortConv, norm: nn.RMSNorm, b_dt: Tensor, A_log: Tensor, D: Tensor, groups: int
) -> Tensor | None:  # fmt: skip
    """The output for x (batch, length, width), or None where the modules are to be called one by one."""
    inner, (channels, kernel) = len(norm.weight), conv.weight.shape
    dtype = chunk_dtype(x, inner // len(D), (channels - inner) // (2 * groups))
    if dtype is None or conv.bias is None or kernel > LONGEST or inner > WIDEST or has_hooks(in_proj, conv, norm):
        return None
    w = in_proj.weight
    projected = F.linear(x, F.pad(w, (0, 0, 0, -len(w) % 16)))  # rows of a multiple of 32 bytes, as a GPU wants them
    return _by_kernels(projected.to(dtype), conv.weight, conv.bias, b_dt, A_log, D, norm.weight, groups)


def _by_kernels(
    projected: Tensor, taps: Tensor, b: Tensor, b_dt: Tensor, A_log: Tensor, D: Tensor, w: Tensor, groups: int
) -> Tensor:
    """In the precision of `projected`."""
    taps = torch.cat([taps, b[:, None]], dim=1)
    return _op(projected, *(t.float()[None] for t in (taps, b_dt, A_log, D, w)), groups)[0]


def unpacked(xBC: Tensor, inner: int, heads: int, groups: int) -> tuple[Tensor, Tensor, Tensor]:
    """x (..., heads, p), B and C (..., heads or 1, n)."""
    x, B, C = _views(xBC, inner, heads, groups)
    if groups > 1:
        B, C = (t.repeat_interleave(heads // groups, dim=-2) for t in (B, C))
    return x, B, C


def _views(xBC: Tensor, inner: int, heads: int, groups: int) -> tuple[Tensor, Tensor, Tensor]:
    """Views: x (..., heads, p), B and C (..., groups, n)."""
    each = (xBC.shape[-1] - inner) // 2
    x, B, C = xBC.split([inner, each, each], dim=-1)
    return x.unflatten(-1, (heads, -1)), B.unflatten(-1, (groups, -1)), C.unflatten(-1, (groups, -1))


def _parts(projected: Tensor, inner: int, channels: int, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Views of z, xBC and dt."""
    dt = inner + channels
    return projected[..., :inner], projected[..., inner:dt], projected[..., dt : dt + heads]


# In the op each member has its own taps (with b as the last column), b_dt, A_log, D and w.


def _forward(
    projected: Tensor, taps: Tensor, b_dt: Tensor, A_log: Tensor, D: Tensor, w: Tensor, groups: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The output, and for backward xBC, y, states and decays."""
    inner, (members, heads) = w.shape[1], D.shape
    z, xBC, dt = _parts(projected, inner, taps.shape[1], heads)
    xBC = kernels.short_conv.forward(xBC.unflatten(0, (members, -1)), taps, "silu", True).flatten(0, 1)
    x, B, C = _views(xBC, inner, heads, groups)
    y, states, decay = kernels.ssd.forward(x, kernels.ssd.Mamba2(dt, b_dt, A_log, D), B, C)
    by_group = _by_group(groups, *_tokens(members, y.flatten(2), z), w)
    out = _joined([kernels.gated_norm.forward(y_g, z_g, w_g, EPS) for y_g, z_g, w_g in by_group])
    return out.view(z.shape), xBC, y, states, decay


def _backward(
    grad: Tensor, projected: Tensor, taps: Tensor, b_dt: Tensor, A_log: Tensor, D: Tensor, w: Tensor, groups: int,
    out: Tensor, xBC: Tensor, y: Tensor, states: Tensor, decay: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    inner, (members, heads), channels = w.shape[1], D.shape, taps.shape[1]
    projected = projected.contiguous()
    dprojected, dxBC = projected.new_empty(projected.shape), xBC.new_empty(xBC.shape)
    (z, before, dt), (dz, dbefore, _) = (_parts(t, inner, channels, heads) for t in (projected, dprojected))
    grad, y, z, dz = _tokens(members, grad, y.flatten(2), z, dz)
    by_group = _by_group(groups, grad, y, z, w, dz)
    grads = [kernels.gated_norm.backward(g, y_g, z_g, w_g, EPS, dz_g) for g, y_g, z_g, w_g, dz_g in by_group]
    dy, dw = (_joined(list(parts)) for parts in zip(*grads, strict=True))
    (x, B, C), (dx, dB, dC) = (_views(t, inner, heads, groups) for t in (xBC, dxBC))
    # ddt has columns of zeros where dt is not read.
    ddt = projected.new_empty(*projected.shape[:2], projected.shape[2] - inner - channels)
    log_a = kernels.ssd.Mamba2(dt, b_dt, A_log, D)
    db_dt, dA_log, dD = kernels.ssd.backward(dy.view(x.shape), x, log_a, B, C, states, decay, dx, dB, dC, ddt)
    dxBC, before, dbefore = (t.unflatten(0, (members, -1)) for t in (dxBC, before, dbefore))
    _, dtaps = kernels.short_conv.backward(dxBC, before, taps, "silu", True, dbefore, ddt)
    return dprojected, dtaps, db_dt, dA_log, dD, dw


def _tokens(members: int, *tensors: Tensor) -> list[Tensor]:
    """(rows, length, width) -> views (members, tokens, width)."""
    return [t.unflatten(0, (members, -1)).flatten(1, 2) for t in tensors]


def _by_group(groups: int, *tensors: Tensor) -> list[tuple[Tensor, ...]]:
    """For each group, views of its part of tensors (..., inner)."""
    return list(zip(*(t.chunk(groups, dim=-1) for t in tensors), strict=True))


def _joined(parts: list[Tensor]) -> Tensor:
    """The groups' parts as one; a single part is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def _fake(
    projected: Tensor, taps: Tensor, b_dt: Tensor, A_log: Tensor, D: Tensor, w: Tensor, groups: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    (rows, length), inner, heads = projected.shape[:2], w.shape[1], D.shape[1]
    xBC = projected.new_empty(rows, length, taps.shape[1])
    x, _, C = _views(xBC, inner, heads, groups)
    y, states = kernels.ssd.outputs(C, x, False)
    return projected.new_empty(rows, length, inner), xBC, y, states, D.new_empty(rows, heads, 3, length)


_op = op("mamba2", _forward, _backward, _fake)
