"""Reads and writes of all kernels: numbers with a mask, tiles of rows with a stride; and the indices of a program that has a
block of a row."""

import triton
import triton.language as tl


@triton.jit
def read(at, mask, EVEN: tl.constexpr = False):
    """The numbers there, zeros where the mask is false; EVEN: it is true everywhere."""
    if EVEN:
        return tl.load(at)
    else:
        return tl.load(at, mask=mask, other=0.0)


@triton.jit
def read_float(at, mask, EVEN: tl.constexpr = False):
    """The same in float32."""
    return read(at, mask, EVEN).to(tl.float32)


@triton.jit
def write(at, value, mask, EVEN: tl.constexpr = False):
    """Store where the mask is true, in the type of what is there; EVEN: it is true everywhere."""
    value = value.to(at.dtype.element_ty)
    if EVEN:
        tl.store(at, value)
    else:
        tl.store(at, value, mask=mask)


@triton.jit
def read_tile(x, i, rows, j, columns, EVEN: tl.constexpr):
    """Rows i and columns j of a matrix of (rows, columns), zeros outside; EVEN: nothing is outside."""
    return read(x + i[:, None] * columns + j[None, :], (i < rows)[:, None] & (j < columns)[None, :], EVEN)


@triton.jit
def write_tile(x, value, i, rows, j, columns, EVEN: tl.constexpr):
    """Write rows i and columns j of a matrix of (rows, columns)."""
    write(x + i[:, None] * columns + j[None, :], value, (i < rows)[:, None] & (j < columns)[None, :], EVEN)


@triton.jit
def load(x, i, stride, rows, width, WIDTH: tl.constexpr, EVEN: tl.constexpr = False):
    """Rows i: (len(i), WIDTH), zeros outside; EVEN: nothing is outside."""
    d = tl.arange(0, WIDTH)
    return read(x + i[:, None] * stride + d[None, :], (i < rows)[:, None] & (d < width)[None, :], EVEN)


@triton.jit
def store(x, value, i, stride, rows, width, WIDTH: tl.constexpr, EVEN: tl.constexpr = False):
    """Write rows i, in x's own type."""
    d = tl.arange(0, WIDTH)
    write(x + i[:, None] * stride + d[None, :], value, (i < rows)[:, None] & (d < width)[None, :], EVEN)


@triton.jit
def place(length, heads, BLOCK: tl.constexpr, SINGLE: tl.constexpr = False):
    """Row, head and block of a program, and how many blocks a row has. Blocks of a row have consecutive programs, so that what
    one has read is still in the cache for the next. If SINGLE, the compiler knows that a loop over blocks ends after one."""
    blocks = 1 if SINGLE else tl.cdiv(length, BLOCK)
    row, head = tl.program_id(0) // blocks // heads, tl.program_id(0) // blocks % heads
    return row.to(tl.int64), head, tl.program_id(0) % blocks, blocks
