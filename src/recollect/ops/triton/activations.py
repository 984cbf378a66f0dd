"""Activations inside kernels, in few instructions: powers of two and reciprocal roots have one of their own, where
exponentials and divisions take several."""

import triton
import triton.language as tl

from recollect.ops.triton.parts import computed_once

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def softplus(x):
    """log(1 + exp(x)) of a matrix, to 1.4e-6 of itself.

    The polynomial is log(1 + e) / e for e from 0 to 1 (benchmarks/fit_activations.py): a third of the instructions of tl.log,
    and no digits lost for small e.
    """
    e = tl.exp2(-tl.abs(x) * LOG2E)
    tail = -0.23503861 + e * (0.14922389 + e * (-0.066401809 + e * 0.014141026))
    y = tl.maximum(x, 0) + e * (0.99999873 + e * (-0.49986966 + e * (0.33109449 + e * tail)))
    return computed_once(y)


@triton.jit
def sigmoid(x):
    """1 / (1 + exp(-x))"""
    d = 1 + tl.exp2(-x * LOG2E)
    return tl.rsqrt(d * d)
