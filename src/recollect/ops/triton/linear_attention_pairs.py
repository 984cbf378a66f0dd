"""Kernels of linear attention on rows of a few chunks: every pair of tokens, and no state; formula in ops/linear_attention.py.

    S = q k^T, causal      y = r * (S v)      dA = r * (dy v^T - m)      dq = dA k      dk = dA^T q      dv = S^T (r * dy)

with q and k after their feature map, r = 1 over the sum of a row of S and m = rowsum(dy y), or 1 and 0 without a divisor. It
is more work than with the state of linear_attention.py, but of a kind that a GPU is quicker at: nothing waits for the chunk
before. A program takes one head of one row and a block of its queries; in backward another takes a block of its keys. No
atomics: the same bits on every run.

Glossary: t, s = queries and keys of a block. Shapes: q, k (rows, length, heads, n), v, y (rows, length, heads, p), r and m
(rows, heads, length).
"""

# pyright: reportCallIssue=false, reportOperatorIssue=false, reportGeneralTypeIssues=false, reportArgumentType=false
# pyright: reportIndexIssue=false, reportAttributeAccessIssue=false
# (Triton's language looks like Python, but its types are its own.)

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton import stages
from recollect.ops.triton.features import features, reciprocal, to_input
from recollect.ops.triton.linear_attention import rows_of_vectors
from recollect.ops.triton.tiles import load, store

BLOCK = 64
"""Queries, or keys, of a block."""


def serves(q: Tensor, v: Tensor) -> bool:
    """Whether rows are longer than a block, but short for a state of this size. Float16's range is too short for these sums."""
    return BLOCK < v.shape[1] <= 4 * max(q.shape[3], v.shape[3]) and v.dtype != torch.float16


def outputs(q: Tensor, v: Tensor, normalise: bool) -> tuple[Tensor, Tensor]:
    """Room for y and for r, the latter empty without a divisor (q is for those of linear_attention.py)."""
    rows, length, heads, _ = v.shape
    return v.new_empty(v.shape), v.new_empty(rows, heads, length if normalise else 0, dtype=torch.float32)


def forward(q: Tensor, k: Tensor, v: Tensor, feature: str, normalise: bool) -> tuple[Tensor, Tensor]:
    """y and r."""
    y, r = outputs(q, v, normalise)
    grid, arguments, options = _arguments(q, k, v, feature, normalise)
    with torch.cuda.device_of(v):
        _forward_kernel[grid](y, r, *arguments, **options)
    return y, r


def backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, y: Tensor, r: Tensor, feature: str, normalise: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v."""
    grid, arguments, options = _arguments(q, k, v, feature, normalise)
    dq, dk, dv, m = (x.new_empty(x.shape) for x in (q, k, v, r))
    grad = grad.contiguous()
    with torch.cuda.device_of(v):
        _queries_kernel[grid](grad, y.contiguous(), r, m, dq, *arguments, **options)
        _keys_kernel[grid](grad, r, m, dk, dv, *arguments, **options)
    return dq, dk, dv


def _arguments(q: Tensor, k: Tensor, v: Tensor, feature: str, normalise: bool) -> tuple[tuple[int, int], list, dict]:
    """The grid, and what all kernels take: tensors, strides and sizes; and the choices that are compiled in."""
    q, k, v = (rows_of_vectors(x) for x in (q, k, v))
    (rows, length, heads, p), n = v.shape, q.shape[3]
    strides = [*q.stride()[:3], *k.stride()[:3], *v.stride()[:3]]
    N, P = (max(triton.next_power_of_2(size), 16) for size in (n, p))
    exact = v.dtype == torch.float32
    options = {
        "BLOCK": BLOCK, "N": N, "P": P, "FEATURE": feature, "NORMALISE": normalise, "EVEN": n == N,
        "EXACT": "ieee" if exact else "tf32", "num_warps": 4, "num_stages": stages(v, 2),
    }  # fmt: skip
    return (rows * heads, triton.cdiv(length, BLOCK)), [q, k, v, *strides, length, heads, n, p], options


@triton.jit
def _causal(x, BLOCK: tl.constexpr):
    """A block on the diagonal, queries by keys, with zeros for later keys."""
    i = tl.arange(0, BLOCK)
    return tl.where(i[None, :] <= i[:, None], x, 0.0)


@triton.jit
def _mapped(x, t, stride, length, dim, DIM: tl.constexpr, FEATURE: tl.constexpr, EVEN: tl.constexpr):
    """Tokens t of one head, through the feature map."""
    return features(load(x, t, stride, length, dim, DIM), dim, DIM, FEATURE, EVEN)


@triton.jit
def _forward_kernel(
    y, r, q, k, v, q_row, q_time, q_head, k_row, k_time, k_head, v_row, v_time, v_head, length, heads, n, p,
    BLOCK: tl.constexpr, N: tl.constexpr, P: tl.constexpr, FEATURE: tl.constexpr, NORMALISE: tl.constexpr,
    EVEN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    q += row * q_row + head * q_head
    k += row * k_row + head * k_head
    v += row * v_row + head * v_head
    first = tl.program_id(1) * BLOCK
    t = first + tl.arange(0, BLOCK)
    q_t = _mapped(q, t, q_time, length, n, N, FEATURE, EVEN)
    divisor = tl.zeros([BLOCK], tl.float32)
    sums = tl.zeros([BLOCK, P], tl.float32)
    for start in range(0, first, BLOCK):
        s = start + tl.arange(0, BLOCK)
        k_s = _mapped(k, s, k_time, length, n, N, FEATURE, EVEN)
        v_s = load(v, s, v_time, length, p, P)
        S = tl.dot(q_t, tl.trans(k_s), input_precision=EXACT)
        divisor += tl.sum(S, 1)
        sums = tl.dot(S.to(v_s.dtype), v_s, acc=sums, input_precision=EXACT)
    k_t = _mapped(k, t, k_time, length, n, N, FEATURE, EVEN)
    v_t = load(v, t, v_time, length, p, P)
    S = _causal(tl.dot(q_t, tl.trans(k_t), input_precision=EXACT), BLOCK)
    sums = tl.dot(S.to(v_t.dtype), v_t, acc=sums, input_precision=EXACT)
    if NORMALISE:
        r_t = reciprocal(divisor + tl.sum(S, 1))
        sums *= r_t[:, None]
        tl.store(r + (row * heads + head) * length + t, r_t, mask=t < length)
    store(y + (row * length * heads + head) * p, sums, t, heads * p, length, p, P)


@triton.jit
def _queries_kernel(
    grad, y, r, m, dq, q, k, v, q_row, q_time, q_head, k_row, k_time, k_head, v_row, v_time, v_head, length, heads, n, p,
    BLOCK: tl.constexpr, N: tl.constexpr, P: tl.constexpr, FEATURE: tl.constexpr, NORMALISE: tl.constexpr,
    EVEN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """dq and m of a block of queries."""
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    q += row * q_row + head * q_head
    k += row * k_row + head * k_head
    v += row * v_row + head * v_head
    first = tl.program_id(1) * BLOCK
    t = first + tl.arange(0, BLOCK)
    of_head = row * length * heads + head
    dy = load(grad + of_head * p, t, heads * p, length, p, P)
    m_t = tl.zeros([BLOCK], tl.float32)
    if NORMALISE:
        y_t = load(y + of_head * p, t, heads * p, length, p, P)
        m_t = tl.sum(dy.to(tl.float32) * y_t.to(tl.float32), 1)
        tl.store(m + (row * heads + head) * length + t, m_t, mask=t < length)
    dq_t = tl.zeros([BLOCK, N], tl.float32)  # without the factor r
    for start in range(0, first, BLOCK):
        s = start + tl.arange(0, BLOCK)
        k_s = _mapped(k, s, k_time, length, n, N, FEATURE, EVEN)
        v_s = load(v, s, v_time, length, p, P)
        dA = tl.dot(dy, tl.trans(v_s), input_precision=EXACT) - m_t[:, None]
        dq_t = tl.dot(dA.to(k_s.dtype), k_s, acc=dq_t, input_precision=EXACT)
    k_t = _mapped(k, t, k_time, length, n, N, FEATURE, EVEN)
    v_t = load(v, t, v_time, length, p, P)
    dA = _causal(tl.dot(dy, tl.trans(v_t), input_precision=EXACT) - m_t[:, None], BLOCK)
    dq_t = tl.dot(dA.to(k_t.dtype), k_t, acc=dq_t, input_precision=EXACT)
    if NORMALISE:
        dq_t *= tl.load(r + (row * heads + head) * length + t, mask=t < length, other=0.0)[:, None]
    q_t = _mapped(q, t, q_time, length, n, N, FEATURE, EVEN)
    store(dq + of_head * n, to_input(dq_t, q_t, FEATURE), t, heads * n, length, n, N)


@triton.jit
def _keys_step(
    dy, q, r_t, m_t, k, v, dk, dv, BLOCK: tl.constexpr, DIAGONAL: tl.constexpr, EXACT: tl.constexpr
):  # fmt: skip
    """dk and dv after some more queries. Products are keys by queries."""
    S = tl.dot(k, tl.trans(q), input_precision=EXACT) * r_t[None, :]
    dA = (tl.dot(v, tl.trans(dy), input_precision=EXACT) - m_t[None, :]) * r_t[None, :]
    if DIAGONAL:
        i = tl.arange(0, BLOCK)
        S, dA = tl.where(i[:, None] <= i[None, :], S, 0.0), tl.where(i[:, None] <= i[None, :], dA, 0.0)
    dv = tl.dot(S.to(dy.dtype), dy, acc=dv, input_precision=EXACT)
    return tl.dot(dA.to(q.dtype), q, acc=dk, input_precision=EXACT), dv


@triton.jit
def _sums(r, m, t, length, BLOCK: tl.constexpr, NORMALISE: tl.constexpr):
    """r and m of some queries."""
    if NORMALISE:
        return tl.load(r + t, mask=t < length, other=0.0), tl.load(m + t, mask=t < length, other=0.0)
    else:
        return tl.full([BLOCK], 1.0, tl.float32), tl.zeros([BLOCK], tl.float32)


@triton.jit
def _keys_kernel(
    grad, r, m, dk, dv, q, k, v, q_row, q_time, q_head, k_row, k_time, k_head, v_row, v_time, v_head, length, heads, n, p,
    BLOCK: tl.constexpr, N: tl.constexpr, P: tl.constexpr, FEATURE: tl.constexpr, NORMALISE: tl.constexpr,
    EVEN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """dk and dv of a block of keys."""
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    q += row * q_row + head * q_head
    k += row * k_row + head * k_head
    v += row * v_row + head * v_head
    first = tl.program_id(1) * BLOCK
    s = first + tl.arange(0, BLOCK)
    of_head = row * length * heads + head
    r += (row * heads + head) * length
    m += (row * heads + head) * length
    k_s = _mapped(k, s, k_time, length, n, N, FEATURE, EVEN)
    v_s = load(v, s, v_time, length, p, P)
    q_s = _mapped(q, s, q_time, length, n, N, FEATURE, EVEN)
    dy = load(grad + of_head * p, s, heads * p, length, p, P)
    r_s, m_s = _sums(r, m, s, length, BLOCK, NORMALISE)
    dk_s = tl.zeros([BLOCK, N], tl.float32)
    dv_s = tl.zeros([BLOCK, P], tl.float32)
    dk_s, dv_s = _keys_step(dy, q_s, r_s, m_s, k_s, v_s, dk_s, dv_s, BLOCK, True, EXACT)
    for start in range(first + BLOCK, length, BLOCK):
        t = start + tl.arange(0, BLOCK)
        q_t = _mapped(q, t, q_time, length, n, N, FEATURE, EVEN)
        dy = load(grad + of_head * p, t, heads * p, length, p, P)
        r_t, m_t = _sums(r, m, t, length, BLOCK, NORMALISE)
        dk_s, dv_s = _keys_step(dy, q_t, r_t, m_t, k_s, v_s, dk_s, dv_s, BLOCK, False, EXACT)
    store(dk + of_head * n, to_input(dk_s, k_s, FEATURE), s, heads * n, length, n, N)
    store(dv + of_head * p, dv_s, s, heads * p, length, p, P)
