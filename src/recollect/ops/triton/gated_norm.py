"""Kernels of the gated norm; formula and plain form in ops/mamba2.py.

    s = z sigma(z)        g = y s        r = 1 / sqrt(mean g^2 + eps)        out = w r g
    dn = w dout           dg = r (dn - r^2 g mean(dn g))                     dw = sum dout r g
    dy = s dg             dz = y (sigma(z) + s (1 - sigma(z))) dg

They are bound by memory, so each number is read once: a program takes whole rows, several at once where they are short,
and backward computes s, g and r again. A program of backward goes through SPAN rows and leaves one summand of dw; PyTorch adds
them up: the same bits on every run.

Shapes: y, z, out (groups, tokens, width), z with any stride between tokens, w (groups, width), the summands of dw (groups, spans,
width).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton.activations import sigmoid
from recollect.ops.triton.tiles import load, store

SPAN = 256
"""Tokens of a program of backward, or fewer where there are fewer."""


def forward(y: Tensor, z: Tensor, w: Tensor, eps: float) -> Tensor:
    """The gated and normalised rows."""
    y, w = y.contiguous(), w.contiguous()
    groups, tokens, width = y.shape
    out = torch.empty_like(y)
    options = _options(tokens, width, 4096, 1)
    with torch.cuda.device_of(y):
        _forward_kernel[(groups * triton.cdiv(tokens, options["ROWS"]),)](
            y, z, w, out, z.stride(1), tokens, width, eps, **options
        )  # fmt: skip
    return out


def backward(grad: Tensor, y: Tensor, z: Tensor, w: Tensor, eps: float, dz: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of y and w; fills dz, which lies as z does."""
    grad, y, w = grad.contiguous(), y.contiguous(), w.contiguous()
    groups, tokens, width = y.shape
    dy = torch.empty_like(y)
    options = _options(tokens, width, 1024, SPAN)
    spans = triton.cdiv(tokens, options["ROWS"] * options["BLOCKS"])
    dw = y.new_empty(groups, spans, width, dtype=torch.float32)  # summands
    with torch.cuda.device_of(y):
        _backward_kernel[(groups * spans,)](grad, y, z, w, dy, dz, dw, z.stride(1), tokens, width, eps, **options)
    return dy, dw.sum(1).to(w.dtype)


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
def _forward_kernel(
    y, z, w, out, z_time, tokens, width, eps,
    ROWS: tl.constexpr, BLOCKS: tl.constexpr, WIDTH: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    parts = tl.cdiv(tokens, ROWS * BLOCKS)
    group, first = tl.program_id(0) // parts, tl.program_id(0) % parts * (ROWS * BLOCKS)
    start, left = group.to(tl.int64) * tokens + first, tokens - first
    i, d = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    w_d = tl.load(w + group * width + d, mask=d < width, other=0.0).to(tl.float32)[None, :]
    z_i = load(z + start * z_time, i, z_time, left, width, WIDTH, EVEN).to(tl.float32)
    g = load(y + start * width, i, width, left, width, WIDTH, EVEN).to(tl.float32) * z_i * sigmoid(z_i)
    r = tl.rsqrt(tl.sum(g * g, 1) / width + eps)[:, None]
    store(out + start * width, g * r * w_d, i, width, left, width, WIDTH, EVEN)


@triton.jit
def _backward_kernel(
    grad, y, z, w, dy, dz, dw, z_time, tokens, width, eps,
    ROWS: tl.constexpr, BLOCKS: tl.constexpr, WIDTH: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    parts = tl.cdiv(tokens, ROWS * BLOCKS)
    group, first = tl.program_id(0) // parts, tl.program_id(0) % parts * (ROWS * BLOCKS)
    start, left = group.to(tl.int64) * tokens + first, tokens - first
    d = tl.arange(0, WIDTH)
    w_d = tl.load(w + group * width + d, mask=d < width, other=0.0).to(tl.float32)[None, :]
    sums = tl.zeros([ROWS, WIDTH], tl.float32)  # their rows are added up at the end
    for done in range(0, tl.minimum(left, ROWS * BLOCKS), ROWS):
        i = done + tl.arange(0, ROWS)
        z_i = load(z + start * z_time, i, z_time, left, width, WIDTH, EVEN).to(tl.float32)
        y_i = load(y + start * width, i, width, left, width, WIDTH, EVEN).to(tl.float32)
        dout = load(grad + start * width, i, width, left, width, WIDTH, EVEN).to(tl.float32)
        gate = sigmoid(z_i)
        s = z_i * gate
        g = y_i * s
        dn = dout * w_d
        r = tl.rsqrt(tl.sum(g * g, 1) / width + eps)
        along = r * r * tl.sum(dn * g, 1) / width
        sums += dout * g * r[:, None]  # rows outside have no g
        dg = r[:, None] * (dn - g * along[:, None])
        store(dy + start * width, dg * s, i, width, left, width, WIDTH, EVEN)
        store(dz + start * z_time, dg * y_i * (gate + s * (1 - gate)), i, z_time, left, width, WIDTH, EVEN)
    tl.store(dw + tl.program_id(0).to(tl.int64) * width + d, tl.sum(sums, 0), mask=d < width)
