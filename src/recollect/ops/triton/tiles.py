"""Tiles of rows that lie a stride apart: what most kernels read and write."""

# pyright: reportCallIssue=false, reportOperatorIssue=false, reportGeneralTypeIssues=false
# (Triton's language looks like Python, but its types are its own.)

import triton
import triton.language as tl


@triton.jit
def load(x, i, stride, rows, width, WIDTH: tl.constexpr):
    """Rows i: (len(i), WIDTH), zeros outside."""
    d = tl.arange(0, WIDTH)
    return tl.load(x + i[:, None] * stride + d[None, :], mask=(i < rows)[:, None] & (d < width)[None, :], other=0.0)


@triton.jit
def store(x, value, i, stride, rows, width, WIDTH: tl.constexpr):
    """Write rows i, in x's own type."""
    d = tl.arange(0, WIDTH)
    inside = (i < rows)[:, None] & (d < width)[None, :]
    tl.store(x + i[:, None] * stride + d[None, :], value.to(x.dtype.element_ty), mask=inside)
