"""Kernels of the delta rule, with a decay or without; formulas and plain form in ops/delta_rule.py.

A program takes one head of one row through its chunks, its state S in registers. In a chunk that starts from S,

    T = (1 + A)^-1        U = T beta (V - a K S)        Y = a Q S + (D * Q K^T) U        S' = a_C S + K^T (e U)

with a_C the last of a, and e_j = D_Cj what is left of token j at the end. T comes from inverted blocks on the diagonal that
double: if N is the part of A that joins pairs of them, T - T N T inverts the pairs. (The product of all 1 + (-A)^(2^i) is the
same inverse in as many products, but with repeated keys its factors are huge and cancel.)
Backward goes from the last chunk to the first with dS in registers, and reads S as forward left it:

    dU = (D * Q K^T)^T dY + e (K dS')        dR = T^T dU        dA = -dR U^T where j < i        dV = beta dR        W = -a dV
    dP = D * dY U^T        dG = beta D * dA        dQ = dP K + a (dY S^T)
    dK = dP^T Q + (dG + dG^T) K + e (U dS'^T) + W S^T        dS = a_C dS' + Q^T (a dY) + K^T W
    dbeta = rowsum(dR (V - a K S)) + rowsum(dA * D * K K^T)

log alpha_r is a term in the exponents of D_ij with j < r <= i, of a_i with i >= r, of e_j with j < r, and of a_C.
No atomics: the same bits on every run.

Shapes: q, k (rows, length, heads, dim), v, y (rows, length, heads, dim_v), beta, log_alpha (rows, length, heads);
states (rows, chunks - 1, heads, dim, dim_v), those before each chunk but the first.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton.tiles import load, store

CHUNK = 16  # tokens; with longer chunks fewer states are stored, but their matrices do not fit into registers


def forward(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_alpha: Tensor | None) -> tuple[Tensor, Tensor]:
    """The result y, and the states before each chunk but the first, which backward needs."""
    q, k, v = (_dense_last(x) for x in (q, k, v))
    rows, length, heads, dim = q.shape
    y = v.new_empty(v.shape)
    states = v.new_empty(rows, chunks(length) - 1, heads, dim, v.shape[-1])
    with torch.cuda.device_of(q):
        _forward_kernel[(rows * heads,)](
            q, k, v, beta, log_alpha, y, states, *_sizes(q, k, v, beta, log_alpha), **_options(q, v)
        )  # fmt: skip
    return y, states


def backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_alpha: Tensor | None, states: Tensor
) -> list[Tensor]:
    """Gradients of q, k, v, beta and, where there is one, log_alpha."""
    q, k, v = (_dense_last(x) for x in (q, k, v))
    inputs = [q, k, v, beta] if log_alpha is None else [q, k, v, beta, log_alpha]
    grads = [x.new_empty(x.shape) for x in inputs]
    with torch.cuda.device_of(q):
        _backward_kernel[(q.shape[0] * q.shape[2],)](
            grad.contiguous(), q, k, v, beta, log_alpha, states, *grads, *(None,) * (5 - len(grads)),
            *_sizes(q, k, v, beta, log_alpha), **_options(q, v),
        )  # fmt: skip
    return grads


def chunks(length: int) -> int:
    """How many chunks a row is cut into."""
    return -(-length // CHUNK)


def _dense_last(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


def _sizes(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_alpha: Tensor | None) -> tuple:
    _, length, heads, dim = q.shape
    strides = (x.stride()[:3] for x in (q, k, v, beta, beta if log_alpha is None else log_alpha))
    return length, heads, dim, v.shape[-1], *strides


def _options(q: Tensor, v: Tensor) -> dict:
    dim, dim_v = (max(triton.next_power_of_2(x.shape[-1]), 16) for x in (q, v))
    exact = q.dtype == torch.float32
    warps = 8 if max(dim, dim_v) > 64 else max(dim // 32, dim_v // 32, 1) * (2 if exact else 1)
    return {
        "CHUNK": CHUNK, "LEVELS": CHUNK.bit_length() - 1, "DIM": dim, "DIM_V": dim_v, "SINGLE": q.shape[1] <= CHUNK,
        "EXACT": "tf32x3" if exact else "tf32",  # three products in tf32 are as good as one in float32
        "num_warps": warps, "num_stages": 1,
    }  # fmt: skip


@triton.jit
def _decays(log_alpha, t, stride, length, CHUNK: tl.constexpr):
    """D, a, e and a_C. Every segment is summed by itself: differences of sums would be inf - inf where alpha is 0."""
    i = tl.arange(0, CHUNK)
    if log_alpha is None:
        D, through = tl.full([CHUNK, CHUNK], 1.0, tl.float32), tl.full([], 1.0, tl.float32)
        a, e = tl.full([CHUNK], 1.0, tl.float32), tl.full([CHUNK], 1.0, tl.float32)
    else:
        forget = tl.load(log_alpha + t * stride, mask=t < length, other=0.0).to(tl.float32)
        terms = tl.where(i[:, None] > i[None, :], forget[:, None], 0.0)
        D = tl.exp(tl.cumsum(terms, 0))
        a, e = tl.exp(tl.cumsum(forget, 0)), tl.exp(tl.sum(terms, 0))
        through = tl.exp(tl.sum(forget, 0))
    return tl.where(i[:, None] >= i[None, :], D, 0.0), a, e, through


@triton.jit
def _dot(x, y, EXACT: tl.constexpr):
    """A product with a computed matrix, in more digits than the inputs have."""
    return tl.dot(x.to(tl.float32), y.to(tl.float32), input_precision=EXACT)


@triton.jit
def _inverse(A, CHUNK: tl.constexpr, LEVELS: tl.constexpr, EXACT: tl.constexpr):
    """(1 + A)^-1; A is zero on the diagonal and above it."""
    i = tl.arange(0, CHUNK)
    differ = i[:, None] ^ i[None, :]  # its highest bit gives the size of the blocks in which i and j first differ
    T = tl.where(differ == 0, 1.0, 0.0) - tl.where(differ == 1, A, 0.0)
    for level in tl.static_range(1, LEVELS):
        N = tl.where(differ >> level == 1, A, 0.0)
        T -= _dot(T, _dot(N, T, EXACT), EXACT)
    return T


@triton.jit
def _forward_kernel(
    q, k, v, beta, log_alpha, y, states, length, heads, dim, dim_v,
    q_strides, k_strides, v_strides, beta_strides, alpha_strides,
    CHUNK: tl.constexpr, LEVELS: tl.constexpr, DIM: tl.constexpr, DIM_V: tl.constexpr, SINGLE: tl.constexpr,
    EXACT: tl.constexpr,
):  # fmt: skip
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    q += row * q_strides[0] + head * q_strides[2]
    k += row * k_strides[0] + head * k_strides[2]
    v += row * v_strides[0] + head * v_strides[2]
    beta += row * beta_strides[0] + head * beta_strides[2]
    if log_alpha is not None:
        log_alpha += row * alpha_strides[0] + head * alpha_strides[2]
    y += (row * length * heads + head) * dim_v
    states += (row * (tl.cdiv(length, CHUNK) - 1) * heads + head) * dim * dim_v
    i, d = tl.arange(0, CHUNK), tl.arange(0, DIM)
    S = tl.zeros([DIM, DIM_V], tl.float32)
    for start in range(0, length, CHUNK):
        t = start + i
        k_t = load(k, t, k_strides[1], length, dim, DIM)
        q_t = load(q, t, q_strides[1], length, dim, DIM)
        v_t = load(v, t, v_strides[1], length, dim_v, DIM_V).to(tl.float32)
        b = tl.load(beta + t * beta_strides[1], mask=t < length, other=0.0).to(tl.float32)
        D, a, e, through = _decays(log_alpha, t, alpha_strides[1], length, CHUNK)
        y_t = tl.zeros([CHUNK, DIM_V], tl.float32)
        if not SINGLE:
            v_t -= a[:, None] * _dot(k_t, S, EXACT)
            y_t = a[:, None] * _dot(q_t, S, EXACT)
        A = tl.where(i[:, None] > i[None, :], D, 0.0) * tl.dot(k_t, tl.trans(k_t), input_precision=EXACT)
        U = _dot(_inverse(b[:, None] * A, CHUNK, LEVELS, EXACT), b[:, None] * v_t, EXACT)
        y_t += _dot(D * tl.dot(q_t, tl.trans(k_t), input_precision=EXACT), U, EXACT)
        if not SINGLE:
            S = through * S + _dot(tl.trans(k_t), e[:, None] * U, EXACT)
            if start + CHUNK < length:
                store(states + (start // CHUNK) * heads * dim * dim_v, S, d, dim_v, dim, dim_v, DIM_V)
        store(y, y_t, t, heads * dim_v, length, dim_v, DIM_V)


@triton.jit
def _backward_kernel(
    grad, q, k, v, beta, log_alpha, states, dq, dk, dv, dbeta, dlog_alpha, length, heads, dim, dim_v,
    q_strides, k_strides, v_strides, beta_strides, alpha_strides,
    CHUNK: tl.constexpr, LEVELS: tl.constexpr, DIM: tl.constexpr, DIM_V: tl.constexpr, SINGLE: tl.constexpr,
    EXACT: tl.constexpr,
):  # fmt: skip
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    q += row * q_strides[0] + head * q_strides[2]
    k += row * k_strides[0] + head * k_strides[2]
    v += row * v_strides[0] + head * v_strides[2]
    beta += row * beta_strides[0] + head * beta_strides[2]
    if log_alpha is not None:
        log_alpha += row * alpha_strides[0] + head * alpha_strides[2]
    first = row * length * heads + head
    grad, dv = grad + first * dim_v, dv + first * dim_v
    dq, dk = dq + first * dim, dk + first * dim
    number = tl.cdiv(length, CHUNK)
    states += (row * (number - 1) * heads + head) * dim * dim_v
    i, d = tl.arange(0, CHUNK), tl.arange(0, DIM)
    before, same = i[:, None] > i[None, :], i[:, None] == i[None, :]
    dS = tl.zeros([DIM, DIM_V], tl.float32)
    for done in range(number):
        start = (number - 1 - done) * CHUNK
        t = start + i
        shelf = states + (start // CHUNK - 1) * heads * dim * dim_v
        rows_of_S = tl.where(start > 0, dim, 0)  # the first chunk starts from nothing
        D, a, e, through = _decays(log_alpha, t, alpha_strides[1], length, CHUNK)
        b = tl.load(beta + t * beta_strides[1], mask=t < length, other=0.0).to(tl.float32)
        k_t = load(k, t, k_strides[1], length, dim, DIM)
        DG = tl.where(before, D, 0.0) * tl.dot(k_t, tl.trans(k_t), input_precision=EXACT)
        T = _inverse(b[:, None] * DG, CHUNK, LEVELS, EXACT)
        rest = load(v, t, v_strides[1], length, dim_v, DIM_V).to(tl.float32)  # V - a K S
        if not SINGLE:
            S = load(shelf, d, dim_v, rows_of_S, dim_v, DIM_V)
            rest -= a[:, None] * _dot(k_t, S, EXACT)
        U = _dot(T, b[:, None] * rest, EXACT)
        q_t = load(q, t, q_strides[1], length, dim, DIM)
        dy = load(grad, t, heads * dim_v, length, dim_v, DIM_V)
        P = D * tl.dot(q_t, tl.trans(k_t), input_precision=EXACT)
        dU = _dot(tl.trans(P), dy, EXACT)
        dk_t, forget = tl.zeros([CHUNK, DIM], tl.float32), tl.zeros([CHUNK], tl.float32)
        if not SINGLE:
            later = e[:, None] * _dot(k_t, dS, EXACT)
            dU += later
            dk_t += _dot(e[:, None] * U, tl.trans(dS), EXACT)
            if log_alpha is not None:
                forget += through * tl.sum(tl.sum(S.to(tl.float32) * dS, 1), 0)
                forget += tl.sum(tl.where(before | same, 0.0, tl.sum(U * later, 1)[:, None]), 0)
            dS = through * dS + _dot(tl.trans(q_t), a[:, None] * dy.to(tl.float32), EXACT)
        dR = _dot(tl.trans(T), dU, EXACT)
        dA = tl.where(before, -_dot(dR, tl.trans(U), EXACT), 0.0)
        tl.store(
            dbeta + first + t * heads, (tl.sum(dR * rest, 1) + tl.sum(dA * DG, 1)).to(dbeta.dtype.element_ty),
            mask=t < length,
        )  # fmt: skip
        dv_t = b[:, None] * dR
        store(dv, dv_t, t, heads * dim_v, length, dim_v, DIM_V)
        dP = _dot(dy, tl.trans(U), EXACT)
        if log_alpha is not None:
            # Whole rows less whole columns: what lies on one side of r cancels.
            crossing = tl.where(before, dP * P, 0.0) + b[:, None] * dA * DG
            inner = tl.sum(crossing, 1) - tl.sum(crossing, 0)
        dP *= D
        dk_t += _dot(tl.trans(dP), q_t, EXACT)
        dG = b[:, None] * D * dA
        dk_t += _dot(dG + tl.trans(dG), k_t, EXACT)
        dq_t = _dot(dP, k_t, EXACT)
        if not SINGLE:
            W = -a[:, None] * dv_t
            dS += _dot(tl.trans(k_t), W, EXACT)
            S = load(shelf, d, dim_v, rows_of_S, dim_v, DIM_V)  # read again, to save registers
            read, held = a[:, None] * _dot(dy, tl.trans(S), EXACT), _dot(W, tl.trans(S), EXACT)
            dq_t += read
            dk_t += held
            if log_alpha is not None:
                inner += tl.sum(read * q_t.to(tl.float32), 1) + tl.sum(held * k_t.to(tl.float32), 1)
        store(dq, dq_t, t, heads * dim, length, dim, DIM)
        store(dk, dk_t, t, heads * dim, length, dim, DIM)
        if log_alpha is not None:
            forget += tl.sum(tl.where(before | same, inner[:, None], 0.0), 0)
            tl.store(dlog_alpha + first + t * heads, forget.to(dlog_alpha.dtype.element_ty), mask=t < length)
