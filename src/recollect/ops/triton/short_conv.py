"""Kernels of the short causal convolution; formula and plain form in ops/short_conv.py.

    pre_t = sum_back w_back x_{t-back} + b        y_t = pre_t or silu(pre_t)
    dpre_t = dy_t or dy_t silu'(pre_t)            dx_t = sum_back w_back dpre_{t+back}
    dw_back = sum_t dpre_t x_{t-back}             db = sum_t dpre_t

A program takes one row, a span of its tokens and a block of channels. In backward a thread walks a run of the span's tokens
one after another, with all that it read in registers: a pre is computed once (and those after the end of a run once more).
Every program leaves a summand of dw and db, and PyTorch adds them up: the same bits on every run.

Shapes: x, y (groups, batch, length, channels), w (groups, channels, columns): the taps, the last of them that of the present
token, and where it is `biased` one column more, b.
"""

# pyright: reportCallIssue=false, reportOperatorIssue=false, reportGeneralTypeIssues=false, reportIndexIssue=false
# (Triton's language looks like Python, but its types are its own.)

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton.activations import sigmoid

SPAN = 32
"""Tokens of a program, or fewer in a short row."""
RUN = 16
"""Tokens that a thread of backward walks: few, for it holds them all, but more than the taps, which runs read twice."""


def forward(x: Tensor, w: Tensor, activation: str, biased: bool) -> Tensor:
    """y."""
    x, w = _straight(x), w.contiguous()
    y = x.new_empty(x.shape)
    programs, span, shape = _division(x, w, biased)
    with torch.cuda.device_of(x):
        _forward_kernel[(programs,)](
            x, w, y, *x.stride()[:3], *x.shape[1:], **shape, ACTIVATION=activation, SPAN=span, num_warps=4
        )  # fmt: skip
    return y


def backward(grad: Tensor, x: Tensor, w: Tensor, activation: str, biased: bool) -> tuple[Tensor, Tensor]:
    """Gradients of x and w."""
    grad, x, w = grad.contiguous(), _straight(x), w.contiguous()
    groups, batch, length, channels = x.shape
    programs, span, shape = _division(x, w, biased)
    run = min(span, RUN)
    dx = x.new_empty(x.shape)
    dw = x.new_empty(groups, batch * triton.cdiv(length, span), w.shape[2], channels, dtype=torch.float32)
    with torch.cuda.device_of(x):
        _backward_kernel[(programs,)](
            grad, x, w, dx, dw, *x.stride()[:3], *x.shape[1:], **shape, ACTIVATION=activation, RUN=run, RUNS=span // run,
            num_warps=max(1, span // run * shape["BLOCK"] // 64),
        )  # fmt: skip
    return dx, dw.sum(1).transpose(1, 2).to(w.dtype).contiguous()


def _straight(x: Tensor) -> Tensor:
    """x with its channels side by side: a part of a projection's channels is read where it lies."""
    return x if x.stride(3) == 1 else x.contiguous()


def _division(x: Tensor, w: Tensor, biased: bool) -> tuple[int, int, dict[str, int | bool]]:
    """How many programs there are, the tokens of each, and what else is compiled in."""
    groups, batch, length, channels = x.shape
    span, block = min(triton.next_power_of_2(length), SPAN), min(triton.next_power_of_2(channels), 128)
    programs = groups * batch * triton.cdiv(length, span) * triton.cdiv(channels, block)
    return programs, span, {"KERNEL": w.shape[2] - biased, "BIASED": biased, "BLOCK": block}


@triton.jit
def _read(pointer, mask):
    return tl.load(pointer, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def _forward_kernel(
    x, w, y, group_stride, row_stride, time_stride, batch, length, channels,
    KERNEL: tl.constexpr, BIASED: tl.constexpr, BLOCK: tl.constexpr, ACTIVATION: tl.constexpr, SPAN: tl.constexpr,
):  # fmt: skip
    blocks, spans = tl.cdiv(channels, BLOCK), tl.cdiv(length, SPAN)
    c = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    t = tl.program_id(0) // blocks % spans * SPAN + tl.arange(0, SPAN)
    row = (tl.program_id(0) // blocks // spans).to(tl.int64)
    inside_c = c < channels
    x += row // batch * group_stride + row % batch * row_stride + c[None, :]
    w += (row // batch * channels + c) * (KERNEL + BIASED) + KERNEL - 1
    y_t = tl.zeros([SPAN, BLOCK], tl.float32)
    for back in tl.static_range(KERNEL):
        seen = (t >= back) & (t < length)
        x_t = _read(x + (t - back)[:, None] * time_stride, seen[:, None] & inside_c[None, :])
        y_t += _read(w - back, inside_c)[None, :] * x_t
    if BIASED:
        y_t += _read(w + 1, inside_c)[None, :]
    if ACTIVATION == "silu":
        y_t *= sigmoid(y_t)
    y += row * length * channels + t[:, None] * channels + c[None, :]
    tl.store(y, y_t.to(y.dtype.element_ty), mask=(t < length)[:, None] & inside_c[None, :])


@triton.jit
def _backward_kernel(
    grad, x, w, dx, dw, group_stride, row_stride, time_stride, batch, length, channels,
    KERNEL: tl.constexpr, BIASED: tl.constexpr, BLOCK: tl.constexpr, ACTIVATION: tl.constexpr, RUN: tl.constexpr,
    RUNS: tl.constexpr,
):  # fmt: skip
    BEFORE: tl.constexpr = KERNEL - 1
    blocks, spans = tl.cdiv(channels, BLOCK), tl.cdiv(length, RUN * RUNS)
    c = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    first = tl.program_id(0) // blocks % spans * (RUN * RUNS) + tl.arange(0, RUNS) * RUN  # tokens where runs begin
    part = (tl.program_id(0) // blocks).to(tl.int64)
    row = part // spans
    inside_c = c < channels
    x += row // batch * group_stride + row % batch * row_stride + c[None, :]
    w += (row // batch * channels + c) * (KERNEL + BIASED) + KERNEL - 1
    grad += row * length * channels + c[None, :]
    dx += row * length * channels + c[None, :]
    dw += (part * (KERNEL + BIASED) + KERNEL - 1) * channels + c
    b, db = tl.zeros([RUNS, BLOCK], tl.float32), tl.zeros([RUNS, BLOCK], tl.float32)
    if BIASED:
        b += _read(w + 1, inside_c)[None, :]
    taps, dtaps, xs, dys, dpres = (), (), (), (), ()
    for back in tl.static_range(KERNEL):
        taps += (_read(w - back, inside_c)[None, :],)
        dtaps += (db,)
    # All is read before anything is written: a read that follows a write in the code waits for it.
    for k in tl.static_range(-BEFORE, RUN + BEFORE):
        inside = ((first + k >= 0) & (first + k < length))[:, None] & inside_c[None, :]
        xs += (_read(x + (first + k)[:, None] * time_stride, inside),)  # xs[k + BEFORE] is that of token first + k
        if k >= 0:
            dys += (_read(grad + (first + k)[:, None] * channels, inside),)
    for k in tl.static_range(RUN + BEFORE):
        dpre = dys[k]
        if ACTIVATION == "silu":
            pre = b
            for back in tl.static_range(KERNEL):
                pre += taps[back] * xs[k + BEFORE - back]
            gate = sigmoid(pre)
            dpre *= gate * (1 + pre * (1 - gate))
        dpres += (dpre,)
        if k < RUN:
            db += dpre
            sums = ()
            for back in tl.static_range(KERNEL):
                sums += (dtaps[back] + dpre * xs[k + BEFORE - back],)
            dtaps = sums
        if k >= BEFORE:  # now all that dx of the token BEFORE ago needs is there
            dx_t = tl.zeros([RUNS, BLOCK], tl.float32)
            for back in tl.static_range(KERNEL):
                dx_t += taps[back] * dpres[k - BEFORE + back]
            t = first + (k - BEFORE)
            inside = (t < length)[:, None] & inside_c[None, :]
            tl.store(dx + t[:, None] * channels, dx_t.to(dx.dtype.element_ty), mask=inside)
    for back in tl.static_range(KERNEL):
        tl.store(dw - back * channels, tl.sum(dtaps[back], axis=0), mask=inside_c)
    if BIASED:
        tl.store(dw + channels, tl.sum(db, axis=0), mask=inside_c)
