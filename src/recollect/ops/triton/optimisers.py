"""The kernels of a step of AdamW, Lion and schedule-free AdamW over stacked parameters; formulas, definitions and columns in
ops/optimisers.py.

One pass: every number of a parameter, its gradient and its state is read once and written once.

Shapes: parameters, gradients and state (members, ...), contiguous; scales (members, columns).
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.optimisers import AdamWScales, LionScales, ScheduleFreeScales

BLOCK = 1024


def adamw_step(p: Tensor, g: Tensor, m: Tensor, v: Tensor, scales: Tensor, decays: bool) -> None:
    """Move p, m and v in place."""
    _launch(_adamw_kernel, [p, g, m, v], scales, decays, AdamWScales)


def lion_step(p: Tensor, g: Tensor, m: Tensor, scales: Tensor, decays: bool) -> None:
    """Move p and m in place."""
    _launch(_lion_kernel, [p, g, m], scales, decays, LionScales)


def schedule_free_step(y: Tensor, g: Tensor, z: Tensor, v: Tensor, scales: Tensor, decays: bool) -> None:
    """Move y, z and v in place."""
    _launch(_schedule_free_kernel, [y, g, z, v], scales, decays, ScheduleFreeScales)


def _launch(kernel: Any, tensors: list[Tensor], scales: Tensor, decays: bool, columns: Any) -> None:
    """Run a kernel for every number of the first tensor; the second is the gradient. A kernel gets the column of each of a
    member's numbers by its name in upper case."""
    p, g, *state = tensors
    members, size = len(p), p[0].numel()
    places = {name.upper(): column for column, name in enumerate(columns._fields)}
    with torch.cuda.device_of(p):
        kernel[members, triton.cdiv(size, BLOCK)](
            p, g.contiguous(), *state, scales, size, DECAYS=decays, BLOCK=BLOCK, COLUMNS=len(places), **places
        )


@triton.jit
def _entries(scales, size, BLOCK: tl.constexpr, COLUMNS: tl.constexpr):
    """The offsets of a program's numbers, their mask, and the row of scales of its member."""
    member = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    return member * size + i, i < size, scales + member * COLUMNS


@triton.jit
def _adamw_kernel(
    p, g, m, v, scales, size, DECAYS: tl.constexpr, BLOCK: tl.constexpr, COLUMNS: tl.constexpr,
    CLIP: tl.constexpr, SHRINK: tl.constexpr, RATE: tl.constexpr, EPS: tl.constexpr, NEW_MEAN: tl.constexpr,
    KEEP_SQUARE: tl.constexpr, NEW_SQUARE: tl.constexpr, CORRECTION: tl.constexpr,
):  # fmt: skip
    at, inside, scales = _entries(scales, size, BLOCK, COLUMNS)
    clip, shrink, rate = tl.load(scales + CLIP), tl.load(scales + SHRINK), tl.load(scales + RATE)
    eps, new_mean, keep_square = tl.load(scales + EPS), tl.load(scales + NEW_MEAN), tl.load(scales + KEEP_SQUARE)
    new_square, correction = tl.load(scales + NEW_SQUARE), tl.load(scales + CORRECTION)
    p_i, g_i = tl.load(p + at, mask=inside), tl.load(g + at, mask=inside).to(tl.float32) * clip
    m_i, v_i = tl.load(m + at, mask=inside), tl.load(v + at, mask=inside)
    if DECAYS:
        p_i *= shrink
    m_i += (g_i - m_i) * new_mean
    v_i = v_i * keep_square + g_i * g_i * new_square
    tl.store(p + at, p_i - rate * m_i / (tl.sqrt(v_i) / correction + eps), mask=inside)
    tl.store(m + at, m_i, mask=inside)
    tl.store(v + at, v_i, mask=inside)


@triton.jit
def _lion_kernel(
    p, g, m, scales, size, DECAYS: tl.constexpr, BLOCK: tl.constexpr, COLUMNS: tl.constexpr,
    CLIP: tl.constexpr, SHRINK: tl.constexpr, RATE: tl.constexpr, NEW_DIRECTION: tl.constexpr, NEW_MEAN: tl.constexpr,
):  # fmt: skip
    at, inside, scales = _entries(scales, size, BLOCK, COLUMNS)
    clip, shrink, rate = tl.load(scales + CLIP), tl.load(scales + SHRINK), tl.load(scales + RATE)
    new_direction, new_mean = tl.load(scales + NEW_DIRECTION), tl.load(scales + NEW_MEAN)
    p_i, m_i = tl.load(p + at, mask=inside), tl.load(m + at, mask=inside)
    g_i = tl.load(g + at, mask=inside).to(tl.float32) * clip
    if DECAYS:
        p_i *= shrink
    direction = m_i + (g_i - m_i) * new_direction
    sign = (direction > 0).to(tl.float32) - (direction < 0).to(tl.float32)
    tl.store(p + at, p_i - rate * sign, mask=inside)
    tl.store(m + at, m_i + (g_i - m_i) * new_mean, mask=inside)


@triton.jit
def _schedule_free_kernel(
    y, g, z, v, scales, size, DECAYS: tl.constexpr, BLOCK: tl.constexpr, COLUMNS: tl.constexpr,
    CLIP: tl.constexpr, RATE: tl.constexpr, AHEAD: tl.constexpr, DECAY: tl.constexpr, EPS: tl.constexpr,
    KEEP_SQUARE: tl.constexpr, NEW_SQUARE: tl.constexpr, CORRECTION: tl.constexpr, NEWEST: tl.constexpr,
):  # fmt: skip
    at, inside, scales = _entries(scales, size, BLOCK, COLUMNS)
    clip, rate, ahead = tl.load(scales + CLIP), tl.load(scales + RATE), tl.load(scales + AHEAD)
    decay, eps, newest = tl.load(scales + DECAY), tl.load(scales + EPS), tl.load(scales + NEWEST)
    keep_square, new_square = tl.load(scales + KEEP_SQUARE), tl.load(scales + NEW_SQUARE)
    correction = tl.load(scales + CORRECTION)
    y_i, z_i, v_i = tl.load(y + at, mask=inside), tl.load(z + at, mask=inside), tl.load(v + at, mask=inside)
    g_i = tl.load(g + at, mask=inside).to(tl.float32) * clip
    v_i = v_i * keep_square + g_i * g_i * new_square
    direction = g_i / (tl.sqrt(v_i / correction) + eps)
    if DECAYS:
        direction += decay * y_i
    tl.store(y + at, y_i + (z_i - y_i) * newest - ahead * direction, mask=inside)
    tl.store(z + at, z_i - rate * direction, mask=inside)
    tl.store(v + at, v_i, mask=inside)
