"""Kernels of the selective scan (Gu & Dao 2023); formula and plain form in ops/selective_scan.py.

    delta_t = softplus(dt_t + bias)        decay_t = exp(delta_t A) = 2^(delta_t rate)
    h_t = decay_t h_{t-1} + u_t B_t        y_t = C_t . h_t + D x_t        out_t = y_t silu(z_t), where there is a gate z

A program, one warp, takes one row and a block of channels through time with the states in registers, a part (four steps)
at once. Forward keeps the state before each part; backward takes the parts from the last to the first, computes their
states and decays again and walks them backwards:

    dh_t = C_t dy_t + decay_{t+1} dh_{t+1}        dC_t = sum_c dy_t h_t        dB_t = sum_c u_t dh_t
    du_t = B_t . dh_t                             dx_t = delta_t du_t + D dy_t dD = sum_t dy_t x_t
    e_t = dh_t decay_t h_{t-1}                    ddelta_t = A . e_t + x_t du_t
    dA = sum_t delta_t e_t                        ddt_t = ddelta_t sigmoid(dt_t + bias), dbias = sum_t ddt_t
    dy_t = dout_t silu(z_t)                       dz_t = dout_t y_t silu'(z_t) = dout_t out_t (1 / z_t + 1 - sigmoid(z_t))

so y need not be saved: it is computed from out, as exactly as out is, because a z near zero is replaced by NEVER. Sums over
blocks of channels (dB, dC) and over rows (dA, dbias, dD) are left to PyTorch: the same bits on every run. They are few because
tensors that are summed alike are side by side: B and C of each token, and A, bias and D of each channel.

The kernels are bound by instructions, above all those that move numbers between threads: parts.py describes the sums.

Glossary: h = state; delta = step size; u = delta x; A, B, C, D as in the paper; rate = A / ln 2; e = the gradient of delta A;
s, c = indices of states and channels; AbD = A's n columns, bias and D; kept = the states before each part. Shapes: x, dt, z, y,
out (groups, batch, length, channels), AbD (groups, n + 2, channels), in float32, BC (groups, batch, length, 2 n), kept (groups,
batch, parts, n, channels). A row is one of groups * batch.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton.activations import sigmoid, softplus
from recollect.ops.triton.parts import (
    PART,
    STEPS,
    computed_once,
    over_channels,
    over_states,
    reversed_steps,
    split_steps,
    sum_channels,
    sum_states,
)  # fmt: skip
from recollect.ops.triton.tiles import read_float, write

LN2 = tl.constexpr(0.6931471805599453)
NEVER = tl.constexpr(1e-15)
FORWARD, BACKWARD = 512, 256
"""About how many numbers the state of a program has: 16 and 8 per thread. Backward holds nine such states in registers."""


class Gate(NamedTuple):
    """The tensors of the gate in backward, out = y * silu(z). Its shapes are those of x."""

    z: Tensor
    """The gate before its activation, a view of the projection."""
    out: Tensor
    """The result of forward."""
    dz: Tensor
    """Is filled; a view of the projection's gradient."""


def outputs(x: Tensor, AbD: Tensor) -> tuple[Tensor, Tensor]:
    """Empty tensors for y and the kept states, which have the precision of x, but never float16: its range is too small."""
    groups, batch, length, channels = x.shape
    dtype = torch.bfloat16 if x.dtype == torch.bfloat16 else torch.float32
    kept = x.new_empty(groups, batch, triton.cdiv(length, PART), AbD.shape[1] - 2, channels, dtype=dtype)
    return x.new_empty(x.shape), kept


def forward(x: Tensor, dt: Tensor, AbD: Tensor, BC: Tensor, z: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The result y, or y * silu(z), and the state before each part."""
    x, dt, AbD, BC = x.contiguous(), dt.contiguous(), AbD.contiguous(), _tokens(BC)
    out, kept = outputs(x, AbD)
    gate = BC if z is None else _tokens(z)  # BC in place of a gate that is not read
    programs, options = _division(x, AbD, BC, gate, z is not None, FORWARD)
    with torch.cuda.device_of(x):
        _forward_kernel[(programs,)](x, dt, AbD, BC, gate, out, kept, *x.shape[1:3], **options)
    return out, kept


def backward(
    grad: Tensor, x: Tensor, dt: Tensor, AbD: Tensor, BC: Tensor, kept: Tensor, dBC: Tensor, gate: Gate | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x, dt and AbD. Fills dBC and the gate's dz, which may be views."""
    grad, x, dt, AbD, kept, BC = *(t.contiguous() for t in (grad, x, dt, AbD, kept)), _tokens(BC)
    groups, batch, length, channels = x.shape
    z, out, dz = (BC,) * 3 if gate is None else (_tokens(gate.z), gate.out.contiguous(), gate.dz.view(-1, channels))
    programs, options = _division(x, AbD, BC, z, gate is not None, BACKWARD)
    dx, ddt = torch.empty_like(x), torch.empty_like(dt)
    dAbD = x.new_empty(groups, batch, *AbD.shape[1:], dtype=torch.float32)
    dtype = BC.dtype if BC.dtype == torch.bfloat16 else torch.float32
    summands = BC.new_empty(programs // (groups * batch), *dBC.shape, dtype=dtype)
    with torch.cuda.device_of(x):
        _backward_kernel[(programs,)](
            grad, x, dt, AbD, BC, z, out, kept, dx, ddt, dAbD, summands, dz, batch, length, DZ_TIME=dz.stride(0), **options
        )  # fmt: skip
    torch.sum(summands, dim=0, out=dBC) if dtype == dBC.dtype else dBC.copy_(summands.sum(0))
    return dx, ddt, dAbD.sum(1)


def _tokens(x: Tensor) -> Tensor:
    """(tokens, width): a view of a part of a projection, with a stride between tokens."""
    x = x.flatten(0, 2)
    return x if x.stride(1) == 1 else x.contiguous()


def _division(x: Tensor, AbD: Tensor, BC: Tensor, z: Tensor, gated: bool, tile: int) -> tuple[int, dict]:
    """How many programs of `tile` numbers there are, and what is compiled in."""
    groups, batch, length, channels = x.shape
    n = AbD.shape[1] - 2
    states = triton.next_power_of_2(n)
    block = max(8, min(triton.next_power_of_2(channels), 128, tile // states))
    even = n == states and channels % block == 0 and length % PART == 0  # then nothing needs a mask
    lanes = min(states, 128 // block)  # of the 32 threads of a warp, with four channels each
    options = {
        "CHANNELS": channels, "STATES": n, "BC_TIME": BC.stride(0), "Z_TIME": z.stride(0), "N": states, "BLOCK": block,
        "LANES": lanes, "LOG_LANES": lanes.bit_length() - 1, "LOG_FOURS": block.bit_length() - 3, "EVEN": even,
        "GATED": gated, "num_warps": 1,
    }  # fmt: skip
    return groups * batch * triton.cdiv(channels, block), options


@triton.jit
def _not_zero(z):
    return tl.where(tl.abs(z) < NEVER, NEVER, z)


@triton.jit
def _read_AbD(AbD, state, c, inside, inside_c, CHANNELS: tl.constexpr, STATES: tl.constexpr, EVEN: tl.constexpr):
    """rate (n, channels), bias and D (channels, 1)."""
    rate = read_float(AbD + state, inside, EVEN) / LN2
    bias = read_float(AbD + STATES * CHANNELS + c, inside_c, EVEN)[:, None]
    return rate, bias, read_float(AbD + (STATES + 1) * CHANNELS + c, inside_c, EVEN)[:, None]


@triton.jit
def _forward_kernel(
    x, dt, AbD, BC, z, out, kept, batch, length,
    CHANNELS: tl.constexpr, STATES: tl.constexpr, BC_TIME: tl.constexpr, Z_TIME: tl.constexpr, N: tl.constexpr,
    BLOCK: tl.constexpr, LANES: tl.constexpr, LOG_LANES: tl.constexpr, LOG_FOURS: tl.constexpr, EVEN: tl.constexpr,
    GATED: tl.constexpr,
):  # fmt: skip
    blocks: tl.constexpr = tl.cdiv(CHANNELS, BLOCK)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    group, first = row // batch, row * length
    i = tl.arange(0, STEPS)
    c = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    s = tl.arange(0, N)
    state = s[:, None] * CHANNELS + c[None, :]  # (n, channels)
    inside_c, inside_s = c < CHANNELS, s < STATES
    inside = inside_s[:, None] & inside_c[None, :]
    AbD += group * (STATES + 2) * CHANNELS
    rate, bias, D = _read_AbD(AbD, state, c, inside, inside_c, CHANNELS, STATES, EVEN)
    at_c = first * CHANNELS + i[None, :] * CHANNELS + c[:, None]  # (channels, steps)
    at_z = first * Z_TIME + i[None, :] * Z_TIME + c[:, None]
    at_s = first * BC_TIME + i[None, :] * BC_TIME + s[:, None]  # (n, steps)
    parts = tl.cdiv(length, STEPS)
    kept += row * parts * STATES * CHANNELS + tl.max_contiguous(state, [1, 4])  # four per thread in bfloat16 too
    h = tl.zeros([N, BLOCK], tl.float32)
    for part in tl.range(parts, num_stages=4):  # the next three are read while one is computed
        start = part * STEPS
        # Past the end x, B and C are read as zero: nothing is written into h, and its value is not used.
        here = inside_c[:, None] & (start + i < length)[None, :]
        here_s = inside_s[:, None] & (start + i < length)[None, :]
        write(kept + part * STATES * CHANNELS, h, inside, EVEN)
        x_p = read_float(x + start * CHANNELS + at_c, here, EVEN)
        delta_p = softplus(read_float(dt + start * CHANNELS + at_c, here, EVEN) + bias)
        B_p = read_float(BC + start * BC_TIME + at_s, here_s, EVEN)
        C_p = read_float(BC + STATES + start * BC_TIME + at_s, here_s, EVEN)
        if GATED:
            z_p = _not_zero(
                read_float(z + start * Z_TIME + at_z, here, EVEN)
            )  # not below: a read waits for earlier writes
        deltas, us, Bs, Cs, ys = (
            split_steps(delta_p),
            split_steps(delta_p * x_p),
            split_steps(B_p),
            split_steps(C_p),
            (),
        )
        for k in tl.static_range(STEPS):
            h = tl.exp2(deltas[k][None, :] * rate) * h + us[k][None, :] * Bs[k][:, None]
            ys += (sum_states(h * Cs[k][:, None], LANES),)
        y_p = over_states(ys, LOG_LANES) + D * x_p
        if GATED:
            y_p *= z_p * sigmoid(z_p)
        write(out + start * CHANNELS + at_c, y_p, here, EVEN)


@triton.jit
def _backward_kernel(
    grad, x, dt, AbD, BC, z, out, kept, dx, ddt, dAbD, dBC, dz, batch, length,
    CHANNELS: tl.constexpr, STATES: tl.constexpr, BC_TIME: tl.constexpr, Z_TIME: tl.constexpr, DZ_TIME: tl.constexpr,
    N: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, LOG_LANES: tl.constexpr, LOG_FOURS: tl.constexpr,
    EVEN: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
    blocks: tl.constexpr = tl.cdiv(CHANNELS, BLOCK)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    block = tl.program_id(0) % blocks
    group, first = row // batch, row * length
    i = tl.arange(0, STEPS)
    c = block * BLOCK + tl.arange(0, BLOCK)
    s = tl.arange(0, N)
    state = s[:, None] * CHANNELS + c[None, :]  # (n, channels)
    inside_c, inside_s = c < CHANNELS, s < STATES
    inside = inside_s[:, None] & inside_c[None, :]
    AbD += group * (STATES + 2) * CHANNELS
    rate, bias, D = _read_AbD(AbD, state, c, inside, inside_c, CHANNELS, STATES, EVEN)
    at_c = first * CHANNELS + i[None, :] * CHANNELS + c[:, None]  # (channels, steps)
    at_z = first * Z_TIME + i[None, :] * Z_TIME + c[:, None]
    at_dz = first * DZ_TIME + i[None, :] * DZ_TIME + c[:, None]
    at_s = first * BC_TIME + i[None, :] * BC_TIME + s[:, None]  # (n, steps)
    summand = (block * (tl.num_programs(0) // blocks) + row) * length  # of the sums over blocks of channels
    at_sum = (summand + i[None, :]) * (2 * STATES) + s[:, None]
    parts = tl.cdiv(length, STEPS)
    kept += row * parts * STATES * CHANNELS + tl.max_contiguous(state, [1, 4])
    dh = tl.zeros([N, BLOCK], tl.float32)
    sum_A = tl.zeros([N, BLOCK], tl.float32)
    sum_bias = tl.zeros([BLOCK, STEPS], tl.float32)
    sum_D = tl.zeros([BLOCK, STEPS], tl.float32)
    for later in tl.range(parts, num_stages=3):
        part = parts - 1 - later
        start = part * STEPS
        here = inside_c[:, None] & (start + i < length)[None, :]
        here_s = inside_s[:, None] & (start + i < length)[None, :]
        dy_p = read_float(grad + start * CHANNELS + at_c, here, EVEN)
        if GATED:
            z_p = _not_zero(read_float(z + start * Z_TIME + at_z, here, EVEN))
            out_p = read_float(out + start * CHANNELS + at_c, here, EVEN)
            open_p, root_p = sigmoid(z_p), tl.rsqrt(z_p * z_p)
            write(dz + start * DZ_TIME + at_dz, dy_p * out_p * (z_p * root_p * root_p + (1 - open_p)), here, EVEN)
            dy_p *= z_p * open_p
        dy_p = computed_once(dy_p)
        x_p = read_float(x + start * CHANNELS + at_c, here, EVEN)
        raw_p = read_float(dt + start * CHANNELS + at_c, here, EVEN) + bias
        delta_p = softplus(raw_p)
        sum_D += dy_p * x_p
        h = read_float(kept + part * STATES * CHANNELS, inside, EVEN)
        B_p = read_float(BC + start * BC_TIME + at_s, here_s, EVEN)
        C_p = read_float(BC + STATES + start * BC_TIME + at_s, here_s, EVEN)
        deltas, us, dys, Bs, Cs = (
            split_steps(delta_p),
            split_steps(delta_p * x_p),
            split_steps(dy_p),
            split_steps(B_p),
            split_steps(C_p),
        )
        hs, decays = (h,), ()
        for k in tl.static_range(STEPS):
            decays += (tl.exp2(deltas[k][None, :] * rate),)
            hs += (decays[k] * hs[k] + us[k][None, :] * Bs[k][:, None],)
        dus, des, dBs, dCs = (), (), (), ()
        for k in tl.static_range(STEPS - 1, -1, -1):
            dh += Cs[k][:, None] * dys[k][None, :]
            dCs += (sum_channels(dys[k][None, :] * hs[k + 1]),)
            dBs += (sum_channels(us[k][None, :] * dh),)
            dus += (sum_states(Bs[k][:, None] * dh, LANES),)
            dh *= decays[k]  # from here on the gradient of h_{t-1}
            e = dh * hs[k]
            sum_A += deltas[k][None, :] * e
            des += (sum_states(rate * e, LANES),)
        write(dBC + start * (2 * STATES) + at_sum, over_channels(reversed_steps(dBs), LOG_FOURS), here_s, EVEN)
        write(dBC + STATES + start * (2 * STATES) + at_sum, over_channels(reversed_steps(dCs), LOG_FOURS), here_s, EVEN)
        du_p, de_p = over_states(reversed_steps(dus), LOG_LANES), over_states(reversed_steps(des), LOG_LANES)
        write(dx + start * CHANNELS + at_c, delta_p * du_p + D * dy_p, here, EVEN)
        ddt_p = (de_p * LN2 + x_p * du_p) * sigmoid(raw_p)
        write(ddt + start * CHANNELS + at_c, ddt_p, here, EVEN)
        sum_bias += ddt_p
    dAbD += row * (STATES + 2) * CHANNELS
    write(dAbD + state, sum_A, inside, EVEN)
    write(dAbD + STATES * CHANNELS + c, tl.sum(sum_bias, axis=1), inside_c, EVEN)
    write(dAbD + (STATES + 1) * CHANNELS + c, tl.sum(sum_D, axis=1), inside_c, EVEN)
