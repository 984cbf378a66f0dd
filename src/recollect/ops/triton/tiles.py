"""Tiles of rows that lie a stride apart: what most kernels read and write; and where a program is that has a block of a row."""

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


@triton.jit
def place(length, heads, BLOCK: tl.constexpr, SINGLE: tl.constexpr = False):
    """Row, head and block of a program, and how many blocks a row has. Those of a row follow each other, so that what one has
    read is still in the cache for the next. With a SINGLE one the compiler knows that a loop over blocks ends after one."""
    blocks = 1 if SINGLE else tl.cdiv(length, BLOCK)
    row, head = tl.program_id(0) // blocks // heads, tl.program_id(0) // blocks % heads
    return row.to(tl.int64), head, tl.program_id(0) % blocks, blocks
