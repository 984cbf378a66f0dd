"""Section 4: "increasing the number of layers to more than 2 does not provide any further improvement"."""

from recollect.papers.drawing import lines
from recollect.papers.estimates import NotEnough
from recollect.papers.item import Item
from recollect.papers.judge import Claim, Evidence, Scale
from recollect.papers.okpekpe2025.cells import printed
from recollect.papers.okpekpe2025.settings import ALL, FINE, MAIN, THREE_RATES, differs, model, study
from recollect.papers.okpekpe2025.widths import best_table
from recollect.papers.questions import Finding, every, exceeds, not_
from recollect.study.spec import Study

ADDS = 0.05
"""The least gain in accuracy from more layers that counts."""


def depth_studies(scale: Scale) -> list[Study]:
    """One to four layers at one width; at `tiny` to three, at `medium` without three."""
    if scale == "medium":  # one and two layers are those of fig3 and fig1
        deep = [model(mixer, scale, 64, [1, 2, 4]) for mixer in ("attention", "mamba")]
        return [study("depth", scale, deep, rates=THREE_RATES)]
    width = {"tiny": 32, "small": 64, "paper": 128}[scale]
    mixers, layers = (["attention", "mamba"], [1, 2, 3]) if scale == "tiny" else (MAIN, [1, 2, 3, 4])
    settings = {"paper": [(256, 16)]}.get(scale)
    rates = [FINE[scale][place] for place in (2, 6, 7)] if scale == "tiny" else None
    return [study("depth", scale, [model(mixer, scale, width, layers) for mixer in mixers], settings, rates=rates)]


def _more_adds_nothing(evidence: Evidence) -> Finding:
    def adds_nothing(at: tuple[str, int]) -> Finding:
        name, layers = at
        two, deeper = (evidence.best(evidence.where(model=name, layers=n), f"{name}, {n} layers") for n in (2, layers))
        if exceeds(two, deeper, by=ADDS).holds:
            raise NotEnough(f"{deeper.name} is worse ({deeper}): it was not trained well", "needs longer training")
        return not_(exceeds(deeper, two, by=ADDS))

    runs = evidence.where()
    deeper = runs.loc[runs["model.layers"] > 2]
    return every(sorted(set(zip(deeper["model"], deeper["model.layers"], strict=True))), adds_nothing)


_DRAW = lines(
    lambda evidence: best_table(evidence, ALL), "model.layers", "model", title="Accuracy against depth", xlabel="layers",
    logx=False,
)  # fmt: skip
DEPTH = Item(
    "depth",
    "Accuracy against depth",
    "more than two layers add nothing",
    _DRAW,
    depth_studies,
    (
        Claim(
            "two-suffice",
            f"More than 2 layers bring less than {ADDS} over 2, for every model and depth that is trained as well as 2",
            _more_adds_nothing,
            printed(),
        ),
    ),
    differs(
        "Setting and width of the sentence in section 4 are not stated: (256, 16), width 128.",
        tiny="At most three layers.",
        small="Width 64.",
        medium="Width 64; 1, 2 and 4 layers, three rates.",
    ),
)
