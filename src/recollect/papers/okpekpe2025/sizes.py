"""Figure 4, accuracy against parameters with one layer and with two; and against depth, for a sentence of section 4."""

import pandas as pd

from recollect.analysis.window import THRESHOLD
from recollect.papers.estimates import Estimate, NotEnough, some
from recollect.papers.item import Item, lines
from recollect.papers.judge import Claim, Evidence, Scale, claim
from recollect.papers.okpekpe2025 import settings
from recollect.papers.okpekpe2025.cells import PRINTED, best_in_cells, printed, widest
from recollect.papers.okpekpe2025.settings import differs, model, study, study_of
from recollect.papers.okpekpe2025.widths import GAIN, best_table, gains
from recollect.papers.questions import Finding, any_of, every, exceeds, not_
from recollect.study.spec import Study

DENSE = {"tiny": (16, 4), "small": (64, 16), "medium": (64, 16), "paper": (256, 64)}
"""Figure 4: as many pairs as the length holds."""
DEPTH_GAIN, ADDS = 0.3, 0.05
"""The least gain of attention from a second layer; the least gain from more layers that counts."""
_OWN = printed(DENSE["paper"])


def fig4_studies(scale: Scale) -> list[Study]:
    """As many pairs as the length holds, 1 and 2 layers."""
    if scale == "tiny":  # its only setting has that many already: runs of fig3 and fig1
        return [
            study("scaling", scale, ["attention", "mamba"], [8, 32], 1, rates=settings.SIX_RATES),
            study("scaling-deep", scale, ["attention"], 32, 2, rates=settings.SIX_RATES, steps=settings.LONGER),
        ]
    if scale == "medium":  # enough to separate width, depth and parameters
        sizes = ((64, [1, 2]), (256, 1))
        models = [model(mixer, scale, width, layers) for mixer in ("attention", "mamba") for width, layers in sizes]
        return [study_of("scaling", scale, models, [DENSE[scale]], rates=settings.THREE_RATES)]
    mixers, widths = (settings.MAIN, [64, 256]) if scale == "small" else (settings.ALL, settings.WIDTHS[scale])
    return [study("scaling", scale, mixers, widths, [1, 2], [DENSE[scale]])]


def _by_parameters(evidence: Evidence) -> pd.DataFrame:
    """Accuracy by model, depth and parameters."""
    table = best_table(evidence, settings.ALL)
    return table.assign(depth=[f"{layers} layer{'s' * (layers > 1)}" for layers in table["model.layers"]])


def _at_widest(evidence: Evidence, layers: int) -> Estimate:
    runs = widest(evidence.where(model="attention", layers=layers))
    return evidence.best(runs, f"attention, {layers} layer{'s' * (layers > 1)}, width {runs['model.width'].iloc[0]}")


def _depth_helps(evidence: Evidence) -> Finding:
    one, two = (_at_widest(evidence, layers) for layers in (1, 2))
    return exceeds(two, one, by=DEPTH_GAIN)


@claim("scaling-not-parameters", _OWN)
def _not_the_parameters(evidence: Evidence) -> Finding:
    """Some 2-layer attention with fewer parameters than the widest 1-layer one exceeds it by at least {DEPTH_GAIN}"""
    wide = widest(evidence.where(model="attention", layers=1))
    deep = evidence.where(model="attention", layers=2)
    deep = deep.loc[deep["parameters"] < wide["parameters"].iloc[0]]
    deep = some(deep, "no 2-layer attention has fewer parameters than the widest 1-layer one")
    shallow = evidence.best(wide, "attention, 1 layer")
    found = best_in_cells(evidence, deep, "attention, 2 layers,")
    return any_of(*(exceeds(best, shallow, by=DEPTH_GAIN) for best in found))


FIG4 = Item(
    "fig4", "Accuracy against parameters, one and two layers", "width helps recurrent models, depth helps attention",
    lines(_by_parameters, "parameters", "model", "depth", title="Accuracy against parameters", xlabel="parameters"),
    fig4_studies,
    (
        Claim("width-helps-mamba", f"1-layer Mamba gains at least {GAIN} from the smallest to the largest width (or reaches "
              f"{THRESHOLD} at both)",
              lambda evidence: gains(evidence, evidence.where(model="mamba", layers=1), "mamba, 1 layer,"), _OWN),
        Claim("depth-helps-attention", f"A second layer brings attention at least {DEPTH_GAIN}, each depth at its largest width",
              _depth_helps, _OWN),
        _not_the_parameters,
    ),
    differs(
        tiny="Attention and Mamba of widths 8 and 32 with one layer, attention of width 32 with two, six rates.",
        small="Widths 64 and 256 in this item.",
        medium="16 pairs, attention and Mamba, width 64 with 1 and 2 layers and 256 with 1, three rates.",
    ),
)  # fmt: skip


def depth_studies(scale: Scale) -> list[Study]:
    """One to four layers at one width; at `tiny` to three, at `medium` without three."""
    if scale == "medium":  # one and two layers are those of fig3 and fig1
        return [study("depth", scale, ["attention", "mamba"], 64, [1, 2, 4], rates=settings.THREE_RATES)]
    width = {"tiny": 32, "small": 64, "paper": 128}[scale]
    mixers, layers = (["attention", "mamba"], [1, 2, 3]) if scale == "tiny" else (settings.MAIN, [1, 2, 3, 4])
    tasks = {"paper": [(256, 16)]}.get(scale)
    rates = [settings.FINE[scale][place] for place in (2, 6, 7)] if scale == "tiny" else None
    return [study("depth", scale, mixers, width, layers, tasks, rates=rates)]


@claim("two-suffice", PRINTED)
def _more_adds_nothing(evidence: Evidence) -> Finding:
    """More than 2 layers bring less than {ADDS} over 2, for every model and depth that is trained as well as 2"""

    def adds_nothing(name: str, layers: int) -> Finding:
        two, deeper = (evidence.best(evidence.where(model=name, layers=n), f"{name}, {n} layers") for n in (2, layers))
        if exceeds(two, deeper, by=ADDS).holds:
            raise NotEnough(f"{deeper.name} is worse ({deeper}): it was not trained well", "needs longer training")
        return not_(exceeds(deeper, two, by=ADDS))

    runs = evidence.where()
    deeper = runs.loc[runs["model.layers"] > 2]
    return every(sorted(set(zip(deeper["model"], deeper["model.layers"], strict=True))), adds_nothing)


DEPTH = Item(
    "depth", "Accuracy against depth", "more than two layers add nothing",
    lines(
        lambda evidence: best_table(evidence, settings.ALL), "model.layers", "model", title="Accuracy against depth",
        xlabel="layers", logx=False,
    ),
    depth_studies, (_more_adds_nothing,),
    differs(
        "Setting and width of the sentence in section 4 are not stated: (256, 16), width 128.",
        tiny="Width 32, at most three layers, three rates.", small="Width 64.",
        medium="Width 64; 1, 2 and 4 layers, three rates.",
    ),
)  # fmt: skip
