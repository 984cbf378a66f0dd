"""Kernels of state-space duality (Dao & Gu 2024); formula and plain form in ops/ssd.py.

A row is cut into chunks. First a program takes one head of one row from chunk to chunk and leaves the state h (p x n) before
each (ssd_states.py); then a program takes one chunk of some heads that share B and C:

    S = C B^T        A = S * w + D 1        y = A x + read * (C h^T)        h' = left h + x^T (B * write)

where w_ts is the decay from s to t and write_s that to the chunk's end, both times dt_s, read_t that from its start, left that
of the whole chunk: neither dt x nor D x is ever formed. S is the heads' in common. Backward is made in the same way, dh going
from the last chunk to the first, and finds S and A again, only h being kept; pairs within a chunk and states between chunks
have a kernel each, for together they do not fit the registers:

    dA = dy x^T        dS = dA * w        dx = A^T dy + write * (B dh^T)        dh' = left dh + dy^T (C * read)
    dD = tr dA         dC = dS B + read * (dy h)        dB = dS^T C + write * (x dh)

dB and dC are sums over heads: within a program there, over programs by PyTorch. All that is made of token s grows with dt_s, so
dt_s ddt_s = sum_t S * dS + B_s . (write * (x dh))_s. The gradient of log a_r sums what passes r: pairs s < r <= t of S * dS,
what t >= r reads, what s < r writes, and h dh. No atomics: the same bits on every run.

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

from recollect.ops.triton import stages
from recollect.ops.triton.linear_attention import choices, outputs, rows_of_vectors
from recollect.ops.triton.ssd_states import decays, state, state_gradients_kernel, states_kernel
from recollect.ops.triton.tiles import load, store

LEAST = 1.2e-38  # divides in place of a smaller dt, whose gradient is then zero
MOST = 8
"""Heads of a program, at most: they are taken one after another."""


def forward(
    x: Tensor, log_a: Tensor, B: Tensor, C: Tensor, dt: Tensor | None = None, D: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """y, and the states before each chunk but the first."""
    y, kept = outputs(C, x, False)
    grid, arguments, options = _arguments(x, log_a, B, C, dt, D)
    with torch.cuda.device_of(x):
        if not options["SINGLE"]:
            states_kernel[x.shape[0] * x.shape[2],](kept, *arguments, **options)
        _forward_kernel[grid](y, kept, *arguments, **options)
    return y, kept


def backward(
    grad: Tensor, x: Tensor, log_a: Tensor, B: Tensor, C: Tensor, dt: Tensor | None, D: Tensor | None, kept: Tensor,
    dx: Tensor, dB: Tensor, dC: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Fills dx, dB and dC, wherever they lie, and gives the gradients of log_a, dt and D, the last two empty without these."""
    grid, arguments, options = _arguments(x, log_a, B, C, dt, D)
    (rows, length, heads, _), groups = x.shape, B.shape[2]
    parts, chunks = heads // options["EACH"], kept.shape[2] + 1
    to_B, to_C = (t.new_empty(rows, length, parts, t.shape[3]) if groups < parts else t for t in (dB, dC))
    dlog_a = log_a.new_empty(log_a.shape)
    ddt = log_a.new_empty(log_a.shape if dt is not None else 0)
    dD = log_a.new_empty((rows, chunks, heads) if D is not None else 0)
    grad, kept, of_x, of_B = grad.contiguous(), kept.contiguous(), dx.stride()[:3], to_B.stride()[:3]
    dkept = torch.empty_like(kept)
    with torch.cuda.device_of(x):
        if not options["SINGLE"]:
            state_gradients_kernel[rows * heads,](grad, dkept, *arguments, **options)
        _backward_kernel[grid](grad, dkept, dx, dlog_a, to_B, to_C, ddt, dD, *of_x, *of_B, *arguments, **options)
        if not options["SINGLE"]:
            _between_kernel[grid](grad, kept, dkept, dlog_a, to_B, to_C, ddt, *of_B, *arguments, **options)
    if dt is not None:
        ddt /= dt.clamp(min=LEAST)
    if groups < parts:
        for summands, whole in ((to_B, dB), (to_C, dC)):
            torch.sum(summands.unflatten(2, (groups, -1)), dim=3, out=whole)
    return dlog_a, ddt, dD if D is None else dD.flatten(0, 1).unflatten(0, (len(D), -1)).sum(1)


def _arguments(
    x: Tensor, log_a: Tensor, B: Tensor, C: Tensor, dt: Tensor | None, D: Tensor | None
) -> tuple[tuple[int], list, dict]:
    """The grid of chunks, and what all kernels take: tensors, strides and sizes; and the choices that are compiled in."""
    x, B, C = (rows_of_vectors(t) for t in (x, B, C))
    if B.stride() != C.stride():
        B, C = torch.stack([B, C])  # one stride for both
    (rows, length, heads, p), (groups, n) = x.shape, B.shape[2:]
    options = choices(length, n, p, x.dtype)
    each = max(i for i in range(1, MOST + 1) if heads // groups % i == 0)
    scale = (x, x, 1)  # without dt, x stands for what is not read
    if dt is not None and D is not None:
        scale = dt.contiguous(), D.contiguous(), rows // len(D)
    return (
        (rows * triton.cdiv(length, options["CHUNK"]) * (heads // each),),
        [x, log_a.contiguous(), B, C, *scale, *x.stride()[:3], *B.stride()[:3], length, heads, groups, n, p],
        options | {"EACH": each, "SCALED": dt is not None, "num_stages": stages(x, 2)},
    )


@triton.jit
def _diagonal(x, t):
    """Only the diagonal of x."""
    return tl.where(t[None, :] == t[:, None], x, 0.0)


@triton.jit
def _place(length, heads, CHUNK: tl.constexpr, EACH: tl.constexpr, SINGLE: tl.constexpr):
    """The row, chunk and part of the heads of a program, and how many parts and chunks there are."""
    parts = heads // EACH
    row, part = tl.program_id(0) // parts, tl.program_id(0) % parts
    if SINGLE:
        return row.to(tl.int64), 0, part, parts, 1
    else:
        chunks = tl.cdiv(length, CHUNK)
        return (row // chunks).to(tl.int64), row % chunks, part, parts, chunks


@triton.jit
def _forward_kernel(
    y, kept, x, log_a, B, C, dt, D, batch, x_row, x_time, x_head, B_row, B_time, B_group, length, heads, groups, n, p,
    CHUNK: tl.constexpr, N: tl.constexpr, P: tl.constexpr, EACH: tl.constexpr, SINGLE: tl.constexpr,
    SCALED: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    row, chunk, part, parts, chunks = _place(length, heads, CHUNK, EACH, SINGLE)
    dtype: tl.constexpr = kept.dtype.element_ty
    t = chunk * CHUNK + tl.arange(0, CHUNK)
    of_group = row * B_row + part // (parts // groups) * B_group
    C_t = load(C + of_group, t, B_time, length, n, N).to(dtype)
    B_t = load(B + of_group, t, B_time, length, n, N).to(dtype)
    S = tl.dot(C_t, tl.trans(B_t), input_precision=EXACT)
    for head in range(part * EACH, part * EACH + EACH):
        of_head = row * length * heads + head
        x_t = load(x + row * x_row + head * x_head, t, x_time, length, p, P).to(dtype)
        w, read, _, _, _ = decays(log_a + of_head, dt + of_head, t, heads, length, SCALED)
        A = S * w
        if SCALED:
            A += _diagonal(tl.load(D + row // batch * heads + head), t)
        y_t = tl.dot(A.to(dtype), x_t, input_precision=EXACT)
        if not SINGLE:
            at, inside = state(kept, chunk - 1, row, head, heads, chunks, p, n, P, N)
            h = tl.load(at, mask=inside, other=0.0)
            y_t += read[:, None] * tl.dot(C_t, tl.trans(h), input_precision=EXACT)
        store(y + of_head * p, y_t, t, heads * p, length, p, P)


@triton.jit
def _backward_kernel(
    grad, dkept, dx, dlog_a, dB, dC, ddt, dD, dx_row, dx_time, dx_head, dB_row, dB_time, dB_part,
    x, log_a, B, C, dt, D, batch, x_row, x_time, x_head, B_row, B_time, B_group, length, heads, groups, n, p,
    CHUNK: tl.constexpr, N: tl.constexpr, P: tl.constexpr, EACH: tl.constexpr, SINGLE: tl.constexpr,
    SCALED: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """dx, and of the other gradients what comes from pairs of tokens within a chunk; dt times ddt."""
    row, chunk, part, parts, chunks = _place(length, heads, CHUNK, EACH, SINGLE)
    dtype: tl.constexpr = dkept.dtype.element_ty
    t = chunk * CHUNK + tl.arange(0, CHUNK)
    of_group = row * B_row + part // (parts // groups) * B_group
    C_t = load(C + of_group, t, B_time, length, n, N).to(dtype)
    B_t = load(B + of_group, t, B_time, length, n, N).to(dtype)
    S = tl.dot(C_t, tl.trans(B_t), input_precision=EXACT)
    own_S = tl.sum(_diagonal(S, t), 1)
    sum_dS = tl.zeros([CHUNK, CHUNK], tl.float32)  # over the heads of this program
    for head in range(part * EACH, part * EACH + EACH):
        of_head = row * length * heads + head
        x_t = load(x + row * x_row + head * x_head, t, x_time, length, p, P).to(dtype)
        dy = load(grad + of_head * p, t, heads * p, length, p, P).to(dtype)
        w, _, write, _, step = decays(log_a + of_head, dt + of_head, t, heads, length, SCALED)
        A = S * w
        if SCALED:
            A += _diagonal(tl.load(D + row // batch * heads + head), t)
        dx_t = tl.dot(tl.trans(A.to(dtype)), dy, input_precision=EXACT)
        if not SINGLE:
            at, inside = state(dkept, chunk, row, head, heads, chunks, p, n, P, N)
            dh = tl.load(at, mask=inside, other=0.0)
            written = (B_t.to(tl.float32) * write[:, None]).to(dtype)
            dx_t = tl.dot(written, tl.trans(dh), acc=dx_t, input_precision=EXACT)
        store(dx + row * dx_row + head * dx_head, dx_t, t, dx_time, length, p, P)
        dA = tl.dot(dy, tl.trans(x_t), input_precision=EXACT)
        if SCALED:
            own_dA = tl.sum(_diagonal(dA, t), 1)
            tl.store(dD + (row * chunks + chunk) * heads + head, tl.sum(own_dA, 0))
        dS = dA * w
        sum_dS += dS
        pairs = tl.where(t[None, :] < t[:, None], S * dS, 0.0)
        made = tl.sum(pairs, 0)  # what later tokens of the chunk make of a token
        tl.store(dlog_a + of_head + t * heads, tl.cumsum(tl.sum(pairs, 1) - made, 0, reverse=True), mask=t < length)
        if SCALED:
            tl.store(ddt + of_head + t * heads, own_S * own_dA * step + made, mask=t < length)
    of_all = sum_dS.to(dtype)
    dC += row * dB_row + part * dB_part
    dB += row * dB_row + part * dB_part
    store(dC, tl.dot(of_all, B_t, input_precision=EXACT), t, dB_time, length, n, N)
    store(dB, tl.dot(tl.trans(of_all), C_t, input_precision=EXACT), t, dB_time, length, n, N)


@triton.jit
def _between_kernel(
    grad, kept, dkept, dlog_a, dB, dC, ddt, dB_row, dB_time, dB_part,
    x, log_a, B, C, dt, D, batch, x_row, x_time, x_head, B_row, B_time, B_group, length, heads, groups, n, p,
    CHUNK: tl.constexpr, N: tl.constexpr, P: tl.constexpr, EACH: tl.constexpr, SINGLE: tl.constexpr,
    SCALED: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Adds to the gradients but dx what comes from the states between chunks."""
    row, chunk, part, parts, chunks = _place(length, heads, CHUNK, EACH, SINGLE)
    dtype: tl.constexpr = kept.dtype.element_ty
    t = chunk * CHUNK + tl.arange(0, CHUNK)
    of_group = row * B_row + part // (parts // groups) * B_group
    C_t = load(C + of_group, t, B_time, length, n, N).to(tl.float32)
    B_t = load(B + of_group, t, B_time, length, n, N).to(tl.float32)
    dC += row * dB_row + part * dB_part
    dB += row * dB_row + part * dB_part
    dC_t = load(dC, t, dB_time, length, n, N).to(tl.float32)
    dB_t = load(dB, t, dB_time, length, n, N).to(tl.float32)
    for head in range(part * EACH, part * EACH + EACH):
        of_head = row * length * heads + head
        x_t = load(x + row * x_row + head * x_head, t, x_time, length, p, P).to(dtype)
        dy = load(grad + of_head * p, t, heads * p, length, p, P).to(dtype)
        _, read, write, left, _ = decays(log_a + of_head, dt + of_head, t, heads, length, SCALED)
        at, inside = state(kept, chunk - 1, row, head, heads, chunks, p, n, P, N)
        h = tl.load(at, mask=inside, other=0.0)
        reading = read[:, None] * tl.dot(dy, h, input_precision=EXACT)
        dC_t += reading
        dlog = tl.cumsum(tl.sum(C_t * reading, 1), 0, reverse=True)
        at, inside = state(dkept, chunk, row, head, heads, chunks, p, n, P, N)
        dh = tl.load(at, mask=inside, other=0.0)
        writing = write[:, None] * tl.dot(x_t, dh, input_precision=EXACT)
        dB_t += writing
        made = tl.sum(B_t * writing, 1)  # what tokens of later chunks make of a token
        wide = made.to(tl.float64)
        dlog += (tl.cumsum(wide, 0) - wide).to(tl.float32)  # of s < r, however much r itself sends
        dlog += left * tl.sum(h.to(tl.float32) * dh.to(tl.float32))
        at_t = of_head + t * heads
        tl.store(dlog_a + at_t, tl.load(dlog_a + at_t, mask=t < length, other=0.0) + dlog, mask=t < length)
        if SCALED:
            tl.store(ddt + at_t, tl.load(ddt + at_t, mask=t < length, other=0.0) + made, mask=t < length)
    store(dC, dC_t, t, dB_time, length, n, N)
    store(dB, dB_t, t, dB_time, length, n, N)
