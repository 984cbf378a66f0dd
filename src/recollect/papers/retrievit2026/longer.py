"""The claims of Figures 4, 12 and the control `residual` about sequences longer than those trained on."""

from collections.abc import Callable
from itertools import product

from recollect.analysis.efficiency import log_times
from recollect.analysis.groups import groups
from recollect.analysis.pooled import pool
from recollect.analysis.window import THRESHOLD
from recollect.papers.estimates import Estimate, NotEnough, mean_of
from recollect.papers.examples import examples_needed, ratio_of
from recollect.papers.judge import Claim, Evidence, Scale, where
from recollect.papers.questions import Finding, all_of, any_of, at_least, at_most, between, every, exceeds, within
from recollect.papers.retrievit2026.settings import FIVE, SETTINGS, SSMS, VARIANT, learnt, of, view

NEAR_PERFECT, FAILS, ALIKE, BOOST, WORSE = 0.9, 0.5, 0.15, 0.1, 0.02
"""Near-perfect generalisation, as a share of the accuracy at the trained length; and accuracies: the most of a failure; the most
by which similar models differ; the least boost; the most by which a model that is no worse is below."""
FACTOR = 2.0
"""Numbers of examples that differ by less than this factor count as equal."""
HYBRIDS = ("HI-M2-1", "2S-M2")
TRAINED = f"after training to at least {THRESHOLD} at the trained length"


def length_column(scale: Scale, length: int) -> str:
    """The column of a table of runs that has the accuracy at a length."""
    place = SETTINGS[scale].lengths.index(length)
    return f"final.tests.{place - 1}.accuracy" if place else "accuracy"


def accuracy_at(
    evidence: Evidence, name: str, query: str, times_longer: float, *, relative: bool = False, **values: str
) -> Estimate:
    """Accuracy at a multiple of the trained length, of the runs that have learnt the task; `relative`: over that at the trained
    length."""
    lengths = SETTINGS[evidence.scale].lengths
    rows = learnt(of(evidence, name, query=query, **values), f"{name} ({query})")
    length = min(lengths, key=lambda tried: abs(tried - times_longer * lengths[0]))
    column = length_column(evidence.scale, length)
    if column not in rows:
        raise NotEnough(f"no test at length {length}")
    label = "".join((f"{name}, ", *(f"{value}, " for value in values.values()), f"{query}, length {length}"))
    known = view(evidence).dropna(subset=column)
    known = known.loc[known["accuracy"] >= THRESHOLD]
    parts = [part for _, part in groups(known, ["name", *(field for field in VARIANT if field in known)])]
    if relative:
        shares = pool(list(part[column] / part["accuracy"]) for part in parts)
        return mean_of(rows[column] / rows["accuracy"], f"{label} over length {lengths[0]}", shares)
    return mean_of(rows[column], label, pool((list(part[column]) for part in parts), bounded=True))


def _hybrids_extrapolate(query: str) -> Callable[[Evidence], Finding]:
    """Whether both hybrids keep most of their accuracy at 4 times the trained length."""
    return lambda evidence: every(
        HYBRIDS, lambda name: at_least(accuracy_at(evidence, name, query, 4, relative=True), NEAR_PERFECT)
    )


def _better(evidence: Evidence, one: str, other: str, by: float = 0.0) -> Finding:
    """Whether one model has more than another at 4 times the trained length, the query after the sequence."""
    return exceeds(accuracy_at(evidence, one, "suffix", 4), accuracy_at(evidence, other, "suffix", 4), by)


def _nope_like_mamba2(evidence: Evidence) -> Finding:
    def same(n: int) -> Finding:
        return within(accuracy_at(evidence, "NoPE", "suffix", n), accuracy_at(evidence, "M2", "suffix", n), ALIKE)

    return every((2, 4), same)


def _prefix_helps(evidence: Evidence) -> Finding:
    """Whether Mamba2 has more at 4 times the trained length with the query before the sequence than after it."""
    prefix, suffix = (accuracy_at(evidence, "M2", query, 4) for query in ("prefix", "suffix"))
    return exceeds(prefix, suffix, BOOST)


def _boosted(evidence: Evidence, name: str) -> Finding:
    """The same at twice the length, of any model; one that is near perfect may stay so."""
    prefix, suffix = (accuracy_at(evidence, name, query, 2) for query in ("prefix", "suffix"))
    return any_of(exceeds(prefix, suffix), all_of(at_least(suffix, NEAR_PERFECT), exceeds(prefix, suffix, -WORSE)))


def _residual_ratio(evidence: Evidence, name: str) -> Estimate:
    """Examples with the released residual sums over those with clean ones."""
    found = examples_needed(evidence.curves, view(evidence))
    runs = evidence.whole(where(found, name=name))
    released, clean = (where(runs, residual=residual) for residual in ("released", "clean"))
    pooled = pool(log_times(found, ["name", "model.residual"]))
    return ratio_of(released, clean, f"{name}: examples, released / clean", pooled)


def _same_extrapolation(evidence: Evidence) -> Finding:
    def same(name: str) -> Finding:
        released, clean = (accuracy_at(evidence, name, "suffix", 4, residual=sums) for sums in ("released", "clean"))
        return within(released, clean, BOOST)

    return every(HYBRIDS, same)


FIG4B = (
    Claim(
        "F2-hybrids",
        "With the query after the sequence both Mamba2 hybrids have at 4 times the trained length at least "
        f"{NEAR_PERFECT} of their accuracy at the trained length itself, {TRAINED}",
        _hybrids_extrapolate("suffix"),
    ),
    Claim(
        "F2-rope-fails",
        f"RoPE has at most {FAILS} at 4 times the trained length, {TRAINED}",
        lambda e: at_most(accuracy_at(e, "RoPE", "suffix", 4), FAILS),
    ),
    Claim(
        "F2-hybrids-best",
        f"At 4 times the trained length both hybrids exceed RoPE and Mamba2, {TRAINED}",
        lambda e: every(product(HYBRIDS, ("RoPE", "M2")), lambda two: _better(e, *two)),
    ),
    Claim(
        "F2-nope",
        f"NoPE and Mamba2 differ by at most {ALIKE} at 2 and 4 times the trained length, {TRAINED}",
        _nope_like_mamba2,
    ),
    Claim(
        "F2-mamba2-over-rope",
        f"At 4 times the trained length Mamba2 exceeds RoPE, {TRAINED}",
        lambda evidence: _better(evidence, "M2", "RoPE"),
    ),
)
FIG4C = (
    Claim(
        "F2-hybrids-prefix",
        "With the query before the sequence both Mamba2 hybrids have at 4 times the trained length at least "
        f"{NEAR_PERFECT} of their accuracy at the trained length itself, {TRAINED}",
        _hybrids_extrapolate("prefix"),
    ),
    Claim(
        "F2-prefix-helps",
        f"At 4 times the trained length Mamba2 has at least {BOOST} more with the query before the sequence "
        f"than after it, {TRAINED}",
        _prefix_helps,
    ),
    Claim(
        "F2-prefix-helps-all",
        f"At twice the trained length every model has more with the query before the sequence than after it; or at least "
        f"{NEAR_PERFECT} after it, and before it at most {WORSE} less; {TRAINED}",
        lambda evidence: every(FIVE, lambda name: _boosted(evidence, name)),
    ),
)
FIG12 = (
    Claim(
        "fewer-attention-layers",
        f"With the query after the sequence, interleaved 4:1 exceeds 1:1 at 4 times the trained length, {TRAINED}",
        lambda e: every(SSMS[e.scale], lambda name: _better(e, f"HI-{name}-4", f"HI-{name}-1")),
    ),
    Claim(
        "mamba2-blocks-better",
        "With the query after the sequence, interleaved models of Mamba2 exceed those of Mamba at 4 times the trained "
        f"length, N = 1 to 4, {TRAINED}",
        lambda e: every((1, 2, 3, 4), lambda n: _better(e, f"HI-M2-{n}", f"HI-M-{n}")),
    ),
)
_SCALES: tuple[Scale, ...] = ("small", "medium", "paper")
RESIDUAL = (
    Claim(
        "F1-residual",
        f"Released residual sums change the examples that a hybrid needs by less than a factor {FACTOR:g}",
        lambda e: every(HYBRIDS, lambda name: between(_residual_ratio(e, name), 1 / FACTOR, FACTOR)),
        _SCALES,
    ),
    Claim(
        "F2-residual",
        f"Released residual sums change a hybrid's accuracy at 4 times the trained length by at most {BOOST}, {TRAINED}",
        _same_extrapolation,
        _SCALES,
    ),
)
