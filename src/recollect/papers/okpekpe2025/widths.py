"""Figures 2, 3, 4, 11 and 12: accuracy against width and parameters, with one layer and with two."""

import pandas as pd

from recollect.analysis.scaling import at_best_rate
from recollect.analysis.window import THRESHOLD, ZOOLOGY_RATES
from recollect.figures.panels import lines_figure
from recollect.papers.item import Drawing, Item
from recollect.papers.judge import (
    Claim,
    Estimate,
    Evidence,
    Finding,
    Scale,
    all_of,
    any_of,
    at_least,
    at_most,
    best,
    exceeds,
    spread,
)  # fmt: skip
from recollect.papers.okpekpe2025.settings import (
    ALL,
    DENSE,
    FOUR_RATES,
    LONGER,
    MAIN,
    RECURRENT,
    SIX_RATES,
    WIDTHS,
    differs,
    model,
    one_layer,
    setting,
    study,
    two_layers,
)  # fmt: skip
from recollect.study.spec import Study

GAIN, GRID_GAIN, ONE_PAIR, DEPTH_GAIN = 0.1, 0.02, 0.1, 0.3
"""Accuracies: what solving is; what width must bring; what a finer grid must bring; how far from one pair is still one pair;
what a second layer must bring attention."""
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


def _cells(evidence: Evidence, name: str) -> list[tuple[str, int, int, pd.DataFrame]]:
    """Setting, pairs, width and runs of each configuration of a model, widths ascending."""
    runs = evidence.where(model=name)
    groups = runs.sort_values(by="model.width").groupby(["task.length", "task.pairs", "model.width"])
    return [(f"({key[0]}, {key[1]})", key[1], key[2], rows) for key, rows in groups]  # pyright: ignore


def _attention_solves(evidence: Evidence) -> Finding:
    cells = _cells(evidence, "attention")
    return all_of(*(at_least(best(rows, f"attention {at} width {width}"), THRESHOLD) for at, _, width, rows in cells))


def _gain(evidence: Evidence, names: list[str], label: str) -> Estimate:
    """What the finer grid brings over Zoology's four rates: mean over configurations, for each seed."""
    by_seed: dict[int, list[float]] = {}
    for name in names:
        for *_, rows in _cells(evidence, name):
            tried = [at_best_rate(rows.assign(all=0), ["all"], rates)["lr"].iloc[0] for rates in (None, ZOOLOGY_RATES)]
            for seed, one in rows.groupby("train.seed"):
                fine, four = (one.loc[one["train.lr"] == lr, "accuracy"].fillna(0.0).mean() for lr in tried)
                by_seed.setdefault(int(seed), []).append(fine - four)  # pyright: ignore[reportArgumentType]
    return spread((sum(gains) / len(gains) for gains in by_seed.values()), label)


def _recurrent(evidence: Evidence) -> list[str]:
    """The recurrent models that there are."""
    return [name for name in RECURRENT if name in set(evidence.runs["model"])]


def _finer_helps(evidence: Evidence) -> Finding:
    return at_least(_gain(evidence, _recurrent(evidence), "gain of recurrent models"), GRID_GAIN)


def _mamba_most(evidence: Evidence) -> Finding:
    mamba = _gain(evidence, ["mamba"], "gain of mamba")
    others = [name for name in _recurrent(evidence) if name != "mamba"]
    return all_of(*(exceeds(mamba, _gain(evidence, [name], f"gain of {name}"), by=GRID_GAIN) for name in others))


TWO_LAYER_CLAIMS = (
    Claim("attention-solves", f"2-layer attention reaches {THRESHOLD} at every width and setting", _attention_solves),
    Claim(
        "finer-grid-helps",
        f"A finer grid of rates raises 2-layer recurrent models by at least {GRID_GAIN} over Zoology's four rates, on average "
        "over models, widths and settings",
        _finer_helps,
    ),
    Claim("mamba-gains-most", f"Of recurrent models Mamba gains most from a finer grid, by at least {GRID_GAIN}", _mamba_most),
)  # fmt: skip


def _gains_with_width(evidence: Evidence, name: str) -> Finding:
    """Whether a model is better at its largest width than at its smallest, in every setting; or solves at both."""
    findings = []
    cells = _cells(evidence, name)
    for at in dict.fromkeys(cell[0] for cell in cells):
        ends = [cell for cell in cells if cell[0] == at]
        small, large = (best(rows, f"{name} {at} width {width}") for *_, width, rows in (ends[0], ends[-1]))
        findings.append(any_of(exceeds(large, small, by=GAIN), at_least(small, THRESHOLD)))
    return all_of(*findings)


def _attention_flat(evidence: Evidence) -> Finding:
    cells = _cells(evidence, "attention")
    return all_of(
        *(
            at_most(best(rows, f"attention {at} width {width}"), 1 / pairs + ONE_PAIR)
            for at, pairs, width, rows in cells
        )
    )


def _attention_one_pair(evidence: Evidence) -> Finding:
    widest = {at: (pairs, width, rows) for at, pairs, width, rows in _cells(evidence, "attention")}
    findings = []
    for at, (pairs, width, rows) in widest.items():
        findings.append(at_least(best(rows, f"attention {at} width {width}"), max(0.0, 1 / pairs - ONE_PAIR)))
    return all_of(*findings)


ONE_LAYER_CLAIMS = (
    Claim(
        "recurrent-gain-with-width",
        f"Every 1-layer recurrent model gains at least {GAIN} from the smallest to the largest width in every setting (or "
        "solves at both)",
        lambda evidence: all_of(*(_gains_with_width(evidence, name) for name in RECURRENT)),
    ),
    Claim(
        "attention-does-not-gain",
        f"1-layer attention stays within {ONE_PAIR} above one pair in K at every width",
        _attention_flat,
    ),
    Claim("attention-recalls-one-pair", f"1-layer attention at its largest width is no more than {ONE_PAIR} under one pair in K",
          _attention_one_pair),
)  # fmt: skip

_TWO_LAYERS = "Two layers: attention, Hyena and Mamba alone, of width 32, at most 2,500 steps, six rates."
FIG2, FIG11 = (
    Item(
        name, "Two-layer models against width", "accuracy at the best rate of a finer grid and of Zoology's four rates",
        draw_widths(f"{title}: accuracy of 2-layer models against width", models), two_layers, claims,
        differs(
            "Zoology's official values are not drawn: the text does not give them.",
            tiny=_TWO_LAYERS, medium="Width 64 (Hyena also 128); also MQAR (128, 8), with 7 rates.",
        ),
    )
    for name, title, models, claims in (("fig2", "Figure 2", MAIN, TWO_LAYER_CLAIMS), ("fig11", "Figure 11", ALL, ()))
)  # fmt: skip
FIG3, FIG12 = (
    Item(
        name, "One-layer models against width", "recurrent models gain with width, attention stays at one pair",
        draw_widths(f"{title}: accuracy of 1-layer models against width", models), one_layer, claims,
        differs("Based has both of its parts in its one layer.", medium="Widths 64 and 256, four rates, no Based."),
    )
    for name, title, models, claims in (("fig3", "Figure 3", MAIN, ONE_LAYER_CLAIMS), ("fig12", "Figure 12", ALL, ()))
)  # fmt: skip


def fig4_studies(scale: Scale) -> list[Study]:
    """As many pairs as the length holds, 1 and 2 layers."""
    if scale == "tiny":  # its one setting is that already: runs of fig3 and fig1
        shallow = [model(mixer, scale, [8, 32], 1) for mixer in ("attention", "mamba")]
        deep = [model("attention", scale, 32, 2)]
        return [
            study("scaling", scale, shallow, rates=SIX_RATES),
            study("scaling-deep", scale, deep, rates=SIX_RATES, steps=LONGER),
        ]
    if scale == "medium":  # what tells width, depth and parameters apart
        sizes = ((64, [1, 2]), (256, 1))
        models = [model(mixer, scale, width, layers) for mixer in ("attention", "mamba") for width, layers in sizes]
        return [study("scaling", scale, models, [DENSE[scale]], rates=FOUR_RATES)]
    widths = [64, 256] if scale == "small" else WIDTHS[scale]
    mixers = MAIN if scale == "small" else ALL
    return [study("scaling", scale, [model(mixer, scale, widths, [1, 2]) for mixer in mixers], [DENSE[scale]])]


def draw_fig4(evidence: Evidence, caption: str) -> Drawing:
    """Accuracy against parameters, a line per model and a panel per depth."""
    table = best_table(evidence, ALL)
    table["depth"] = [f"{layers} layer{'s' * (layers > 1)}" for layers in table["model.layers"]]
    title = "Figure 4: accuracy against parameters"
    return lines_figure(table, "parameters", "model", "depth", title=title, caption=caption, xlabel="parameters"), table


def _width_helps(evidence: Evidence) -> Finding:
    runs = evidence.where(model="mamba", layers=1)
    small, large = (best(runs.loc[runs["model.width"] == w], f"mamba, 1 layer, width {w}") for w in _ends(runs))
    return any_of(exceeds(large, small, by=GAIN), at_least(small, THRESHOLD))


def _depth_helps(evidence: Evidence) -> Finding:
    one, two = (evidence.where(model="attention", layers=n) for n in (1, 2))
    shallow = best(one.loc[one["model.width"] == _ends(one)[1]], f"attention, 1 layer, width {_ends(one)[1]}")
    deep = best(two.loc[two["model.width"] == _ends(two)[1]], f"attention, 2 layers, width {_ends(two)[1]}")
    return exceeds(deep, shallow, by=DEPTH_GAIN)


def _ends(runs: pd.DataFrame) -> tuple[int, int]:
    return min(runs["model.width"]), max(runs["model.width"])


FIG4 = Item(
    "fig4",
    "Accuracy against parameters, one and two layers",
    "width helps recurrent models, depth helps attention",
    draw_fig4,
    fig4_studies,
    (
        Claim(
            "width-helps-mamba",
            f"1-layer Mamba gains at least {GAIN} from the smallest to the largest width (or solves at both)",
            _width_helps,
        ),
        Claim(
            "depth-helps-attention",
            f"A second layer brings attention at least {DEPTH_GAIN}, each depth at its largest width",
            _depth_helps,
        ),
    ),
    differs(
        tiny="Attention and Mamba of widths 8 and 32 with one layer, attention of width 32 with two, six rates.",
        small="Widths 64 and 256 in this item.",
        medium="16 pairs, attention and Mamba, width 64 with 1 and 2 layers and 256 with 1, four rates.",
    ),
)
