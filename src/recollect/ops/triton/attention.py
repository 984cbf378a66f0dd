"""Kernels of causal softmax attention; formula and plain form in ops/attention.py.

    P = softmax(q k^T / sqrt(d)), causal        y = P v
    dP = dy v^T        dS = P (dP - rowsum(dy y)) / sqrt(d)        dq = dS k        dk = dS^T q        dv = P^T dy

A flash kernel (Dao et al. 2022) for short rows: it reads queries, keys and values where the projection left them, side by
side and perhaps still without their biases, and writes their gradients the same way, so nothing is copied. A program takes one
head of one row and a block of its queries, and walks over the keys; backward one takes a block of keys and walks over the
queries, and where a row is a single block it finds dq as well, else another kernel does, before, and leaves rowsum(dy y) behind.
Blocks of a row follow each other, the longest walk first, so that what one has read is still in the cache for the next. No
atomics: the same bits on every run.

Biases cost little: that of k adds the same to all scores of a query, so that P does not change and its gradient is zero; that
of v is added to y. Exponentials are powers of two.

Glossary: t, s = queries and keys of a block; lse = log2 of a softmax's denominator; mean = rowsum(dy y), without the bias of v.
Shapes: qkv (rows, length, 3, heads, dim), bias (groups, 3 * heads * dim) or None, y (rows, length, heads, dim),
lse, mean (rows, heads, length).
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton import stages
from recollect.ops.triton.tiles import load, place, store

LN2 = tl.constexpr(0.6931471805599453)


def forward(qkv: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """The mixed values y, and lse."""
    qkv = qkv.contiguous()
    rows, length, _, heads, dim = qkv.shape
    y = qkv.new_empty(rows, length, heads, dim)
    lse = qkv.new_empty(rows, heads, length, dtype=torch.float32)
    blocks, bias, sizes, options = _arguments(qkv, bias)
    with torch.cuda.device_of(qkv):
        _forward_kernel[(rows * heads * blocks,)](qkv, bias, y, lse, *sizes, **options)
    return y, lse


def backward(grad: Tensor, qkv: Tensor, bias: Tensor | None, y: Tensor, lse: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of qkv and of the biases, the latter empty without biases."""
    grad, qkv = grad.contiguous(), qkv.contiguous()
    rows, _, _, heads, _ = qkv.shape
    groups, biases = (1, 0) if bias is None else bias.shape
    dqkv, mean = torch.empty_like(qkv), torch.empty_like(lse)
    blocks, read, sizes, options = _arguments(qkv, bias)
    dbias = qkv.new_empty(groups, rows // groups * blocks, biases, dtype=torch.float32)  # a summand per row and block
    grid = (rows * heads * blocks,)
    with torch.cuda.device_of(qkv):
        if not options["SINGLE"]:
            _queries_kernel[grid](grad, qkv, read, y, lse, mean, dqkv, dbias, *sizes, **options)
        _keys_kernel[grid](grad, qkv, read, y, lse, mean, dqkv, dbias, *sizes, **options)
    return dqkv, qkv.new_empty(0) if bias is None else dbias.sum(1).to(bias.dtype)


def _arguments(qkv: Tensor, bias: Tensor | None) -> tuple[int, Tensor, tuple, dict]:
    """Blocks of a row, and what all kernels take: the biases, or qkv in place of what is not read; sizes; and the choices that
    are compiled in."""
    rows, length, _, heads, dim = qkv.shape
    block, wide = (max(triton.next_power_of_2(size), 16) for size in (length, dim))
    block, single = min(block, 64), length <= 64
    batch, read = (rows, qkv) if bias is None else (rows // len(bias), bias.contiguous())
    return triton.cdiv(length, block), read, (batch, length, heads, dim, 1 / math.sqrt(dim)), {
        "BLOCK": block, "STEP": block if single else 32, "DIM": wide, "SINGLE": single, "BIASED": bias is not None,
        "EVEN": length % block == 0 and dim == wide,  # then nothing needs a mask
        "EXACT": "ieee" if qkv.dtype == torch.float32 else "tf32",  # the latter has no effect in 16-bit precision
        "num_warps": 4, "num_stages": 1 if single else stages(qkv, 3),
    }  # fmt: skip


@triton.jit
def _bias(bias, dim, DIM: tl.constexpr, BIASED: tl.constexpr):
    """The bias of one head: (1, DIM), or zero."""
    d = tl.arange(0, DIM)
    if BIASED:
        return tl.load(bias + d, mask=d < dim, other=0.0)[None, :].to(tl.float32)
    else:
        return 0.0


@triton.jit
def _plus(x, bias, BIASED: tl.constexpr):
    if BIASED:
        return (x + bias).to(x.dtype)
    else:
        return x


@triton.jit
def _mean(dy, y, bias):
    """rowsum(dy y), y without the bias of v."""
    return tl.sum(dy.to(tl.float32) * (y.to(tl.float32) - bias), 1)


@triton.jit
def _put_sum(x, value, dim, DIM: tl.constexpr):
    """Write the sum over the tokens."""
    d = tl.arange(0, DIM)
    tl.store(x + d, tl.sum(value, 0), mask=d < dim)


@triton.jit
def _forward_kernel(
    qkv, bias, y, lse, batch, length, heads, dim, scale,
    BLOCK: tl.constexpr, STEP: tl.constexpr, DIM: tl.constexpr, SINGLE: tl.constexpr, BIASED: tl.constexpr,
    EVEN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    row, head, block, blocks = place(length, heads, BLOCK, SINGLE)
    width = heads * dim
    qkv += row * length * 3 * width + head * dim
    bias += row // batch * 3 * width + head * dim
    first = (blocks - 1 - block) * BLOCK
    t = first + tl.arange(0, BLOCK)
    q = _plus(load(qkv, t, 3 * width, length, dim, DIM, EVEN), _bias(bias, dim, DIM, BIASED), BIASED)
    best = tl.full([BLOCK], -1e30, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    mixed = tl.zeros([BLOCK, DIM], tl.float32)
    for start in range(0, first + BLOCK, STEP):
        s = start + tl.arange(0, STEP)
        k = load(qkv + width, s, 3 * width, length, dim, DIM, EVEN)
        v = load(qkv + 2 * width, s, 3 * width, length, dim, DIM, EVEN)
        scores = tl.dot(q, tl.trans(k), input_precision=EXACT)
        scores = tl.where(s[None, :] <= t[:, None], scores, -1e30)
        higher = tl.maximum(best, tl.max(scores, 1) * (scale / LN2))
        p = tl.exp2(scores * (scale / LN2) - higher[:, None])
        shrink = tl.exp2(best - higher)
        mixed = tl.dot(p.to(v.dtype), v, acc=mixed * shrink[:, None], input_precision=EXACT)
        best, total = higher, total * shrink + tl.sum(p, 1)
    mixed = mixed / total[:, None] + _bias(bias + 2 * width, dim, DIM, BIASED)
    store(y + row * length * width + head * dim, mixed, t, width, length, dim, DIM, EVEN)
    tl.store(lse + (row * heads + head) * length + t, best + tl.log2(total), mask=t < length)


@triton.jit
def _keys_kernel(
    grad, qkv, bias, y, lse, mean, dqkv, dbias, batch, length, heads, dim, scale,
    BLOCK: tl.constexpr, STEP: tl.constexpr, DIM: tl.constexpr, SINGLE: tl.constexpr, BIASED: tl.constexpr,
    EVEN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """dk and dv of a block of keys; with a single block dq too. Tiles are keys by queries."""
    row, head, block, blocks = place(length, heads, BLOCK, SINGLE)
    width = heads * dim
    qkv += row * length * 3 * width + head * dim
    bias += row // batch * 3 * width + head * dim
    dqkv += row * length * 3 * width + head * dim
    dbias += (row * blocks + block) * 3 * width + head * dim
    grad += row * length * width + head * dim
    y += row * length * width + head * dim
    lse += (row * heads + head) * length
    mean += (row * heads + head) * length
    s = block * BLOCK + tl.arange(0, BLOCK)
    k = load(qkv + width, s, 3 * width, length, dim, DIM, EVEN)
    v = load(qkv + 2 * width, s, 3 * width, length, dim, DIM, EVEN)
    b_q = _bias(bias, dim, DIM, BIASED)
    dk = tl.zeros([BLOCK, DIM], tl.float32)
    dv = tl.zeros([BLOCK, DIM], tl.float32)
    for start in range(block * BLOCK, blocks * BLOCK, STEP):
        t = start + tl.arange(0, STEP)
        q = _plus(load(qkv, t, 3 * width, length, dim, DIM, EVEN), b_q, BIASED)
        dy = load(grad, t, width, length, dim, DIM, EVEN)
        lse_t = tl.load(lse + t, mask=t < length, other=float("inf"))  # no weight for what is outside
        if SINGLE:
            y_t = load(y, t, width, length, dim, DIM, EVEN)
            mean_t = _mean(dy, y_t, _bias(bias + 2 * width, dim, DIM, BIASED))
        else:
            mean_t = tl.load(mean + t, mask=t < length, other=0.0)
        p = tl.exp2(tl.dot(k, tl.trans(q), input_precision=EXACT) * (scale / LN2) - lse_t[None, :])
        p = tl.where(s[:, None] <= t[None, :], p, 0.0)
        dv = tl.dot(p.to(dy.dtype), dy, acc=dv, input_precision=EXACT)
        ds = (p * (tl.dot(v, tl.trans(dy), input_precision=EXACT) - mean_t[None, :])).to(q.dtype)
        dk = tl.dot(ds, q, acc=dk, input_precision=EXACT)
        if SINGLE:
            dq = tl.dot(tl.trans(ds), k, input_precision=EXACT) * scale
            store(dqkv, dq, t, 3 * width, length, dim, DIM, EVEN)
            if BIASED:
                _put_sum(dbias, dq, dim, DIM)
    if BIASED:
        d = tl.arange(0, DIM)
        tl.store(dbias + width + d, tl.zeros([DIM], tl.float32), mask=d < dim)
        _put_sum(dbias + 2 * width, dv, dim, DIM)
    store(dqkv + width, dk * scale, s, 3 * width, length, dim, DIM, EVEN)
    store(dqkv + 2 * width, dv, s, 3 * width, length, dim, DIM, EVEN)


@triton.jit
def _queries_kernel(
    grad, qkv, bias, y, lse, mean, dqkv, dbias, batch, length, heads, dim, scale,
    BLOCK: tl.constexpr, STEP: tl.constexpr, DIM: tl.constexpr, SINGLE: tl.constexpr, BIASED: tl.constexpr,
    EVEN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """dq and the means of a block of queries."""
    row, head, block, blocks = place(length, heads, BLOCK, SINGLE)
    width = heads * dim
    qkv += row * length * 3 * width + head * dim
    bias += row // batch * 3 * width + head * dim
    first = (blocks - 1 - block) * BLOCK
    t = first + tl.arange(0, BLOCK)
    q = _plus(load(qkv, t, 3 * width, length, dim, DIM, EVEN), _bias(bias, dim, DIM, BIASED), BIASED)
    dy = load(grad + row * length * width + head * dim, t, width, length, dim, DIM, EVEN)
    y_t = load(y + row * length * width + head * dim, t, width, length, dim, DIM, EVEN)
    lse_t = tl.load(lse + (row * heads + head) * length + t, mask=t < length, other=float("inf"))
    mean_t = _mean(dy, y_t, _bias(bias + 2 * width, dim, DIM, BIASED))
    tl.store(mean + (row * heads + head) * length + t, mean_t, mask=t < length)
    dq = tl.zeros([BLOCK, DIM], tl.float32)
    for start in range(0, first + BLOCK, STEP):
        s = start + tl.arange(0, STEP)
        k = load(qkv + width, s, 3 * width, length, dim, DIM, EVEN)
        v = load(qkv + 2 * width, s, 3 * width, length, dim, DIM, EVEN)
        p = tl.exp2(tl.dot(q, tl.trans(k), input_precision=EXACT) * (scale / LN2) - lse_t[:, None])
        p = tl.where(s[None, :] <= t[:, None], p, 0.0)
        ds = p * (tl.dot(dy, tl.trans(v), input_precision=EXACT) - mean_t[:, None])
        dq = tl.dot(ds.to(k.dtype), k, acc=dq, input_precision=EXACT)
    dq *= scale
    store(dqkv + row * length * 3 * width + head * dim, dq, t, 3 * width, length, dim, DIM, EVEN)
    if BIASED:
        _put_sum(dbias + (row * blocks + block) * 3 * width + head * dim, dq, dim, DIM)
