"""Kernels of state-space duality (Dao & Gu 2024); formula and plain form in ops/ssd.py.

A row is cut into chunks. First a program takes one head of one row from chunk to chunk and leaves the state h (p x n) before
each (ssd_states.py); then a program takes one chunk of some heads that share B and C:

    S = C B^T        A = S * w + D 1        y = A x + read * (C h^T)        h' = left h + x^T (B * write)

where w_ts is the decay from s to t and write_s that to the chunk's end, both times dt_s, read_t that from its start, left that
of the whole chunk (computed in ssd_states.py): neither dt x nor D x is formed. The heads share S. Backward is similar: dh
goes from the last chunk to the first, and S and A are computed again, only h being saved. Pairs within a chunk and states between
chunks have a kernel each, because together they do not fit the registers:

    dA = dy x^T        dS = dA * w        dx = A^T dy + write * (B dh^T)        dh' = left dh + dy^T (C * read)
    dD = tr dA         dC = dS B + read * (dy h)        dB = dS^T C + write * (x dh)

dB and dC are sums over heads: within a program there, over programs by PyTorch. Everything computed from token s is proportional
to dt_s, so dt_s ddt_s = sum_t S * dS + B_s . (write * (x dh))_s. The gradient of log a_r sums what passes r: pairs s < r <= t of
S * dS, what t >= r reads, what s < r writes, and h dh. The kernels write these sums for each token, and ssd_states.py computes
the gradients from them. Time depends on the latency of a program, because few fit a GPU at once: no running sums, and few sums
over threads. No
atomics: the same bits on every run.

Glossary: x, B, C, D, a, dt, h as in ops/ssd.py. Shapes: x, y (rows, length, heads, p), B, C (rows, length, groups, n), log_a,
dt (rows, length, heads), D (members, heads), a member being rows / members rows, kept (rows, heads, chunks - 1, p, n).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton import stages
from recollect.ops.triton.linear_attention import choices, outputs, rows_of_vectors
from recollect.ops.triton.ssd_states import (
    EARLIER,
    LATER,
    MADE,
    READ,
    Mamba2,
    decay_gradients,
    from_start,
    log_decays,
    running,
    state,
    state_gradients_kernel,
    states_kernel,
    steps,
    to_end,
)  # fmt: skip
from recollect.ops.triton.tiles import load, store, write

MOST = 8
"""Heads of a program, at most: they are taken one after another."""


def forward(x: Tensor, log_a: Tensor | Mamba2, B: Tensor, C: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The result y, the states before each chunk but the first, and decays (`running`). `log_a` is (rows, length, heads), or the
    inputs of Mamba2."""
    y, kept = outputs(C, x, False)
    decay = running(x, log_a)
    grid, arguments, options = _arguments(x, log_a, B, C, decay)
    with torch.cuda.device_of(x):
        if not options["SINGLE"]:
            states_kernel[x.shape[0] * x.shape[2],](kept, *arguments, **options)
        _forward_kernel[grid](y, kept, *arguments, **options)
    return y, kept, decay


def backward(
    grad: Tensor, x: Tensor, log_a: Tensor | Mamba2, B: Tensor, C: Tensor, kept: Tensor, decay: Tensor, dx: Tensor, dB: Tensor,
    dC: Tensor, draw: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Fills dx, dB and dC, which may be views, and draw (rows, length, heads and more columns, which become zeros), and returns
    the gradient of log a, or those of bias, A_log and D."""
    decay = decay.contiguous()
    grid, arguments, options = _arguments(x, log_a, B, C, decay)
    (rows, length, heads, _), groups = x.shape, B.shape[2]
    parts, chunks, single = heads // options["EACH"], kept.shape[2] + 1, options["SINGLE"]
    to_B, to_C = (t.new_empty(rows, length, parts, t.shape[3]) if groups < parts else t for t in (dB, dC))
    floats = {"dtype": torch.float32, "device": x.device}
    sums = torch.empty(rows, heads, 2 if single else 4, length, **floats)
    passing = torch.empty(rows, heads, 0 if single else chunks, **floats)
    dmembers = torch.empty(3 * options["SCALED"], rows, chunks, heads, **floats)  # summands of D's, bias's and A_log's
    grad, kept, of_x, of_B = grad.contiguous(), kept.contiguous(), dx.stride()[:3], to_B.stride()[:3]
    dkept = torch.empty_like(kept)
    with torch.cuda.device_of(x):
        if not single:
            state_gradients_kernel[rows * heads,](grad, dkept, *arguments, **options)
        _within_kernel[grid](grad, dkept, dx, sums, to_B, to_C, dmembers, *of_x, *of_B, *arguments, **options)
        if not single:
            _between_kernel[grid](grad, kept, dkept, sums, passing, to_B, to_C, *of_B, *arguments, **options)
        given = decay_gradients(sums, passing, decay, log_a, dmembers, draw, options)
    if groups < parts:
        for summands, whole in ((to_B, dB), (to_C, dC)):
            torch.sum(summands.unflatten(2, (groups, -1)), dim=3, out=whole)
    return given


def _arguments(x: Tensor, log_a: Tensor | Mamba2, B: Tensor, C: Tensor, decay: Tensor) -> tuple[tuple[int], list, dict]:
    """The grid of chunks, and what all kernels take: tensors, strides and sizes; and the choices that are compiled in."""
    x, B, C = (rows_of_vectors(t) for t in (x, B, C))
    if B.stride() != C.stride():
        B, C = torch.stack([B, C])  # one stride for both
    (rows, length, heads, p), (groups, n) = x.shape, B.shape[2:]
    options = choices(length, n, p, x.dtype)
    each = max(i for i in range(1, MOST + 1) if heads // groups % i == 0)
    scaled = isinstance(log_a, Mamba2)
    D, batch = (log_a.D.contiguous(), rows // len(log_a.D)) if isinstance(log_a, Mamba2) else (x, 1)
    even = length % options["CHUNK"] == 0 and (n, p) == (options["N"], options["P"])  # then nothing needs a mask
    return (
        (rows * triton.cdiv(length, options["CHUNK"]) * (heads // each),),
        [decay, x, B, C, D, batch, *x.stride()[:3], *B.stride()[:3], length, heads, groups, n, p],
        options | {"EACH": each, "SCALED": scaled, "EVEN": even, "num_stages": stages(x, 3 if max(n, p) <= 64 else 2)},
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
    y, kept, decay, x, B, C, D, batch, x_row, x_time, x_head, B_row, B_time, B_group, length, heads, groups, n, p,
    CHUNK: tl.constexpr, N: tl.constexpr, P: tl.constexpr, EACH: tl.constexpr, SINGLE: tl.constexpr,
    SCALED: tl.constexpr, EXACT: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    row, chunk, part, parts, chunks = _place(length, heads, CHUNK, EACH, SINGLE)
    dtype: tl.constexpr = kept.dtype.element_ty
    t = chunk * CHUNK + tl.arange(0, CHUNK)
    of_group = row * B_row + part // (parts // groups) * B_group
    C_t = load(C + of_group, t, B_time, length, n, N, EVEN).to(dtype)
    B_t = load(B + of_group, t, B_time, length, n, N, EVEN).to(dtype)
    S = tl.where(t[None, :] <= t[:, None], tl.dot(C_t, tl.trans(B_t), input_precision=EXACT), 0.0)
    for head in range(part * EACH, part * EACH + EACH):
        x_t = load(x + row * x_row + head * x_head, t, x_time, length, p, P, EVEN).to(dtype)
        of_decay = decay + (row * heads + head) * (2 + SCALED) * length
        A = S * (
            tl.exp2(log_decays(of_decay, t, length, EXACT, EVEN)) * steps(of_decay, t, length, SCALED, EVEN)[None, :]
        )
        if SCALED:
            A += _diagonal(tl.load(D + row // batch * heads + head), t)
        y_t = tl.dot(A.to(dtype), x_t, input_precision=EXACT)
        if not SINGLE:
            at, inside = state(kept, chunk - 1, row, head, heads, chunks, p, n, P, N)
            h = tl.load(at, mask=inside, other=0.0)
            reading = (C_t.to(tl.float32) * from_start(of_decay, t, length, EVEN)[:, None]).to(dtype)
            y_t = tl.dot(reading, tl.trans(h), acc=y_t, input_precision=EXACT)
        store(y + (row * length * heads + head) * p, y_t, t, heads * p, length, p, P, EVEN)


@triton.jit
def _within_kernel(
    grad, dkept, dx, sums, dB, dC, dD, dx_row, dx_time, dx_head, dB_row, dB_time, dB_part,
    decay, x, B, C, D, batch, x_row, x_time, x_head, B_row, B_time, B_group, length, heads, groups, n, p,
    CHUNK: tl.constexpr, N: tl.constexpr, P: tl.constexpr, EACH: tl.constexpr, SINGLE: tl.constexpr,
    SCALED: tl.constexpr, EXACT: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """dx, and the part of the other gradients that comes from pairs of tokens within a chunk. Matrices are s by t here."""
    row, chunk, part, parts, chunks = _place(length, heads, CHUNK, EACH, SINGLE)
    dtype: tl.constexpr = dkept.dtype.element_ty
    t = chunk * CHUNK + tl.arange(0, CHUNK)
    of_group = row * B_row + part // (parts // groups) * B_group
    C_t = load(C + of_group, t, B_time, length, n, N, EVEN).to(dtype)
    B_t = load(B + of_group, t, B_time, length, n, N, EVEN).to(dtype)
    S = tl.where(t[:, None] <= t[None, :], tl.dot(B_t, tl.trans(C_t), input_precision=EXACT), 0.0)
    sum_dS = tl.zeros([CHUNK, CHUNK], tl.float32)  # over the heads of this program
    for head in range(part * EACH, part * EACH + EACH):
        x_t = load(x + row * x_row + head * x_head, t, x_time, length, p, P, EVEN).to(dtype)
        dy = load(grad + (row * length * heads + head) * p, t, heads * p, length, p, P, EVEN).to(dtype)
        of_decay = decay + (row * heads + head) * (2 + SCALED) * length
        dA = tl.dot(x_t, tl.trans(dy), input_precision=EXACT)
        if SCALED:
            tl.store(dD + (row * chunks + chunk) * heads + head, tl.sum(_diagonal(dA, t)))
        w = tl.exp2(tl.trans(log_decays(of_decay, t, length, EXACT, EVEN)))
        w *= steps(of_decay, t, length, SCALED, EVEN)[:, None]
        dS = dA * w  # also of pairs that are masked
        sum_dS += dS
        pairs = S * dS
        of_sums = sums + (row * heads + head) * (2 if SINGLE else 4) * length
        write(of_sums + MADE * length + t, tl.sum(pairs, 1), t < length, EVEN)
        write(of_sums + READ * length + t, tl.sum(pairs, 0), t < length, EVEN)
        A = S * w
        if SCALED:
            A += _diagonal(tl.load(D + row // batch * heads + head), t)
        dx_t = tl.dot(A.to(dtype), dy, input_precision=EXACT)
        if not SINGLE:
            at, inside = state(dkept, chunk, row, head, heads, chunks, p, n, P, N)
            dh = tl.load(at, mask=inside, other=0.0)
            write_t, _ = to_end(of_decay, chunk, t, length, CHUNK, SCALED, EXACT, EVEN)
            written = (B_t.to(tl.float32) * write_t[:, None]).to(dtype)
            dx_t = tl.dot(written, tl.trans(dh), acc=dx_t, input_precision=EXACT)
        store(dx + row * dx_row + head * dx_head, dx_t, t, dx_time, length, p, P, EVEN)
    of_all = tl.where(t[:, None] <= t[None, :], sum_dS, 0.0).to(dtype)
    dC += row * dB_row + part * dB_part
    dB += row * dB_row + part * dB_part
    store(dB, tl.dot(of_all, C_t, input_precision=EXACT), t, dB_time, length, n, N, EVEN)
    store(dC, tl.dot(tl.trans(of_all), B_t, input_precision=EXACT), t, dB_time, length, n, N, EVEN)


@triton.jit
def _between_kernel(
    grad, kept, dkept, sums, passing, dB, dC, dB_row, dB_time, dB_part,
    decay, x, B, C, D, batch, x_row, x_time, x_head, B_row, B_time, B_group, length, heads, groups, n, p,
    CHUNK: tl.constexpr, N: tl.constexpr, P: tl.constexpr, EACH: tl.constexpr, SINGLE: tl.constexpr,
    SCALED: tl.constexpr, EXACT: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Adds the part that comes from the states between chunks to all gradients except dx."""
    row, chunk, part, parts, chunks = _place(length, heads, CHUNK, EACH, SINGLE)
    dtype: tl.constexpr = kept.dtype.element_ty
    t = chunk * CHUNK + tl.arange(0, CHUNK)
    of_group = row * B_row + part // (parts // groups) * B_group
    C_t = load(C + of_group, t, B_time, length, n, N, EVEN).to(tl.float32)
    B_t = load(B + of_group, t, B_time, length, n, N, EVEN).to(tl.float32)
    dC += row * dB_row + part * dB_part
    dB += row * dB_row + part * dB_part
    dC_t = load(dC, t, dB_time, length, n, N, EVEN).to(tl.float32)
    dB_t = load(dB, t, dB_time, length, n, N, EVEN).to(tl.float32)
    for head in range(part * EACH, part * EACH + EACH):
        x_t = load(x + row * x_row + head * x_head, t, x_time, length, p, P, EVEN).to(dtype)
        dy = load(grad + (row * length * heads + head) * p, t, heads * p, length, p, P, EVEN).to(dtype)
        of_decay = decay + (row * heads + head) * (2 + SCALED) * length
        write_t, left = to_end(of_decay, chunk, t, length, CHUNK, SCALED, EXACT, EVEN)
        at, inside = state(kept, chunk - 1, row, head, heads, chunks, p, n, P, N)
        h = tl.load(at, mask=inside, other=0.0)
        reading = from_start(of_decay, t, length, EVEN)[:, None] * tl.dot(dy, h, input_precision=EXACT)
        dC_t += reading
        of_sums = sums + (row * heads + head) * 4 * length
        write(of_sums + EARLIER * length + t, tl.sum(C_t * reading, 1), t < length, EVEN)
        at, inside = state(dkept, chunk, row, head, heads, chunks, p, n, P, N)
        dh = tl.load(at, mask=inside, other=0.0)
        writing = write_t[:, None] * tl.dot(x_t, dh, input_precision=EXACT)
        dB_t += writing
        write(of_sums + LATER * length + t, tl.sum(B_t * writing, 1), t < length, EVEN)
        through = left * tl.sum(h.to(tl.float32) * dh.to(tl.float32))
        tl.store(passing + (row * heads + head) * chunks + chunk, through)
    store(dC, dC_t, t, dB_time, length, n, N, EVEN)
    store(dB, dB_t, t, dB_time, length, n, N, EVEN)
