"""Kernels of the two-layer network; formula and plain form in ops/mlp.py.

    h = W_1 x + b_1        a = gelu(h)        y = W_2 a + b_2
    da = W_2^T dy          dh = gelu'(h) da   dx = W_1^T dh        dW_1 = sum dh x^T        dW_2 = sum dy a^T

Forward keeps the hidden layer in registers, block by block. Backward forms it once more and writes a and dh down for as long
as the weights' gradients need them, which are plain products, summed in float32. Weights may be longer numbers than rows: they
are rounded for the products, their gradients are not.

The normal distribution function is 1 - (a polynomial in 1 / (1 + p |h|)) exp(-h^2 / 2), right to 1e-7 (Abramowitz & Stegun
7.1.26): the exponential is needed anyway, for the density, and erf would take most of the time.

Shapes: x, y (groups, tokens, width), W_1 (groups, hidden, width), b_1 (groups, hidden), W_2 (groups, width, hidden),
b_2 (groups, width).
"""

# pyright: reportCallIssue=false, reportOperatorIssue=false, reportGeneralTypeIssues=false, reportArgumentType=false
# (Triton's language looks like Python, but its types are its own.)

import torch
import triton
import triton.language as tl
from torch import Tensor


def forward(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """y."""
    x, b1, b2, w1, w2 = (t.contiguous() for t in (x, b1, b2, w1.to(x.dtype), w2.to(x.dtype)))
    groups, tokens, width = x.shape
    y = torch.empty_like(x)
    options = _options(x, w1.shape[1], part=64 if width <= 64 else 32)
    with torch.cuda.device_of(x):
        _forward_kernel[groups, triton.cdiv(tokens, options["ROWS"])](
            x, w1, b1, w2, b2, y, tokens, width, w1.shape[1], **options
        )
    return y


def backward(
    grad: Tensor, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, W_1, b_1, W_2 and b_2."""
    given = (w1, b1, w2, b2)
    grad, x, b1, w1, w2 = (t.contiguous() for t in (grad, x, b1, w1.to(x.dtype), w2.to(x.dtype)))
    groups, tokens, width = x.shape
    hidden = w1.shape[1]
    dx = torch.empty_like(x)
    active, dh = (x.new_empty(groups, tokens, hidden) for _ in range(2))
    options = _options(x, hidden, part=64)
    blocks = triton.cdiv(tokens, options["ROWS"])
    db1, db2 = (x.new_empty(groups, blocks, size, dtype=torch.float32) for size in (hidden, width))  # summands
    with torch.cuda.device_of(x):
        _backward_kernel[groups, blocks](
            grad, x, w1, b1, w2, dx, active, dh, db1, db2, tokens, width, hidden, **options
        )
    grads = _product(dh, x), db1.sum(1), _product(grad, active), db2.sum(1)
    dw1, db1, dw2, db2 = (g.to(t.dtype) for g, t in zip(grads, given, strict=True))
    return dx, dw1, db1, dw2, db2


def _product(a: Tensor, b: Tensor) -> Tensor:
    """a^T b, in float32."""
    return torch.bmm(a.mT, b) if a.dtype == torch.float32 else torch.bmm(a.mT, b, out_dtype=torch.float32)


def _options(x: Tensor, hidden: int, part: int) -> dict:
    """Tiles of rows and of `part` of the hidden layer as they were fastest on an H200; in float32 half as large, to fit."""
    exact = x.dtype == torch.float32
    tokens, width = x.shape[1:]
    rows = min(max(triton.next_power_of_2(tokens), 16), 32 if exact else 64)
    wide = max(triton.next_power_of_2(width), 16)
    part = min(part, 32) if exact else part
    return {
        "ROWS": rows, "HIDDEN": part, "WIDTH": wide,
        "EVEN": tokens % rows == 0 and hidden % part == 0 and width == wide,  # then nothing needs a mask
        "EXACT": "ieee" if exact else "tf32",  # the latter is not looked at for shorter numbers
        "num_warps": 4, "num_stages": 1 if exact else 2,
    }  # fmt: skip


@triton.jit
def _tile(x, i, rows, j, columns, EVEN: tl.constexpr):
    """Rows i and columns j of a matrix of (rows, columns), zeros outside."""
    if EVEN:
        return tl.load(x + i[:, None] * columns + j[None, :])
    else:
        inside = (i < rows)[:, None] & (j < columns)[None, :]
        return tl.load(x + i[:, None] * columns + j[None, :], mask=inside, other=0.0)


@triton.jit
def _put(x, value, i, rows, j, columns, EVEN: tl.constexpr):
    if EVEN:
        tl.store(x + i[:, None] * columns + j[None, :], value.to(x.dtype.element_ty))
    else:
        inside = (i < rows)[:, None] & (j < columns)[None, :]
        tl.store(x + i[:, None] * columns + j[None, :], value.to(x.dtype.element_ty), mask=inside)


@triton.jit
def _gelu(h):
    """gelu(h) and its derivative."""
    density = tl.exp2(h * h * -0.7213475204444817)  # without its factor
    d = 1 + 0.23164188909 * tl.abs(h)
    t = tl.rsqrt(d * d)  # 1 / d in a third of a division's instructions
    poly = t * (0.127414796 + t * (-0.142248368 + t * (0.7107068705 + t * (-0.7265760135 + t * 0.5307027145))))
    tail = poly * density
    share = tl.where(h > 0, 1 - tail, tail)
    return tl.maximum(h, 0.0) - tl.abs(h) * tail, share + h * density * 0.3989422804014327


@triton.jit
def _hidden(x_i, w1_j, b1_j, EXACT: tl.constexpr):
    return tl.dot(x_i, tl.trans(w1_j), input_precision=EXACT) + b1_j[None, :]


@triton.jit
def _forward_kernel(
    x, w1, b1, w2, b2, y, tokens, width, hidden,
    ROWS: tl.constexpr, HIDDEN: tl.constexpr, WIDTH: tl.constexpr, EVEN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, WIDTH)
    x_i = _tile(x + group * tokens * width, i, tokens, d, width, EVEN)
    w1 += group * hidden * width
    w2 += group * hidden * width
    sums = tl.zeros([ROWS, WIDTH], tl.float32) + tl.load(b2 + group * width + d, mask=d < width, other=0.0)[None, :]
    for start in range(0, hidden, HIDDEN):
        j = start + tl.arange(0, HIDDEN)
        w1_j, w2_j = _tile(w1, j, hidden, d, width, EVEN), _tile(w2, d, width, j, hidden, EVEN)
        b1_j = tl.load(b1 + group * hidden + j, mask=j < hidden, other=0.0)
        a, _ = _gelu(_hidden(x_i, w1_j, b1_j, EXACT))
        sums += tl.dot(a.to(x_i.dtype), tl.trans(w2_j), input_precision=EXACT)
    _put(y + group * tokens * width, sums, i, tokens, d, width, EVEN)


@triton.jit
def _backward_kernel(
    grad, x, w1, b1, w2, dx, active, dh, db1, db2, tokens, width, hidden,
    ROWS: tl.constexpr, HIDDEN: tl.constexpr, WIDTH: tl.constexpr, EVEN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """dx of some rows, their a and dh on the way, and their sums."""
    group = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, WIDTH)
    x_i = _tile(x + group * tokens * width, i, tokens, d, width, EVEN)
    dy_i = _tile(grad + group * tokens * width, i, tokens, d, width, EVEN)
    w1 += group * hidden * width
    w2 += group * hidden * width
    summand = (group * tl.num_programs(1) + tl.program_id(1)) * width
    tl.store(db2 + summand + d, tl.sum(dy_i.to(tl.float32), 0), mask=d < width)
    sums = tl.zeros([ROWS, WIDTH], tl.float32)
    for start in range(0, hidden, HIDDEN):
        j = start + tl.arange(0, HIDDEN)
        w1_j, w2_j = _tile(w1, j, hidden, d, width, EVEN), _tile(w2, d, width, j, hidden, EVEN)
        b1_j = tl.load(b1 + group * hidden + j, mask=j < hidden, other=0.0)
        a, slope = _gelu(_hidden(x_i, w1_j, b1_j, EXACT))
        dh_i = slope * tl.dot(dy_i, w2_j, input_precision=EXACT)  # rows outside have no dy, so no dh
        tl.store(db1 + (group * tl.num_programs(1) + tl.program_id(1)) * hidden + j, tl.sum(dh_i, 0), mask=j < hidden)
        dh_i = dh_i.to(x_i.dtype)
        _put(active + group * tokens * hidden, a, i, tokens, j, hidden, EVEN)
        _put(dh + group * tokens * hidden, dh_i, i, tokens, j, hidden, EVEN)
        sums += tl.dot(dh_i, w1_j, input_precision=EXACT)
    _put(dx + group * tokens * width, sums, i, tokens, d, width, EVEN)
