"""Kernels of linear attention (Katharopoulos et al. 2020); formula and plain form in ops/linear_attention.py.

    h_t = h_{t-1} + v_t k_t^T        z_t = z_{t-1} + k_t        y_t = h_t q_t, or h_t q_t / (q_t . z_t)

with q and k after their feature map. A program takes one head of one row through its chunks with h in registers. In a chunk

    A = q k^T * w        y = A v + r * (q h^T)        h' = h + v^T k

where w_ts is r_t for s <= t, else 0, and r_t is 1, or 1 over the divisor. Backward goes from the last chunk to the first with
dh in registers, and computes A and the divisor again; only the states before each chunk but the first are kept:

    dA = dy v^T - m        m_t = dy_t . y_t, with a divisor only        dq = (dA * w) k + r * (dy h - m z)
    dv = A^T dy + k dh^T        dk = (dA * w)^T q + v dh + dz        dh' = dh + dy^T (q * r)        dz' = dz - sum_t m r q

No atomics: the same bits on every run.

Glossary: q, k, v = queries, keys, values; h, z = the sums of values and of features; m = mean of dy under the weights.
Shapes: q, k (rows, length, heads, n), v, y (rows, length, heads, p), kept (rows, heads, chunks - 1, p and one more for z, n).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton.features import features, reciprocal, to_input
from recollect.ops.triton.tiles import load, store


def forward(q: Tensor, k: Tensor, v: Tensor, feature: str, normalise: bool) -> tuple[Tensor, Tensor]:
    """The result y, and the states before each chunk but the first."""
    y, kept = outputs(q, v, normalise)
    arguments, options = _arguments(q, k, v, feature, normalise)
    with torch.cuda.device_of(v):
        _forward_kernel[(v.shape[0] * v.shape[2],)](y, kept, *arguments, **options)
    return y, kept


def backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, y: Tensor, kept: Tensor, feature: str, normalise: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v (y is for the kernels of linear_attention_pairs.py)."""
    arguments, options = _arguments(q, k, v, feature, normalise)
    dq, dk, dv = (x.new_empty(x.shape) for x in (q, k, v))
    with torch.cuda.device_of(v):
        _backward_kernel[(v.shape[0] * v.shape[2],)](
            grad.contiguous(), kept.contiguous(), dq, dk, dv, *arguments, **options
        )  # fmt: skip
    return dq, dk, dv


def outputs(q: Tensor, v: Tensor, normalise: bool) -> tuple[Tensor, Tensor]:
    """Empty tensors for y and for the saved states, in the type of the products' operands: bfloat16, or else float32."""
    rows, length, heads, p = v.shape
    states = -(-length // chunk_of(length)) - 1
    dtype = v.dtype if v.dtype == torch.bfloat16 else torch.float32
    return v.new_empty(v.shape), v.new_empty(rows, heads, states, p + normalise, q.shape[3], dtype=dtype)


def rows_of_vectors(x: Tensor) -> Tensor:
    """x with each vector contiguous."""
    return x if x.stride(-1) == 1 else x.contiguous()


def choices(length: int, n: int, p: int, dtype: torch.dtype) -> dict:
    """What is compiled in for queries and keys of n numbers and values of p: sizes, precision, warps."""
    N, P = (max(triton.next_power_of_2(size), 16) for size in (n, p))
    return {
        "CHUNK": chunk_of(length), "N": N, "P": P, "SINGLE": length <= chunk_of(length),
        "EXACT": "ieee" if dtype == torch.float32 else "tf32",
        "num_warps": 4 if max(N, P) <= 64 else 8, "num_stages": 1,
    }  # fmt: skip


def chunk_of(length: int) -> int:
    return min(max(triton.next_power_of_2(length), 16), 64)


def _arguments(q: Tensor, k: Tensor, v: Tensor, feature: str, normalise: bool) -> tuple[list, dict]:
    """What both kernels take: tensors, strides and sizes; and the choices that are compiled in."""
    q, k, v = (rows_of_vectors(x) for x in (q, k, v))
    (_, length, heads, p), n = v.shape, q.shape[3]
    strides = [*q.stride()[:3], *k.stride()[:3], *v.stride()[:3]]
    options = choices(length, n, p, v.dtype) | {"FEATURE": feature, "NORMALISE": normalise}
    options["EVEN"] = n == options["N"]
    return [q, k, v, *strides, length, heads, n, p], options


@triton.jit
def _weigh(q, k, z, CHUNK: tl.constexpr, SINGLE: tl.constexpr, NORMALISE: tl.constexpr, EXACT: tl.constexpr):
    """A and r."""
    i = tl.arange(0, CHUNK)
    A = tl.where(i[None, :] <= i[:, None], tl.dot(q, tl.trans(k), input_precision=EXACT), 0.0)
    r = tl.full([CHUNK], 1.0, tl.float32)
    if NORMALISE:
        divisor = tl.sum(A, 1)
        if not SINGLE:
            divisor += tl.sum(q.to(tl.float32) * z[None, :], 1)
        r = reciprocal(divisor)
        A *= r[:, None]
    return A, r


@triton.jit
def _forward_kernel(
    y, kept, q, k, v, q_row, q_time, q_head, k_row, k_time, k_head, v_row, v_time, v_head, length, heads, n, p,
    CHUNK: tl.constexpr, N: tl.constexpr, P: tl.constexpr, SINGLE: tl.constexpr,
    FEATURE: tl.constexpr, NORMALISE: tl.constexpr, EVEN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    chunks = tl.cdiv(length, CHUNK)
    dtype: tl.constexpr = kept.dtype.element_ty
    d, c = tl.arange(0, P), tl.arange(0, N)
    h = tl.zeros([P, N], tl.float32)
    z = tl.zeros([N], tl.float32)
    for chunk in range(1 if SINGLE else chunks):
        t = chunk * CHUNK + tl.arange(0, CHUNK)
        q_t = load(q + row * q_row + head * q_head, t, q_time, length, n, N).to(dtype)
        k_t = load(k + row * k_row + head * k_head, t, k_time, length, n, N).to(dtype)
        v_t = load(v + row * v_row + head * v_head, t, v_time, length, p, P).to(dtype)
        q_t, k_t = features(q_t, n, N, FEATURE, EVEN), features(k_t, n, N, FEATURE, EVEN)
        A, r = _weigh(q_t, k_t, z, CHUNK, SINGLE, NORMALISE, EXACT)
        if SINGLE:
            y_t = tl.dot(A.to(dtype), v_t, input_precision=EXACT)
        else:
            y_t = r[:, None] * tl.dot(q_t, tl.trans(h.to(dtype)), input_precision=EXACT)
            y_t = tl.dot(A.to(dtype), v_t, acc=y_t, input_precision=EXACT)
            before = kept + ((row * heads + head) * (chunks - 1) + chunk - 1) * (p + NORMALISE) * n + c
            is_kept = c < tl.where(chunk > 0, n, 0)
            tl.store(before[None, :] + d[:, None] * n, h.to(dtype), mask=is_kept[None, :] & (d < p)[:, None])
            h = tl.dot(tl.trans(v_t), k_t, acc=h, input_precision=EXACT)
            if NORMALISE:
                tl.store(before + p * n, z.to(dtype), mask=is_kept)
                z += tl.sum(k_t.to(tl.float32), 0)
        store(y + (row * length * heads + head) * p, y_t, t, heads * p, length, p, P)


@triton.jit
def _backward_kernel(
    grad, kept, dq, dk, dv, q, k, v, q_row, q_time, q_head, k_row, k_time, k_head, v_row, v_time, v_head,
    length, heads, n, p, CHUNK: tl.constexpr, N: tl.constexpr, P: tl.constexpr, SINGLE: tl.constexpr,
    FEATURE: tl.constexpr, NORMALISE: tl.constexpr, EVEN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    chunks = tl.cdiv(length, CHUNK)
    dtype: tl.constexpr = kept.dtype.element_ty
    i, d, c = tl.arange(0, CHUNK), tl.arange(0, P), tl.arange(0, N)
    first = row * length * heads + head
    dh = tl.zeros([P, N], tl.float32)
    h = dh.to(dtype)
    z = tl.zeros([N], tl.float32)
    dz = tl.zeros([N], tl.float32)
    for later in range(1 if SINGLE else chunks):
        chunk = 0 if SINGLE else chunks - 1 - later
        t = chunk * CHUNK + i
        q_t = load(q + row * q_row + head * q_head, t, q_time, length, n, N).to(dtype)
        k_t = load(k + row * k_row + head * k_head, t, k_time, length, n, N).to(dtype)
        v_t = load(v + row * v_row + head * v_head, t, v_time, length, p, P).to(dtype)
        dy = load(grad + first * p, t, heads * p, length, p, P).to(dtype)
        q_t, k_t = features(q_t, n, N, FEATURE, EVEN), features(k_t, n, N, FEATURE, EVEN)
        if not SINGLE:
            before = kept + ((row * heads + head) * (chunks - 1) + chunk - 1) * (p + NORMALISE) * n + c
            is_kept = c < tl.where(chunk > 0, n, 0)
            h = tl.load(before[None, :] + d[:, None] * n, mask=is_kept[None, :] & (d < p)[:, None], other=0.0)
            if NORMALISE:
                z = tl.load(before + p * n, mask=is_kept, other=0.0).to(tl.float32)
        A, r = _weigh(q_t, k_t, z, CHUNK, SINGLE, NORMALISE, EXACT)
        dv_t = tl.dot(tl.trans(A.to(dtype)), dy, input_precision=EXACT)
        if not SINGLE:
            dv_t = tl.dot(k_t, tl.trans(dh.to(dtype)), acc=dv_t, input_precision=EXACT)
        store(dv + first * p, dv_t, t, heads * p, length, p, P)
        dA = tl.dot(dy, tl.trans(v_t), input_precision=EXACT)
        if NORMALISE:
            m = tl.sum(A * dA, 1)
        if not SINGLE:
            reading = r[:, None] * tl.dot(dy, h, input_precision=EXACT)
            if NORMALISE:
                m += tl.sum(q_t.to(tl.float32) * reading, 1)
                reading -= (m * r)[:, None] * z[None, :]
        if NORMALISE:
            dA -= m[:, None]
        dA = tl.where(i[None, :] <= i[:, None], dA * r[:, None], 0.0).to(dtype)
        if SINGLE:
            dq_t = tl.dot(dA, k_t, input_precision=EXACT)
            dk_t = tl.dot(tl.trans(dA), q_t, input_precision=EXACT)
        else:
            dq_t = tl.dot(dA, k_t, acc=reading, input_precision=EXACT)
            writing = tl.dot(v_t, dh.to(dtype), input_precision=EXACT)
            if NORMALISE:
                writing += dz[None, :]
                dz -= tl.sum(q_t.to(tl.float32) * (m * r)[:, None], 0)
            dk_t = tl.dot(tl.trans(dA), q_t, acc=writing, input_precision=EXACT)
            past = (q_t.to(tl.float32) * r[:, None]).to(dtype)
            dh = tl.dot(tl.trans(dy), past, acc=dh, input_precision=EXACT)
        store(dq + first * n, to_input(dq_t, q_t, FEATURE), t, heads * n, length, n, N)
        store(dk + first * n, to_input(dk_t, k_t, FEATURE), t, heads * n, length, n, N)
