"""Mamba2 between its projections: what it is made of, one token after another."""

import pytest
import torch
import torch.nn.functional as F

from recollect.ops.mamba2 import EPS, mamba2
from recollect.ops.short_conv import short_conv_definition
from recollect.ops.ssd import ssd_definition


@pytest.mark.parametrize("length", [1, 65])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("more", [0, 3])
def test_it_is_convolution_recurrence_gate_and_norm(groups, length, more):
    torch.manual_seed(groups)
    heads, p, n = 4, 3, 5
    inner, channels = heads * p, heads * p + 2 * groups * n
    shapes = (
        (2, length, inner + channels + heads + more),
        (channels, 4),
        (channels,),
        (heads,),
        (heads,),
        (heads,),
        (inner,),
    )
    projected, taps, b, b_dt, A_log, D, w = (torch.randn(shape).double() for shape in shapes)
    z, xBC, dt, _ = projected.split([inner, channels, heads, more], dim=-1)
    dt = F.softplus(dt + b_dt)
    x, B, C = short_conv_definition(xBC, taps, b, "silu").split([inner, groups * n, groups * n], dim=-1)
    x = x.unflatten(-1, (heads, p))
    B, C = (t.unflatten(-1, (groups, n)).repeat_interleave(heads // groups, dim=2) for t in (B, C))
    y = ssd_definition(dt[..., None] * x, -A_log.exp() * dt, B, C) + D[:, None] * x
    g = y.flatten(-2) * z * z.sigmoid()
    by_group = g.unflatten(-1, (groups, -1))
    expected = w * (by_group / (by_group.square().mean(-1, keepdim=True) + EPS).sqrt()).flatten(-2)
    torch.testing.assert_close(mamba2(projected, taps, b, b_dt, A_log, D, w, groups), expected, rtol=1e-9, atol=1e-9)
