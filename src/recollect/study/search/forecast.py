"""Which runs a window search will most probably ask for after the present round: what fills a cohort that has room.

The search decides by the results of its rounds alone, and runs that it has not asked for change no decision. So a device that
has room can train runs ahead: whole sweeps that agree with what is known are imagined, and the search is replayed on each of
them, to see how often it asks for which points.
"""

import random
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

from recollect.study.search.finder import Point, WindowFinder

SWEEPS = 128
"""How many sweeps are imagined."""
LEAST = 0.2
"""How probable a run must be to be trained ahead. On nine recorded sweeps the search then takes 2.1 rounds instead of 3.8, and
50 % of the dense grid's runs instead of 36 % (benchmarks/window_search.py); a round costs a GPU as much as nine more runs."""
NARROW = 0.5
"""How probable a window is that lies between two rates that fail, where no rate has passed yet."""
AGREE = 0.9
"""How probable another seed agrees with those known at its rate."""


def likely_points(finder: WindowFinder, results: Mapping[Point, float]) -> dict[Point, float]:
    """The points that the search will probably ask for after its present round, and how probable that is, if at least `LEAST`.
    The same results give the same points."""
    missing = finder.next_points(results)
    if not missing:
        return {}
    generator = random.Random(repr(sorted(results.items())))
    tally: Counter[Point] = Counter()
    for _ in range(SWEEPS):
        tally.update(finder.asked(_imagined(finder, results, generator)))
    return {
        point: n / SWEEPS
        for point, n in tally.items()
        if n >= LEAST * SWEEPS and point not in results and point not in missing
    }


def _imagined(finder: WindowFinder, results: Mapping[Point, float], generator: random.Random) -> dict[Point, float]:
    """A whole sweep that agrees with the results: each change from passing to failing lies anywhere between known rates."""
    means = {}
    for i, rate in enumerate(finder.rates):
        own = [results[rate, seed] for seed in finder.seeds if (rate, seed) in results]
        if own:
            means[i] = sum(x for x in own if x == x) / len(own) / finder.threshold
    passes = {i: mean >= 1 for i, mean in means.items()}
    if not passes:
        low, width = generator.randrange(-2, len(finder.rates)), generator.randrange(len(finder.rates))
        shape = [low <= i <= low + width for i in range(len(finder.rates))]
    else:
        shape = _between(means, len(finder.rates), generator)
        if not any(passes.values()) and generator.random() < NARROW:
            start, width = generator.randrange(len(shape)), generator.randrange(1, 4)
            shape = [start <= i < start + width and i not in passes for i in range(len(shape))]
    sweep = dict(results)
    for i, (rate, inside) in enumerate(zip(finder.rates, shape, strict=True)):
        for seed in finder.seeds:
            agrees = i not in passes or generator.random() < AGREE
            sweep.setdefault((rate, seed), float(inside == agrees))
    return sweep


def _between(means: Mapping[int, float], count: int, generator: random.Random) -> list[bool]:
    """Whether each rate passes, given the accuracy at some, over the threshold: between two of which one passes, the change lies
    anywhere, but the nearer to the one that fails, the nearer that is to passing."""
    places = sorted(means)
    shape = [means[places[0]] >= 1] * count
    for a, b in pairwise(places):
        left, right = means[a] >= 1, means[b] >= 1
        change = b
        if left != right:
            apart = 1 + int(generator.random() * (b - a) * (1 - min(means[a], means[b])))  # from the one that fails
            change = a + apart if right else b - apart + 1
        shape[a:change], shape[change:] = [left] * (change - a), [right] * (count - change)
    return shape
