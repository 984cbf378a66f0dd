"""The kernels of a step of Lion and of schedule-free AdamW over stacked parameters; formulas, definitions and columns in
ops/lion.py and ops/schedule_free.py.

One pass: every number of a parameter, its gradient and its state is read once and written once.

Shapes: parameters, gradients and state (members, ...), contiguous; scales (members, columns).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.lion import Scales as LionScales
from recollect.ops.schedule_free import Scales as ScheduleFreeScales

BLOCK = 1024
_LION = {name.upper(): column for column, name in enumerate(LionScales._fields)}
_SCHEDULE_FREE = {name.upper(): column for column, name in enumerate(ScheduleFreeScales._fields)}


def lion_step(p: Tensor, g: Tensor, m: Tensor, scales: Tensor, decays: bool) -> None:
    """Move p and m in place."""
    members, size = len(p), p[0].numel()
    with torch.cuda.device_of(p):
        _lion_kernel[members, triton.cdiv(size, BLOCK)](
            p, g.contiguous(), m, scales, size, DECAYS=decays, BLOCK=BLOCK, COLUMNS=len(_LION), **_LION
        )


def schedule_free_step(y: Tensor, g: Tensor, z: Tensor, v: Tensor, scales: Tensor, decays: bool) -> None:
    """Move y, z and v in place."""
    members, size = len(y), y[0].numel()
    with torch.cuda.device_of(y):
        _schedule_free_kernel[members, triton.cdiv(size, BLOCK)](
            y, g.contiguous(), z, v, scales, size,
            DECAYS=decays, BLOCK=BLOCK, COLUMNS=len(_SCHEDULE_FREE), **_SCHEDULE_FREE,
        )  # fmt: skip


@triton.jit
def _lion_kernel(
    p, g, m, scales, size, DECAYS: tl.constexpr, BLOCK: tl.constexpr, COLUMNS: tl.constexpr,
    CLIP: tl.constexpr, SHRINK: tl.constexpr, RATE: tl.constexpr, NEW_DIRECTION: tl.constexpr, NEW_MEAN: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = i < size
    at = member * size + i
    scales += member * COLUMNS
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
    member = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = i < size
    at = member * size + i
    scales += member * COLUMNS
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
