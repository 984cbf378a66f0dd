"""Kernels of RWKV-4's weighted average (Peng et al. 2023); formula and plain form in ops/wkv.py.

A program takes one row and a block of channels through time, its sums divided by e^m with m their largest exponent.
Backward first goes forward again. The decay's gradient is computed in the same pass: with a_t a sum of the formula and a'_t
the same sum with each term weighted by its exponent's distance, da_t / dw = -a'_t and

    a_{t+1} = e^{-w} a_t + e^{k_t} v_t        a'_{t+1} = e^{-w} (a'_t + a_t)

Then it walks back with P and Q, the sums of g_t / z_t and g_t y_t / z_t over what comes later, divided by e^n.

Glossary: k, v, w, u as in the paper; y = wkv; a, b = its numerator and denominator without the present token;
z = the whole denominator; g = gradient of y. Shapes: k, v, y (groups * batch, length, channels), w, u (groups, channels).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton.tiles import read_float


def forward(w: Tensor, u: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The weighted average y."""
    w, u, k, v = (t.contiguous() for t in (w, u, k, v))
    y = torch.empty_like(v)
    rows, length, channels = k.shape
    block = _block(channels)
    with torch.cuda.device_of(k):
        _forward_kernel[(rows * triton.cdiv(channels, block),)](
            w, u, k, v, y, rows // w.shape[0], length, channels, BLOCK=block, num_warps=block // 32
        )  # fmt: skip
    return y


def backward(grad: Tensor, w: Tensor, u: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of w, u, k and v."""
    grad, w, u, k, v = (t.contiguous() for t in (grad, w, u, k, v))
    rows, length, channels = k.shape
    block = _block(channels)
    y, log_z = (torch.empty_like(k, dtype=torch.float32) for _ in range(2))
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    dw, du = (k.new_empty(w.shape[0], rows // w.shape[0], channels, dtype=torch.float32) for _ in range(2))
    with torch.cuda.device_of(k):
        _backward_kernel[(rows * triton.cdiv(channels, block),)](
            grad, w, u, k, v, y, log_z, dw, du, dk, dv, rows // w.shape[0], length, channels,
            BLOCK=block, num_warps=block // 32,
        )  # fmt: skip
    return dw.sum(1).to(w.dtype), du.sum(1).to(u.dtype), dk, dv


def _block(channels: int) -> int:
    """Channels of a program, one per thread."""
    return min(max(triton.next_power_of_2(channels), 32), 128)


@triton.jit
def _forward_kernel(w, u, k, v, y, batch, length, channels, BLOCK: tl.constexpr):
    blocks = tl.cdiv(channels, BLOCK)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    c = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    inside = c < channels
    w, u = read_float(w + row // batch * channels + c, inside), read_float(u + row // batch * channels + c, inside)
    first = row * length * channels + c
    k, v, y = k + first, v + first, y + first
    a, b = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    m = tl.full([BLOCK], float("-inf"), tl.float32)
    for t in range(length):
        k_t, v_t = read_float(k + t * channels, inside), read_float(v + t * channels, inside)
        top = tl.maximum(m, u + k_t)
        past, now = tl.exp(m - top), tl.exp(u + k_t - top)
        y_t = (past * a + now * v_t) / (past * b + now)
        tl.store(y + t * channels, y_t.to(y.dtype.element_ty), mask=inside)
        top = tl.maximum(m - w, k_t)
        past, now = tl.exp(m - w - top), tl.exp(k_t - top)
        a, b, m = past * a + now * v_t, past * b + now, top


@triton.jit
def _backward_kernel(
    grad, w, u, k, v, y, log_z, dw, du, dk, dv, batch, length, channels, BLOCK: tl.constexpr
):  # fmt: skip
    blocks = tl.cdiv(channels, BLOCK)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    c = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    inside = c < channels
    w, u = read_float(w + row // batch * channels + c, inside), read_float(u + row // batch * channels + c, inside)
    first = row * length * channels + c
    grad, k, v, dk, dv, y, log_z = grad + first, k + first, v + first, dk + first, dv + first, y + first, log_z + first

    a, b = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    a_far, b_far = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)  # a', b'
    sum_w, sum_u = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    m = tl.full([BLOCK], float("-inf"), tl.float32)
    for t in range(length):
        k_t, v_t, g_t = (
            read_float(k + t * channels, inside), read_float(v + t * channels, inside), read_float(grad + t * channels, inside)
        )  # fmt: skip
        top = tl.maximum(m, u + k_t)
        past, now = tl.exp(m - top), tl.exp(u + k_t - top)
        z = past * b + now
        y_t = (past * a + now * v_t) / z
        sum_w += g_t * past / z * (y_t * b_far - a_far)
        sum_u += g_t * now / z * (v_t - y_t)
        tl.store(y + t * channels, y_t, mask=inside)
        tl.store(log_z + t * channels, top + tl.log(z), mask=inside)
        top = tl.maximum(m - w, k_t)
        past, now = tl.exp(m - w - top), tl.exp(k_t - top)
        a_far, b_far = past * (a_far + a), past * (b_far + b)
        a, b, m = past * a + now * v_t, past * b + now, top
    tl.store(dw + row * channels + c, sum_w, mask=inside)
    tl.store(du + row * channels + c, sum_u, mask=inside)

    tl.debug_barrier()  # y and log_z are read again, perhaps by other threads
    P, Q = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    n = tl.full([BLOCK], float("-inf"), tl.float32)
    for before in range(length):
        t = length - 1 - before
        k_t, v_t, g_t = (
            read_float(k + t * channels, inside), read_float(v + t * channels, inside), read_float(grad + t * channels, inside)
        )  # fmt: skip
        y_t, log_z_t = read_float(y + t * channels, inside), read_float(log_z + t * channels, inside)
        past, now = tl.exp(k_t + n), tl.exp(u + k_t - log_z_t) * g_t
        dk_t, dv_t = past * (v_t * P - Q) + now * (v_t - y_t), past * P + now
        tl.store(dk + t * channels, dk_t.to(dk.dtype.element_ty), mask=inside)
        tl.store(dv + t * channels, dv_t.to(dv.dtype.element_ty), mask=inside)
        top = tl.maximum(n - w, -log_z_t)
        past, now = tl.exp(n - w - top), tl.exp(-log_z_t - top) * g_t
        P, Q, n = past * P + now, past * Q + now * y_t, top
