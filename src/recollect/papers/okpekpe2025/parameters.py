"""Figure 4: accuracy against parameters, with one layer and with two."""

import pandas as pd

from recollect.analysis.window import THRESHOLD
from recollect.papers.drawing import lines
from recollect.papers.estimates import Estimate, NotEnough
from recollect.papers.item import Item
from recollect.papers.judge import Claim, Evidence, Scale
from recollect.papers.okpekpe2025.cells import cells, printed
from recollect.papers.okpekpe2025.settings import (
    ALL,
    DENSE,
    LONGER,
    MAIN,
    SIX_RATES,
    THREE_RATES,
    WIDTHS,
    differs,
    model,
    study,
)
from recollect.papers.okpekpe2025.widths import GAIN, best_table, ends, gains
from recollect.papers.questions import Finding, any_of, exceeds
from recollect.study.spec import Study

DEPTH_GAIN = 0.3
"""The least gain of attention from a second layer."""


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
    width = ends(runs)[1]
    return evidence.best(
        runs.loc[runs["model.width"] == width], f"{name}, {layers} layer{'s' * (layers > 1)}, width {width}"
    )


def _not_the_parameters(evidence: Evidence) -> Finding:
    """Whether some 2-layer attention is better than a 1-layer one with more parameters."""
    wide = evidence.where(model="attention", layers=1)
    wide = wide.loc[wide["model.width"] == ends(wide)[1]]
    deep = evidence.where(model="attention", layers=2)
    deep = deep.loc[deep["parameters"] < wide["parameters"].iloc[0]]
    if deep.empty:
        raise NotEnough("no 2-layer attention has fewer parameters than the widest 1-layer one")
    shallow = evidence.best(wide, "attention, 1 layer")
    found = {at: evidence.best(rows, f"attention, 2 layers, {at}") for at, rows in cells(deep).items()}
    return any_of(*(exceeds(best, shallow, by=DEPTH_GAIN) for best in found.values()))


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
