"""Figures 2, 3, 4, 11 and 12: accuracy against width and parameters, with one layer and with two."""

import pandas as pd

from recollect.analysis.scaling import at_best_rate
from recollect.analysis.window import THRESHOLD, ZOOLOGY_RATES
from recollect.figures.panels import lines_figure
from recollect.papers.drawing import lines
from recollect.papers.estimates import Estimate, NotEnough, mean_of
from recollect.papers.item import Drawing, Item
from recollect.papers.judge import Claim, Evidence, Scale
from recollect.papers.okpekpe2025.cells import cells, pairs, printed
from recollect.papers.okpekpe2025.settings import (
    ALL,
    DENSE,
    LONGER,
    MAIN,
    RECURRENT,
    SIX_RATES,
    THREE_RATES,
    WIDTHS,
    differs,
    model,
    one_layer,
    setting,
    study,
    two_layers,
)  # fmt: skip
from recollect.papers.questions import Finding, all_of, any_of, at_least, between, every, exceeds
from recollect.study.spec import Study

GAIN, GRID_GAIN, DEPTH_GAIN = 0.1, 0.02, 0.3
"""The least gains in accuracy: from width; from a finer grid; of attention from a second layer."""
ONE_PAIR = 0.5, 2.0
"""The range of pairs that counts as one pair."""
LONG = 4
"""From how many times the width on a length counts as much larger."""
CELL = ["model", "task.length", "task.pairs", "model.width"]


def best_table(evidence: Evidence, models: list[str], rates: tuple[float, ...] | None = None) -> pd.DataFrame:
    """Accuracy at the best rate of each model, setting, width and depth, as `lines_figure` takes it."""
    runs = evidence.runs
    runs = runs.loc[runs["model"].isin(models)] if len(runs) else runs
    table = at_best_rate(runs, [*CELL, "model.layers"], rates) if len(runs) else pd.DataFrame()
    columns = [*CELL, "model.layers", "lr", "mean", "low", "high", "seeds", "parameters"]
    if table.empty:
        return pd.DataFrame(columns=columns)
    table = table.drop(columns=["low", "high"]).rename(columns={"accuracy": "mean", "min": "low", "max": "high"})
    return pd.DataFrame(table, columns=columns)


def draw_widths(title: str, models: list[str]):
    """Accuracy against width: a panel per model and setting, a line for the finer grid and one for Zoology's."""

    def draw(evidence: Evidence, caption: str) -> Drawing:
        grids = {"finer grid": None, "Zoology's four rates": ZOOLOGY_RATES}
        table = pd.concat([best_table(evidence, models, rates).assign(grid=name) for name, rates in grids.items()])
        table["panel"] = [f"{row['model']} {setting(row)}" for _, row in table.iterrows()]
        table = table.sort_values(by=["task.length", "model.width"], kind="stable", ignore_index=True)
        figure = lines_figure(
            table, "model.width", "grid", "panel", title=title, caption=caption, xlabel="width",
            columns=len(models) if len(set(table["task.length"])) > 1 else 3,
        )  # fmt: skip
        return figure, table

    return draw


def _attention_solves(evidence: Evidence) -> Finding:
    found = cells(evidence.where(model="attention", layers=2))
    return every(found, lambda at: at_least(evidence.best(found[at], f"attention {at}"), THRESHOLD))


def _mamba_solves_long(evidence: Evidence) -> Finding:
    runs = evidence.where(model="mamba", layers=2)
    found = cells(runs.loc[runs["task.length"] >= LONG * runs["model.width"]])
    if not found:
        raise NotEnough(f"no run of mamba has a length of at least {LONG} times its width")
    return any_of(*(at_least(evidence.best(rows, f"mamba {at}"), THRESHOLD) for at, rows in found.items()))


def _gain(evidence: Evidence, names: list[str], label: str) -> Estimate:
    """The gain of the finer grid over Zoology's four rates: mean over configurations, per seed."""
    by_seed: dict[int, list[float]] = {}
    for name in names:
        for rows in cells(evidence.where(model=name, layers=2)).values():
            tried = [at_best_rate(rows.assign(all=0), ["all"], rates)["lr"].iloc[0] for rates in (None, ZOOLOGY_RATES)]
            for seed, one in rows.groupby("train.seed"):
                fine, four = (one.loc[one["train.lr"] == lr, "accuracy"].fillna(0.0).mean() for lr in tried)
                by_seed.setdefault(int(seed), []).append(fine - four)  # pyright: ignore[reportArgumentType]
    return mean_of((sum(gains) / len(gains) for gains in by_seed.values()), label)


def _recurrent(evidence: Evidence) -> list[str]:
    """The recurrent models among the runs."""
    return [name for name in RECURRENT if name in set(evidence.runs["model"])]


def _mamba_most(evidence: Evidence) -> Finding:
    mamba = _gain(evidence, ["mamba"], "gain of mamba")
    others = [name for name in _recurrent(evidence) if name != "mamba"]
    return every(others, lambda name: exceeds(mamba, _gain(evidence, [name], f"gain of {name}"), by=GRID_GAIN))


TWO_LAYER_CLAIMS = (
    Claim(
        "attention-solves", f"2-layer attention reaches {THRESHOLD} at every width and setting tried", _attention_solves,
        printed(),
    ),
    Claim(
        "finer-grid-helps",
        f"A finer grid of rates raises 2-layer recurrent models by at least {GRID_GAIN} over Zoology's four rates, on average "
        "over models, widths and settings",
        lambda e: at_least(_gain(e, _recurrent(e), "gain of recurrent models"), GRID_GAIN),
    ),
    Claim("mamba-gains-most", f"Of recurrent models Mamba gains most from a finer grid, by at least {GRID_GAIN}", _mamba_most),
    Claim(
        "mamba-solves-long",
        f"2-layer Mamba reaches {THRESHOLD} in some setting with a length of at least {LONG} times its width",
        _mamba_solves_long, printed(),
    ),
)  # fmt: skip


def _gains_with_width(evidence: Evidence, name: str) -> Finding:
    """Whether a model is better at its largest width than at its smallest, in every setting; or solves at both."""
    runs = evidence.where(model=name, layers=1)
    settings = {setting(rows.iloc[0]): rows for _, rows in runs.groupby(["task.length", "task.pairs"])}
    return every(settings, lambda at: gains(evidence, settings[at], f"{name} {at}"))


def gains(evidence: Evidence, runs: pd.DataFrame, name: str) -> Finding:
    """Whether runs of the largest width are better than those of the smallest; or both solve."""
    small, large = (
        evidence.best(runs.loc[runs["model.width"] == width], f"{name} width {width}") for width in _ends(runs)
    )
    both = all_of(at_least(small, THRESHOLD), at_least(large, THRESHOLD))
    return any_of(exceeds(large, small, by=GAIN), both)


def _one_pair(evidence: Evidence) -> Finding:
    found = cells(evidence.where(model="attention", layers=1))
    return every(
        found,
        lambda at: between(
            evidence.best(found[at], f"attention {at}"), *(times / pairs(found[at]) for times in ONE_PAIR)
        ),
    )


ATTENTION_ONE_PAIR = Claim(
    "attention-one-pair",
    f"1-layer attention recalls one pair of K at every width and setting tried: its accuracy is from {ONE_PAIR[0]:g} / K to "
    f"{ONE_PAIR[1]:g} / K, so that width does not help it",
    _one_pair,
    printed(),
)
"""Tables 2 and 3 make the same claim about attention."""
ONE_LAYER_CLAIMS = (
    Claim(
        "recurrent-gain-with-width",
        f"Every 1-layer recurrent model gains at least {GAIN} from the smallest to the largest width in every setting (or "
        f"reaches {THRESHOLD} at both)",
        lambda evidence: every(RECURRENT, lambda name: _gains_with_width(evidence, name)),
        printed(),
    ),
    ATTENTION_ONE_PAIR,
)

_TWO_LAYERS = "Two layers: attention, Hyena and Mamba alone, of width 32, at most 2,500 steps, six rates."
FIG2, FIG11 = (
    Item(
        name, "Two-layer models against width", "accuracy at the best rate of a finer grid and of Zoology's four rates",
        draw_widths("Accuracy of 2-layer models against width", models), two_layers, claims,
        differs(
            "Zoology's official values are not drawn: the text does not give them.",
            tiny=_TWO_LAYERS,
            medium="Width 64 (Hyena also 128); also MQAR (128, 8), 25 epochs and 7 rates, and Mamba on (256, 16), 3 rates.",
        ),
    )
    for name, models, claims in (("fig2", MAIN, TWO_LAYER_CLAIMS), ("fig11", ALL, ()))
)  # fmt: skip
FIG3, FIG12 = (
    Item(
        name, "One-layer models against width", "recurrent models gain with width, attention stays at one pair",
        draw_widths("Accuracy of 1-layer models against width", models), one_layer, claims,
        differs(
            "Based has both of its parts in its one layer.",
            medium="Widths 64 (four rates) and 256 (attention and Mamba: 128; three rates), no Based.",
        ),
    )
    for name, models, claims in (("fig3", MAIN, ONE_LAYER_CLAIMS), ("fig12", ALL, ()))
)  # fmt: skip


def fig4_studies(scale: Scale) -> list[Study]:
    """As many pairs as the length holds, 1 and 2 layers."""
    if scale == "tiny":  # its only setting has that many already: runs of fig3 and fig1
        shallow = [model(mixer, scale, [8, 32], 1) for mixer in ("attention", "mamba")]
        deep = [model("attention", scale, 32, 2)]
        return [
            study("scaling", scale, shallow, rates=SIX_RATES),
            study("scaling-deep", scale, deep, rates=SIX_RATES, steps=LONGER),
        ]
    if scale == "medium":  # enough to separate width, depth and parameters
        sizes = ((64, [1, 2]), (256, 1))
        models = [model(mixer, scale, width, layers) for mixer in ("attention", "mamba") for width, layers in sizes]
        return [study("scaling", scale, models, [DENSE[scale]], rates=THREE_RATES)]
    widths = [64, 256] if scale == "small" else WIDTHS[scale]
    mixers = MAIN if scale == "small" else ALL
    return [study("scaling", scale, [model(mixer, scale, widths, [1, 2]) for mixer in mixers], [DENSE[scale]])]


def _by_parameters(evidence: Evidence) -> pd.DataFrame:
    """Accuracy by model, depth and parameters."""
    table = best_table(evidence, ALL)
    return table.assign(depth=[f"{layers} layer{'s' * (layers > 1)}" for layers in table["model.layers"]])


def _depth_helps(evidence: Evidence) -> Finding:
    one, two = (_at_widest(evidence, "attention", layers) for layers in (1, 2))
    return exceeds(two, one, by=DEPTH_GAIN)


def _at_widest(evidence: Evidence, name: str, layers: int) -> Estimate:
    runs = evidence.where(model=name, layers=layers)
    width = _ends(runs)[1]
    return evidence.best(
        runs.loc[runs["model.width"] == width], f"{name}, {layers} layer{'s' * (layers > 1)}, width {width}"
    )


def _not_the_parameters(evidence: Evidence) -> Finding:
    """Whether some 2-layer attention is better than a 1-layer one with more parameters."""
    wide = evidence.where(model="attention", layers=1)
    wide = wide.loc[wide["model.width"] == _ends(wide)[1]]
    deep = evidence.where(model="attention", layers=2)
    deep = deep.loc[deep["parameters"] < wide["parameters"].iloc[0]]
    if deep.empty:
        raise NotEnough("no 2-layer attention has fewer parameters than the widest 1-layer one")
    shallow = evidence.best(wide, "attention, 1 layer")
    found = {at: evidence.best(rows, f"attention, 2 layers, {at}") for at, rows in cells(deep).items()}
    return any_of(*(exceeds(best, shallow, by=DEPTH_GAIN) for best in found.values()))


def _ends(runs: pd.DataFrame) -> tuple[int, int]:
    return min(runs["model.width"]), max(runs["model.width"])


FIG4 = Item(
    "fig4",
    "Accuracy against parameters, one and two layers",
    "width helps recurrent models, depth helps attention",
    lines(_by_parameters, "parameters", "model", "depth", title="Accuracy against parameters", xlabel="parameters"),
    fig4_studies,
    (
        Claim(
            "width-helps-mamba",
            f"1-layer Mamba gains at least {GAIN} from the smallest to the largest width (or reaches {THRESHOLD} at both)",
            lambda evidence: gains(evidence, evidence.where(model="mamba", layers=1), "mamba, 1 layer,"),
            printed(DENSE["paper"]),
        ),
        Claim(
            "depth-helps-attention",
            f"A second layer brings attention at least {DEPTH_GAIN}, each depth at its largest width",
            _depth_helps,
            printed(DENSE["paper"]),
        ),
        Claim(
            "scaling-not-parameters",
            f"Some 2-layer attention with fewer parameters than the widest 1-layer one exceeds it by at least {DEPTH_GAIN}",
            _not_the_parameters,
            printed(DENSE["paper"]),
        ),
    ),
    differs(
        tiny="Attention and Mamba of widths 8 and 32 with one layer, attention of width 32 with two, six rates.",
        small="Widths 64 and 256 in this item.",
        medium="16 pairs, attention and Mamba, width 64 with 1 and 2 layers and 256 with 1, three rates.",
    ),
)
