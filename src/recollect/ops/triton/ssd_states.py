"""What state-space duality's kernels need between chunks: decays, and the states with their gradients; see ssd.py.

    h' = left h + x^T (B * write)        dh' = left dh + dy^T (C * read)

A program takes one head of one row from chunk to chunk, h or dh in registers.
"""

# pyright: reportCallIssue=false, reportOperatorIssue=false, reportGeneralTypeIssues=false, reportArgumentType=false
# pyright: reportIndexIssue=false, reportAttributeAccessIssue=false, reportOptionalOperand=false
# (Triton's language looks like Python, but its types are its own.)

import triton
import triton.language as tl

from recollect.ops.triton.activations import LOG2E
from recollect.ops.triton.tiles import load

FORGOTTEN = tl.constexpr(-128.0)  # the least logarithm of a decay: its exponential is zero


@triton.jit
def decays(log_a, dt, t, heads, length, SCALED: tl.constexpr):
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
def state(kept, which, row, head, heads, chunks, p, n, P: tl.constexpr, N: tl.constexpr):
    """Where the state between chunk `which` and the next one lies, (p, n), and its mask: of nothing before the first chunk or
    after the last."""
    d, c = tl.arange(0, P), tl.arange(0, N)
    there = tl.where((which >= 0) & (which < chunks - 1), n, 0)
    at = kept + ((row * heads + head) * (chunks - 1) + which) * p * n
    return at + d[:, None] * n + c[None, :], (d < p)[:, None] & (c < there)[None, :]


@triton.jit
def states_kernel(
    kept, x, log_a, B, C, dt, D, batch, x_row, x_time, x_head, B_row, B_time, B_group, length, heads, groups, n, p,
    CHUNK: tl.constexpr, N: tl.constexpr, P: tl.constexpr, EACH: tl.constexpr, SINGLE: tl.constexpr,
    SCALED: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    chunks = tl.cdiv(length, CHUNK)
    dtype: tl.constexpr = kept.dtype.element_ty
    i = tl.arange(0, CHUNK)
    of_head = row * length * heads + head
    x += row * x_row + head * x_head
    B += row * B_row + head // (heads // groups) * B_group
    h = tl.zeros([P, N], tl.float32)
    for chunk in range(chunks - 1):
        t = chunk * CHUNK + i
        x_t, B_t = load(x, t, x_time, length, p, P).to(dtype), load(B, t, B_time, length, n, N)
        _, _, write, left, _ = decays(log_a + of_head, dt + of_head, t, heads, length, SCALED)
        written = (B_t.to(tl.float32) * write[:, None]).to(dtype)
        h = tl.dot(tl.trans(x_t), written, acc=left * h, input_precision=EXACT)
        at, inside = state(kept, chunk, row, head, heads, chunks, p, n, P, N)
        tl.store(at, h.to(dtype), mask=inside)


@triton.jit
def state_gradients_kernel(
    grad, dkept, x, log_a, B, C, dt, D, batch, x_row, x_time, x_head, B_row, B_time, B_group, length, heads, groups, n, p,
    CHUNK: tl.constexpr, N: tl.constexpr, P: tl.constexpr, EACH: tl.constexpr, SINGLE: tl.constexpr,
    SCALED: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    chunks = tl.cdiv(length, CHUNK)
    dtype: tl.constexpr = dkept.dtype.element_ty
    i = tl.arange(0, CHUNK)
    of_head = row * length * heads + head
    C += row * B_row + head // (heads // groups) * B_group
    dh = tl.zeros([P, N], tl.float32)
    for later in range(chunks - 1):
        chunk = chunks - 1 - later
        t = chunk * CHUNK + i
        dy, C_t = load(grad + of_head * p, t, heads * p, length, p, P).to(dtype), load(C, t, B_time, length, n, N)
        _, read, _, left, _ = decays(log_a + of_head, dt + of_head, t, heads, length, SCALED)
        past = (C_t.to(tl.float32) * read[:, None]).to(dtype)
        dh = tl.dot(tl.trans(dy), past, acc=left * dh, input_precision=EXACT)
        at, inside = state(dkept, chunk - 1, row, head, heads, chunks, p, n, P, N)
        tl.store(at, dh.to(dtype), mask=inside)
