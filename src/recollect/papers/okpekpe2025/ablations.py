"""Tables 2, 3 and 4 and Figures 8 to 10: what 1-layer attention lacks, what Mamba can do without, and positions in recurrent
models.

And our own control: whether MQAR's clean variant and that of the released generator give different answers.
"""

import re
from functools import partial

import pandas as pd

from recollect.analysis.rates import at_best_rate
from recollect.analysis.window import THRESHOLD
from recollect.figures.text import text_figure
from recollect.models.diagram import diagram
from recollect.models.spec import ModelSpec
from recollect.papers.estimates import NotEnough, best
from recollect.papers.item import Drawing, Item, by_best_rate, table
from recollect.papers.judge import Claim, Evidence, Scale, claims
from recollect.papers.okpekpe2025 import settings
from recollect.papers.okpekpe2025.cells import PRINTED, best_in_cells, cells, pairs, printed
from recollect.papers.okpekpe2025.settings import differs, model, rates_at, study, study_of
from recollect.papers.okpekpe2025.widths import ONE_PAIR, one_pair
from recollect.papers.questions import Finding, any_of, at_least, at_most, every, within
from recollect.study.spec import Study
from recollect.tasks import as_task

SAME, SAME_VARIANT = 0.1, 0.05
"""The most by which positions, and variants of the task, may change the accuracy."""
HARDEST = {"tiny": (16, 4), "small": (64, 4), "medium": (64, 4), "paper": (512, 64)}
"""Tables 2 to 4: one pair of 64 is 2 %."""
POSITIONS_WIDTH = {"tiny": 32, "small": 64, "medium": 64, "paper": 256}
"""Table 4: sixteen models."""
MODELS = {
    "attention": ("Attention", "attention", 2),
    "attention(conv=qkv)": ("Attention + conv on QKV", {"kind": "attention", "conv": "qkv"}, 99),
    "attention(conv=k)": ("Attention + conv on K", {"kind": "attention", "conv": "k"}, 99),
    "attention(conv=v)": ("Attention + conv on V", {"kind": "attention", "conv": "v"}, 99),
    "attention(conv=q)": ("Attention + conv on Q", {"kind": "attention", "conv": "q"}, 2),
    "mamba": ("Mamba", "mamba", 99),
    "mamba(conv=False)": ("Mamba w/o conv1d", {"kind": "mamba", "conv": False}, 98),
    "mamba(gate=False)": ("Mamba w/o gating", {"kind": "mamba", "gate": False}, 98),
    "s6": ("S6 + MLP", "s6", 98),
}
"""By our title: the paper's name, the mixer, and the paper's percentage."""
HARD, HARD_RATES = ("attention(conv=v)", "mamba(conv=False)", "s6"), rates_at(3, 5, 7, 9, 11)
"""Of `medium`: models that may not recall at all, and their rates; the others have fewer."""
IN_TABLE_2 = [title for title in MODELS if title not in ("attention(conv=k)", "attention(conv=v)", "attention(conv=q)")]


def ablation_studies(scale: Scale) -> list[Study]:
    """The nine one-layer models of Table 3."""
    width, tasks = settings.ABLATION_WIDTH[scale], [HARDEST[scale]]
    if scale == "medium":
        easy, hard = ([MODELS[name][1] for name in MODELS if (name in HARD) == is_hard] for is_hard in (False, True))
        return [
            study("ablations", scale, easy, width, 1, tasks, rates=settings.THREE_RATES),
            study("ablations-hard", scale, hard, width, 1, tasks, rates=HARD_RATES),
        ]
    rates = {"tiny": settings.FINE["tiny"][4:9], "paper": settings.FINE["paper"]}.get(scale) or settings.FINE[scale][
        3:9
    ]
    mixers = [mixer for _, mixer, _ in MODELS.values()]
    return [study("ablations", scale, mixers, width, 1, tasks, rates=rates, **settings.LARGER_BATCH[scale])]


def _percentages(titles: list[str], evidence: Evidence) -> pd.DataFrame:
    """The paper's percentages beside ours."""
    found = at_best_rate(evidence.runs, ["model"]).set_index("model").to_dict("index")
    rows = []
    for name in titles:
        row = found.get(name, {})
        rows.append(
            {"model": MODELS[name][0], "paper, %": MODELS[name][2], "here, %": 100 * row.get("accuracy", float("nan")),
             "lowest seed": 100 * row.get("min", float("nan")), "highest seed": 100 * row.get("max", float("nan")),
             "learning rate": row.get("lr", float("nan")), "seeds": row.get("seeds", 0)}
        )  # fmt: skip
    return pd.DataFrame(rows)


def _solves(name: str, evidence: Evidence) -> Finding:
    found = best_in_cells(evidence, evidence.where(model=name, layers=1), MODELS[name][0])
    return any_of(*(at_least(one, THRESHOLD) for one in found))


def _fails(name: str, evidence: Evidence) -> Finding:
    def fails(at: str, rows: pd.DataFrame) -> Finding:
        return at_most(evidence.best(rows, f"{MODELS[name][0]} {at}"), ONE_PAIR[1] / pairs(rows))

    return every(cells(evidence.where(model=name, layers=1)).items(), fails)


def _claims(titles: list[str]) -> tuple[Claim, ...]:
    found = []
    for name in titles:
        shown, _, percent = MODELS[name]
        if name == "attention":
            found.append(one_pair)
            continue
        if percent > 50:  # the earlier version of the paper: at any length and width
            says = f"1-layer {shown} solves MQAR: at least {THRESHOLD} in some setting and width tried (paper: {percent} %)"
            test, decided = partial(_solves, name), printed(HARDEST["paper"])
        else:
            says = f"1-layer {shown} fails: at most {ONE_PAIR[1]:g} pairs of K in every setting and width (paper: {percent} %)"
            test, decided = partial(_fails, name), printed()
        found.append(Claim(re.sub(r"\W+", "-", shown.lower()), says, test, decided))
    return tuple(found)


_UNSTATED = {
    "paper": "Setting by the 2 % of one pair in 64: (512, 64); width 256, convolution causal with kernel 4: not stated.",
    "tiny": "Width 32, 5 rates.", "small": "Width 128, 6 rates; one pair is 25 %.",
    "medium": "Width 128, 3 rates, 5 where a model may not recall; one pair is 25 %.",
}  # fmt: skip
TABLE2 = Item(
    "table2", "Ablated one-layer models", "a convolution lets attention recall; Mamba survives each ablation",
    table(partial(_percentages, IN_TABLE_2), "Accuracy of ablated 1-layer models"), ablation_studies, _claims(IN_TABLE_2),
    differs(batch=64, **_UNSTATED),
)  # fmt: skip
TABLE3 = Item(
    "table3", "Ablated one-layer models, every convolution", "a convolution on k or v suffices, on q it does not",
    table(partial(_percentages, list(MODELS)), "Accuracy of ablated 1-layer models, every convolution"), ablation_studies,
    _claims([name for name in MODELS if name not in IN_TABLE_2]), differs(batch=64, **_UNSTATED),
)  # fmt: skip

TRIED = {
    "tiny": settings.FINE["tiny"][6:9],
    "small": settings.FINE["small"][3:8:2],
    "medium": settings.THREE_RATES[1:],
    "paper": None,
}
"""Rates of Table 4 and of the control: at the smaller scales those around Mamba's best."""
POSITIONS = {"none": "none", "sinusoidal": "absolute", "relative": "relative", "learned": "learned"}
"""Our names, and the paper's."""
WITH_POSITIONS = ["mamba", "hyena", "rwkv", "h3"]


def table4_studies(scale: Scale) -> list[Study]:
    """Four recurrent models with four kinds of positions; the smaller scales try the rates at which they are best."""
    models = [model(mixer, scale, POSITIONS_WIDTH[scale], 1, positions=list(POSITIONS)) for mixer in WITH_POSITIONS]
    more = (
        {"epochs": 20, "rates": rates_at(8, 10), "seed": settings.FIVE_SEEDS}
        if scale == "medium"
        else {"rates": TRIED[scale]}
    )
    return [study_of("positions", scale, models, [HARDEST[scale]], **more)]


def _by_positions(evidence: Evidence) -> pd.DataFrame:
    """Model by positions: mean and half of its 90 % interval over seeds."""
    rows = []
    for name in WITH_POSITIONS if len(evidence.runs) else []:
        row: dict[str, object] = {"model": name}
        for ours, theirs in POSITIONS.items():
            runs = evidence.runs.loc[(evidence.runs["model"] == name) & (evidence.runs["model.positions"] == ours)]
            found = best(runs, name) if len(runs) else None
            row[theirs] = f"{found.value:.2f} ± {(found.high - found.low) / 2:.2f}" if found else "-"
        rows.append(row)
    return pd.DataFrame(rows, columns=["model", *POSITIONS.values()])


@claims("{name}-unchanged", WITH_POSITIONS, PRINTED)
def _unchanged(name: str, evidence: Evidence) -> Finding:
    """No kind of positions moves the accuracy of 1-layer {name}, where it is above one pair in K, by more than {SAME}"""
    runs = evidence.where(model=name)
    found = {
        ours: evidence.best(evidence.where(model=name, positions=ours), f"{name}, {theirs}")
        for ours, theirs in POSITIONS.items()
    }
    if max(one.high for one in found.values()) <= (floor := 1 / pairs(runs)):
        raise NotEnough(f"{name} recalls no more than one pair in K ({floor:.3g})", "not seen at this scale")
    return every(list(POSITIONS)[1:], lambda ours: within(found["none"], found[ours], SAME))


TABLE4 = Item(
    "table4", "Positions in recurrent models", "positions do not change recurrent models",
    table(_by_positions, "Positions in recurrent models", "±: half of the 90 % interval over seeds."), table4_studies,
    _unchanged,
    differs(
        "Layers, setting and width are not stated, nor what relative positions are in a recurrent model: the embedding is "
        "rotated.", tiny="Width 32, three learning rates.", small="Width 64, three learning rates.",
        medium="20 epochs in this item, width 64, two learning rates, 5 seeds.",
    ),
)  # fmt: skip

CONTROLLED = ["deltanet", "mamba"]


def variant_studies(scale: Scale) -> list[Study]:
    """Two one-layer models that solve, on both variants, at the rates where they do."""
    both = {"variant": ["clean", "zoology"]}
    width, tasks = settings.ABLATION_WIDTH[scale], settings.SETTINGS[scale][-1:]
    return [study("variants", scale, CONTROLLED, width, 1, tasks, task=both, rates=TRIED[scale])]


def _same_on_both(evidence: Evidence, name: str) -> Finding:
    found = (evidence.best(evidence.where(model=name, variant=v), f"{name}, {v}") for v in ("clean", "zoology"))
    return within(*found, margin=SAME_VARIANT)


VARIANTS = Item(
    "variants", "Control: MQAR's two variants", "keys queried in the order of the released generator, or in any order",
    table(
        lambda e: at_best_rate(e.runs, ["model", "task.variant"]), "Control: the two variants of MQAR", shown=by_best_rate
    ),
    variant_studies,
    (
        Claim("variants-agree", f"1-layer DeltaNet and Mamba differ by at most {SAME_VARIANT} between MQAR's clean variant and "
              "the released generator's", lambda e: every(CONTROLLED, partial(_same_on_both, e)), ("small", "medium", "paper")),
    ),
    differs(
        "Not in the paper.", tiny="Not in the paper; width 32, three rates.", small="Not in the paper; three rates.",
        medium="Not in the paper; width 128, two rates.",
    ),
)  # fmt: skip

DRAWN = {
    "S6 as the mixer of a Transformer layer": "s6",
    "Mamba without conv1d": {"kind": "mamba", "conv": False},
    "Mamba without the gate": {"kind": "mamba", "gate": False},
}


def draw_diagrams(evidence: Evidence, caption: str) -> Drawing:
    """The three diagrams under each other."""
    task = as_task({"kind": "mqar"})
    specs = {title: ModelSpec.model_validate({"mixer": mixer, "layers": 1}) for title, mixer in DRAWN.items()}
    text = "\n".join(f"{title}\n\n{diagram(spec, task)}" for title, spec in specs.items())
    table = pd.DataFrame({"figure": list(specs), "model": [spec.title for spec in specs.values()]})
    return text_figure(text, "Figures 8 to 10: ablated architectures", caption), table


FIG8 = Item(
    "fig8-10", "Ablated architectures", "diagrams of S6 + MLP, Mamba without conv1d and without gate", draw_diagrams
)
