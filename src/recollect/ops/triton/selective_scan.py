"""Kernels of the selective scan (Gu & Dao 2023); formula and plain form in ops/selective_scan.py.

    h_t = decay_t h_{t-1} + u_t B_t        y_t = C_t . h_t + D x_t        decay_t = exp(dt_t A) = 2^(dt_t rate)

A program, one warp, takes one row and a block of channels through time with the states in registers, a part (four steps)
at once. Forward keeps the state before each part; backward takes the parts from the last to the first, computes their
states and decays again and walks them backwards:

    dh_t = C_t dy_t + decay_{t+1} dh_{t+1}        dC_t = sum_c dy_t h_t        dB_t = sum_c u_t dh_t
    du_t = B_t . dh_t                             dx_t = dt_t du_t + D dy_t    dD = sum_t dy_t x_t
    e_t = dh_t decay_t h_{t-1}                    ddt_t = A . e_t + x_t du_t   dA = sum_t dt_t e_t

Sums over blocks of channels (dB, dC) and over rows (dA, dD) are left to PyTorch: the same bits on every run.

What counts is instructions, above all those that move numbers between threads. A state is a tensor (HIGH, LOW, channels)
of the states s = high + HIGH low: memory is read four channels a thread, so a thread has four channels of HIGH states, and
a sum over channels or over states is mostly within threads. A whole part is read and written as one tensor (..., 4), then
taken apart into its steps: numbers change threads once a part, not once a step.

Glossary: h = state; u = dt x; A, B, C, D as in the paper; rate = A / ln 2; e = the gradient of dt A; s, c = indices of states
and channels; kept = the states before each part. Shapes: x, dt, y (groups, batch, length, channels), A (groups, channels, n),
B, C (groups, batch, length, n), D (groups, channels), kept (groups, batch, parts, n, channels). A row is one of groups * batch.
"""

# pyright: reportCallIssue=false, reportOperatorIssue=false, reportGeneralTypeIssues=false
# (Triton's language looks like Python, but its types are its own.)

import torch
import triton
import triton.language as tl
from torch import Tensor

LN2 = tl.constexpr(0.6931471805599453)
PART = 4
"""Steps of a part. `_apart` and `_together` are for four."""
STEPS = tl.constexpr(PART)
TILE = 512
"""Numbers in the state of a program, or so: 16 a thread. Backward holds nine such in registers."""


def outputs(x: Tensor, A: Tensor) -> tuple[Tensor, Tensor]:
    """y and kept, empty. What is kept is as precise as x, but never in float16: its range is too short."""
    groups, batch, length, channels = x.shape
    dtype = torch.bfloat16 if x.dtype == torch.bfloat16 else torch.float32
    kept = x.new_empty(groups, batch, triton.cdiv(length, PART), A.shape[2], channels, dtype=dtype)
    return x.new_empty(x.shape), kept


def forward(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> tuple[Tensor, Tensor]:
    """y, and the state before each part."""
    x, dt, B, C, D = (t.contiguous() for t in (x, dt, B, C, D))
    y, kept = outputs(x, A)
    programs, sizes, shape = _division(x, A)
    with torch.cuda.device_of(x):
        _forward_kernel[(programs,)](x, dt, _by_state(A), B, C, D, y, kept, *sizes, **shape, num_warps=1)
    return y, kept


def backward(
    grad: Tensor, x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, kept: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, dt, A, B, C and D."""
    grad, x, dt, B, C, D = (t.contiguous() for t in (grad, x, dt, B, C, D))
    (groups, batch, _, channels), (programs, sizes, shape) = x.shape, _division(x, A)
    dx, ddt = torch.empty_like(x), torch.empty_like(dt)
    dA = x.new_empty(groups, batch, A.shape[2], channels, dtype=torch.float32)
    dB, dC = (x.new_empty(programs // (groups * batch), *B.shape, dtype=torch.float32) for _ in range(2))
    dD = x.new_empty(groups, batch, channels, dtype=torch.float32)
    with torch.cuda.device_of(x):
        _backward_kernel[(programs,)](
            grad, x, dt, _by_state(A), B, C, D, kept, dx, ddt, dA, dB, dC, dD, *sizes, **shape, num_warps=1
        )  # fmt: skip
    dA = dA.sum(1).transpose(1, 2).to(A.dtype).contiguous()
    return dx, ddt, dA, dB.sum(0).to(B.dtype), dC.sum(0).to(C.dtype), dD.sum(1).to(D.dtype)


def _by_state(A: Tensor) -> Tensor:
    return A.transpose(1, 2).float().contiguous()  # (groups, n, channels), as kept: one layout for all that meets h


def _division(x: Tensor, A: Tensor) -> tuple[int, tuple[int, int, int, int], dict[str, int | bool]]:
    """How many programs there are, the sizes they are told, and the shape of the state in each."""
    groups, batch, length, channels = x.shape
    n = A.shape[2]
    states = triton.next_power_of_2(n)
    block = max(8, min(triton.next_power_of_2(channels), 128, TILE // states))
    high = min(4, states)
    even = n == states and channels % block == 0 and length % PART == 0  # then nothing needs a mask
    shape = {"HIGH": high, "LOW": states // high, "BLOCK": block, "EVEN": even}
    return groups * batch * triton.cdiv(channels, block), (batch, length, channels, n), shape


@triton.jit
def _read(pointer, mask, EVEN: tl.constexpr):
    if EVEN:
        return tl.load(pointer).to(tl.float32)
    else:
        return tl.load(pointer, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def _write(pointer, x, mask, EVEN: tl.constexpr):
    if EVEN:
        tl.store(pointer, x.to(pointer.dtype.element_ty))
    else:
        tl.store(pointer, x.to(pointer.dtype.element_ty), mask=mask)


@triton.jit
def _apart(x):
    """(channels, 4) -> four steps of (1, 1, channels)."""
    even, odd = tl.split(tl.reshape(x, [x.shape[0], 2, 2]))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first[None, None, :], second[None, None, :], third[None, None, :], fourth[None, None, :]


@triton.jit
def _together(steps):
    """Four steps of (...) -> (..., 2, 2), which is (..., 4) in order."""
    return tl.join(tl.join(steps[0], steps[2]), tl.join(steps[1], steps[3]))


@triton.jit
def _turned(steps):
    return steps[3], steps[2], steps[1], steps[0]


@triton.jit
def _over_states(x):
    return tl.sum(tl.sum(x, axis=0), axis=0)  # (channels,)


@triton.jit
def _forward_kernel(
    x, dt, A, B, C, D, y, kept, batch, length, channels, n,
    HIGH: tl.constexpr, LOW: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(channels, BLOCK)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    group, first = row // batch, row * length
    i = tl.arange(0, STEPS)
    c = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    s = tl.arange(0, HIGH)[:, None] + HIGH * tl.arange(0, LOW)[None, :]  # (HIGH, LOW)
    state = s[:, :, None] * channels + c[None, None, :]
    inside_c, inside_s = c < channels, s < n
    inside = inside_s[:, :, None] & inside_c[None, None, :]
    rate = _read(A + group * n * channels + state, inside, EVEN) / LN2
    D_c = _read(D + group * channels + c, inside_c, EVEN)[:, None]
    at_c = first * channels + i[None, :] * channels + c[:, None]  # (channels, steps)
    at_s = first * n + s
    parts = tl.cdiv(length, STEPS)
    kept += row * parts * n * channels + tl.max_contiguous(state, [1, 1, 4])  # four a thread in bfloat16 too
    h = tl.zeros([HIGH, LOW, BLOCK], tl.float32)
    for part in range(parts):
        start = part * STEPS
        # Past the end all is read as zero: such a step leaves h as it is.
        here = inside_c[:, None] & (start + i < length)[None, :]
        _write(kept + part * n * channels, h, inside, EVEN)
        x_p = _read(x + start * channels + at_c, here, EVEN)
        dt_p = _read(dt + start * channels + at_c, here, EVEN)
        Bs, Cs, ys = (), (), ()
        for k in tl.static_range(STEPS):
            here_s = s < tl.where(start + k < length, n, 0)
            Bs += (_read(B + (start + k) * n + at_s, here_s, EVEN)[:, :, None],)
            Cs += (_read(C + (start + k) * n + at_s, here_s, EVEN)[:, :, None],)
        dts, us = _apart(dt_p), _apart(dt_p * x_p)
        for k in tl.static_range(STEPS):
            h = tl.exp2(dts[k] * rate) * h + us[k] * Bs[k]
            ys += (_over_states(h * Cs[k]),)
        _write(y + start * channels + at_c, tl.reshape(_together(ys), [BLOCK, STEPS]) + D_c * x_p, here, EVEN)


@triton.jit
def _backward_kernel(
    grad, x, dt, A, B, C, D, kept, dx, ddt, dA, dB, dC, dD, batch, length, channels, n,
    HIGH: tl.constexpr, LOW: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(channels, BLOCK)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    block = tl.program_id(0) % blocks
    group, first = row // batch, row * length
    i = tl.arange(0, STEPS)
    c = block * BLOCK + tl.arange(0, BLOCK)
    s = tl.arange(0, HIGH)[:, None] + HIGH * tl.arange(0, LOW)[None, :]  # (HIGH, LOW)
    state = s[:, :, None] * channels + c[None, None, :]
    inside_c, inside_s = c < channels, s < n
    inside = inside_s[:, :, None] & inside_c[None, None, :]
    rate = _read(A + group * n * channels + state, inside, EVEN) / LN2
    D_c = _read(D + group * channels + c, inside_c, EVEN)[:, None]
    at_c = first * channels + i[None, :] * channels + c[:, None]  # (channels, steps)
    at_s = first * n + s
    summand = (block * (tl.num_programs(0) // blocks) + row) * length  # of the sums over blocks of channels
    at_sum = summand * n + i[None, None, :] * n + s[:, :, None]  # (HIGH, LOW, steps)
    parts = tl.cdiv(length, STEPS)
    kept += row * parts * n * channels + tl.max_contiguous(state, [1, 1, 4])
    dh = tl.zeros([HIGH, LOW, BLOCK], tl.float32)
    sum_A = tl.zeros([HIGH, LOW, BLOCK], tl.float32)
    sum_D = tl.zeros([BLOCK, STEPS], tl.float32)
    for later in tl.range(parts, num_stages=2):  # few warps fit: the next part is read while this one is computed
        part = parts - 1 - later
        start = part * STEPS
        here = inside_c[:, None] & (start + i < length)[None, :]
        x_p = _read(x + start * channels + at_c, here, EVEN)
        dt_p = _read(dt + start * channels + at_c, here, EVEN)
        dy_p = _read(grad + start * channels + at_c, here, EVEN)
        h = _read(kept + part * n * channels, inside, EVEN)
        Bs, Cs, hs, decays = (), (), (h,), ()
        for k in tl.static_range(STEPS):
            here_s = s < tl.where(start + k < length, n, 0)
            Bs += (_read(B + (start + k) * n + at_s, here_s, EVEN)[:, :, None],)
            Cs += (_read(C + (start + k) * n + at_s, here_s, EVEN)[:, :, None],)
        dts, us, dys = _apart(dt_p), _apart(dt_p * x_p), _apart(dy_p)
        for k in tl.static_range(STEPS):
            decays += (tl.exp2(dts[k] * rate),)
            hs += (decays[k] * hs[k] + us[k] * Bs[k],)
        dus, des, dBs, dCs = (), (), (), ()
        for k in tl.static_range(STEPS - 1, -1, -1):
            dh += Cs[k] * dys[k]
            dCs += (tl.sum(dys[k] * hs[k + 1], axis=2),)
            dBs += (tl.sum(us[k] * dh, axis=2),)
            dus += (_over_states(Bs[k] * dh),)
            dh *= decays[k]  # from here on the gradient of h_{t-1}
            e = dh * hs[k]
            sum_A += dts[k] * e
            des += (_over_states(rate * e),)
        here_s = inside_s[:, :, None] & (start + i < length)[None, None, :]
        _write(dB + start * n + at_sum, tl.reshape(_together(_turned(dBs)), [HIGH, LOW, STEPS]), here_s, EVEN)
        _write(dC + start * n + at_sum, tl.reshape(_together(_turned(dCs)), [HIGH, LOW, STEPS]), here_s, EVEN)
        du_p = tl.reshape(_together(_turned(dus)), [BLOCK, STEPS])
        de_p = tl.reshape(_together(_turned(des)), [BLOCK, STEPS])
        _write(dx + start * channels + at_c, dt_p * du_p + D_c * dy_p, here, EVEN)
        _write(ddt + start * channels + at_c, de_p * LN2 + x_p * du_p, here, EVEN)
        sum_D += dy_p * x_p
    _write(dA + row * n * channels + state, sum_A, inside, EVEN)
    _write(dD + row * channels + c, tl.sum(sum_D, axis=1), inside_c, EVEN)
