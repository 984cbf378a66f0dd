"""The one source of randomness: a stateless integer hash of (seed, purpose, row, draw).

Every random number of recollect is a pure function of these four. The same row of the same seed is the same on a CPU
and a GPU, alone or in a batch, and after a restart; there is no generator state to save. All
arithmetic is on wrapping 32-bit integers, which PyTorch computes alike on every device (CPUs vectorise them too).

    stream = rng.stream(seed=42, purpose="train", rows=torch.arange(512))    # one stream per row
    stream.integers(10, 0, 100)                                              # (512, 10) in [0, 100)

A stream is consumed by drawing: each draw takes the next `draw` number, so the order of draws within a task decides
its rows, and changing it changes every batch (`tests/test_rng.py` holds golden values).
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

_GOLDEN = -1640531527  # 2^32 / golden ratio, as a signed 32-bit integer
_SMALL = 256  # up to this many items a random order is drawn by sorting, beyond it by a keyed bijection
_ROUNDS = 6  # of that bijection: with five, labels that differ in their top bit after the first shift are uneven
_MOST = 2**31  # items that a bijection has: its arithmetic is on 32-bit integers


def _shift(x: Tensor, bits: int) -> Tensor:
    """Logical right shift (`>>` on signed integers copies the sign bit)."""
    return (x >> bits) & ((1 << (32 - bits)) - 1)


def _mix(x: Tensor) -> Tensor:
    """A bijective 32-bit finaliser (the "lowbias32" constants of C. Wellons); `x` is overwritten."""
    x ^= _shift(x, 16)
    x *= 0x7FEB352D
    x ^= _shift(x, 15)
    x *= -2073254261  # 0x846CA68B
    x ^= _shift(x, 16)
    return x


def _number(purpose: str) -> int:
    """A purpose's name as a signed 32-bit integer."""
    return int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:4], "big", signed=True)


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """The low and high 32 bits of 64-bit integers."""
    return (x & 0xFFFFFFFF).to(torch.int32), (x >> 32).to(torch.int32)


class Stream:
    """One independent stream of random numbers per row.

    `low` and `high` are the halves of each row's 64-bit key, `numbers` are the row numbers they were made from.
    """

    def __init__(self, low: Tensor, high: Tensor, numbers: Tensor):
        self.low, self.high, self.numbers, self.draws = low, high, numbers, 0

    @property
    def rows(self) -> int:
        """How many rows draw together."""
        return len(self.low)

    @property
    def device(self) -> torch.device:
        """Where the numbers are drawn."""
        return self.low.device

    def select(self, rows: Tensor) -> "Stream":
        """The streams of some rows, at the same draw."""
        picked = Stream(self.low[rows], self.high[rows], self.numbers[rows])
        picked.draws = self.draws
        return picked

    def _bits(self, n: int) -> Tensor:
        """32 random bits, as signed integers: (rows, n)."""
        self.draws += 1
        column = torch.arange(n, dtype=torch.int32, device=self.device) * _GOLDEN
        key = _mix(self.low + self.draws * 668265263)
        x = _mix(column + key[:, None])
        x += self.high[:, None]
        return _mix(x)

    def integers(self, n: int, low: int, high: int) -> Tensor:
        """Uniform integers in [low, high): (rows, n), int64. No probability is off by more than (high - low) / 2^32."""
        bits = self._bits(n).long() + 2**31
        return bits.mul_(high - low).bitwise_right_shift_(32).add_(low)

    def uniform(self, n: int) -> Tensor:
        """Uniform numbers in (0, 1): (rows, n), float64."""
        return self._bits(n).double().add_(2.0**31 + 0.5).mul_(2.0**-32)

    def order(self, n: int) -> Tensor:
        """A random permutation of range(n) per row: (rows, n), int64."""
        return self._bits(n).argsort(dim=1, stable=True)

    def bijection(self, n: int) -> "Bijection":
        """A random one-to-one map of range(n) onto itself per row, evaluated only where it is called."""
        return Bijection(self, n)

    def race(self, rates: Tensor, k: int, ordered: bool = True) -> Tensor:
        """`k` distinct items per row, drawn one after another with probability proportional to `rates`: (rows, k), int64.

        Exponential clocks: item i rings after Exp(rates_i), the first k to ring in order are the draw. Where only the
        set matters, not `ordered` is faster; the order is then arbitrary.
        """
        clocks = self.uniform(len(rates)).log_() / -rates.to(self.device, torch.float64)
        return clocks.topk(k, dim=1, largest=False, sorted=ordered).indices


class Bijection:
    """A keyed one-to-one map of range(n) onto itself, one per row.

    Small ranges look up a sorted random order. Large ones are computed on demand: rounds of multiply-add-xorshift on
    the next power of two, each invertible, repeated for the values that fall outside range(n) until they fall inside.
    """

    def __init__(self, stream: Stream, n: int):
        if n > _MOST:
            raise ValueError(f"a bijection has at most 2^31 = {_MOST} items, not {n}")
        self.n, self.width = n, (n - 1).bit_length()
        if n <= _SMALL:
            self.table = stream.order(n)
        else:
            keys = stream._bits(2 * _ROUNDS)
            self.factors, self.terms = keys[:, :_ROUNDS] | 1, keys[:, _ROUNDS:]

    def __call__(self, x: Tensor) -> Tensor:
        """The images of `x`, (rows, m) or (m,) in range(n): (rows, m), int64."""
        if self.n <= _SMALL:
            return self.table.gather(1, x.expand(len(self.table), -1))
        x = x.to(torch.int32).expand(len(self.factors), -1)
        y = self._scramble(x, self.factors[:, None], self.terms[:, None])
        while self.n < 1 << self.width:
            rows, columns = (y >= self.n).nonzero(as_tuple=True)
            if len(rows) == 0:
                break
            y[rows, columns] = self._scramble(y[rows, columns], self.factors[rows], self.terms[rows])
        return y.long()

    def _scramble(self, x: Tensor, factors: Tensor, terms: Tensor) -> Tensor:
        """One pass over `width` bits; the keys' last axis is the round."""
        mask, half = (1 << self.width) - 1, (self.width + 1) // 2
        x = x ^ (x >> half)
        for i in range(_ROUNDS):
            x *= factors[..., i]
            x += terms[..., i]
            x &= mask
            x ^= x >> half
        return x


def stream(seed: int | Tensor, purpose: str, rows: Tensor) -> Stream:
    """One stream for each row number in `rows`; `seed` is one number, or one per row."""
    rows = rows.long()
    seed = torch.as_tensor(seed, dtype=torch.int64, device=rows.device).expand_as(rows)
    seed_low, seed_high = _halves(seed)
    row_low, row_high = _halves(rows)
    low, high = torch.full_like(row_low, _number(purpose)), torch.full_like(row_low, _number(purpose + "'"))
    for part in (seed_low, seed_high, row_high, row_low):  # absorb one word after another into both halves
        low = _mix(low * 5 + part)
        high = _mix((high ^ part) + low * _GOLDEN)
    return Stream(low, high, rows)


@contextmanager
def seeded(seed: int, purpose: str) -> Iterator[None]:
    """A context in which PyTorch's own CPU generator is seeded, for its initialisers; its state is restored afterwards."""
    digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int.from_bytes(digest[:7], "big"))
        yield


class _Dropout:
    """Which member and step draws dropout masks now, and how many masks it has drawn in this pass."""

    def __init__(self, low: Tensor, high: Tensor):
        self.low, self.high, self.site = low, high, 0


_dropping: list[_Dropout] = []
"""The innermost `dropping` last. A plain list: torch.compile can follow it."""


@contextmanager
def dropping(key: Tensor) -> Iterator[None]:
    """A context in which `dropout` is active, with masks decided by `key`, a 0-d int64 (under vmap: one per member)."""
    _dropping.append(_Dropout(*_halves(key)))
    try:
        yield
    finally:
        _dropping.pop()


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero a share `p` of `x` and scale the rest, inside `dropping`; elsewhere (evaluation) return `x`."""
    if p == 0 or not _dropping:
        return x
    now = _dropping[-1]
    now.site += 1
    column = torch.arange(x.numel(), dtype=torch.int32, device=x.device) * _GOLDEN
    key = now.low * 5 + now.site * 668265263
    bits = _mix(_mix(column + key) + now.high)
    keep = bits.view(x.shape) >= int(p * 2**32) - 2**31
    return x * keep / (1 - p)
