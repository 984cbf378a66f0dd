"""Kernels of the short causal convolution; formula and plain form in ops/short_conv.py.

    y_t = sum_back w_back x_{t-back}        dx_t = sum_back w_back dy_{t+back}        dw_back = sum_t dy_t x_{t-back}

A program takes one row, a block of its tokens and a block of channels; those of backward each leave a summand of dw, and
PyTorch adds them up: the same bits on every run.

Shapes: x, y (groups, batch, length, channels), w (groups, channels, kernel), whose last tap is that of the present token.
"""

# pyright: reportCallIssue=false, reportOperatorIssue=false, reportGeneralTypeIssues=false
# (Triton's language looks like Python, but its types are its own.)

import torch
import triton
import triton.language as tl
from torch import Tensor


def forward(x: Tensor, w: Tensor) -> Tensor:
    """y."""
    x, w = _straight(x), w.contiguous()
    y = x.new_empty(x.shape)
    time, block = _tile(x)
    with torch.cuda.device_of(x):
        _forward_kernel[_grid(x, time, block)](
            x, w, y, *x.stride()[:3], *x.shape[1:], KERNEL=w.shape[2], TIME=time, BLOCK=block, num_warps=4
        )  # fmt: skip
    return y


def backward(grad: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of x and w."""
    grad, x, w = grad.contiguous(), _straight(x), w.contiguous()
    groups, batch, length, channels = x.shape
    kernel = w.shape[2]
    time, block = _tile(x)
    dx = x.new_empty(x.shape)
    dw = x.new_empty(groups, batch * triton.cdiv(length, time), kernel, channels, dtype=torch.float32)
    with torch.cuda.device_of(x):
        _backward_kernel[_grid(x, time, block)](
            grad, x, w, dx, dw, *x.stride()[:3], *x.shape[1:], KERNEL=kernel, TIME=time, BLOCK=block, num_warps=4
        )  # fmt: skip
    return dx, dw.sum(1).transpose(1, 2).to(w.dtype).contiguous()


def _straight(x: Tensor) -> Tensor:
    """x with its channels side by side: a part of a projection's channels is read where it lies."""
    return x if x.stride(3) == 1 else x.contiguous()


def _tile(x: Tensor) -> tuple[int, int]:
    """Tokens and channels of a program."""
    length, channels = x.shape[2:]
    return min(triton.next_power_of_2(length), 64), min(triton.next_power_of_2(channels), 64)


def _grid(x: Tensor, time: int, block: int) -> tuple[int]:
    groups, batch, length, channels = x.shape
    return (groups * batch * triton.cdiv(length, time) * triton.cdiv(channels, block),)


@triton.jit
def _read(pointer, mask):
    return tl.load(pointer, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def _forward_kernel(
    x, w, y, group_stride, row_stride, time_stride, batch, length, channels,
    KERNEL: tl.constexpr, TIME: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    blocks, spans = tl.cdiv(channels, BLOCK), tl.cdiv(length, TIME)
    c = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    t = tl.program_id(0) // blocks % spans * TIME + tl.arange(0, TIME)
    row = (tl.program_id(0) // blocks // spans).to(tl.int64)
    inside_c = c < channels
    x += row // batch * group_stride + row % batch * row_stride + c[None, :]
    w += row // batch * channels * KERNEL + c * KERNEL + KERNEL - 1
    y_t = tl.zeros([TIME, BLOCK], tl.float32)
    for back in tl.static_range(KERNEL):
        seen = (t >= back) & (t < length)
        x_t = _read(x + (t - back)[:, None] * time_stride, seen[:, None] & inside_c[None, :])
        y_t += _read(w - back, inside_c)[None, :] * x_t
    y += row * length * channels + t[:, None] * channels + c[None, :]
    tl.store(y, y_t.to(y.dtype.element_ty), mask=(t < length)[:, None] & inside_c[None, :])


@triton.jit
def _backward_kernel(
    grad, x, w, dx, dw, group_stride, row_stride, time_stride, batch, length, channels,
    KERNEL: tl.constexpr, TIME: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    blocks, spans = tl.cdiv(channels, BLOCK), tl.cdiv(length, TIME)
    c = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    t = tl.program_id(0) // blocks % spans * TIME + tl.arange(0, TIME)
    part = (tl.program_id(0) // blocks).to(tl.int64)
    row = part // spans
    inside_c = c < channels
    inside = (t < length)[:, None] & inside_c[None, :]
    x += row // batch * group_stride + row % batch * row_stride + c[None, :]
    w += row // batch * channels * KERNEL + c * KERNEL + KERNEL - 1
    grad += row * length * channels + t[:, None] * channels + c[None, :]
    dw += part * KERNEL * channels + (KERNEL - 1) * channels + c
    dy_t = _read(grad, inside)
    dx_t = tl.zeros([TIME, BLOCK], tl.float32)
    for back in tl.static_range(KERNEL):
        dy_later = _read(grad + back * channels, (t + back < length)[:, None] & inside_c[None, :])
        dx_t += _read(w - back, inside_c)[None, :] * dy_later
        x_before = _read(x + (t - back)[:, None] * time_stride, (t >= back)[:, None] & inside)
        tl.store(dw - back * channels, tl.sum(dy_t * x_before, axis=0), mask=inside_c)
    dx += row * length * channels + t[:, None] * channels + c[None, :]
    tl.store(dx, dx_t.to(dx.dtype.element_ty), mask=inside)
