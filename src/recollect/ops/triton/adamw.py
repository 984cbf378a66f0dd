"""The kernel of an AdamW step over stacked parameters; formula, definition and columns in ops/adamw.py.

One pass: every number of a parameter, its gradient and its two moments is read once and written once.

Shapes: p, g, m, v (members, ...), contiguous; scales (members, columns).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.adamw import Scales

BLOCK = 1024
_COLUMNS = {name.upper(): column for column, name in enumerate(Scales._fields)}
"""The column of each of a member's numbers."""


def step(p: Tensor, g: Tensor, m: Tensor, v: Tensor, scales: Tensor, decays: bool) -> None:
    """Move p, m and v in place."""
    members, size = len(p), p[0].numel()
    with torch.cuda.device_of(p):
        _step_kernel[members, triton.cdiv(size, BLOCK)](
            p, g.contiguous(), m, v, scales, size, DECAYS=decays, BLOCK=BLOCK, COLUMNS=len(_COLUMNS), **_COLUMNS
        )


@triton.jit
def _step_kernel(
    p, g, m, v, scales, size, DECAYS: tl.constexpr, BLOCK: tl.constexpr, COLUMNS: tl.constexpr,
    CLIP: tl.constexpr, SHRINK: tl.constexpr, RATE: tl.constexpr, EPS: tl.constexpr, NEW_MEAN: tl.constexpr,
    KEEP_SQUARE: tl.constexpr, NEW_SQUARE: tl.constexpr, CORRECTION: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = i < size
    at = member * size + i
    scales += member * COLUMNS
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
