"""Kernels of the two-layer network; formula and plain form in ops/mlp.py.

    h = W_1 x + b_1        a = gelu(h)        y = W_2 a + b_2
    da = W_2^T dy          dh = gelu'(h) da   dx = W_1^T dh        dW_1 = sum dh x^T        dW_2 = sum dy a^T

Forward keeps the hidden layer in registers, block by block. Backward forms it once more: a program has a part of both weights
and walks over rows, reading the next ones while it computes gelu and its slope. Its tiles are hidden by rows, so that a
and dh stay in registers for the products that add to dW_1 and dW_2; only dh is stored, for dx, which is a plain product. Weights
may be in float32 and rows in 16 bits: weights are rounded for the products, their gradients, summed in float32, are not.

gelu(h) = h share(h), where share is the normal distribution function: here a sigmoid of an odd polynomial in h, fitted by
benchmarks/fit_activations.py. gelu is off by at most 4e-6 and its slope by 1.3e-5. erf would take most of the time.

Shapes: x, y (groups, tokens, width), W_1 (groups, hidden, width), b_1 (groups, hidden), W_2 (groups, width, hidden),
b_2 (groups, width).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton import stages
from recollect.ops.triton.tiles import read_tile, write_tile


def forward(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """The network's output y."""
    x, b1, b2, w1, w2 = (t.contiguous() for t in (x, b1, b2, w1.to(x.dtype), w2.to(x.dtype)))
    groups, tokens, width = x.shape
    y = torch.empty_like(x)
    rows, part = (128, 64) if width <= 64 else (64, 32)
    options = _options(x, w1.shape[1], rows, part, warps=4, ahead=3)
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
    # A program walks over `span` rows.
    rows, part, warps, span = (64, 64, 4, 2048) if width <= 64 else (32, 128, 8, 4096)
    options = _options(x, hidden, rows, part, warps, ahead=3)
    parts, spans = triton.cdiv(hidden, options["HIDDEN"]), triton.cdiv(tokens, span)
    options |= {"SPAN": span, "SLICE": triton.next_power_of_2(triton.cdiv(width, parts))}
    options["EVEN"] &= parts * options["SLICE"] == width
    dh = x.new_empty(groups, hidden, tokens)
    sums = [x.new_empty(groups, spans, *t.shape[1:], dtype=torch.float32) for t in given]  # a summand per span
    with torch.cuda.device_of(x):
        _backward_kernel[parts * spans, groups](grad, x, w1, b1, w2, dh, *sums, tokens, width, hidden, **options)
    dw1, db1, dw2, db2 = (g.sum(1).to(t.dtype) for g, t in zip(sums, given, strict=True))
    return torch.bmm(dh.mT, w1), dw1, db1, dw2, db2


def _options(x: Tensor, hidden: int, rows: int, part: int, warps: int, ahead: int) -> dict:
    """Tiles of rows and of a part of the hidden layer, the fastest on an H200; smaller in float32, to fit."""
    exact = x.dtype == torch.float32
    tokens, width = x.shape[1:]
    if exact:
        rows, part, warps = 32, 32, 4
    rows = min(max(triton.next_power_of_2(tokens), 16), rows)
    wide = max(triton.next_power_of_2(width), 16)
    return {
        "ROWS": rows, "HIDDEN": part, "WIDTH": wide,
        "EVEN": tokens % rows == 0 and hidden % part == 0 and width == wide,  # then nothing needs a mask
        "EXACT": "ieee" if exact else "tf32",  # the latter has no effect in 16-bit precision
        "num_warps": warps, "num_stages": stages(x, ahead),
    }  # fmt: skip


@triton.jit
def _share(h):
    u = h * h
    p = h * (-2.30203652 + u * (-0.105198519 + u * (3.39971968e-4 + u * (9.21284439e-5 + u * -3.43124522e-6))))
    d = 1 + tl.exp2(p)
    return tl.rsqrt(d * d)  # 1 / d in a third of a division's instructions


@triton.jit
def _slope(h, share):
    """The derivative of gelu: share + h share (1 - share) p'(h), p without its factor -log2(e)."""
    u = h * h
    dp = 1.59565013 + u * (0.21875417 + u * (-1.17825305e-3 + u * (-4.47009998e-4 + u * 2.14052216e-5)))
    a = h * share
    return share + (a - a * share) * dp


@triton.jit
def _forward_kernel(
    x, w1, b1, w2, b2, y, tokens, width, hidden,
    ROWS: tl.constexpr, HIDDEN: tl.constexpr, WIDTH: tl.constexpr, EVEN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, WIDTH)
    x_i = read_tile(x + group * tokens * width, i, tokens, d, width, EVEN)
    w1 += group * hidden * width
    w2 += group * hidden * width
    sums = tl.zeros([ROWS, WIDTH], tl.float32) + tl.load(b2 + group * width + d, mask=d < width, other=0.0)[None, :]
    for start in range(0, hidden, HIDDEN):
        j = start + tl.arange(0, HIDDEN)
        w1_j, w2_j = read_tile(w1, j, hidden, d, width, EVEN), read_tile(w2, d, width, j, hidden, EVEN)
        b1_j = tl.load(b1 + group * hidden + j, mask=j < hidden, other=0.0)
        h = tl.dot(x_i, tl.trans(w1_j), input_precision=EXACT) + b1_j[None, :]
        a = h * _share(h)
        sums += tl.dot(a.to(x_i.dtype), tl.trans(w2_j), input_precision=EXACT)
    write_tile(y + group * tokens * width, sums, i, tokens, d, width, EVEN)


@triton.jit
def _backward_kernel(
    grad, x, w1, b1, w2, dh, dw1, db1, dw2, db2, tokens, width, hidden,
    ROWS: tl.constexpr, HIDDEN: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, SLICE: tl.constexpr,
    EVEN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """dh of a part of the hidden layer and a span of rows, summands of the other gradients, and a slice of dy's sum."""
    parts, group = tl.cdiv(hidden, HIDDEN), tl.program_id(1).to(tl.int64)
    span, part = tl.program_id(0) // parts, tl.program_id(0) % parts
    d, j, c = tl.arange(0, WIDTH), part * HIDDEN + tl.arange(0, HIDDEN), part * SLICE + tl.arange(0, SLICE)
    w1_j = read_tile(w1 + group * hidden * width, j, hidden, d, width, EVEN)
    w2_j = tl.trans(read_tile(w2 + group * hidden * width, d, width, j, hidden, EVEN))
    b1_j = tl.load(b1 + group * hidden + j, mask=j < hidden, other=0.0)
    x += group * tokens * width
    grad += group * tokens * width
    dh += group * tokens * hidden
    sum_w1, sum_w2 = tl.zeros([HIDDEN, WIDTH], tl.float32), tl.zeros([HIDDEN, WIDTH], tl.float32)
    sum_dh, sum_dy = tl.zeros([HIDDEN, ROWS], tl.float32), tl.zeros([ROWS, SLICE], tl.float32)
    for start in range(span * SPAN, tl.minimum(span * SPAN + SPAN, tokens), ROWS):
        i = start + tl.arange(0, ROWS)
        x_i, dy_i = read_tile(x, i, tokens, d, width, EVEN), read_tile(grad, i, tokens, d, width, EVEN)
        h = tl.dot(w1_j, tl.trans(x_i), input_precision=EXACT) + b1_j[:, None]
        share = _share(h)
        # Rows outside have no dy, so no dh.
        dh_i = _slope(h, share) * tl.dot(w2_j, tl.trans(dy_i), input_precision=EXACT)
        sum_dh += dh_i
        sum_dy += read_tile(grad, i, tokens, c, width, EVEN).to(tl.float32)
        a, dh_i = (h * share).to(x_i.dtype), dh_i.to(x_i.dtype)
        sum_w2 = tl.dot(a, dy_i, acc=sum_w2, input_precision=EXACT)
        sum_w1 = tl.dot(dh_i, x_i, acc=sum_w1, input_precision=EXACT)
        write_tile(dh, dh_i, j, hidden, i, tokens, EVEN)
    summand = group * (tl.num_programs(0) // parts) + span
    write_tile(dw1 + summand * hidden * width, sum_w1, j, hidden, d, width, EVEN)
    write_tile(dw2 + summand * hidden * width, tl.trans(sum_w2), d, width, j, hidden, EVEN)
    tl.store(db1 + summand * hidden + j, tl.sum(sum_dh, 1), mask=j < hidden)
    tl.store(db2 + summand * width + c, tl.sum(sum_dy, 0), mask=c < width)
