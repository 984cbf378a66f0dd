"""Kernels of the selective scan (Gu & Dao 2023); formula and plain form in ops/selective_scan.py.

    h_t = decay_t h_{t-1} + u_t B_t        y_t = C_t . h_t        decay_t = exp(dt_t A) = 2^(dt_t rate)

A program takes one row and a block of channels through time with the states in registers. Forward keeps the state before
each chunk; backward takes the chunks from the last to the first, computes their states again and walks them backwards:

    dh_t = C_t dy_t + decay_{t+1} dh_{t+1}        dC_t = sum_c dy_t h_t        dB_t = sum_c u_t dh_t
    du_t = B_t . dh_t                             e_t = dh_t decay_t h_{t-1}   ddt_t = A . e_t      dA = sum_t dt_t e_t

Sums over blocks of channels (dB, dC) and over rows (dA) are left to PyTorch: the same bits on every run.

Glossary: h = state; u = dt x; A, B, C as in the paper; rate = A / ln 2; e = the gradient of dt A; s, c = indices of
states and channels. Shapes: u, dt, y (groups, batch, length, channels), A (groups, channels, n), B, C (groups, batch,
length, n), kept (groups, batch, chunks, n, channels). A row is one of groups * batch.
"""

# pyright: reportCallIssue=false, reportOperatorIssue=false, reportGeneralTypeIssues=false
# (Triton's language looks like Python, but its types are its own.)

import torch
import triton
import triton.language as tl
from torch import Tensor

LN2 = tl.constexpr(0.6931471805599453)
PART = 8
"""Steps whose states backward holds in registers at once; it divides a chunk."""


def forward(u: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, chunk: int) -> tuple[Tensor, Tensor]:
    """y, and the state before each `chunk` steps."""
    groups, batch, length, channels = u.shape
    n = A.shape[2]
    u, dt, A, B, C = (t.contiguous() for t in (u, dt, A, B, C))
    y, kept = torch.empty_like(u), u.new_empty(groups, batch, -(-length // chunk), n, channels)
    states, block = _tile(n, channels, 512)
    with torch.cuda.device_of(u):
        _forward_kernel[(groups * batch * triton.cdiv(channels, block),)](
            u, dt, A, B, C, y, kept, batch, length, channels, n, CHUNK=chunk, STATES=states, BLOCK=block, num_warps=1
        )  # fmt: skip
    return y, kept


def backward(
    grad: Tensor, u: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, kept: Tensor, chunk: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of u, dt, A, B and C."""
    groups, batch, length, channels = u.shape
    n = A.shape[2]
    grad, u, dt, A, B, C = (t.contiguous() for t in (grad, u, dt, A, B, C))
    states, block = _tile(n, channels, 256)
    blocks = triton.cdiv(channels, block)
    du, ddt = torch.empty_like(u), torch.empty_like(dt)
    dA = u.new_empty(groups, batch, n, channels, dtype=torch.float32)
    dB, dC = (u.new_empty(blocks, *t.shape, dtype=torch.float32) for t in (B, C))
    with torch.cuda.device_of(u):
        _backward_kernel[(groups * batch * blocks,)](
            grad, u, dt, A, B, C, kept, du, ddt, dA, dB, dC, batch, length, channels, n,
            CHUNK=chunk, PART=PART, STATES=states, BLOCK=block, num_warps=1,
        )  # fmt: skip
    dA = dA.sum(1).transpose(1, 2).to(A.dtype).contiguous()
    return du, ddt, dA, dB.sum(0).to(B.dtype), dC.sum(0).to(C.dtype)


def _tile(n: int, channels: int, size: int) -> tuple[int, int]:
    """States and channels of a program, `size` numbers or so: one warp holds them, and no step waits for another warp."""
    states = triton.next_power_of_2(n)
    return states, min(triton.next_power_of_2(channels), max(8, min(128, size // states)))


@triton.jit
def _read(pointer, mask):
    return tl.load(pointer, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def _next(h, u_t, dt_t, B_t, rate):
    return tl.exp2(dt_t[None, :] * rate) * h + u_t[None, :] * B_t[:, None]


@triton.jit
def _forward_kernel(
    u, dt, A, B, C, y, kept, batch, length, channels, n,
    CHUNK: tl.constexpr, STATES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(channels, BLOCK)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    c = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    s = tl.arange(0, STATES)
    inside_c, inside_s = c < channels, s < n
    inside = inside_s[:, None] & inside_c[None, :]  # (states, channels), as is the state
    rate = _read(A + row // batch * channels * n + c[None, :] * n + s[:, None], inside) / LN2
    first = row * length
    u, dt, y = u + first * channels + c, dt + first * channels + c, y + first * channels + c
    B, C = B + first * n + s, C + first * n + s
    kept += row * tl.cdiv(length, CHUNK) * n * channels + s[:, None] * channels + c[None, :]
    h = tl.zeros([STATES, BLOCK], tl.float32)
    for t in range(length):
        if t % CHUNK == 0:
            tl.store(kept + t // CHUNK * n * channels, h.to(kept.dtype.element_ty), mask=inside)
        u_t, dt_t = _read(u + t * channels, inside_c), _read(dt + t * channels, inside_c)
        B_t, C_t = _read(B + t * n, inside_s), _read(C + t * n, inside_s)
        h = _next(h, u_t, dt_t, B_t, rate)
        y_t = tl.sum(h * C_t[:, None], axis=0)
        tl.store(y + t * channels, y_t.to(y.dtype.element_ty), mask=inside_c)


@triton.jit
def _backward_kernel(
    grad, u, dt, A, B, C, kept, du, ddt, dA, dB, dC, batch, length, channels, n,
    CHUNK: tl.constexpr, PART: tl.constexpr, STATES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(channels, BLOCK)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    block = tl.program_id(0) % blocks
    c = block * BLOCK + tl.arange(0, BLOCK)
    s = tl.arange(0, STATES)
    inside_c, inside_s = c < channels, s < n
    inside = inside_s[:, None] & inside_c[None, :]
    rate = _read(A + row // batch * channels * n + c[None, :] * n + s[:, None], inside) / LN2
    first = row * length
    grad, u, dt = grad + first * channels, u + first * channels, dt + first * channels
    du, ddt = du + first * channels, ddt + first * channels
    B, C = B + first * n, C + first * n
    summand = (block * (tl.num_programs(0) // blocks) + row) * length  # of the sums over blocks of channels
    dB, dC = dB + summand * n, dC + summand * n
    state = s[:, None] * channels + c[None, :]
    kept += row * tl.cdiv(length, CHUNK) * n * channels
    parts = tl.cdiv(length, PART)
    dh = tl.zeros([STATES, BLOCK], tl.float32)
    sum_A = tl.zeros([STATES, BLOCK], tl.float32)
    for later in range(parts):
        start = (parts - 1 - later) * PART
        chunk = start // CHUNK
        h = _read(kept + chunk * n * channels + state, inside)
        for t in range(chunk * CHUNK, start):
            u_t, dt_t = _read(u + t * channels + c, inside_c), _read(dt + t * channels + c, inside_c)
            h = _next(h, u_t, dt_t, _read(B + t * n + s, inside_s), rate)
        states = (h,)
        # Past the end all is read as zero: such a step leaves h and dh as they are.
        for i in tl.static_range(PART):
            t = start + i
            at_c, here_c = t * channels + c, c < tl.where(t < length, channels, 0)
            at_s, here_s = t * n + s, s < tl.where(t < length, n, 0)
            h = _next(h, _read(u + at_c, here_c), _read(dt + at_c, here_c), _read(B + at_s, here_s), rate)
            states += (h,)
        for i in tl.static_range(PART):
            t = start + PART - 1 - i
            at_c, here_c = t * channels + c, c < tl.where(t < length, channels, 0)
            at_s, here_s = t * n + s, s < tl.where(t < length, n, 0)
            dy_t, u_t, dt_t = _read(grad + at_c, here_c), _read(u + at_c, here_c), _read(dt + at_c, here_c)
            B_t, C_t = _read(B + at_s, here_s), _read(C + at_s, here_s)
            dh += C_t[:, None] * dy_t[None, :]
            dC_t = tl.sum(dy_t[None, :] * states[PART - i], axis=1)
            dB_t = tl.sum(u_t[None, :] * dh, axis=1)
            du_t = tl.sum(B_t[:, None] * dh, axis=0)
            dh *= tl.exp2(dt_t[None, :] * rate)  # from here on the gradient of h_{t-1}
            e_t = dh * states[PART - 1 - i]
            sum_A += dt_t[None, :] * e_t
            ddt_t = tl.sum(rate * e_t, axis=0) * LN2
            tl.store(dC + at_s, dC_t, mask=here_s)
            tl.store(dB + at_s, dB_t, mask=here_s)
            tl.store(du + at_c, du_t.to(du.dtype.element_ty), mask=here_c)
            tl.store(ddt + at_c, ddt_t.to(ddt.dtype.element_ty), mask=here_c)
    tl.store(dA + row * n * channels + state, sum_A, mask=inside)
