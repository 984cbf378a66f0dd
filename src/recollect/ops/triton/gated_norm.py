"""Kernels of the gated norm; formula and plain form in ops/gated_norm.py.

    s = z sigma(z)        g = y s        r = 1 / sqrt(mean g^2 + eps)        out = w r g
    dn = w dout           dg = r (dn - r^2 g mean(dn g))                     dw = sum dout r g
    dy = s dg             dz = y (sigma(z) + s (1 - sigma(z))) dg

All they do is read and write, so each number is read once: a program takes whole rows, several at once where they are short,
and backward finds s, g and r again. A program of backward goes through SPAN rows and leaves one summand of dw; PyTorch adds
them up: the same bits on every run.

Shapes: y, z, out (groups, tokens, width), w (groups, width), the summands of dw (groups, spans, width).
"""

# pyright: reportCallIssue=false, reportOperatorIssue=false, reportGeneralTypeIssues=false, reportArgumentType=false
# (Triton's language looks like Python, but its types are its own.)

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton.activations import sigmoid

SPAN = 64
"""Tokens of a program of backward, or fewer where there are fewer."""


def forward(y: Tensor, z: Tensor, w: Tensor, eps: float) -> Tensor:
    """out."""
    y, z, w = y.contiguous(), z.contiguous(), w.contiguous()
    groups, tokens, width = y.shape
    out = torch.empty_like(y)
    options = _options(tokens, width, 4096, 1)
    with torch.cuda.device_of(y):
        _forward_kernel[(groups * triton.cdiv(tokens, options["ROWS"]),)](y, z, w, out, tokens, width, eps, **options)
    return out


def backward(grad: Tensor, y: Tensor, z: Tensor, w: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of y, z and w."""
    grad, y, z, w = grad.contiguous(), y.contiguous(), z.contiguous(), w.contiguous()
    groups, tokens, width = y.shape
    dy, dz = torch.empty_like(y), torch.empty_like(z)
    options = _options(tokens, width, 2048, SPAN)
    spans = triton.cdiv(tokens, options["ROWS"] * options["BLOCKS"])
    dw = y.new_empty(groups, spans, width, dtype=torch.float32)  # summands
    with torch.cuda.device_of(y):
        _backward_kernel[(groups * spans,)](grad, y, z, w, dy, dz, dw, tokens, width, eps, **options)
    return dy, dz, dw.sum(1).to(w.dtype)


def _options(tokens: int, width: int, numbers: int, span: int) -> dict[str, int | bool]:
    """What is compiled in: blocks of about so many numbers, as many of them as a span takes."""
    wide = triton.next_power_of_2(width)
    rows = min(triton.next_power_of_2(tokens), max(numbers // wide, 1))
    blocks = max(min(triton.next_power_of_2(tokens), span) // rows, 1)
    return {
        "ROWS": rows, "BLOCKS": blocks, "WIDTH": wide,
        "EVEN": tokens % rows == 0 and width == wide,  # then nothing needs a mask
        "num_warps": min(max(rows * wide * 4 // numbers, 4), 16),
    }  # fmt: skip


@triton.jit
def _read(x, i, rows, d, width, EVEN: tl.constexpr):
    """Rows i of a matrix of (rows, width), zeros outside."""
    if EVEN:
        return tl.load(x + i[:, None] * width + d[None, :]).to(tl.float32)
    else:
        inside = (i < rows)[:, None] & (d < width)[None, :]
        return tl.load(x + i[:, None] * width + d[None, :], mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _write(x, value, i, rows, d, width, EVEN: tl.constexpr):
    if EVEN:
        tl.store(x + i[:, None] * width + d[None, :], value.to(x.dtype.element_ty))
    else:
        inside = (i < rows)[:, None] & (d < width)[None, :]
        tl.store(x + i[:, None] * width + d[None, :], value.to(x.dtype.element_ty), mask=inside)


@triton.jit
def _forward_kernel(
    y, z, w, out, tokens, width, eps,
    ROWS: tl.constexpr, BLOCKS: tl.constexpr, WIDTH: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    parts = tl.cdiv(tokens, ROWS * BLOCKS)
    group, first = tl.program_id(0) // parts, tl.program_id(0) % parts * (ROWS * BLOCKS)
    start, left = (group.to(tl.int64) * tokens + first) * width, tokens - first
    i, d = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    w_d = tl.load(w + group * width + d, mask=d < width, other=0.0).to(tl.float32)[None, :]
    z_i = _read(z + start, i, left, d, width, EVEN)
    g = _read(y + start, i, left, d, width, EVEN) * z_i * sigmoid(z_i)
    r = tl.rsqrt(tl.sum(g * g, 1) / width + eps)[:, None]
    _write(out + start, g * r * w_d, i, left, d, width, EVEN)


@triton.jit
def _backward_kernel(
    grad, y, z, w, dy, dz, dw, tokens, width, eps,
    ROWS: tl.constexpr, BLOCKS: tl.constexpr, WIDTH: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    parts = tl.cdiv(tokens, ROWS * BLOCKS)
    group, first = tl.program_id(0) // parts, tl.program_id(0) % parts * (ROWS * BLOCKS)
    start, left = (group.to(tl.int64) * tokens + first) * width, tokens - first
    d = tl.arange(0, WIDTH)
    w_d = tl.load(w + group * width + d, mask=d < width, other=0.0).to(tl.float32)[None, :]
    sums = tl.zeros([ROWS, WIDTH], tl.float32)  # their rows are added up at the end
    for done in range(0, tl.minimum(left, ROWS * BLOCKS), ROWS):
        i = done + tl.arange(0, ROWS)
        z_i = _read(z + start, i, left, d, width, EVEN)
        y_i = _read(y + start, i, left, d, width, EVEN)
        dout = _read(grad + start, i, left, d, width, EVEN)
        gate = sigmoid(z_i)
        s = z_i * gate
        g = y_i * s
        dn = dout * w_d
        r = tl.rsqrt(tl.sum(g * g, 1) / width + eps)
        along = r * r * tl.sum(dn * g, 1) / width
        sums += dout * g * r[:, None]  # rows outside have no g
        dg = r[:, None] * (dn - g * along[:, None])
        _write(dy + start, dg * s, i, left, d, width, EVEN)
        _write(dz + start, dg * y_i * (gate + s * (1 - gate)), i, left, d, width, EVEN)
    tl.store(dw + tl.program_id(0).to(tl.int64) * width + d, tl.sum(sums, 0), mask=d < width)
