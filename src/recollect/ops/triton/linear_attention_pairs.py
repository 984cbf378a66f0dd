"""Kernels of linear attention on rows of a few chunks: every pair of tokens, and no state; formula in ops/linear_attention.py.

    S = q k^T, causal      y = r * (S v)      dA = r * (dy v^T - m)      dq = dA k      dk = dA^T q      dv = S^T (r * dy)

with q and k after their feature map, r = 1 over the sum of a row of S and m = rowsum(dy y), or 1 and 0 without a divisor. It
is more work than with the state of linear_attention.py, but faster on a GPU, because nothing waits for the previous chunk. A
program takes one head of one row and a block of its queries, and walks over the keys; in backward another takes a block of its
keys and walks over the queries. No atomics: the same bits on every run.

Glossary: t, s = queries and keys. Shapes: q, k (rows, length, heads, n), v, y (rows, length, heads, p), r and m
(rows, heads, length).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton import stages
from recollect.ops.triton.features import features, reciprocal, to_input
from recollect.ops.triton.linear_attention import rows_of_vectors
from recollect.ops.triton.tiles import load, place, store

BLOCK, STEP = 64, 32
"""Tokens of a block, and those that are taken at once on the way over the others."""


def serves(q: Tensor, v: Tensor) -> bool:
    """Whether rows are longer than a block, but short for a state of this size. Float16's range is too small for these sums."""
    return BLOCK < v.shape[1] <= 4 * max(q.shape[3], v.shape[3]) and v.dtype != torch.float16


def outputs(q: Tensor, v: Tensor, normalise: bool) -> tuple[Tensor, Tensor]:
    """Empty tensors for y and for r, the latter empty without a divisor (q is for those of linear_attention.py)."""
    rows, length, heads, _ = v.shape
    return v.new_empty(v.shape), v.new_empty(rows, heads, length if normalise else 0, dtype=torch.float32)


def forward(q: Tensor, k: Tensor, v: Tensor, feature: str, normalise: bool) -> tuple[Tensor, Tensor]:
    """The result y, and r."""
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


def _arguments(q: Tensor, k: Tensor, v: Tensor, feature: str, normalise: bool) -> tuple[tuple[int], list, dict]:
    """The grid, and what all kernels take: tensors, strides and sizes; and the choices that are compiled in."""
    q, k, v = (rows_of_vectors(x) for x in (q, k, v))
    (rows, length, heads, p), n = v.shape, q.shape[3]
    strides = [*q.stride()[:3], *k.stride()[:3], *v.stride()[:3]]
    N, P = (max(triton.next_power_of_2(size), 16) for size in (n, p))
    exact = v.dtype == torch.float32
    options = {
        "BLOCK": BLOCK, "STEP": STEP, "N": N, "P": P, "FEATURE": feature, "NORMALISE": normalise,
        "EVEN": length % BLOCK == 0 and (n, p) == (N, P),  # then nothing needs a mask
        "EXACT": "ieee" if exact else "tf32", "num_warps": 4, "num_stages": stages(v, 3),
    }  # fmt: skip
    return (rows * heads * triton.cdiv(length, BLOCK),), [q, k, v, *strides, length, heads, n, p], options


@triton.jit
def _mapped(x, t, stride, length, dim, DIM: tl.constexpr, FEATURE: tl.constexpr, EVEN: tl.constexpr):
    """Tokens t of one head, through the feature map."""
    return features(load(x, t, stride, length, dim, DIM, EVEN), dim, DIM, FEATURE, EVEN)


@triton.jit
def _forward_kernel(
    y, r, q, k, v, q_row, q_time, q_head, k_row, k_time, k_head, v_row, v_time, v_head, length, heads, n, p,
    BLOCK: tl.constexpr, STEP: tl.constexpr, N: tl.constexpr, P: tl.constexpr, FEATURE: tl.constexpr,
    NORMALISE: tl.constexpr, EVEN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    row, head, block, blocks = place(length, heads, BLOCK)
    q += row * q_row + head * q_head
    k += row * k_row + head * k_head
    v += row * v_row + head * v_head
    first = (blocks - 1 - block) * BLOCK  # the longest walk first
    t = first + tl.arange(0, BLOCK)
    q_t = _mapped(q, t, q_time, length, n, N, FEATURE, EVEN)
    divisor = tl.zeros([BLOCK], tl.float32)
    sums = tl.zeros([BLOCK, P], tl.float32)
    for start in range(0, first + BLOCK, STEP):
        s = start + tl.arange(0, STEP)
        k_s = _mapped(k, s, k_time, length, n, N, FEATURE, EVEN)
        v_s = load(v, s, v_time, length, p, P, EVEN)
        S = tl.dot(q_t, tl.trans(k_s), input_precision=EXACT)
        S = tl.where(s[None, :] <= t[:, None], S, 0.0)
        divisor += tl.sum(S, 1)
        sums = tl.dot(S.to(v_s.dtype), v_s, acc=sums, input_precision=EXACT)
    if NORMALISE:
        r_t = reciprocal(divisor)
        sums *= r_t[:, None]
        tl.store(r + (row * heads + head) * length + t, r_t, mask=t < length)
    store(y + (row * length * heads + head) * p, sums, t, heads * p, length, p, P, EVEN)


@triton.jit
def _queries_kernel(
    grad, y, r, m, dq, q, k, v, q_row, q_time, q_head, k_row, k_time, k_head, v_row, v_time, v_head, length, heads, n, p,
    BLOCK: tl.constexpr, STEP: tl.constexpr, N: tl.constexpr, P: tl.constexpr, FEATURE: tl.constexpr,
    NORMALISE: tl.constexpr, EVEN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """dq and m of a block of queries."""
    row, head, block, blocks = place(length, heads, BLOCK)
    q += row * q_row + head * q_head
    k += row * k_row + head * k_head
    v += row * v_row + head * v_head
    first = (blocks - 1 - block) * BLOCK
    t = first + tl.arange(0, BLOCK)
    of_head = row * length * heads + head
    dy = load(grad + of_head * p, t, heads * p, length, p, P, EVEN)
    m_t = tl.zeros([BLOCK], tl.float32)
    if NORMALISE:
        y_t = load(y + of_head * p, t, heads * p, length, p, P, EVEN)
        m_t = tl.sum(dy.to(tl.float32) * y_t.to(tl.float32), 1)
        tl.store(m + (row * heads + head) * length + t, m_t, mask=t < length)
    dq_t = tl.zeros([BLOCK, N], tl.float32)  # without the factor r
    for start in range(0, first + BLOCK, STEP):
        s = start + tl.arange(0, STEP)
        k_s = _mapped(k, s, k_time, length, n, N, FEATURE, EVEN)
        v_s = load(v, s, v_time, length, p, P, EVEN)
        dA = tl.dot(dy, tl.trans(v_s), input_precision=EXACT) - m_t[:, None]
        dA = tl.where(s[None, :] <= t[:, None], dA, 0.0)
        dq_t = tl.dot(dA.to(k_s.dtype), k_s, acc=dq_t, input_precision=EXACT)
    if NORMALISE:
        dq_t *= tl.load(r + (row * heads + head) * length + t, mask=t < length, other=0.0)[:, None]
    q_t = _mapped(q, t, q_time, length, n, N, FEATURE, EVEN)
    store(dq + of_head * n, to_input(dq_t, q_t, FEATURE), t, heads * n, length, n, N, EVEN)


@triton.jit
def _keys_kernel(
    grad, r, m, dk, dv, q, k, v, q_row, q_time, q_head, k_row, k_time, k_head, v_row, v_time, v_head, length, heads, n, p,
    BLOCK: tl.constexpr, STEP: tl.constexpr, N: tl.constexpr, P: tl.constexpr, FEATURE: tl.constexpr,
    NORMALISE: tl.constexpr, EVEN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """dk and dv of a block of keys. Products are keys by queries."""
    row, head, block, blocks = place(length, heads, BLOCK)
    q += row * q_row + head * q_head
    k += row * k_row + head * k_head
    v += row * v_row + head * v_head
    s = block * BLOCK + tl.arange(0, BLOCK)
    of_head = row * length * heads + head
    of_sums = (row * heads + head) * length
    k_s = _mapped(k, s, k_time, length, n, N, FEATURE, EVEN)
    v_s = load(v, s, v_time, length, p, P, EVEN)
    dk_s = tl.zeros([BLOCK, N], tl.float32)
    dv_s = tl.zeros([BLOCK, P], tl.float32)
    for start in range(block * BLOCK, blocks * BLOCK, STEP):
        t = start + tl.arange(0, STEP)
        q_t = _mapped(q, t, q_time, length, n, N, FEATURE, EVEN)
        dy = load(grad + of_head * p, t, heads * p, length, p, P, EVEN)
        S = tl.dot(k_s, tl.trans(q_t), input_precision=EXACT)
        dA = tl.dot(v_s, tl.trans(dy), input_precision=EXACT)
        if NORMALISE:
            r_t = tl.load(r + of_sums + t, mask=t < length, other=0.0)[None, :]
            S, dA = S * r_t, (dA - tl.load(m + of_sums + t, mask=t < length, other=0.0)[None, :]) * r_t
        S, dA = tl.where(s[:, None] <= t[None, :], S, 0.0), tl.where(s[:, None] <= t[None, :], dA, 0.0)
        dv_s = tl.dot(S.to(dy.dtype), dy, acc=dv_s, input_precision=EXACT)
        dk_s = tl.dot(dA.to(q_t.dtype), q_t, acc=dk_s, input_precision=EXACT)
    store(dk + of_head * n, to_input(dk_s, k_s, FEATURE), s, heads * n, length, n, N, EVEN)
    store(dv + of_head * p, dv_s, s, heads * p, length, p, P, EVEN)
