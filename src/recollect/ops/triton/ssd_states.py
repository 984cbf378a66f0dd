"""The parts of state-space duality other than pairs of tokens (see ssd.py): decays, the states between chunks with their
gradients, and the gradients of decays.

    h' = left h + x^T (B * write)        dh' = left dh + dy^T (C * read)

A program takes one head of one row from chunk to chunk, h or dh in registers. Running sums, which make the threads of a program
wait for each other, are taken here once for all kernels: of log a from a chunk's start, in two floats, so that the difference of
two sums keeps small decays after a large one; and of the gradients of log a.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton.activations import LOG2E, softplus
from recollect.ops.triton.linear_attention import chunk_of
from recollect.ops.triton.tiles import load, read

FORGOTTEN = tl.constexpr(-128.0)  # the least logarithm of a decay: its exponential is zero
LEAST = tl.constexpr(1.2e-38)  # divides in place of a smaller dt, whose gradient is then zero
MADE, READ, LATER, EARLIER = (tl.constexpr(i) for i in range(4))
"""Sums per token and head: what it and later tokens of its chunk read from it, what it reads in its chunk; what later chunks read
from it, and what it reads from earlier ones."""


class Mamba2(NamedTuple):
    """The inputs of Mamba2's dt and log a, and its D: dt = softplus(raw + bias), log a = -exp(A_log) dt."""

    raw: Tensor
    """(rows, length, heads); may be a view."""
    bias: Tensor
    """(members, heads), as A_log and D; a member is rows / members rows."""
    A_log: Tensor
    D: Tensor


def running(x: Tensor, log_a: Tensor | Mamba2) -> Tensor:
    """What `running_kernel` fills, for log a (rows, length, heads) or the inputs of Mamba2."""
    rows, length, heads, _ = x.shape
    scaled = isinstance(log_a, Mamba2)
    decay = torch.empty(rows, heads, 2 + scaled, length, dtype=torch.float32, device=x.device)
    if isinstance(log_a, Mamba2):  # x in place of what is not read
        weights = log_a.bias.contiguous(), log_a.A_log.contiguous()
        made_of = [x, log_a.raw, *weights, rows // len(log_a.D), *log_a.raw.stride()[:2]]
    else:
        made_of = [log_a.contiguous(), x, x, x, 1, 0, 0]
    chunk = chunk_of(length)
    with torch.cuda.device_of(x):
        running_kernel[rows * heads, triton.cdiv(length, chunk)](
            decay, *made_of, length, heads, CHUNK=chunk, SCALED=scaled, num_warps=1
        )  # fmt: skip
    return decay


def decay_gradients(
    sums: Tensor, passing: Tensor, decay: Tensor, log_a: Tensor | Mamba2, dmembers: Tensor, draw: Tensor | None, options: dict
) -> tuple[Tensor, ...]:  # fmt: skip
    """The gradient of log a; or draw, which is filled, and those of bias, A_log and D."""
    rows, heads, _, length = decay.shape
    grid = rows, triton.cdiv(length, options["CHUNK"])
    compiled = {name: options[name] for name in ("CHUNK", "SINGLE", "SCALED")}
    columns = heads if draw is None else draw.shape[2]
    compiled |= {"HEADS": triton.next_power_of_2(columns)}
    if isinstance(log_a, Tensor):
        dlog_a = log_a.new_empty(log_a.shape)
        unused = [dlog_a] * 3 + [1]
        decay_gradients_kernel[grid](sums, passing, decay, dlog_a, *unused, length, heads, columns, **compiled)
        return (dlog_a,)
    assert draw is not None
    A_log, D = log_a.A_log, log_a.D
    decay_gradients_kernel[grid](
        sums, passing, decay, sums, draw, A_log.contiguous(), dmembers, rows // len(D), length, heads, columns, **compiled
    )  # fmt: skip
    dD, dbias, dA_log = (summands.sum(1) for summands in dmembers.view(3, len(D), -1, heads))
    return dbias, dA_log, dD


@triton.jit
def running_kernel(
    decay, log_a, raw, bias, A_log, batch, raw_row, raw_time, length, heads, CHUNK: tl.constexpr, SCALED: tl.constexpr
):
    """Fills decay (rows, heads, 2 or 3, length): the running sum of log2 a in a chunk, its rest beyond float32, and dt."""
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    decay += (row * heads + head) * (2 + SCALED) * length
    t = tl.program_id(1) * CHUNK + tl.arange(0, CHUNK)
    inside = t < length
    if SCALED:
        member = row // batch * heads + head
        raw_t = tl.load(raw + row * raw_row + t * raw_time + head, mask=inside, other=0.0).to(tl.float32)
        step = tl.reshape(softplus((raw_t + tl.load(bias + member))[None, :]), [CHUNK])
        log = -tl.exp(tl.load(A_log + member)) * step
        tl.store(decay + 2 * length + t, step, mask=inside)
    else:
        log = tl.load(log_a + (row * length + t) * heads + head, mask=inside, other=0.0)
    log = tl.where(log < FORGOTTEN, FORGOTTEN, log).to(tl.float64) * LOG2E  # powers of two are faster
    running = tl.cumsum(log, 0)
    high = running.to(tl.float32)
    tl.store(decay + t, high, mask=inside)
    tl.store(decay + length + t, (running - high.to(tl.float64)).to(tl.float32), mask=inside)


@triton.jit
def log_decays(decay, t, length, EXACT: tl.constexpr, EVEN: tl.constexpr):
    """log2 of the decay from s to t, (t, s), not above 0: of pairs with s > t it is 0. Rests are beneath bfloat16's digits."""
    high = read(decay + t, t < length, EVEN)
    between = high[:, None] - high[None, :]
    if EXACT == "ieee":
        low = read(decay + length + t, t < length, EVEN)
        between += low[:, None] - low[None, :]
    return tl.minimum(between, 0.0)


@triton.jit
def steps(decay, t, length, SCALED: tl.constexpr, EVEN: tl.constexpr):
    """dt, or 1 where there is none."""
    if SCALED:
        return read(decay + 2 * length + t, t < length, EVEN)
    else:
        return tl.where(t < length, 1.0, 0.0)


@triton.jit
def from_start(decay, t, length, EVEN: tl.constexpr):
    """read: the decay from the chunk's start to t."""
    return tl.exp2(read(decay + t, t < length, EVEN))


@triton.jit
def to_end(decay, chunk, t, length, CHUNK: tl.constexpr, SCALED: tl.constexpr, EXACT: tl.constexpr, EVEN: tl.constexpr):
    """write, the decay from t to the chunk's end, times dt; and left, that of the whole chunk."""
    last = tl.minimum(chunk * CHUNK + CHUNK, length) - 1
    whole = tl.load(decay + last)
    rest = whole - read(decay + t, t < length, EVEN)
    if EXACT == "ieee":
        rest += tl.load(decay + length + last) - read(decay + length + t, t < length, EVEN)
    return tl.exp2(rest) * steps(decay, t, length, SCALED, EVEN), tl.exp2(whole)


@triton.jit
def state(kept, which, row, head, heads, chunks, p, n, P: tl.constexpr, N: tl.constexpr):
    """The address of the state between chunk `which` and the next one, (p, n), and its mask, which is false before the first
    chunk and after the last."""
    d, c = tl.arange(0, P), tl.arange(0, N)
    there = tl.where((which >= 0) & (which < chunks - 1), n, 0)
    at = kept + ((row * heads + head) * (chunks - 1) + which) * p * n
    return at + d[:, None] * n + c[None, :], (d < p)[:, None] & (c < there)[None, :]


@triton.jit
def states_kernel(
    kept, decay, x, B, C, D, batch, x_row, x_time, x_head, B_row, B_time, B_group, length, heads, groups, n, p,
    CHUNK: tl.constexpr, N: tl.constexpr, P: tl.constexpr, EACH: tl.constexpr, SINGLE: tl.constexpr,
    SCALED: tl.constexpr, EXACT: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    chunks = tl.cdiv(length, CHUNK)
    dtype: tl.constexpr = kept.dtype.element_ty
    i = tl.arange(0, CHUNK)
    decay += (row * heads + head) * (2 + SCALED) * length
    x += row * x_row + head * x_head
    B += row * B_row + head // (heads // groups) * B_group
    h = tl.zeros([P, N], tl.float32)
    for chunk in range(chunks - 1):
        t = chunk * CHUNK + i
        x_t, B_t = load(x, t, x_time, length, p, P, EVEN).to(dtype), load(B, t, B_time, length, n, N, EVEN)
        write, left = to_end(decay, chunk, t, length, CHUNK, SCALED, EXACT, EVEN)
        written = (B_t.to(tl.float32) * write[:, None]).to(dtype)
        h = tl.dot(tl.trans(x_t), written, acc=left * h, input_precision=EXACT)
        at, inside = state(kept, chunk, row, head, heads, chunks, p, n, P, N)
        tl.store(at, h.to(dtype), mask=inside)


@triton.jit
def state_gradients_kernel(
    grad, dkept, decay, x, B, C, D, batch, x_row, x_time, x_head, B_row, B_time, B_group, length, heads, groups, n, p,
    CHUNK: tl.constexpr, N: tl.constexpr, P: tl.constexpr, EACH: tl.constexpr, SINGLE: tl.constexpr,
    SCALED: tl.constexpr, EXACT: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    chunks = tl.cdiv(length, CHUNK)
    dtype: tl.constexpr = dkept.dtype.element_ty
    i = tl.arange(0, CHUNK)
    decay += (row * heads + head) * (2 + SCALED) * length
    grad += (row * length * heads + head) * p
    C += row * B_row + head // (heads // groups) * B_group
    dh = tl.zeros([P, N], tl.float32)
    for later in range(chunks - 1):
        chunk = chunks - 1 - later
        t = chunk * CHUNK + i
        dy, C_t = load(grad, t, heads * p, length, p, P, EVEN).to(dtype), load(C, t, B_time, length, n, N, EVEN)
        past = (C_t.to(tl.float32) * from_start(decay, t, length, EVEN)[:, None]).to(dtype)
        left = tl.exp2(tl.load(decay + tl.minimum(chunk * CHUNK + CHUNK, length) - 1))
        dh = tl.dot(tl.trans(dy), past, acc=left * dh, input_precision=EXACT)
        at, inside = state(dkept, chunk - 1, row, head, heads, chunks, p, n, P, N)
        tl.store(at, dh.to(dtype), mask=inside)


@triton.jit
def decay_gradients_kernel(
    sums, passing, decay, dlog_a, draw, A_log, dmembers, batch, length, heads, columns,
    CHUNK: tl.constexpr, SINGLE: tl.constexpr, SCALED: tl.constexpr, HEADS: tl.constexpr,
):  # fmt: skip
    """The gradients of log a, or of the inputs of log a and dt, from the sums per token: for one chunk of all heads. Columns of
    draw beyond the heads become zeros."""
    row, chunk, chunks = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    head = tl.arange(0, HEADS)[:, None]
    t = chunk * CHUNK + tl.arange(0, CHUNK)[None, :]
    inside = (head < heads) & (t < length)
    of_head = row * heads + head
    sums += of_head * ((2 if SINGLE else 4) * length) + t
    made = tl.load(sums + MADE * length, mask=inside, other=0.0)
    flow = tl.load(sums + READ * length, mask=inside, other=0.0) - made
    if SINGLE:
        dlog = tl.cumsum(flow, 1, reverse=True)
    else:
        flow += tl.load(sums + EARLIER * length, mask=inside, other=0.0)
        later = tl.load(sums + LATER * length, mask=inside, other=0.0)
        wide = later.to(tl.float64)
        before = (tl.cumsum(wide, 1) - wide).to(tl.float32)  # of s < r, whatever the value at r
        dlog = tl.cumsum(flow, 1, reverse=True) + before
        dlog += tl.load(passing + of_head * chunks + chunk, mask=head < heads, other=0.0)
        made += later
    if SCALED:
        a = -tl.exp(tl.load(A_log + row // batch * heads + head, mask=head < heads, other=0.0))
        step = tl.load(decay + of_head * (3 * length) + 2 * length + t, mask=inside, other=1.0)
        # softplus' = 1 - exp(-softplus), by a series where it is small, which keeps the digits
        slope = tl.where(step < 0.02, step * (1 - step * (0.5 - step / 6)), 1 - tl.exp2(-step * LOG2E))
        draw_t = tl.where(inside, (made / tl.maximum(step, LEAST) + a * dlog) * slope, 0.0)
        at = (row * length + t) * columns + head
        tl.store(draw + at, draw_t.to(draw.dtype.element_ty), mask=(head < columns) & (t < length))
        each = tl.num_programs(0).to(tl.int64) * chunks * heads
        dmembers += (row * chunks + chunk) * heads + tl.arange(0, HEADS)
        there = tl.arange(0, HEADS) < heads
        tl.store(dmembers + each, tl.sum(draw_t, 1), mask=there)
        tl.store(dmembers + 2 * each, tl.sum(tl.where(inside, a * step * dlog, 0.0), 1), mask=there)
    else:
        tl.store(dlog_a + (row * length + t) * heads + head, dlog, mask=inside)
