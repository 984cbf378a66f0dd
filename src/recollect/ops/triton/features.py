"""Feature maps of linear attention inside kernels; the formulas are in ops/linear_attention.py.

Tokens after a row's end need no zeros: keys there are read by queries there only, and those get no gradient.
"""

import triton
import triton.language as tl

from recollect.ops.linear_attention import EPSILON
from recollect.ops.triton.activations import LOG2E

NEAREST = tl.constexpr(EPSILON)


@triton.jit
def features(x, dim, DIM: tl.constexpr, FEATURE: tl.constexpr, EVEN: tl.constexpr):
    """phi(x), and zeros in the columns from `dim` on; EVEN: there are none."""
    if FEATURE == "elu":
        wide = x.to(tl.float32)
        below = tl.minimum(wide, 0.0, propagate_nan=tl.PropagateNan.ALL)
        phi = tl.exp2(below * LOG2E) + tl.maximum(wide, 0.0, propagate_nan=tl.PropagateNan.ALL)
        if not EVEN:
            phi = tl.where((tl.arange(0, DIM) < dim)[None, :], phi, 0.0)
        return phi.to(x.dtype)
    elif FEATURE == "relu":
        return tl.where(x < 0, 0.0, x).to(x.dtype)
    else:
        return x


@triton.jit
def to_input(dphi, phi, FEATURE: tl.constexpr):
    """The gradient of x from that of phi(x), whose slope follows from its value."""
    if FEATURE == "elu":
        return dphi * tl.minimum(phi.to(tl.float32), 1.0)
    elif FEATURE == "relu":
        return tl.where(phi > 0, dphi, 0.0)
    else:
        return dphi


@triton.jit
def reciprocal(divisor):
    """1 over it, moved away from zero."""
    return 1 / (divisor + tl.where(divisor < 0, -NEAREST, NEAREST))
