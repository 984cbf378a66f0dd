"""The selective scan, S6 (Gu & Dao 2023): a diagonal state-space model whose step size, input and output depend on the token.

    delta_t = softplus(dt_t + bias)
    h_t = exp(delta_t A) h_{t-1} + delta_t x_t B_t        (one state of size n per channel)
    y_t = C_t . h_t + D x_t

Shapes: x, dt (batch, length, channels), bias (channels,), A (channels, n), B, C (batch, length, n), D (channels,), y as x.

Glossary: h = state; delta = step size (positive); dt = the token's part of it; A = rates of decay (negative); B, C = what a
token writes and reads; u = delta x.
"""

import torch
from torch import Tensor

from recollect.ops import triton as kernels
from recollect.ops.activations import softplus
from recollect.ops.fused import use_kernels
from recollect.ops.op import op
from recollect.ops.precision import in_float32
from recollect.ops.recurrence import over_time

CHUNK = 16
"""Steps between the states that are kept for backward; those in between are computed again."""
FORGOTTEN = -80.0
"""The least exponent of a decay: e^-80 is negligible, and below it the CPU's exponential is ten times slower."""


def selective_step(
    x: Tensor, dt: Tensor, bias: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, h: Tensor
) -> tuple[Tensor, Tensor]:
    """One token: x, dt (batch, channels), B, C (batch, n), and h (batch, channels, n) give y and the next h."""
    delta = softplus(dt + bias)
    h = torch.exp(delta[..., None] * A) * h + (delta * x)[..., None] * B[:, None]
    return (h * C[:, None]).sum(-1) + D * x, h


def selective_scan_definition(
    x: Tensor, dt: Tensor, bias: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor
) -> Tensor:
    """One token after another."""
    h = x.new_zeros(x.shape[0], *A.shape)
    return over_time(lambda x, dt, B, C, h: selective_step(x, dt, bias, A, B, C, D, h), h, x, dt, B, C, dim=1)


def selective_scan(x: Tensor, dt: Tensor, bias: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
    """The same with its own backward, which keeps few of the states, through our kernels where they apply."""
    if not use_kernels(x):
        return _step_by_step(x, dt, bias, A, B, C, D)
    y, _ = _kernels(*(t.unsqueeze(0) for t in (x, dt, side_by_side(bias, A, D), torch.cat([B, C], dim=-1))))
    return y.squeeze(0)


def side_by_side(bias: Tensor, A: Tensor, D: Tensor) -> Tensor:
    """The weights of each channel, as the kernels take them: (..., n + 2, channels), A's n columns, then bias and D."""
    return torch.cat([A.mT.float(), bias[..., None, :].float(), D[..., None, :].float()], dim=-2)


@in_float32
def _step_by_step(x: Tensor, dt: Tensor, bias: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
    """All rows and channels at once; one state in `CHUNK` is kept."""
    delta = softplus(dt + bias)
    y, _ = _scan(*(t.unsqueeze(0).contiguous() for t in (delta * x, delta, A, B, C)))
    return y.squeeze(0) + D * x


# Inside the ops a leading axis of groups (the members of a cohort) has its own A. Here the state is laid
# out (groups, batch, n, channels): channels last, so that every step is a few long vector operations.


def _decays(delta: Tensor, A: Tensor, out: Tensor) -> Tensor:
    return torch.mul(delta[:, :, None], A, out=out).clamp_(min=FORGOTTEN).exp_()  # (groups, batch, n, channels)


def _forward(u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor) -> tuple[Tensor, Tensor]:
    groups, batch, length, channels = u.shape
    A = A.transpose(1, 2)[:, None].contiguous()  # (groups, 1, n, channels)
    h = u.new_zeros(groups, batch, A.shape[2], channels)
    decay = torch.empty_like(h)
    y = torch.empty_like(u)
    states = u.new_empty(groups, batch, -(-length // CHUNK), *h.shape[2:])  # the state before each chunk
    for t in range(length):
        if t % CHUNK == 0:
            states[:, :, t // CHUNK] = h
        h.mul_(_decays(delta[:, :, t], A, decay)).addcmul_(u[:, :, t, None], B[:, :, t, :, None])
        y[:, :, t, None] = C[:, :, t, None] @ h
    return y, states


def _backward(
    grad: Tensor, u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, y: Tensor, states: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    length = u.shape[2]
    A = A.transpose(1, 2)[:, None].contiguous()  # (groups, 1, n, channels)
    state = states[:, :, 0].shape
    h = u.new_empty(CHUNK + 1, *state)
    decay = u.new_empty(CHUNK, *state)
    dh, dA, scratch = u.new_zeros(state), u.new_zeros(state), u.new_empty(state)
    du, ddelta, dB, dC = (torch.empty_like(t) for t in (u, delta, B, C))
    for start in reversed(range(0, length, CHUNK)):
        size = min(CHUNK, length - start)
        h[0] = states[:, :, start // CHUNK]
        for i in range(size):
            t = start + i
            torch.mul(h[i], _decays(delta[:, :, t], A, decay[i]), out=h[i + 1])
            h[i + 1].addcmul_(u[:, :, t, None], B[:, :, t, :, None])
        for i in reversed(range(size)):
            t = start + i
            dh.addcmul_(C[:, :, t, :, None], grad[:, :, t, None])
            dC[:, :, t, None] = grad[:, :, t, None] @ h[i + 1].transpose(-1, -2)
            dB[:, :, t, None] = u[:, :, t, None] @ dh.transpose(-1, -2)
            du[:, :, t, None] = B[:, :, t, None] @ dh
            dh.mul_(decay[i])  # from here on the gradient of h_{t-1}
            torch.mul(dh, h[i], out=scratch)  # the gradient of dt_t A
            dA.addcmul_(scratch, delta[:, :, t, None])
            torch.sum(scratch.mul_(A), dim=2, out=ddelta[:, :, t])
    return du, ddelta, dA.sum(1).transpose(1, 2).contiguous(), dB, dC


def _fake(u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor) -> tuple[Tensor, Tensor]:
    groups, batch, length, channels = u.shape
    return torch.empty_like(u), u.new_empty(groups, batch, -(-length // CHUNK), A.shape[2], channels)


_scan = op("selective_scan", _forward, _backward, _fake)


# The kernels take x, dt, B and C as they come, each in its own dtype, and sum in float32.


def _kernel_forward(x: Tensor, dt: Tensor, AbD: Tensor, BC: Tensor) -> tuple[Tensor, Tensor]:
    return kernels.selective_scan.forward(x, dt, AbD, BC)


def _kernel_backward(
    grad: Tensor, x: Tensor, dt: Tensor, AbD: Tensor, BC: Tensor, y: Tensor, states: Tensor
) -> tuple[Tensor, ...]:
    dBC = BC.new_empty(BC.shape)
    return *kernels.selective_scan.backward(grad, x, dt, AbD, BC, states, dBC), dBC


def _kernel_fake(x: Tensor, dt: Tensor, AbD: Tensor, BC: Tensor) -> tuple[Tensor, Tensor]:
    return kernels.selective_scan.outputs(x, AbD)


_kernels = op("selective_scan_kernel", _kernel_forward, _kernel_backward, _kernel_fake)
