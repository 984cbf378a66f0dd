"""Tiles of rows that lie a stride apart: what most kernels read and write."""

# pyright: reportCallIssue=false, reportOperatorIssue=false, reportGeneralTypeIssues=false, reportArgumentType=false
# (Triton's language looks like Python, but its types are its own.)

import triton
import triton.language as tl


@triton.jit
def load(x, i, stride, rows, width, WIDTH: tl.constexpr, EVEN: tl.constexpr = False):
    """Rows i: (len(i), WIDTH), zeros outside, where nothing is if EVEN."""
    d = tl.arange(0, WIDTH)
    at = x + i[:, None] * stride + d[None, :]
    if EVEN:
        return tl.load(at)
    else:
        return tl.load(at, mask=(i < rows)[:, None] & (d < width)[None, :], other=0.0)


@triton.jit
def store(x, value, i, stride, rows, width, WIDTH: tl.constexpr, EVEN: tl.constexpr = False):
    """Write rows i, in x's own type."""
    d = tl.arange(0, WIDTH)
    at, value = x + i[:, None] * stride + d[None, :], value.to(x.dtype.element_ty)
    if EVEN:
        tl.store(at, value)
    else:
        tl.store(at, value, mask=(i < rows)[:, None] & (d < width)[None, :])
