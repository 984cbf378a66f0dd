"""Four steps of a scan at once, and sums over its states and channels, with few instructions that move numbers between threads.

Memory is read four channels per thread, so one has four channels of every LANES-th state, of (n, channels). A sum over states
or channels is first taken within threads; the rest of all four steps is then exchanged between threads at once, so that a thread
has all that it adds (`split` causes that: as reductions these sums would take a shuffle per number and halving). A part is read
and written as one tensor (..., 4) and split into steps.
"""

import triton
import triton.language as tl

PART = 4
"""Steps of a part. `split_steps` and `join_steps` are for four."""
STEPS = tl.constexpr(PART)


@triton.jit
def computed_once(x):
    """x as a sum of one term: without it every thread that needs a number computes it, four times in all."""
    return tl.sum(tl.reshape(x, [x.shape[0], x.shape[1], 1]), axis=2)


@triton.jit
def split_steps(x):
    """(rows, 4) -> four steps of (rows,)."""
    even, odd = tl.split(tl.reshape(x, [x.shape[0], 2, 2]))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first, second, third, fourth


@triton.jit
def join_steps(steps):
    """Four steps of (...) -> (..., 2, 2), which is (..., 4) in order."""
    return tl.join(tl.join(steps[0], steps[2]), tl.join(steps[1], steps[3]))


@triton.jit
def reversed_steps(steps):
    """Four steps, the last first."""
    return steps[3], steps[2], steps[1], steps[0]


@triton.jit
def summed(x, HALVINGS: tl.constexpr):
    """(rows, 2, 2, 2^halvings) -> (rows, 4): the sums over the last axis."""
    rows: tl.constexpr = x.shape[0]
    x = tl.reshape(x, [rows * 4, x.shape[3]])
    for _ in tl.static_range(HALVINGS):
        a, b = tl.split(tl.reshape(x, [rows * 4, x.shape[1] // 2, 2]))
        x = a + b
    return tl.reshape(x, [rows, 4])


@triton.jit
def sum_states(x, LANES: tl.constexpr):
    """(n, channels) -> (lanes, channels): sums over the states that a thread has."""
    return tl.sum(tl.reshape(x, [x.shape[0] // LANES, LANES, x.shape[1]]), axis=0)


@triton.jit
def over_states(steps, LOG_LANES: tl.constexpr):
    """Four steps of (lanes, channels) -> (channels, 4)."""
    return summed(tl.permute(join_steps(steps), [1, 2, 3, 0]), LOG_LANES)


@triton.jit
def sum_channels(x):
    """(n, channels) -> (n, channels / 4): sums over the channels that a thread has."""
    return tl.sum(tl.reshape(x, [x.shape[0], x.shape[1] // 4, 4]), axis=2)


@triton.jit
def over_channels(steps, LOG_FOURS: tl.constexpr):
    """Four steps of (n, channels / 4) -> (n, 4)."""
    return summed(tl.permute(join_steps(steps), [0, 2, 3, 1]), LOG_FOURS)
