"""Kernels of the selective scan (Gu & Dao 2023); formula and plain form in ops/selective_scan.py.

    delta_t = softplus(dt_t + bias)        decay_t = exp(delta_t A) = 2^(delta_t rate)
    h_t = decay_t h_{t-1} + u_t B_t        y_t = C_t . h_t + D x_t

A program, one warp, takes one row and a block of channels through time with the states in registers, a part (four steps)
at once. Forward keeps the state before each part; backward takes the parts from the last to the first, computes their
states and decays again and walks them backwards:

    dh_t = C_t dy_t + decay_{t+1} dh_{t+1}        dC_t = sum_c dy_t h_t        dB_t = sum_c u_t dh_t
    du_t = B_t . dh_t                             dx_t = delta_t du_t + D dy_t dD = sum_t dy_t x_t
    e_t = dh_t decay_t h_{t-1}                    ddelta_t = A . e_t + x_t du_t
    dA = sum_t delta_t e_t                        ddt_t = ddelta_t sigmoid(dt_t + bias), dbias = sum_t ddt_t

Sums over blocks of channels (dB, dC) and over rows (dA, dbias, dD) are left to PyTorch: the same bits on every run.

What counts is instructions, above all those that move numbers between threads. Memory is read four channels a thread, so a
thread has four channels of every LANES-th state. A sum over states or channels is first taken within threads; what is left of
all four steps then changes threads at once, so that a thread has all that it adds (`split` asks for that: as reductions these
sums would take a shuffle a number and halving). A part is read and written as one tensor (..., 4) and taken apart into steps.

Glossary: h = state; delta = step size; u = delta x; A, B, C, D as in the paper; rate = A / ln 2; e = the gradient of delta A;
s, c = indices of states and channels; kept = the states before each part. Shapes: x, dt, y (groups, batch, length, channels),
bias, D (groups, channels), A (groups, channels, n), B, C (groups, batch, length, n), kept (groups, batch, parts, n, channels).
A row is one of groups * batch.
"""

# pyright: reportCallIssue=false, reportOperatorIssue=false, reportGeneralTypeIssues=false
# (Triton's language looks like Python, but its types are its own.)

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton.activations import sigmoid, softplus

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


def forward(x: Tensor, dt: Tensor, bias: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> tuple[Tensor, Tensor]:
    """y, and the state before each part."""
    x, dt, bias, B, C, D = (t.contiguous() for t in (x, dt, bias, B, C, D))
    y, kept = outputs(x, A)
    programs, sizes, shape = _division(x, A)
    with torch.cuda.device_of(x):
        _forward_kernel[(programs,)](x, dt, bias, _by_state(A), B, C, D, y, kept, *sizes, **shape, num_warps=1)
    return y, kept


def backward(
    grad: Tensor, x: Tensor, dt: Tensor, bias: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, kept: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, dt, bias, A, B, C and D."""
    grad, x, dt, bias, B, C, D = (t.contiguous() for t in (grad, x, dt, bias, B, C, D))
    (groups, batch, _, channels), (programs, sizes, shape) = x.shape, _division(x, A)
    dx, ddt = torch.empty_like(x), torch.empty_like(dt)
    dA = x.new_empty(groups, batch, A.shape[2], channels, dtype=torch.float32)
    summands = B.dtype if B.dtype == torch.bfloat16 else torch.float32
    dB, dC = (x.new_empty(programs // (groups * batch), *B.shape, dtype=summands) for _ in range(2))
    dbias, dD = (x.new_empty(groups, batch, channels, dtype=torch.float32) for _ in range(2))
    with torch.cuda.device_of(x):
        _backward_kernel[(programs,)](
            grad, x, dt, bias, _by_state(A), B, C, D, kept, dx, ddt, dbias, dA, dB, dC, dD, *sizes, **shape, num_warps=1
        )  # fmt: skip
    dbias, dD = dbias.sum(1).to(bias.dtype), dD.sum(1).to(D.dtype)
    dA = dA.sum(1).transpose(1, 2).to(A.dtype).contiguous()
    return dx, ddt, dbias, dA, dB.sum(0).to(B.dtype), dC.sum(0).to(C.dtype), dD


def _by_state(A: Tensor) -> Tensor:
    return A.transpose(1, 2).float().contiguous()  # (groups, n, channels), as kept: one layout for all that meets h


def _division(x: Tensor, A: Tensor) -> tuple[int, tuple[int, int, int, int], dict[str, int | bool]]:
    """How many programs there are, the sizes they are told, and the shape of the state in each."""
    groups, batch, length, channels = x.shape
    n = A.shape[2]
    states = triton.next_power_of_2(n)
    block = max(8, min(triton.next_power_of_2(channels), 128, TILE // states))
    even = n == states and channels % block == 0 and length % PART == 0  # then nothing needs a mask
    lanes = min(states, 128 // block)  # of the 32 threads of a warp, with four channels each
    logs = {"LOG_LANES": lanes.bit_length() - 1, "LOG_FOURS": block.bit_length() - 3}
    shape = {"N": states, "BLOCK": block, "LANES": lanes, **logs, "EVEN": even}
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
    """(rows, 4) -> four steps of (rows,)."""
    even, odd = tl.split(tl.reshape(x, [x.shape[0], 2, 2]))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first, second, third, fourth


@triton.jit
def _together(steps):
    """Four steps of (...) -> (..., 2, 2), which is (..., 4) in order."""
    return tl.join(tl.join(steps[0], steps[2]), tl.join(steps[1], steps[3]))


@triton.jit
def _turned(steps):
    return steps[3], steps[2], steps[1], steps[0]


@triton.jit
def _summed(x, HALVINGS: tl.constexpr):
    """(rows, 2, 2, 2^halvings) -> (rows, 4): the sums over the last axis."""
    rows: tl.constexpr = x.shape[0]
    x = tl.reshape(x, [rows * 4, x.shape[3]])
    for _ in tl.static_range(HALVINGS):
        a, b = tl.split(tl.reshape(x, [rows * 4, x.shape[1] // 2, 2]))
        x = a + b
    return tl.reshape(x, [rows, 4])


@triton.jit
def _own_states(x, LANES: tl.constexpr):
    """(n, channels) -> (lanes, channels): sums over the states that a thread has."""
    return tl.sum(tl.reshape(x, [x.shape[0] // LANES, LANES, x.shape[1]]), axis=0)


@triton.jit
def _over_states(steps, LOG_LANES: tl.constexpr):
    """Four steps of (lanes, channels) -> (channels, 4)."""
    return _summed(tl.permute(_together(steps), [1, 2, 3, 0]), LOG_LANES)


@triton.jit
def _own_channels(x):
    """(n, channels) -> (n, channels / 4): sums over the channels that a thread has."""
    return tl.sum(tl.reshape(x, [x.shape[0], x.shape[1] // 4, 4]), axis=2)


@triton.jit
def _over_channels(steps, LOG_FOURS: tl.constexpr):
    """Four steps of (n, channels / 4) -> (n, 4)."""
    return _summed(tl.permute(_together(steps), [0, 2, 3, 1]), LOG_FOURS)


@triton.jit
def _forward_kernel(
    x, dt, bias, A, B, C, D, y, kept, batch, length, channels, n,
    N: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, LOG_LANES: tl.constexpr, LOG_FOURS: tl.constexpr,
    EVEN: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(channels, BLOCK)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    group, first = row // batch, row * length
    i = tl.arange(0, STEPS)
    c = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    s = tl.arange(0, N)
    state = s[:, None] * channels + c[None, :]  # (n, channels)
    inside_c, inside_s = c < channels, s < n
    inside = inside_s[:, None] & inside_c[None, :]
    rate = _read(A + group * n * channels + state, inside, EVEN) / LN2
    bias_c = _read(bias + group * channels + c, inside_c, EVEN)[:, None]
    D_c = _read(D + group * channels + c, inside_c, EVEN)[:, None]
    at_c = first * channels + i[None, :] * channels + c[:, None]  # (channels, steps)
    at_s = first * n + i[None, :] * n + s[:, None]  # (n, steps)
    parts = tl.cdiv(length, STEPS)
    kept += row * parts * n * channels + tl.max_contiguous(state, [1, 4])  # four a thread in bfloat16 too
    h = tl.zeros([N, BLOCK], tl.float32)
    for part in range(parts):
        start = part * STEPS
        # Past the end x, B and C are read as zero: nothing is written into h, and nobody reads it.
        here = inside_c[:, None] & (start + i < length)[None, :]
        here_s = inside_s[:, None] & (start + i < length)[None, :]
        _write(kept + part * n * channels, h, inside, EVEN)
        x_p = _read(x + start * channels + at_c, here, EVEN)
        delta_p = softplus(_read(dt + start * channels + at_c, here, EVEN) + bias_c)
        B_p, C_p = _read(B + start * n + at_s, here_s, EVEN), _read(C + start * n + at_s, here_s, EVEN)
        deltas, us, Bs, Cs, ys = _apart(delta_p), _apart(delta_p * x_p), _apart(B_p), _apart(C_p), ()
        for k in tl.static_range(STEPS):
            h = tl.exp2(deltas[k][None, :] * rate) * h + us[k][None, :] * Bs[k][:, None]
            ys += (_own_states(h * Cs[k][:, None], LANES),)
        _write(y + start * channels + at_c, _over_states(ys, LOG_LANES) + D_c * x_p, here, EVEN)


@triton.jit
def _backward_kernel(
    grad, x, dt, bias, A, B, C, D, kept, dx, ddt, dbias, dA, dB, dC, dD, batch, length, channels, n,
    N: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, LOG_LANES: tl.constexpr, LOG_FOURS: tl.constexpr,
    EVEN: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(channels, BLOCK)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    block = tl.program_id(0) % blocks
    group, first = row // batch, row * length
    i = tl.arange(0, STEPS)
    c = block * BLOCK + tl.arange(0, BLOCK)
    s = tl.arange(0, N)
    state = s[:, None] * channels + c[None, :]  # (n, channels)
    inside_c, inside_s = c < channels, s < n
    inside = inside_s[:, None] & inside_c[None, :]
    rate = _read(A + group * n * channels + state, inside, EVEN) / LN2
    bias_c = _read(bias + group * channels + c, inside_c, EVEN)[:, None]
    D_c = _read(D + group * channels + c, inside_c, EVEN)[:, None]
    at_c = first * channels + i[None, :] * channels + c[:, None]  # (channels, steps)
    at_s = first * n + i[None, :] * n + s[:, None]  # (n, steps)
    summand = (block * (tl.num_programs(0) // blocks) + row) * length  # of the sums over blocks of channels
    at_sum = summand * n + i[None, :] * n + s[:, None]
    parts = tl.cdiv(length, STEPS)
    kept += row * parts * n * channels + tl.max_contiguous(state, [1, 4])
    dh = tl.zeros([N, BLOCK], tl.float32)
    sum_A = tl.zeros([N, BLOCK], tl.float32)
    sum_bias = tl.zeros([BLOCK, STEPS], tl.float32)
    sum_D = tl.zeros([BLOCK, STEPS], tl.float32)
    for later in tl.range(parts, num_stages=3):  # few warps fit: the next two are read while one is computed
        part = parts - 1 - later
        start = part * STEPS
        here = inside_c[:, None] & (start + i < length)[None, :]
        here_s = inside_s[:, None] & (start + i < length)[None, :]
        x_p = _read(x + start * channels + at_c, here, EVEN)
        delta_p = softplus(_read(dt + start * channels + at_c, here, EVEN) + bias_c)
        dy_p = _read(grad + start * channels + at_c, here, EVEN)
        sum_D += dy_p * x_p
        h = _read(kept + part * n * channels, inside, EVEN)
        B_p, C_p = _read(B + start * n + at_s, here_s, EVEN), _read(C + start * n + at_s, here_s, EVEN)
        deltas, us, dys, Bs, Cs = _apart(delta_p), _apart(delta_p * x_p), _apart(dy_p), _apart(B_p), _apart(C_p)
        hs, decays = (h,), ()
        for k in tl.static_range(STEPS):
            decays += (tl.exp2(deltas[k][None, :] * rate),)
            hs += (decays[k] * hs[k] + us[k][None, :] * Bs[k][:, None],)
        dus, des, dBs, dCs = (), (), (), ()
        for k in tl.static_range(STEPS - 1, -1, -1):
            dh += Cs[k][:, None] * dys[k][None, :]
            dCs += (_own_channels(dys[k][None, :] * hs[k + 1]),)
            dBs += (_own_channels(us[k][None, :] * dh),)
            dus += (_own_states(Bs[k][:, None] * dh, LANES),)
            dh *= decays[k]  # from here on the gradient of h_{t-1}
            e = dh * hs[k]
            sum_A += deltas[k][None, :] * e
            des += (_own_states(rate * e, LANES),)
        _write(dB + start * n + at_sum, _over_channels(_turned(dBs), LOG_FOURS), here_s, EVEN)
        _write(dC + start * n + at_sum, _over_channels(_turned(dCs), LOG_FOURS), here_s, EVEN)
        du_p, de_p = _over_states(_turned(dus), LOG_LANES), _over_states(_turned(des), LOG_LANES)
        _write(dx + start * channels + at_c, delta_p * du_p + D_c * dy_p, here, EVEN)
        raw_p = _read(dt + start * channels + at_c, here, EVEN) + bias_c  # read again: registers were full until now
        ddt_p = (de_p * LN2 + x_p * du_p) * sigmoid(raw_p)
        _write(ddt + start * channels + at_c, ddt_p, here, EVEN)
        sum_bias += ddt_p
    _write(dA + row * n * channels + state, sum_A, inside, EVEN)
    _write(dbias + row * channels + c, tl.sum(sum_bias, axis=1), inside_c, EVEN)
    _write(dD + row * channels + c, tl.sum(sum_D, axis=1), inside_c, EVEN)
