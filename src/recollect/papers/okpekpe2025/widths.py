"""Figures 2, 3, 11 and 12: accuracy against width, with one layer and with two."""

from functools import partial

import pandas as pd

from recollect.analysis.rates import at_best_rate
from recollect.analysis.window import THRESHOLD, ZOOLOGY_RATES
from recollect.figures.panels import lines_figure
from recollect.papers.estimates import Estimate, NotEnough, mean_of, some
from recollect.papers.item import Drawing, Item, best_lines
from recollect.papers.judge import Claim, Evidence, claim
from recollect.papers.okpekpe2025 import settings
from recollect.papers.okpekpe2025.cells import (
    PRINTED,
    best_in_cells,
    cells,
    common,
    pairs,
    printed,
    with_zoologys_rates,
)
from recollect.papers.okpekpe2025.settings import differs, one_layer, setting, two_layers
from recollect.papers.okpekpe2025.windows import missed
from recollect.papers.questions import Finding, all_of, any_of, at_least, between, every, exceeds, not_

GAIN, GRID_GAIN = 0.1, 0.02
"""The least gains in accuracy: from width; from a finer grid."""
ONE_PAIR = 0.5, 2.0
"""The range of pairs that counts as one pair."""
LONG = 4
"""From how many times the width on a length counts as much larger."""
CELL = ["model", "task.length", "task.pairs", "model.width"]


def best_table(evidence: Evidence, models: list[str], rates: tuple[float, ...] | None = None) -> pd.DataFrame:
    """Accuracy at the best rate of each model, setting, width and depth, as `lines_figure` takes it."""
    runs = evidence.runs.loc[evidence.runs["model"].isin(models)]
    table = best_lines(runs, [*CELL, "model.layers"], rates)
    return pd.DataFrame(table, columns=[*CELL, "model.layers", "lr", "mean", "low", "high", "seeds", "parameters"])


def draw_widths(title: str, models: list[str], evidence: Evidence, caption: str) -> Drawing:
    """Accuracy against width: a panel per model and setting, a line for the finer grid and one for Zoology's."""
    grids = {"finer grid": None, "Zoology's four rates": ZOOLOGY_RATES}
    table = pd.concat([best_table(evidence, models, rates).assign(grid=name) for name, rates in grids.items()])
    table["panel"] = [f"{row['model']} {setting(row)}" for _, row in table.iterrows()]
    table = table.sort_values(by=["task.length", "model.width"], kind="stable", ignore_index=True)
    figure = lines_figure(
        table, "model.width", "grid", "panel", title=title, caption=caption, xlabel="width",
        columns=len(models) if len(set(table["task.length"])) > 1 else 3,
    )  # fmt: skip
    return figure, table


@claim("mamba-solves-long", printed(*settings.SETTINGS["paper"][2:], in_each=True))
def _mamba_solves_long(evidence: Evidence) -> Finding:
    """2-layer Mamba reaches {THRESHOLD} in some setting with a length of at least {LONG} times its width"""
    runs = evidence.where(model="mamba", layers=2)
    long = runs.loc[runs["task.length"] >= LONG * runs["model.width"]]
    long = some(long, f"no run of mamba has a length of at least {LONG} times its width")
    return any_of(*(at_least(one, THRESHOLD) for one in best_in_cells(evidence, long, "mamba")))


def _gain(evidence: Evidence, names: list[str], label: str) -> Estimate:
    """The gain of the finer grid over Zoology's four rates: mean over configurations, per seed."""
    by_seed: dict[int, list[float]] = {}
    for name in names:
        for rows in with_zoologys_rates(evidence.where(model=name, layers=2)).values():
            tried = [at_best_rate(rows.assign(all=0), ["all"], rates)["lr"].iloc[0] for rates in (None, ZOOLOGY_RATES)]
            for seed, one in rows.groupby("train.seed"):
                fine, four = (one.loc[one["train.lr"] == lr, "accuracy"].fillna(0.0).mean() for lr in tried)
                by_seed.setdefault(int(seed), []).append(fine - four)  # pyright: ignore[reportArgumentType]
    return mean_of((sum(gains) / len(gains) for gains in by_seed.values()), label)


def _recurrent(evidence: Evidence) -> list[str]:
    """The recurrent models among the runs."""
    return [name for name in settings.RECURRENT if name in set(evidence.runs["model"])]


@claim("mamba-gains-most")
def _mamba_most(evidence: Evidence) -> Finding:
    """Of recurrent models Mamba gains most from a finer grid, by at least {GRID_GAIN}"""
    mamba = _gain(evidence, ["mamba"], "gain of mamba")
    others = [name for name in _recurrent(evidence) if name != "mamba"]
    return every(others, lambda name: exceeds(mamba, _gain(evidence, [name], f"gain of {name}"), by=GRID_GAIN))


@claim("gap-at-low-width", printed(in_each=True))
def _gap_at_low_width(evidence: Evidence) -> Finding:
    """At the smallest width, in some setting, 2-layer Hyena stays at least {GAIN} below attention, each at its best rate"""
    hyena = evidence.where(model="hyena", layers=2)
    hyena = hyena.loc[hyena["model.width"] == ends(hyena)[0]]
    shared = common(evidence.where(model="attention", layers=2), hyena)

    def gap(at: str) -> Finding:
        attention, low = shared[at]
        return exceeds(evidence.best(attention, f"attention {at}"), evidence.best(low, f"hyena {at}"), by=GAIN)

    return any_of(*(lambda at=at: gap(at) for at in shared))


_solves = partial(at_least, bound=THRESHOLD)
TWO_LAYER_CLAIMS = (
    Claim("attention-solves", f"2-layer attention reaches {THRESHOLD} at every width and setting tried",
          lambda e: every(best_in_cells(e, e.where(model="attention", layers=2), "attention"), _solves), PRINTED),
    Claim("finer-grid-helps", f"A finer grid of rates raises 2-layer recurrent models by at least {GRID_GAIN} over Zoology's "
          "four rates, on average over models, widths and settings",
          lambda e: at_least(_gain(e, _recurrent(e), "gain of recurrent models"), GRID_GAIN)),
    _mamba_most,
    _mamba_solves_long,
    _gap_at_low_width,
    *missed,  # Figure 1 makes the same claims; one setting cannot refute them
)  # fmt: skip


def _by_setting(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {setting(rows.iloc[0]): rows for _, rows in runs.groupby(["task.length", "task.pairs"])}


def _gains_with_width(evidence: Evidence, name: str) -> Finding:
    """Whether a model is better at its largest width than at its smallest, in every setting; or solves at both."""
    found = _by_setting(evidence.where(model=name, layers=1))
    return every(found.items(), lambda at, rows: gains(evidence, rows, f"{name} {at}"))


def ends(runs: pd.DataFrame) -> tuple[int, int]:
    """The smallest and the largest width."""
    return min(runs["model.width"]), max(runs["model.width"])


def gains(evidence: Evidence, runs: pd.DataFrame, name: str) -> Finding:
    """Whether runs of the largest width are better than those of the smallest; or both solve."""
    small, large = _at_ends(evidence, runs, name)
    both = all_of(at_least(small, THRESHOLD), at_least(large, THRESHOLD))
    return any_of(exceeds(large, small, by=GAIN), both)


def _at_ends(evidence: Evidence, runs: pd.DataFrame, name: str) -> list[Estimate]:
    """The best accuracies at the smallest and at the largest width."""
    return [evidence.best(runs.loc[runs["model.width"] == width], f"{name} width {width}") for width in ends(runs)]


@claim("attention-one-pair", PRINTED)
def one_pair(evidence: Evidence) -> Finding:
    """1-layer attention recalls one pair of K at every width and setting tried: its accuracy is from {ONE_PAIR[0]:g} / K to
    {ONE_PAIR[1]:g} / K"""

    def recalls_one(at: str, rows: pd.DataFrame) -> Finding:
        return between(evidence.best(rows, f"attention {at}"), *(times / pairs(rows) for times in ONE_PAIR))

    return every(cells(evidence.where(model="attention", layers=1)).items(), recalls_one)


@claim("attention-no-gain-with-width", PRINTED)
def _attention_no_gain(evidence: Evidence) -> Finding:
    """1-layer attention of the largest width recalls at most one pair of K more than that of the smallest, in every
    setting"""
    runs = evidence.where(model="attention", layers=1)
    if len(set(runs["model.width"])) < 2:
        raise NotEnough("attention was tried at one width")

    def no_gain(at: str, rows: pd.DataFrame) -> Finding:
        small, large = _at_ends(evidence, rows, f"attention {at}")
        return not_(exceeds(large, small, by=1 / pairs(rows)))

    return every(_by_setting(runs).items(), no_gain)


@claim("hyena-needs-width", PRINTED)
def _hyena_needs_width(evidence: Evidence) -> Finding:
    """1-layer Hyena reaches {THRESHOLD} at a width above the length and at none up to it, Mamba also at one up to it"""

    def solved(name: str, above: bool) -> list[Finding]:
        runs = evidence.where(model=name, layers=1)
        runs = runs.loc[(runs["model.width"] > runs["task.length"]) == above]
        runs = some(runs, f"{name} was not tried at a width {'above' if above else 'up to'} the length")
        return [at_least(one, THRESHOLD) for one in best_in_cells(evidence, runs, name)]

    return all_of(
        lambda: any_of(*solved("hyena", above=True)),
        lambda: all_of(*map(not_, solved("hyena", above=False))),
        lambda: any_of(*solved("mamba", above=False)),
    )


ONE_LAYER_CLAIMS = (
    Claim("recurrent-gain-with-width", f"Every 1-layer recurrent model gains at least {GAIN} from the smallest to the largest "
          f"width in every setting (or reaches {THRESHOLD} at both)",
          lambda e: every(settings.RECURRENT, partial(_gains_with_width, e)), PRINTED),
    one_pair,  # Tables 2 and 3 make the same claim about attention
    _attention_no_gain, _hyena_needs_width,
)  # fmt: skip

FIG2, FIG11 = (
    Item(
        name, "Two-layer models against width", "accuracy at the best rate of a finer grid and of Zoology's four rates",
        partial(draw_widths, "Accuracy of 2-layer models against width", models), two_layers, claims,
        {
            **differs(
                "Zoology's official values are not drawn: the text does not give them.",
                medium="Width 64 (Hyena also 128); also MQAR (128, 8), 25 epochs and 7 rates, and Mamba on (256, 16), 3 rates.",
            ),
            "tiny": f"{settings.TWO_LAYERS_TINY} Attention, Hyena and Mamba alone.",
        },
    )
    for name, models, claims in (("fig2", settings.MAIN, TWO_LAYER_CLAIMS), ("fig11", settings.ALL, ()))
)  # fmt: skip
FIG3, FIG12 = (
    Item(
        name, "One-layer models against width", "recurrent models gain with width, attention stays at one pair",
        partial(draw_widths, "Accuracy of 1-layer models against width", models), one_layer, claims,
        differs(
            "Based has both of its parts in its one layer.",
            medium="Widths 64 (four rates) and 256 (attention and Mamba: 128; three rates), no Based.",
        ),
    )
    for name, models, claims in (("fig3", settings.MAIN, ONE_LAYER_CLAIMS), ("fig12", settings.ALL, ()))
)  # fmt: skip
