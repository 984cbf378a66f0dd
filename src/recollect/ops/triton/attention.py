"""Kernels of causal softmax attention; formula and plain form in ops/attention.py.

    P = softmax(q k^T / sqrt(d)), causal        y = P v
    dP = dy v^T        dS = P (dP - rowsum(dy y)) / sqrt(d)        dq = dS k        dk = dS^T q        dv = P^T dy

A flash kernel (Dao et al. 2022) for short rows: it reads queries, keys and values where the projection left them, side by
side and perhaps still without their biases, and writes their gradients the same way, so nothing is copied. A program takes one
head of one row and a block of its queries; backward one takes a block of keys, and where a row is a single block it finds dq as
well, else a second kernel does. No atomics: the same bits on every run.

Shapes: qkv (rows, length, 3, heads, dim), bias (groups, 3 * heads * dim) or (groups, 0), y (rows, length, heads, dim),
lse (rows, heads, length).
"""

# pyright: reportCallIssue=false, reportOperatorIssue=false, reportGeneralTypeIssues=false, reportArgumentType=false
# (Triton's language looks like Python, but its types are its own.)

import math

import torch
import triton
import triton.language as tl
from torch import Tensor


def forward(qkv: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """y, and the log of each softmax's denominator."""
    qkv, bias = qkv.contiguous(), bias.contiguous()
    rows, length, _, heads, dim = qkv.shape
    y = qkv.new_empty(rows, length, heads, dim)
    lse = qkv.new_empty(rows, heads, length, dtype=torch.float32)
    sizes = (rows // len(bias), length, heads, dim, 1 / math.sqrt(dim))
    with torch.cuda.device_of(qkv):
        _forward_kernel[_grid(qkv)](qkv, bias, y, lse, *sizes, **_options(qkv, bias))
    return y, lse


def backward(grad: Tensor, qkv: Tensor, bias: Tensor, y: Tensor, lse: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of qkv and of the biases."""
    grad, qkv, bias = grad.contiguous(), qkv.contiguous(), bias.contiguous()
    rows, length, _, heads, dim = qkv.shape
    dqkv, grid = torch.empty_like(qkv), _grid(qkv)
    dbias = qkv.new_empty(rows, grid[1], bias.shape[1], dtype=torch.float32)  # a summand a row and block
    sizes = (rows // len(bias), length, heads, dim, 1 / math.sqrt(dim))
    with torch.cuda.device_of(qkv):
        _backward_kernel[grid](grad, qkv, bias, y, lse, dqkv, dbias, *sizes, **_options(qkv, bias))
        if length > _block(length):
            _backward_queries_kernel[grid](grad, qkv, bias, y, lse, dqkv, dbias, *sizes, **_options(qkv, bias))
    return dqkv, dbias.view(len(bias), rows // len(bias) * grid[1], bias.shape[1]).sum(1).to(bias.dtype)


def _block(length: int) -> int:
    """Queries, or keys, of a block."""
    return min(max(triton.next_power_of_2(length), 16), 64)


def _grid(qkv: Tensor) -> tuple[int, int]:
    rows, length, _, heads, _ = qkv.shape
    return rows * heads, triton.cdiv(length, _block(length))


def _options(qkv: Tensor, bias: Tensor) -> dict:
    _, length, _, _, dim = qkv.shape
    wide = max(triton.next_power_of_2(dim), 16)
    exact = "ieee" if qkv.dtype == torch.float32 else "tf32"  # the latter is not looked at for shorter numbers
    single = length <= _block(length)
    return {
        "BLOCK": _block(length), "DIM": wide, "SINGLE": single, "BIASED": bias.shape[1] > 0, "EXACT": exact,
        "num_warps": 4, "num_stages": 1,
    }  # fmt: skip


@triton.jit
def _tile(x, t, stride, length, dim, DIM: tl.constexpr):
    """Tokens t of one head: (len(t), DIM), zeros outside."""
    d = tl.arange(0, DIM)
    return tl.load(x + t[:, None] * stride + d[None, :], mask=(t < length)[:, None] & (d < dim)[None, :], other=0.0)


@triton.jit
def _biased(x, bias, t, stride, length, dim, DIM: tl.constexpr, BIASED: tl.constexpr):
    """The same with its bias."""
    tile = _tile(x, t, stride, length, dim, DIM)
    if not BIASED:
        return tile
    else:
        d = tl.arange(0, DIM)
        added = tl.load(bias + d, mask=d < dim, other=0.0)
        return (tile + added[None, :].to(tl.float32)).to(x.dtype.element_ty)


@triton.jit
def _sum(x, value, dim, DIM: tl.constexpr):
    """Write the sum over the tokens."""
    d = tl.arange(0, DIM)
    tl.store(x + d, tl.sum(value, 0), mask=d < dim)


@triton.jit
def _put(x, value, t, stride, length, dim, DIM: tl.constexpr):
    d = tl.arange(0, DIM)
    tl.store(
        x + t[:, None] * stride + d[None, :], value.to(x.dtype.element_ty),
        mask=(t < length)[:, None] & (d < dim)[None, :],
    )  # fmt: skip


@triton.jit
def _forward_kernel(
    qkv, bias, y, lse, batch, length, heads, dim, scale,
    BLOCK: tl.constexpr, DIM: tl.constexpr, SINGLE: tl.constexpr, BIASED: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    width = heads * dim
    qkv += row * length * 3 * width + head * dim
    bias += row // batch * 3 * width + head * dim
    t = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    q = _biased(qkv, bias, t, 3 * width, length, dim, DIM, BIASED)
    best = tl.full([BLOCK], -1e30, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    mixed = tl.zeros([BLOCK, DIM], tl.float32)
    for start in range(0, (tl.program_id(1) + 1) * BLOCK, BLOCK):
        s = start + tl.arange(0, BLOCK)
        k = _biased(qkv + width, bias + width, s, 3 * width, length, dim, DIM, BIASED)
        v = _biased(qkv + 2 * width, bias + 2 * width, s, 3 * width, length, dim, DIM, BIASED)
        scores = tl.dot(q, tl.trans(k), input_precision=EXACT) * scale
        scores = tl.where((s[None, :] <= t[:, None]) & (s < length)[None, :], scores, -1e30)
        higher = tl.maximum(best, tl.max(scores, 1))
        p = tl.exp(scores - higher[:, None])
        shrink = tl.exp(best - higher)
        total = total * shrink + tl.sum(p, 1)
        mixed = mixed * shrink[:, None] + tl.dot(p.to(v.dtype), v, input_precision=EXACT)
        best = higher
    _put(y + row * length * width + head * dim, mixed / total[:, None], t, width, length, dim, DIM)
    tl.store(lse + (row * heads + head) * length + t, best + tl.log(total), mask=t < length)


@triton.jit
def _weights(q, k, t, s, lse_t, length, scale, EXACT: tl.constexpr):
    """P for queries t and keys s."""
    scores = tl.dot(q, tl.trans(k), input_precision=EXACT) * scale
    seen = (s[None, :] <= t[:, None]) & (t < length)[:, None]
    return tl.where(seen, tl.exp(tl.where(seen, scores - lse_t[:, None], 0.0)), 0.0)


@triton.jit
def _backward_kernel(
    grad, qkv, bias, y, lse, dqkv, dbias, batch, length, heads, dim, scale,
    BLOCK: tl.constexpr, DIM: tl.constexpr, SINGLE: tl.constexpr, BIASED: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """dk and dv of a block of keys; with a single block dq too."""
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    width = heads * dim
    qkv += row * length * 3 * width + head * dim
    bias += row // batch * 3 * width + head * dim
    dqkv += row * length * 3 * width + head * dim
    grad += row * length * width + head * dim
    y += row * length * width + head * dim
    lse += (row * heads + head) * length
    s = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = _biased(qkv + width, bias + width, s, 3 * width, length, dim, DIM, BIASED)
    v = _biased(qkv + 2 * width, bias + 2 * width, s, 3 * width, length, dim, DIM, BIASED)
    dk = tl.zeros([BLOCK, DIM], tl.float32)
    dv = tl.zeros([BLOCK, DIM], tl.float32)
    dq = tl.zeros([BLOCK, DIM], tl.float32)
    for start in range(tl.program_id(1) * BLOCK, length, BLOCK):
        t = start + tl.arange(0, BLOCK)
        q = _biased(qkv, bias, t, 3 * width, length, dim, DIM, BIASED)
        dy = _tile(grad, t, width, length, dim, DIM)
        y_t = _tile(y, t, width, length, dim, DIM)
        lse_t = tl.load(lse + t, mask=t < length, other=0.0)
        p = _weights(q, k, t, s, lse_t, length, scale, EXACT)
        mean = tl.sum(dy.to(tl.float32) * y_t.to(tl.float32), 1)
        dv += tl.dot(tl.trans(p).to(dy.dtype), dy, input_precision=EXACT)
        ds = p * (tl.dot(dy, tl.trans(v), input_precision=EXACT) - mean[:, None]) * scale
        dk += tl.dot(tl.trans(ds).to(q.dtype), q, input_precision=EXACT)
        if SINGLE:
            dq = tl.dot(ds.to(k.dtype), k, input_precision=EXACT)
            _put(dqkv, dq, t, 3 * width, length, dim, DIM)
    if BIASED:
        dbias += (row * tl.num_programs(1) + tl.program_id(1)) * 3 * width + head * dim
        _sum(dbias + width, dk, dim, DIM)
        _sum(dbias + 2 * width, dv, dim, DIM)
        if SINGLE:
            _sum(dbias, dq, dim, DIM)
    _put(dqkv + width, dk, s, 3 * width, length, dim, DIM)
    _put(dqkv + 2 * width, dv, s, 3 * width, length, dim, DIM)


@triton.jit
def _backward_queries_kernel(
    grad, qkv, bias, y, lse, dqkv, dbias, batch, length, heads, dim, scale,
    BLOCK: tl.constexpr, DIM: tl.constexpr, SINGLE: tl.constexpr, BIASED: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """dq of a block of queries."""
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    width = heads * dim
    qkv += row * length * 3 * width + head * dim
    bias += row // batch * 3 * width + head * dim
    dqkv += row * length * 3 * width + head * dim
    t = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    q = _biased(qkv, bias, t, 3 * width, length, dim, DIM, BIASED)
    dy = _tile(grad + row * length * width + head * dim, t, width, length, dim, DIM)
    y_t = _tile(y + row * length * width + head * dim, t, width, length, dim, DIM)
    lse_t = tl.load(lse + (row * heads + head) * length + t, mask=t < length, other=0.0)
    mean = tl.sum(dy.to(tl.float32) * y_t.to(tl.float32), 1)
    dq = tl.zeros([BLOCK, DIM], tl.float32)
    for start in range(0, (tl.program_id(1) + 1) * BLOCK, BLOCK):
        s = start + tl.arange(0, BLOCK)
        k = _biased(qkv + width, bias + width, s, 3 * width, length, dim, DIM, BIASED)
        v = _biased(qkv + 2 * width, bias + 2 * width, s, 3 * width, length, dim, DIM, BIASED)
        p = _weights(q, k, t, s, lse_t, length, scale, EXACT)
        ds = p * (tl.dot(dy, tl.trans(v), input_precision=EXACT) - mean[:, None]) * scale
        dq += tl.dot(ds.to(k.dtype), k, input_precision=EXACT)
    _put(dqkv, dq, t, 3 * width, length, dim, DIM)
    if BIASED:
        _sum(dbias + (row * tl.num_programs(1) + tl.program_id(1)) * 3 * width + head * dim, dq, dim, DIM)
