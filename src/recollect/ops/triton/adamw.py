"""The kernel of an AdamW step over stacked parameters; formula and plain form in train/adamw.py.

One pass: every number of a parameter, its gradient and its two moments is read once and written once.

Shapes: p, g, m, v (members, ...), contiguous; scales (members, 8) as train/adamw.py stacks them.
"""

# pyright: reportCallIssue=false, reportOperatorIssue=false, reportGeneralTypeIssues=false, reportArgumentType=false
# (Triton's language looks like Python, but its types are its own.)

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


def step(p: Tensor, g: Tensor, m: Tensor, v: Tensor, scales: Tensor, decays: bool) -> None:
    """Move p, m and v in place."""
    members, size = len(p), p[0].numel()
    with torch.cuda.device_of(p):
        _step_kernel[members, triton.cdiv(size, BLOCK)](
            p, g.contiguous(), m, v, scales, size, DECAYS=decays, BLOCK=BLOCK
        )


@triton.jit
def _step_kernel(p, g, m, v, scales, size, DECAYS: tl.constexpr, BLOCK: tl.constexpr):
    member = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = i < size
    at = member * size + i
    scales += member * 8
    clip, shrink, rate, eps = tl.load(scales), tl.load(scales + 1), tl.load(scales + 2), tl.load(scales + 3)
    new_mean, keep_square, new_square = tl.load(scales + 4), tl.load(scales + 5), tl.load(scales + 6)
    correction = tl.load(scales + 7)
    p_i, g_i = tl.load(p + at, mask=inside), tl.load(g + at, mask=inside).to(tl.float32) * clip
    m_i, v_i = tl.load(m + at, mask=inside), tl.load(v + at, mask=inside)
    if DECAYS:
        p_i *= shrink
    m_i += (g_i - m_i) * new_mean
    v_i = v_i * keep_square + g_i * g_i * new_square
    tl.store(p + at, p_i - rate * m_i / (tl.sqrt(v_i) / correction + eps), mask=inside)
    tl.store(m + at, m_i, mask=inside)
    tl.store(v + at, v_i, mask=inside)
