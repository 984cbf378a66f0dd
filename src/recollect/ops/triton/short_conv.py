"""Kernels of the short causal convolution; formula and plain form in ops/short_conv.py.

    pre_t = sum_back w_back x_{t-back} + b        y_t = pre_t or silu(pre_t)
    dpre_t = dy_t or dy_t silu'(pre_t)            dx_t = sum_back w_back dpre_{t+back}
    dw_back = sum_t dpre_t x_{t-back}             db = sum_t dpre_t

A program takes one row, a span of its tokens and a block of channels. A thread walks the span's tokens, a run of them at a time,
with all that it read of the run in registers. In backward it carries the last inputs and dpres of a run to the next, because
the gradient of a token needs those after it. The kernels are bound by instructions, so strides are compiled in, and masks are
omitted where possible. Every program of backward leaves a summand of dw and db, and PyTorch adds them up: the same bits on
every run.

Shapes: x, y (groups, batch, length, channels), w (groups, channels, columns): the taps, the last of them that of the present
token, and where it is `biased` one column more, b.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton.activations import sigmoid
from recollect.ops.triton.tiles import read_float, write

FORWARD = 32, 32
"""Tokens of a program of forward, and of a run: few, because a thread holds them all, but more than the taps, which are read
twice."""
BACKWARD = 256, 8
"""The same of backward, which holds more, and reads nothing twice."""
BLOCK = 128
"""Channels of a program, two per thread."""


def forward(x: Tensor, w: Tensor, activation: str, biased: bool) -> Tensor:
    """The convolution y."""
    x, w = _straight(x), w.contiguous()
    y = x.new_empty(x.shape)
    programs, sizes, options = _division(x, w, activation, biased, *FORWARD)
    with torch.cuda.device_of(x):
        _forward_kernel[(programs,)](x, w, y, *x.stride()[:2], *sizes, **options)
    return y


def backward(
    grad: Tensor, x: Tensor, w: Tensor, activation: str, biased: bool, dx: Tensor | None = None, beside: Tensor | None = None,
    also: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Gradients of x, written to `dx`, which may be a view, and of w, from y's: grad, or the sum of it and `also`. The few
    numbers per token in `beside` are written after a token's dx: alone they would cost a whole line of memory."""
    grad, x, w = grad.contiguous(), _straight(x), w.contiguous()
    groups, batch, length, channels = x.shape
    programs, sizes, options = _division(x, w, activation, biased, *BACKWARD)
    dx = x.new_empty(x.shape) if dx is None else dx
    spans, more = triton.cdiv(length, options["RUN"] * options["RUNS"]), 0 if beside is None else beside.shape[-1]
    dw = x.new_empty(groups, batch * spans, w.shape[2], channels, dtype=torch.float32)
    with torch.cuda.device_of(x):
        _backward_kernel[(programs,)](
            grad, x, w, dx, dw, *(grad if t is None else t.contiguous() for t in (beside, also)), *x.stride()[:2],
            *dx.stride()[:2], *sizes, ALSO=also is not None,
            DX_TIME=dx.stride(2), BESIDE=more, WIDE=triton.next_power_of_2(max(more, 1)), **options,
        )  # fmt: skip
    return dx, dw.sum(1).transpose(1, 2).to(w.dtype).contiguous()


def _straight(x: Tensor) -> Tensor:
    """x with its channels side by side: a part of a projection's channels is read where it lies."""
    return x if x.stride(3) == 1 else x.contiguous()


def _division(
    x: Tensor, w: Tensor, activation: str, biased: bool, span: int, run: int
) -> tuple[int, tuple[int, int], dict]:
    """How many programs there are, the sizes they take, and what is compiled in."""
    groups, batch, length, channels = x.shape
    span, block = min(triton.next_power_of_2(length), span), min(triton.next_power_of_2(channels), BLOCK)
    run = min(span, run)
    programs = groups * batch * triton.cdiv(length, span) * triton.cdiv(channels, block)
    options = {
        "KERNEL": w.shape[2] - biased, "BIASED": biased, "ACTIVATION": activation, "BLOCK": block, "RUN": run,
        "RUNS": span // run, "TIME": x.stride(2), "CHANNELS": channels, "EVEN": length % span == 0 and channels % block == 0,
        "num_warps": max(1, block // 64),
    }  # fmt: skip
    return programs, (batch, length), options


@triton.jit
def _read(at, t, length, c, CHANNELS: tl.constexpr, MASKED: tl.constexpr):
    """Channels c of token t, zeros outside."""
    return read_float(at, c < tl.where((t >= 0) & (t < length), CHANNELS, 0), not MASKED)


@triton.jit
def _write(at, x, t, start, length, c, CHANNELS: tl.constexpr, MASKED: tl.constexpr):
    """Store channels c where t is a token at or after `start`."""
    write(at, x, c < tl.where((t >= start) & (t < length), CHANNELS, 0), not MASKED)


@triton.jit
def _place(batch, length, CHANNELS: tl.constexpr, BLOCK: tl.constexpr, SPAN: tl.constexpr):
    """The group, row in it, span, first token and channels of a program."""
    blocks, spans = tl.cdiv(CHANNELS, BLOCK), tl.cdiv(length, SPAN)
    c = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    part = (tl.program_id(0) // blocks).to(tl.int64)
    row = part // spans
    return row // batch, row % batch, part, (part % spans).to(tl.int32) * SPAN, c


@triton.jit
def _weights(w, c, KERNEL: tl.constexpr, BIASED: tl.constexpr, CHANNELS: tl.constexpr, EVEN: tl.constexpr):
    """Taps, the present token's first, and b."""
    taps = ()
    for back in tl.static_range(KERNEL):
        taps += (_read(w + KERNEL - 1 - back, 0, 1, c, CHANNELS, not EVEN),)
    if BIASED:
        return taps, _read(w + KERNEL, 0, 1, c, CHANNELS, not EVEN)
    else:
        return taps, tl.zeros(c.shape, tl.float32)


@triton.jit
def _before_activation(dy, xs, k, taps, b, KERNEL: tl.constexpr, ACTIVATION: tl.constexpr):
    """dpre of the k-th token after the first KERNEL - 1 of xs."""
    if ACTIVATION == "silu":
        pre = b
        for back in tl.static_range(KERNEL):
            pre += taps[back] * xs[k + KERNEL - 1 - back]
        gate = sigmoid(pre)
        dy *= gate * (1 + pre * (1 - gate))
    return dy


@triton.jit
def _sum_after(dpres, k, taps, KERNEL: tl.constexpr):
    """The gradient of x for the k-th token of dpres."""
    dx = taps[0] * dpres[k]
    for back in tl.static_range(1, KERNEL):
        dx += taps[back] * dpres[k + back]
    return dx


@triton.jit
def _last(tokens, skipped: tl.constexpr, count: tl.constexpr):
    last = ()
    for k in tl.static_range(count):
        last += (tokens[skipped + k],)
    return last


@triton.jit
def _forward_kernel(
    x, w, y, x_group, x_row, batch, length,
    KERNEL: tl.constexpr, BIASED: tl.constexpr, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr, RUN: tl.constexpr,
    RUNS: tl.constexpr, TIME: tl.constexpr, CHANNELS: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    BEFORE: tl.constexpr = KERNEL - 1
    group, row, _, start, c = _place(batch, length, CHANNELS, BLOCK, RUN * RUNS)
    x += group * x_group + row * x_row + c
    y += (group * batch + row) * length * CHANNELS + c
    taps, b = _weights(w + (group * CHANNELS + c) * (KERNEL + BIASED), c, KERNEL, BIASED, CHANNELS, EVEN)
    for run in range(RUNS):
        first = start + run * RUN
        xs = ()
        for k in tl.static_range(-BEFORE, RUN):  # xs[k + BEFORE] is that of token first + k
            xs += (_read(x + first * TIME + k * TIME, first + k, length, c, CHANNELS, not EVEN or k < 0),)
        for k in tl.static_range(RUN):
            pre = b
            for back in tl.static_range(KERNEL):
                pre += taps[back] * xs[k + BEFORE - back]
            if ACTIVATION == "silu":
                pre *= sigmoid(pre)
            _write(y + first * CHANNELS + k * CHANNELS, pre, first + k, start, length, c, CHANNELS, not EVEN)


@triton.jit
def _backward_kernel(
    grad, x, w, dx, dw, beside, also, x_group, x_row, dx_group, dx_row, batch, length,
    KERNEL: tl.constexpr, BIASED: tl.constexpr, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr, RUN: tl.constexpr,
    RUNS: tl.constexpr, TIME: tl.constexpr, DX_TIME: tl.constexpr, CHANNELS: tl.constexpr, EVEN: tl.constexpr,
    BESIDE: tl.constexpr, WIDE: tl.constexpr, ALSO: tl.constexpr,
):  # fmt: skip
    BEFORE: tl.constexpr = KERNEL - 1
    group, row, part, start, c = _place(batch, length, CHANNELS, BLOCK, RUN * RUNS)
    x += group * x_group + row * x_row + c
    dx += group * dx_group + row * dx_row
    grad += (group * batch + row) * length * CHANNELS + c
    also += (group * batch + row) * length * CHANNELS + c
    i, j = tl.arange(0, RUN)[:, None], tl.arange(0, WIDE)[None, :]
    beside += (group * batch + row) * length * BESIDE + i * BESIDE + j
    # The last block's programs copy what is beside.
    columns = tl.where((tl.program_id(0) + 1) % tl.cdiv(CHANNELS, BLOCK) == 0, BESIDE, 0)
    dw += (part * (KERNEL + BIASED) + KERNEL - 1) * CHANNELS + c
    taps, b = _weights(w + (group * CHANNELS + c) * (KERNEL + BIASED), c, KERNEL, BIASED, CHANNELS, EVEN)
    db = tl.zeros([BLOCK], tl.float32)
    dtaps, xs, dpres = (), (), ()  # xs and dpres: of the BEFORE tokens before the next one
    for back in tl.static_range(KERNEL):
        dtaps += (db,)
        if back < BEFORE:
            t = start - BEFORE + back
            xs += (_read(x + t * TIME, t, length, c, CHANNELS, True),)
            dpres += (db,)
    for run in range(RUNS):
        first = start + run * RUN
        dys = ()
        # All is read before anything is written: a read that follows a write in the code waits for it.
        for k in tl.static_range(RUN):
            xs += (_read(x + first * TIME + k * TIME, first + k, length, c, CHANNELS, not EVEN),)
            dy = _read(grad + first * CHANNELS + k * CHANNELS, first + k, length, c, CHANNELS, not EVEN)
            if ALSO:
                dy += _read(also + first * CHANNELS + k * CHANNELS, first + k, length, c, CHANNELS, not EVEN)
            dys += (dy,)
        if BESIDE > 0:
            numbers = tl.load(beside + first * BESIDE, mask=(first + i < length) & (j < columns), other=0.0)
        for k in tl.static_range(RUN):
            dpre = _before_activation(dys[k], xs, k, taps, b, KERNEL, ACTIVATION)
            dpres += (dpre,)
            db += dpre
            sums = ()
            for back in tl.static_range(KERNEL):
                sums += (dtaps[back] + dpre * xs[k + BEFORE - back],)
            dtaps = sums
            t = first + k - BEFORE  # now all inputs of its dx are known
            dx_t = _sum_after(dpres, k, taps, KERNEL)
            to = dx + c + first * DX_TIME + (k - BEFORE) * DX_TIME
            _write(to, dx_t, t, start, length, c, CHANNELS, not EVEN or k < BEFORE)
        if BESIDE > 0:
            tl.store(dx + CHANNELS + (first + i) * DX_TIME + j, numbers, mask=(first + i < length) & (j < columns))
        xs, dpres = _last(xs, RUN, BEFORE), _last(dpres, RUN, BEFORE)
    for k in tl.static_range(BEFORE):  # the gradients of the span's last tokens need those after it
        t = start + RUN * RUNS + k
        xs += (_read(x + t * TIME, t, length, c, CHANNELS, True),)
        dy = _read(grad + t * CHANNELS, t, length, c, CHANNELS, True)
        if ALSO:
            dy += _read(also + t * CHANNELS, t, length, c, CHANNELS, True)
        dpres += (_before_activation(dy, xs, k, taps, b, KERNEL, ACTIVATION),)
        dx_t = _sum_after(dpres, k, taps, KERNEL)
        _write(dx + c + (t - BEFORE) * DX_TIME, dx_t, t - BEFORE, start, length, c, CHANNELS, True)
    for back in tl.static_range(KERNEL):
        _write(dw - back * CHANNELS, dtaps[back], 0, 0, 1, c, CHANNELS, not EVEN)
    if BIASED:
        _write(dw + CHANNELS, db, 0, 0, 1, c, CHANNELS, not EVEN)
