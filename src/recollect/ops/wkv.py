"""The weighted average of RWKV-4 (Peng et al. 2023, "RWKV: Reinventing RNNs for the Transformer Era").

    wkv_t = (sum_{i<t} e^{-(t-1-i) w + k_i} v_i + e^{u + k_t} v_t) / (sum_{i<t} e^{-(t-1-i) w + k_i} + e^{u + k_t})

Glossary: k, v = keys and values; w = decay per step (positive); u = bonus of the present token, one of each per channel.
Shapes: k, v (batch, length, channels); w, u (channels,).

Sums of exponentials are held as (sum / e^m, m) with m the running maximum of their exponents, so that no k overflows.
The gradient runs over the sequence once more, backwards: with z_t the denominator and g_t the gradient of wkv_t,

    dv_i = e^{k_i} P_i + g_i e^{u + k_i} / z_i,    P_i = sum_{t>i} e^{-(t-1-i) w} g_t / z_t

which is the same kind of sum as the forward one, with -log z in the place of k.
"""

import math

import torch
from torch import Tensor

from recollect.ops import triton as kernels
from recollect.ops.fused import use_kernels
from recollect.ops.op import op
from recollect.ops.precision import wide
from recollect.ops.recurrence import over_time

WkvState = dict[str, Tensor]
"""`numerator` and `denominator`, divided by e^m, and m as `maximum`: each (batch, channels)."""


def wkv_start(k: Tensor) -> WkvState:
    """The state before the first token; k (batch, channels) gives shape and type."""
    return {
        "numerator": torch.zeros_like(k),
        "denominator": torch.zeros_like(k),
        "maximum": torch.full_like(k, -math.inf),
    }


def wkv_step(w: Tensor, u: Tensor, k: Tensor, v: Tensor, state: WkvState) -> tuple[Tensor, WkvState]:
    """One token: k, v (batch, channels)."""
    numerator, denominator, m = state["numerator"], state["denominator"], state["maximum"]
    top = torch.maximum(m, u + k)
    past, now = (m - top).exp(), (u + k - top).exp()
    y = (past * numerator + now * v) / (past * denominator + now)
    top = torch.maximum(m - w, k)
    past, now = (m - w - top).exp(), (k - top).exp()
    return y, {"numerator": past * numerator + now * v, "denominator": past * denominator + now, "maximum": top}


def wkv_definition(w: Tensor, u: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One token after another."""
    return over_time(lambda k, v, state: wkv_step(w, u, k, v, state), wkv_start(k[:, 0]), k, v, dim=1)


def wkv(w: Tensor, u: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The same with only the recurrence itself in the loop, and its own backward."""
    return _wkv(w[None], u[None], k, v)[0]


def _forward(w: Tensor, u: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor]:
    if use_kernels(k):
        return (kernels.wkv.forward(w, u, k, v),)
    return (_average(*_grouped(w, u, k, v))[0].flatten(0, 1).to(v.dtype),)


def _backward(grad: Tensor, w: Tensor, u: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    if use_kernels(k):
        return kernels.wkv.backward(grad, w, u, k, v)
    dtypes = [t.dtype for t in (w, u, k, v)]
    w, u, k, v = _grouped(w, u, k, v)
    grad = grad.to(k.dtype).view_as(k)
    y, log_z, numerator, denominator, m = _average(w, u, k, v)
    later = [t.flip(2) for t in (-log_z, grad, grad * y)]
    P, Q, n = (t.flip(2) for t in _decayed_sums(w, *later))  # divided by e^n
    past, now = (k + n).exp(), (u + k - log_z).exp() * grad
    grad_v = past * P + now
    grad_k = past * (v * P - Q) + now * (v - y)
    grad_u = (now * (v - y)).sum((1, 2))
    grad_w = ((m + n - w).exp() * (denominator * Q - numerator * P)).sum((1, 2))
    grads = grad_w, grad_u, grad_k.flatten(0, 1), grad_v.flatten(0, 1)
    return tuple(t.to(dtype).contiguous() for t, dtype in zip(grads, dtypes, strict=True))


def _grouped(w: Tensor, u: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    """w, u (groups, 1, 1, channels) and k, v (groups, batch, length, channels), in float32 at least."""
    w, u, k, v = (t.to(wide(t.dtype)) for t in (w, u, k, v))
    return [w[:, None, None], u[:, None, None], *(t.unflatten(0, (w.shape[0], -1)) for t in (k, v))]


def _average(w: Tensor, u: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """wkv, the logarithm of its denominator, and the state before each token."""
    numerator, denominator, m = _decayed_sums(w, k, v, torch.ones_like(v))
    top = torch.maximum(m, u + k)
    past, now = (m - top).exp(), (u + k - top).exp()
    z = past * denominator + now
    return (past * numerator + now * v) / z, top + z.log(), numerator, denominator, m


def _decayed_sums(w: Tensor, k: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """sum_{i<t} e^{-(t-1-i) w + k_i} x_i at each t, for x = a and b, divided by e^m; and m, their largest exponent."""
    groups, batch, length, channels = k.shape
    m = k.new_full((groups, batch, length + 1, channels), -math.inf)
    for t in range(length):
        torch.maximum(m[:, :, t] - w[:, :, 0], k[:, :, t], out=m[:, :, t + 1])
    before, after = m[:, :, :-1], m[:, :, 1:]
    decay = (before - w - after).exp()
    added = (k - after).exp()
    sums = m.new_zeros(2, *m.shape)  # (2, groups, batch, length + 1, channels)
    torch.mul(added, a, out=sums[0, :, :, 1:])
    torch.mul(added, b, out=sums[1, :, :, 1:])
    for t in range(length):
        sums[:, :, :, t + 1] += decay[:, :, t] * sums[:, :, :, t]
    return sums[0, :, :, :-1], sums[1, :, :, :-1], before


_wkv = op("wkv", _forward, _backward, fake=lambda w, u, k, v: (v.new_empty(v.shape),))
