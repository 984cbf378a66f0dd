"""Kernels of the delta rule with a decay per key channel; formulas and plain form in ops/channel_delta_rule.py.

A program takes one head of one row through its chunks, its state S in registers. Let g_i be the sum of log alpha from the start
of the chunk to token i, a = exp g, and z_i = exp(g_C - g_i) what is left of token i at the end. In a chunk that starts from S,

    T = (1 + A)^-1        U = T (V - (a E) S)        Y = (a Q) S + B U        S' = a_C S + (z K)^T U

A and B need a decay exp(g_i - g_j) per pair and channel, which as exp(g_i) / exp(g_j) would overflow. So pairs are taken by
levels: at level l the pairs of different halves of a block of 2^(l+1) tokens. With r the last token of the first half, token i's
share of a decay is W_i = exp(-|g_i - g_r|), for tokens of both halves at most 1, and the decay of a pair is W_i W_j. At each
level the tokens of a half are only read from (k) or only read with (q and e), so that one product gives both matrices:

    G = P N^T        P = W * (k in the first half, q in the second)        N = W * (k in the first half, e in the second)

where j < i, B_ij = G_ij and A_ij = G_ji.

Backward goes from the last chunk to the first with dS in registers, and reads S, T and B as forward left them:

    dU = B^T dY + (z K) dS'        dV = T^T dU        dB = dY U^T        dA = -dV U^T        dP = dG N        dN = dG^T P
    dQ = a (dY S^T) + ..        dE = -a (dV S^T) + ..        dK = z (U dS'^T) + ..        with W dP and W dN of every level
    dS = a_C dS' + (a Q)^T dY - (a E)^T dV

g_i is in the exponents of all that token i reads, and with a minus of what it leaves: dg = q dq + e de - k dk, without the
diagonal of B, where no decay is; g_C is also in those of all that is left at the end. log alpha_r is a term of g_i for i >= r.
No atomics: the same bits on every run.

Shapes: q, k, log_alpha (rows, length, heads, dim), v, y (rows, length, heads, dim_v); the gates of e and of what is written are
(rows, length, heads, dim) and (rows, length, heads, dim_v), or one tensor (rows, length, heads) for both, KDA's beta; without
the second, v is written.
states (rows, chunks - 1, heads, dim, dim_v), those before each chunk but the first; sums (rows, heads, chunks * CHUNK, dim), g;
pairs (rows, heads, chunks, 2, CHUNK, CHUNK), T and B.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton.delta_rule import CHUNK, _dense_last, _dot, _inverse, chunks
from recollect.ops.triton.tiles import load, store

FORGOTTEN = tl.constexpr(-80.0)
"""exp of it is nothing in float32: logs are raised to it, so that sums of them stay exact to 1e-4, also where alpha is 0."""


def forward(
    q: Tensor, k: Tensor, v: Tensor, erase: Tensor, write: Tensor | None, log_alpha: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The result y, and what backward needs: the states before each chunk but the first, sums and pairs."""
    q, k, v, log_alpha, erase, write = _dense(q, k, v, log_alpha, erase, write)
    y, states, sums, pairs = empty(q, v)
    strides, sizes, options = _arguments(q, k, v, erase, write, backward=False)
    grid = (q.shape[0] * q.shape[2],)
    with torch.cuda.device_of(q):
        _sums_kernel[(grid[0] * chunks(q.shape[1]),)](
            log_alpha, sums, *log_alpha.stride()[:3], *sizes[:3], CHUNK=CHUNK, DIM=options["DIM"], num_warps=1
        )  # fmt: skip
        _forward_kernel[grid](q, k, v, erase, write, sums, y, states, pairs, *strides, *sizes, **options)
    return y, states, sums, pairs


def backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, erase: Tensor, write: Tensor | None, log_alpha: Tensor,
    states: Tensor, sums: Tensor, pairs: Tensor,
) -> list[Tensor | None]:  # fmt: skip
    """Gradients of q, k, v, erase, write and log_alpha, None for a gate that there is not."""
    q, k, v, erase, write = _dense(q, k, v, erase, write)
    grads = [None if x is None else x.new_empty(x.shape) for x in (q, k, v, erase, write, log_alpha)]
    strides, sizes, options = _arguments(q, k, v, erase, write, backward=True)
    kept = (x.contiguous() for x in (states, sums, pairs))
    with torch.cuda.device_of(q):
        _backward_kernel[(q.shape[0] * q.shape[2],)](
            grad.contiguous(), q, k, v, erase, write, *kept, *grads, *strides, *sizes, **options
        )  # fmt: skip
    return grads


def empty(q: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What forward returns, not filled."""
    rows, length, heads, dim = q.shape
    n, floats = chunks(length), torch.float32
    return (
        v.new_empty(v.shape),
        v.new_empty(rows, n - 1, heads, dim, v.shape[-1]),
        v.new_empty(rows, heads, n * CHUNK, dim, dtype=floats),
        v.new_empty(rows, heads, n, 2, CHUNK, CHUNK, dtype=floats),
    )


def _dense(*tensors: Tensor | None) -> list:
    """Tensors whose channels lie side by side; beta, which has none, as it is."""
    return [_dense_last(x) if x is not None and x.ndim == 4 else x for x in tensors]


def _arguments(
    q: Tensor, k: Tensor, v: Tensor, erase: Tensor, write: Tensor | None, backward: bool
) -> tuple[tuple, tuple, dict]:
    """Strides and sizes, which both kernels take, and what is compiled in."""
    _, length, heads, dim = q.shape
    dim_v, by_head = v.shape[-1], erase.ndim == 3
    gates = erase, erase if write is None else write
    strides = tuple(x.stride()[:3] for x in (q, k, v, *gates))
    wide, wide_v = (max(triton.next_power_of_2(x), 16) for x in (dim, dim_v))
    exact = q.dtype == torch.float32
    options = {
        "CHUNK": CHUNK, "LEVELS": CHUNK.bit_length() - 1, "DIM": wide, "DIM_V": wide_v, "SINGLE": length <= CHUNK,
        "EVEN": length % CHUNK == 0 and (dim, dim_v) == (wide, wide_v),  # then nothing needs a mask
        "BY_HEAD": by_head, "EXACT": "tf32x3" if exact else "tf32",
        "num_warps": warps(wide, wide_v, exact, backward), "num_stages": 1,
    }  # fmt: skip
    return strides, (length, heads, dim, dim_v), options


def warps(dim: int, dim_v: int, exact: bool, backward: bool) -> int:
    """How many warps a program has: the matrices of a chunk and the state must fit their registers. In forward two warps would
    each compute the whole of a small chunk."""
    number = max(dim, dim_v) // 16 * (2 if exact else 1)
    return min(number if backward or number > 2 else 1, 8)


@triton.jit
def _sums_kernel(
    log_alpha, sums, row_stride, time_stride, head_stride, length, heads, dim, CHUNK: tl.constexpr, DIM: tl.constexpr
):
    """g of one chunk. Tokens after the last one forget nothing."""
    number = tl.cdiv(length, CHUNK)
    place, chunk = (tl.program_id(0) // number).to(tl.int64), tl.program_id(0) % number
    i = tl.arange(0, CHUNK)
    log_alpha += place // heads * row_stride + place % heads * head_stride
    forget = load(log_alpha, chunk * CHUNK + i, time_stride, length, dim, DIM).to(tl.float32)
    sums += (place * number + chunk) * CHUNK * dim
    store(sums, tl.cumsum(tl.maximum(forget, FORGOTTEN), 0), i, dim, CHUNK, dim, DIM)


@triton.jit
def _gates(
    erase, write, t, erase_time, write_time, length, dim, dim_v,
    CHUNK: tl.constexpr, DIM: tl.constexpr, DIM_V: tl.constexpr, EVEN: tl.constexpr, BY_HEAD: tl.constexpr,
):  # fmt: skip
    """The gates of what is erased and of what is written, (CHUNK, DIM or 1) and (CHUNK, DIM_V or 1)."""
    if BY_HEAD:
        erased = tl.load(erase + t * erase_time, mask=t < length, other=0.0).to(tl.float32)[:, None]
        written = erased
    else:
        erased = load(erase, t, erase_time, length, dim, DIM, EVEN).to(tl.float32)
        if write is None:
            written = tl.full([CHUNK, 1], 1.0, tl.float32)
        else:
            written = load(write, t, write_time, length, dim_v, DIM_V, EVEN).to(tl.float32)
    return erased, written


@triton.jit
def _shares(g, g_t, dim, LEVEL: tl.constexpr, CHUNK: tl.constexpr, DIM: tl.constexpr, EVEN: tl.constexpr):
    """W of a level, and which tokens are in the second half of their block, (CHUNK, 1)."""
    i = tl.arange(0, CHUNK)
    middle = (i >> (LEVEL + 1) << (LEVEL + 1)) + (1 << LEVEL) - 1
    W = tl.exp(-tl.abs(g_t - load(g, middle, dim, CHUNK, dim, DIM, EVEN)))
    return W, (i >> LEVEL & 1 == 1)[:, None]


@triton.jit
def _forward_kernel(
    q, k, v, erase, write, sums, y, states, pairs, q_strides, k_strides, v_strides, erase_strides, write_strides,
    length, heads, dim, dim_v,
    CHUNK: tl.constexpr, LEVELS: tl.constexpr, DIM: tl.constexpr, DIM_V: tl.constexpr, SINGLE: tl.constexpr,
    EVEN: tl.constexpr, BY_HEAD: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    q += row * q_strides[0] + head * q_strides[2]
    k += row * k_strides[0] + head * k_strides[2]
    v += row * v_strides[0] + head * v_strides[2]
    erase += row * erase_strides[0] + head * erase_strides[2]
    if write is not None:
        write += row * write_strides[0] + head * write_strides[2]
    number = tl.cdiv(length, CHUNK)
    y += (row * length * heads + head) * dim_v
    states += (row * (number - 1) * heads + head) * dim * dim_v
    sums += (row * heads + head) * number * CHUNK * dim
    pairs += (row * heads + head) * number * 2 * CHUNK * CHUNK
    i, d = tl.arange(0, CHUNK), tl.arange(0, DIM)
    differ = i[:, None] ^ i[None, :]  # its highest bit is the level of the pair
    S = tl.zeros([DIM, DIM_V], tl.float32)
    for start in range(0, length, CHUNK):
        t = start + i
        g = sums + start * dim
        g_t = load(g, i, dim, CHUNK, dim, DIM, EVEN)
        q_t = load(q, t, q_strides[1], length, dim, DIM, EVEN).to(tl.float32)
        k_t = load(k, t, k_strides[1], length, dim, DIM, EVEN).to(tl.float32)
        erased, written = _gates(
            erase, write, t, erase_strides[1], write_strides[1], length, dim, dim_v, CHUNK, DIM, DIM_V, EVEN, BY_HEAD
        )
        e_t = erased * k_t
        G = tl.zeros([CHUNK, CHUNK], tl.float32)
        for level in tl.static_range(LEVELS):
            W, second = _shares(g, g_t, dim, level, CHUNK, DIM, EVEN)
            P, N = W * tl.where(second, q_t, k_t), W * tl.where(second, e_t, k_t)
            G += tl.where(differ >> level == 1, _dot(P, tl.trans(N), EXACT), 0.0)
        B = tl.where(i[:, None] > i[None, :], G, tl.where(differ == 0, tl.sum(q_t * k_t, 1)[:, None], 0.0))
        T = _inverse(tl.trans(tl.where(i[:, None] < i[None, :], G, 0.0)), CHUNK, LEVELS, EXACT)
        shelf = pairs + start // CHUNK * 2 * CHUNK * CHUNK
        store(shelf, T, i, CHUNK, CHUNK, CHUNK, CHUNK, True)
        store(shelf + CHUNK * CHUNK, B, i, CHUNK, CHUNK, CHUNK, CHUNK, True)
        rest = written * load(v, t, v_strides[1], length, dim_v, DIM_V, EVEN).to(tl.float32)
        y_t = tl.zeros([CHUNK, DIM_V], tl.float32)
        if not SINGLE:
            a = tl.exp(g_t)
            rest -= _dot(a * e_t, S, EXACT)
            y_t = _dot(a * q_t, S, EXACT)
        U = _dot(T, rest, EXACT)
        y_t += _dot(B, U, EXACT)
        store(y, y_t, t, heads * dim_v, length, dim_v, DIM_V, EVEN)
        if not SINGLE:
            g_end = tl.load(g + (CHUNK - 1) * dim + d, mask=d < dim, other=0.0)
            z = tl.exp(g_end[None, :] - g_t)
            S = tl.exp(g_end)[:, None] * S + _dot(tl.trans(z * k_t), U, EXACT)
            if start + CHUNK < length:
                store(states + (start // CHUNK) * heads * dim * dim_v, S, d, dim_v, dim, dim_v, DIM_V)


@triton.jit
def _backward_kernel(
    grad, q, k, v, erase, write, states, sums, pairs, dq, dk, dv, derase, dwrite, dlog_alpha,
    q_strides, k_strides, v_strides, erase_strides, write_strides, length, heads, dim, dim_v,
    CHUNK: tl.constexpr, LEVELS: tl.constexpr, DIM: tl.constexpr, DIM_V: tl.constexpr, SINGLE: tl.constexpr,
    EVEN: tl.constexpr, BY_HEAD: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    q += row * q_strides[0] + head * q_strides[2]
    k += row * k_strides[0] + head * k_strides[2]
    v += row * v_strides[0] + head * v_strides[2]
    erase += row * erase_strides[0] + head * erase_strides[2]
    if write is not None:
        write += row * write_strides[0] + head * write_strides[2]
    number = tl.cdiv(length, CHUNK)
    first = row * length * heads + head
    grad, dv = grad + first * dim_v, dv + first * dim_v
    dq, dk, dlog_alpha = dq + first * dim, dk + first * dim, dlog_alpha + first * dim
    states += (row * (number - 1) * heads + head) * dim * dim_v
    sums += (row * heads + head) * number * CHUNK * dim
    pairs += (row * heads + head) * number * 2 * CHUNK * CHUNK
    i, d = tl.arange(0, CHUNK), tl.arange(0, DIM)
    differ = i[:, None] ^ i[None, :]
    dS = tl.zeros([DIM, DIM_V], tl.float32)
    for done in range(number):
        n = number - 1 - done
        t = n * CHUNK + i
        g = sums + n * CHUNK * dim
        g_t = load(g, i, dim, CHUNK, dim, DIM, EVEN)
        q_t = load(q, t, q_strides[1], length, dim, DIM, EVEN).to(tl.float32)
        k_t = load(k, t, k_strides[1], length, dim, DIM, EVEN).to(tl.float32)
        v_t = load(v, t, v_strides[1], length, dim_v, DIM_V, EVEN).to(tl.float32)
        erased, written = _gates(
            erase, write, t, erase_strides[1], write_strides[1], length, dim, dim_v, CHUNK, DIM, DIM_V, EVEN, BY_HEAD
        )
        e_t = erased * k_t
        dy = load(grad, t, heads * dim_v, length, dim_v, DIM_V, EVEN).to(tl.float32)
        shelf = pairs + n * 2 * CHUNK * CHUNK
        T = load(shelf, i, CHUNK, CHUNK, CHUNK, CHUNK, True)
        B = load(shelf + CHUNK * CHUNK, i, CHUNK, CHUNK, CHUNK, CHUNK, True)
        a = tl.exp(g_t)
        before, rows_of_S = states + (n - 1) * heads * dim * dim_v, tl.where(n > 0, dim, 0)  # the first has none
        rest = written * v_t
        if not SINGLE:
            S = load(before, d, dim_v, rows_of_S, dim_v, DIM_V).to(tl.float32)
            rest -= _dot(a * e_t, S, EXACT)
        U = _dot(T, rest, EXACT)
        dU = _dot(tl.trans(B), dy, EXACT)
        dq_t, dk_t = tl.zeros([CHUNK, DIM], tl.float32), tl.zeros([CHUNK, DIM], tl.float32)
        de_t, passing = tl.zeros([CHUNK, DIM], tl.float32), tl.zeros([DIM], tl.float32)
        if not SINGLE:
            g_end = tl.load(g + (CHUNK - 1) * dim + d, mask=d < dim, other=0.0)
            z, through = tl.exp(g_end[None, :] - g_t), tl.exp(g_end)
            dU += _dot(z * k_t, dS, EXACT)
            dk_t = z * _dot(U, tl.trans(dS), EXACT)
            passing = through * tl.sum(S * dS, 1) + tl.sum(k_t * dk_t, 0)
            dS = through[:, None] * dS + _dot(tl.trans(a * q_t), dy, EXACT)
        dwritten = _dot(tl.trans(T), dU, EXACT)
        if not SINGLE:
            dS -= _dot(tl.trans(a * e_t), dwritten, EXACT)
            S = load(before, d, dim_v, rows_of_S, dim_v, DIM_V).to(tl.float32)  # read again, to save registers
            dq_t = a * _dot(dy, tl.trans(S), EXACT)
            de_t = -a * _dot(dwritten, tl.trans(S), EXACT)
        dG = tl.where(i[:, None] > i[None, :], _dot(dy, tl.trans(U), EXACT), -_dot(U, tl.trans(dwritten), EXACT))
        for level in tl.static_range(LEVELS):
            W, second = _shares(g, g_t, dim, level, CHUNK, DIM, EVEN)
            P, N = W * tl.where(second, q_t, k_t), W * tl.where(second, e_t, k_t)
            dG_l = tl.where(differ >> level == 1, dG, 0.0)
            dP, dN = W * _dot(dG_l, N, EXACT), W * _dot(tl.trans(dG_l), P, EXACT)
            dq_t += tl.where(second, dP, 0.0)
            de_t += tl.where(second, dN, 0.0)
            dk_t += tl.where(second, 0.0, dP + dN)
        dg = q_t * dq_t + e_t * de_t - k_t * dk_t
        forget = (passing + tl.sum(dg, 0))[None, :] - tl.cumsum(dg, 0) + dg
        store(dlog_alpha, forget, t, heads * dim, length, dim, DIM, EVEN)
        itself = tl.sum(dy * U, 1)[:, None]  # the diagonal of dB
        store(dq, dq_t + itself * k_t, t, heads * dim, length, dim, DIM, EVEN)
        store(dk, dk_t + itself * q_t + erased * de_t, t, heads * dim, length, dim, DIM, EVEN)
        store(dv, written * dwritten, t, heads * dim_v, length, dim_v, DIM_V, EVEN)
        if BY_HEAD:
            dbeta = tl.sum(k_t * de_t, 1) + tl.sum(v_t * dwritten, 1)
            tl.store(derase + first + t * heads, dbeta.to(derase.dtype.element_ty), mask=t < length)
        else:
            store(derase + first * dim, k_t * de_t, t, heads * dim, length, dim, DIM, EVEN)
            if write is not None:
                store(dwrite + first * dim_v, v_t * dwritten, t, heads * dim_v, length, dim_v, DIM_V, EVEN)
