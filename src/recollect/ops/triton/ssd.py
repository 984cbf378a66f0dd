"""Kernels of state-space duality (Dao & Gu 2024); formula and plain form in ops/ssd.py.

A program takes one head of one row through its chunks with the state h (p x n) in registers. In a chunk

    S = C B^T        A = S * w + D 1        y = A x + read * (C h^T)        h' = left h + x^T (B * write)

where w_ts is the decay from s to t and write_s that to the chunk's end, both times dt_s, read_t that from its start, left that
of the whole chunk: neither dt x nor D x is ever formed. Backward goes from the last chunk to the first with dh in registers,
and finds S and A again; only the states before each chunk but the first are kept:

    dA = dy x^T        dS = dA * w        dx = A^T dy + write * (B dh^T)        dh' = left dh + dy^T (C * read)
    dD = tr dA         dC = dS B + read * (dy h)        dB = dS^T C + write * (x dh)

All that is made of token s grows with dt_s, so dt_s ddt_s = sum_t S * dS + B_s . (write * (x dh))_s. The gradient of log a_r
sums what passes r: pairs s < r <= t of S * dS, what t >= r reads, what s < r writes, and h dh.

Heads that share B and C are taken by one program where a row is one chunk: S is theirs, and so is the sum of their dS. Else
PyTorch sums their dB and dC. No atomics: the same bits on every run.

Glossary: x, B, C, D, a, dt, h as in ops/ssd.py. Shapes: x, y (rows, length, heads, p), B, C (rows, length, groups, n), log_a,
dt (rows, length, heads), D (members, heads), a member being rows / members rows, kept (rows, heads, chunks - 1, p, n).
"""

# pyright: reportCallIssue=false, reportOperatorIssue=false, reportGeneralTypeIssues=false, reportArgumentType=false
# pyright: reportIndexIssue=false, reportAttributeAccessIssue=false, reportOptionalOperand=false
# (Triton's language looks like Python, but its types are its own.)

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton.activations import LOG2E
from recollect.ops.triton.linear_attention import choices, outputs, rows_of_vectors
from recollect.ops.triton.tiles import load, store

FORGOTTEN = tl.constexpr(-128.0)  # the least logarithm of a decay: its exponential is zero
LEAST = tl.constexpr(1.2e-38)  # divides in place of a smaller dt, whose gradient is then zero


def forward(
    x: Tensor, log_a: Tensor, B: Tensor, C: Tensor, dt: Tensor | None = None, D: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """y, and the states before each chunk but the first."""
    y, kept = outputs(C, x, False)
    grid, arguments, options = _arguments(x, log_a, B, C, dt, D)
    with torch.cuda.device_of(x):
        _forward_kernel[grid](y, kept, *arguments, **options)
    return y, kept


def backward(
    grad: Tensor, x: Tensor, log_a: Tensor, B: Tensor, C: Tensor, dt: Tensor | None, D: Tensor | None, kept: Tensor,
    dx: Tensor, dB: Tensor, dC: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Fills dx, dB and dC, wherever they lie, and gives the gradients of log_a, dt and D, the last two empty without these."""
    grid, arguments, options = _arguments(x, log_a, B, C, dt, D)
    (rows, length, heads, _), groups = x.shape, B.shape[2]
    summed = options["EACH"] * groups < heads  # by PyTorch
    to_B, to_C = (t.new_empty(rows, length, heads, t.shape[3]) if summed else t for t in (dB, dC))
    dlog_a = log_a.new_empty(log_a.shape)
    ddt = log_a.new_empty(log_a.shape if dt is not None else 0)
    dD = log_a.new_empty((rows, heads) if D is not None else 0)
    strides = (*dx.stride()[:3], *to_B.stride()[:3])
    with torch.cuda.device_of(x):
        _backward_kernel[grid](
            grad.contiguous(), kept.contiguous(), dx, dlog_a, to_B, to_C, ddt, dD, *strides, *arguments, **options
        )  # fmt: skip
    if summed:
        for parts, whole in ((to_B, dB), (to_C, dC)):
            torch.sum(parts.unflatten(2, (groups, -1)), dim=3, out=whole)
    return dlog_a, ddt, dD if D is None else dD.unflatten(0, (len(D), -1)).sum(1)


def _arguments(
    x: Tensor, log_a: Tensor, B: Tensor, C: Tensor, dt: Tensor | None, D: Tensor | None
) -> tuple[tuple[int], list, dict]:
    """The grid, and what both kernels take: tensors, strides and sizes; and the choices that are compiled in."""
    x, B, C = (rows_of_vectors(t) for t in (x, B, C))
    if B.stride() != C.stride():
        B, C = torch.stack([B, C])  # one stride for both
    (rows, length, heads, p), (groups, n) = x.shape, B.shape[2:]
    options = choices(length, n, p, x.dtype)
    each = heads // groups if options["SINGLE"] else 1
    scale = (dt.contiguous(), D.contiguous(), rows // len(D)) if dt is not None and D is not None else (x, x, 1)
    return (
        (rows * heads // each,),
        [x, log_a.contiguous(), B, C, *scale, *x.stride()[:3], *B.stride()[:3], length, heads, groups, n, p],
        options | {"EACH": each, "SCALED": dt is not None},  # without dt, x stands for what is not read
    )


@triton.jit
def _decays(log_a, dt, t, heads, length, SCALED: tl.constexpr):
    """w, read, write, left and dt."""
    log = tl.load(log_a + t * heads, mask=t < length, other=0.0)
    log = tl.where(log < FORGOTTEN, FORGOTTEN, log).to(tl.float64) * LOG2E  # powers of two are the quicker ones
    running, whole = tl.cumsum(log, 0), tl.sum(log, 0)
    # In two floats, so that the difference of two sums keeps small decays behind a large one.
    high = running.to(tl.float32)
    low = (running - high.to(tl.float64)).to(tl.float32)
    between = (high[:, None] - high[None, :]) + (low[:, None] - low[None, :])
    w = tl.exp2(tl.where(t[None, :] <= t[:, None], between, -float("inf")))
    write, step = tl.exp2((whole - running).to(tl.float32)), 1.0
    if SCALED:
        step = tl.load(dt + t * heads, mask=t < length, other=1.0)
        w, write = w * step[None, :], write * step
    return w, tl.exp2(high), write, tl.exp2(whole.to(tl.float32)), step


@triton.jit
def _diagonal(x, t):
    """Only the diagonal of x."""
    return tl.where(t[None, :] == t[:, None], x, 0.0)


@triton.jit
def _forward_kernel(
    y, kept, x, log_a, B, C, dt, D, batch, x_row, x_time, x_head, B_row, B_time, B_group, length, heads, groups, n, p,
    CHUNK: tl.constexpr, N: tl.constexpr, P: tl.constexpr, EACH: tl.constexpr, SINGLE: tl.constexpr,
    SCALED: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    parts = heads // EACH
    row, part = (tl.program_id(0) // parts).to(tl.int64), tl.program_id(0) % parts
    chunks = tl.cdiv(length, CHUNK)
    dtype: tl.constexpr = kept.dtype.element_ty
    i, d, c = tl.arange(0, CHUNK), tl.arange(0, P), tl.arange(0, N)
    of_group = row * B_row + part // (parts // groups) * B_group
    if SINGLE:
        C_t = load(C + of_group, i, B_time, length, n, N).to(dtype)
        B_t = load(B + of_group, i, B_time, length, n, N).to(dtype)
        S = tl.dot(C_t, tl.trans(B_t), input_precision=EXACT)
    for head in range(part * EACH, part * EACH + EACH):
        of_head = row * length * heads + head
        h = tl.zeros([P, N], tl.float32)
        for chunk in range(1 if SINGLE else chunks):
            t = chunk * CHUNK + i
            if not SINGLE:
                C_t = load(C + of_group, t, B_time, length, n, N).to(dtype)
                B_t = load(B + of_group, t, B_time, length, n, N).to(dtype)
                S = tl.dot(C_t, tl.trans(B_t), input_precision=EXACT)
            x_t = load(x + row * x_row + head * x_head, t, x_time, length, p, P).to(dtype)
            w, read, write, left, _ = _decays(log_a + of_head, dt + of_head, t, heads, length, SCALED)
            A = S * w
            if SCALED:
                A += _diagonal(tl.load(D + row // batch * heads + head), t)
            if SINGLE:
                y_t = tl.dot(A.to(dtype), x_t, input_precision=EXACT)
            else:
                y_t = read[:, None] * tl.dot(C_t, tl.trans(h.to(dtype)), input_precision=EXACT)
                y_t = tl.dot(A.to(dtype), x_t, acc=y_t, input_precision=EXACT)
                before = kept + ((row * heads + head) * (chunks - 1) + chunk - 1) * p * n + c
                is_kept = c < tl.where(chunk > 0, n, 0)
                tl.store(before[None, :] + d[:, None] * n, h.to(dtype), mask=is_kept[None, :] & (d < p)[:, None])
                written = (B_t.to(tl.float32) * write[:, None]).to(dtype)
                h = tl.dot(tl.trans(x_t), written, acc=left * h, input_precision=EXACT)
            store(y + of_head * p, y_t, t, heads * p, length, p, P)


@triton.jit
def _backward_kernel(
    grad, kept, dx, dlog_a, dB, dC, ddt, dD, dx_row, dx_time, dx_head, dB_row, dB_time, dB_part,
    x, log_a, B, C, dt, D, batch, x_row, x_time, x_head, B_row, B_time, B_group, length, heads, groups, n, p,
    CHUNK: tl.constexpr, N: tl.constexpr, P: tl.constexpr, EACH: tl.constexpr, SINGLE: tl.constexpr,
    SCALED: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    parts = heads // EACH
    row, part = (tl.program_id(0) // parts).to(tl.int64), tl.program_id(0) % parts
    chunks = tl.cdiv(length, CHUNK)
    dtype: tl.constexpr = kept.dtype.element_ty
    i, d, c = tl.arange(0, CHUNK), tl.arange(0, P), tl.arange(0, N)
    of_group = row * B_row + part // (parts // groups) * B_group
    dB += row * dB_row + part * dB_part
    dC += row * dB_row + part * dB_part
    if SINGLE:
        C_t = load(C + of_group, i, B_time, length, n, N).to(dtype)
        B_t = load(B + of_group, i, B_time, length, n, N).to(dtype)
        S = tl.dot(C_t, tl.trans(B_t), input_precision=EXACT)
    sum_dS = tl.zeros([CHUNK, CHUNK], tl.float32)  # over the heads of this program
    for head in range(part * EACH, part * EACH + EACH):
        of_head = row * length * heads + head
        sum_D = tl.zeros([CHUNK], tl.float32)
        dh = tl.zeros([P, N], tl.float32)
        h = dh.to(dtype)
        for later in range(1 if SINGLE else chunks):
            chunk = 0 if SINGLE else chunks - 1 - later
            t = chunk * CHUNK + i
            if not SINGLE:
                C_t = load(C + of_group, t, B_time, length, n, N).to(dtype)
                B_t = load(B + of_group, t, B_time, length, n, N).to(dtype)
                S = tl.dot(C_t, tl.trans(B_t), input_precision=EXACT)
            x_t = load(x + row * x_row + head * x_head, t, x_time, length, p, P).to(dtype)
            dy = load(grad + of_head * p, t, heads * p, length, p, P).to(dtype)
            if not SINGLE:
                before = kept + ((row * heads + head) * (chunks - 1) + chunk - 1) * p * n + c
                is_kept = c < tl.where(chunk > 0, n, 0)
                h = tl.load(before[None, :] + d[:, None] * n, mask=is_kept[None, :] & (d < p)[:, None], other=0.0)
            w, read, write, left, step = _decays(log_a + of_head, dt + of_head, t, heads, length, SCALED)
            A = S * w
            if SCALED:
                A += _diagonal(tl.load(D + row // batch * heads + head), t)
            dx_t = tl.dot(tl.trans(A.to(dtype)), dy, input_precision=EXACT)
            if not SINGLE:
                written = (B_t.to(tl.float32) * write[:, None]).to(dtype)
                dx_t = tl.dot(written, tl.trans(dh.to(dtype)), acc=dx_t, input_precision=EXACT)
            store(dx + row * dx_row + head * dx_head, dx_t, t, dx_time, length, p, P)
            dA = tl.dot(dy, tl.trans(x_t), input_precision=EXACT)
            if SCALED:
                sum_D += tl.sum(_diagonal(dA, t), 1)
            dS = dA * w
            pairs = S * dS
            if SCALED:
                own = tl.sum(_diagonal(pairs, t), 1)
            pairs = tl.where(t[None, :] < t[:, None], pairs, 0.0)
            near = tl.sum(pairs, 0)  # what later tokens of the chunk make of a token
            passed = tl.sum(pairs, 1) - near
            if not SINGLE:
                reading = read[:, None] * tl.dot(dy, h, input_precision=EXACT)
                passed += tl.sum(C_t.to(tl.float32) * reading, 1)
            dlog = tl.cumsum(passed, 0, reverse=True)
            if SINGLE:
                sum_dS += dS
            else:
                dS = dS.to(dtype)
                store(dC, tl.dot(dS, B_t, acc=reading, input_precision=EXACT), t, dB_time, length, n, N)
                writing = write[:, None] * tl.dot(x_t, dh.to(dtype), input_precision=EXACT)
                far = tl.sum(B_t.to(tl.float32) * writing, 1)  # and what those of later chunks do
                near += far
                far = far.to(tl.float64)
                dlog += (tl.cumsum(far, 0) - far).to(tl.float32)  # of s < r, however much r itself sends
                dlog += left * tl.sum(h.to(tl.float32) * dh)
                store(dB, tl.dot(tl.trans(dS), C_t, acc=writing, input_precision=EXACT), t, dB_time, length, n, N)
                past = (C_t.to(tl.float32) * read[:, None]).to(dtype)
                dh = tl.dot(tl.trans(dy), past, acc=left * dh, input_precision=EXACT)
            tl.store(dlog_a + of_head + t * heads, dlog, mask=t < length)
            if SCALED:
                tl.store(ddt + of_head + t * heads, (own + near) / tl.maximum(step, LEAST), mask=t < length)
        if SCALED:
            tl.store(dD + row * heads + head, tl.sum(sum_D, 0))
    if SINGLE:
        of_all = sum_dS.to(dtype)
        store(dC, tl.dot(of_all, B_t, input_precision=EXACT), i, dB_time, length, n, N)
        store(dB, tl.dot(tl.trans(of_all), C_t, input_precision=EXACT), i, dB_time, length, n, N)
