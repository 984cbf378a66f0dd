"""Our own controls: do the choices that the paper leaves unstated decide the verdicts?

`filler`: blank filler, Zoology's and the task of every other item, against random filler. `stopping`: the runs of Figure 1
evaluated at their last step, at their best measurement, and as if training had ended at 99 %. See also `readings.py`.
"""

from functools import partial

import pandas as pd

from recollect.analysis.window import windows
from recollect.figures.panels import mean_and_range
from recollect.papers.estimates import Estimate, NotEnough
from recollect.papers.item import Item, lines
from recollect.papers.judge import Claim, Evidence, Scale, where
from recollect.papers.okpekpe2025 import settings
from recollect.papers.okpekpe2025.cells import PRINTED
from recollect.papers.okpekpe2025.settings import differs, model, rates_at, study_of, tiny_text
from recollect.papers.okpekpe2025.windows import BY_RATE, WIDER, WIDTH, fig1_studies
from recollect.papers.questions import Finding, every, exceeds, within
from recollect.study.spec import Study

OURS = "Not in the paper: a control."
SIZES = "Two layers: width 64; one layer: width 128."
TWO_LAYERS = ["attention", "mamba", "hyena", "h3", "rwkv"]
ONE_LAYER = [{"kind": "mamba", "conv": False}, "s6", {"kind": "attention", "conv": "v"}]
RATES = {
    "tiny": settings.TINY_WINDOWS["rates"][1:-1],
    "small": settings.FINE["small"][2:9],
    "medium": settings.FOUR_RATES,
    "paper": None,
}
"""Rates around the best."""
ACROSS = {
    "mamba": [*rates_at(5, 6, 7, 9, 10, 11, 12), settings.ABOVE[0]],
    "attention": rates_at(1, 2, 3, 5, 7, 9, 10, 11),
}
"""At `medium`: more of them, because the filler may move the edges."""


def filler_studies(scale: Scale) -> list[Study]:
    """Five two-layer models, and three one-layer models of Tables 2 and 3 whose recall may depend on the filler, with blank and
    with random filler; at `tiny` the two-layer models that solve alone, on 2 pairs."""
    both, short = {"filler": ["blank", "random"]}, {"steps": 2000, "batch": 64} if scale == "tiny" else {}
    two = [model(mixer, scale, WIDTH[scale], 2) for mixer in (TWO_LAYERS[:2] if scale == "tiny" else TWO_LAYERS)]
    one = [model(mixer, scale, settings.ABLATION_WIDTH[scale], 1) for mixer in ONE_LAYER]
    grids = {"filler": (two, RATES[scale])} | ({} if scale == "tiny" else {"filler-one": (one, RATES[scale])})
    if scale == "medium":  # windows of the two that solve
        grids["filler"] = (two[2:], RATES[scale])
        grids |= {f"filler-{name}": ([two[place]], ACROSS[name]) for place, name in enumerate(TWO_LAYERS[:2])}
    return [
        study_of(
            part,
            scale,
            models,
            [(16, 2)] if scale == "tiny" else settings.SETTINGS[scale][:1],
            task=both,
            rates=rates,
            **short,
        )
        for part, (models, rates) in grids.items()
    ]


def _filler_by_rate(evidence: Evidence) -> pd.DataFrame:
    """Accuracy by model, filler and rate."""
    runs = evidence.runs.sort_values("model.layers", ascending=False, kind="stable")
    runs = runs.sort_values("model", key=lambda column: ~column.isin(TWO_LAYERS[:2]), kind="stable")
    named = zip(runs["model"], runs["model.layers"], strict=True)
    runs = runs.assign(panel=[f"{name}, {layers} layer{'s' * (layers > 1)}" for name, layers in named])
    return _with_windows(runs, ["panel", "task.filler"])


def _with_windows(runs: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Accuracy at each rate, and the decades of each line's window with their interval over seeds."""
    table = mean_and_range(runs, [*by, "train.lr"])
    if runs.empty:
        return table
    group = runs[by].astype(str).agg(" | ".join, axis=1)
    found = windows(runs.assign(group=group), by="group").set_index("group")
    rows = found.loc[table[by].astype(str).agg(" | ".join, axis=1), ["decades", "interval_low", "interval_high"]]
    return table.assign(**{name: rows[name].to_numpy() for name in rows})


MORE = 0.1
"""Accuracy by which a model must recall more with one filler to count."""


def _by_filler(evidence: Evidence, name: str, layers: int) -> dict[str, pd.DataFrame]:
    """The runs of a model with blank and with random filler."""
    fillers = ("blank", "random")
    return {f"{name}, {one} filler": evidence.where(model=name, layers=layers, filler=one) for one in fillers}


def _windows(evidence: Evidence, name: str) -> list[Estimate]:
    """The windows of a 2-layer model with blank and with random filler."""
    return [evidence.window(runs, f"{at}: decades") for at, runs in _by_filler(evidence, name, 2).items()]


def _recalls_more(evidence: Evidence, name: str, layers: int) -> Finding:
    """Whether a model recalls more with blank filler than with random filler, each at its best rate."""
    blank, random = (evidence.best(runs, at) for at, runs in _by_filler(evidence, name, layers).items())
    return exceeds(blank, random, by=MORE)


def _as_wide(one: Estimate, other: Estimate) -> Finding:
    """Whether two windows are of about the same width; where there is neither, there is nothing to compare."""
    if not one.value and not other.value:
        raise NotEnough(
            f"{one.name}: it solves at no rate, so that there is no window to compare", "not seen at this scale"
        )
    return within(one, other, WIDER)


FILLER = Item(
    "filler", "Control: blank and random filler", "whether the filler decides which models solve, and their windows",
    lines(_filler_by_rate, "train.lr", "task.filler", "panel", title="Control: blank and random filler", **BY_RATE),
    filler_studies,
    (
        Claim("filler-widens-mamba", f"With 2 layers, Mamba's window with blank filler is at least {WIDER} decades wider than "
              "with random filler", lambda e: exceeds(*_windows(e, "mamba"), by=WIDER), PRINTED),
        Claim("filler-leaves-attention", "With 2 layers, attention's windows with blank and with random filler differ by at most "
              f"{WIDER} decades", lambda e: _as_wide(*_windows(e, "attention")), PRINTED),
        Claim("filler-helps-recurrent", f"With 2 layers, Hyena, H3 and RWKV each recall at least {MORE} more with blank filler "
              "than with random filler, at their best rates",
              lambda e: every(("hyena", "h3", "rwkv"), lambda name: _recalls_more(e, name, 2)), PRINTED),
        Claim("filler-helps-without-convolution", "With 1 layer, Mamba without its convolution and S6 each recall at least "
              f"{MORE} more with blank filler than with random filler, at their best rates",
              lambda e: every(("mamba(conv=False)", "s6"), lambda name: _recalls_more(e, name, 1)), PRINTED),
    ),
    {
        **differs(OURS, medium=f"{OURS} Both fillers. {SIZES} 4 rates; attention and Mamba 8."),
        "tiny": f"{tiny_text('16 tokens, 2 pairs', 64, '2,000')} {OURS} Width 32, 7 rates, attention and Mamba.",
    },
)  # fmt: skip

STOP = 0.99
"""The accuracy above which Zoology's code ends a run."""
LAST, BEST, STOPPED = "last step", "best measurement", f"stop at {STOP:.0%}"
"""When accuracy is read."""


def _read(evidence: Evidence) -> pd.DataFrame:
    """The runs three times: with the accuracy at the last step, at the best measurement, and at a stop at 99 %."""
    runs, curves = evidence.runs, evidence.curves
    if runs.empty or curves.empty:
        return pd.DataFrame(columns=["rule", "model", "train.lr", "train.seed", "accuracy"])
    runs = runs.loc[runs["model.width"] == WIDTH[evidence.scale]]
    curves = curves.dropna(subset="accuracy")
    solved = curves.loc[curves["accuracy"] >= STOP].sort_values("step").drop_duplicates("run")
    stopped, best = (dict(zip(c["run"], c["accuracy"], strict=True)) for c in (solved, curves.sort_values("accuracy")))
    ended = zip(runs["id"], runs["accuracy"], strict=True)
    rules = {
        LAST: runs["accuracy"],
        BEST: [best.get(run) for run in runs["id"]],
        STOPPED: [stopped.get(run, accuracy) for run, accuracy in ended],
    }
    return pd.concat([runs.assign(rule=rule, accuracy=accuracy) for rule, accuracy in rules.items()], ignore_index=True)


def _decades(evidence: Evidence, name: str, rule: str) -> Estimate:
    runs = where(evidence.once("read", _read), model=name, rule=rule).drop(columns="final.valid", errors="ignore")
    return evidence.window(evidence.whole(runs), f"{name}, {rule}: decades")


_MEASURED = "Best and stop: measured on validation rows during training."
_judged_once = partial(Claim, decided_at=PRINTED, by_best_epoch=False)
STOPPING = Item(
    "stopping", "Control: when accuracy is read", "whether the last step, the best one or a stop at 99 % decides the windows",
    lines(
        lambda evidence: _with_windows(_read(evidence), ["rule", "model"]), "train.lr", "model", "rule",
        title="Control: when accuracy is read", **BY_RATE,
    ),
    fig1_studies,
    (
        _judged_once("stopping-widens-attention", f"With 2 layers, attention's window is at least {WIDER} decades wider by the "
                     "best measurement than by the last step",
                     lambda e: exceeds(_decades(e, "attention", BEST), _decades(e, "attention", LAST), by=WIDER)),
        _judged_once("stopping-leaves-mamba", "With 2 layers, Mamba's windows by the best measurement and by the last step "
                     f"differ by at most {WIDER} decades",
                     lambda e: _as_wide(_decades(e, "mamba", BEST), _decades(e, "mamba", LAST))),
        _judged_once("stopping-at-99-like-best", "With 2 layers, a stop at 99 % gives attention and Mamba windows within "
                     f"{WIDER} decades of those of the best measurement",
                     lambda e: every(TWO_LAYERS[:2], lambda one: _as_wide(_decades(e, one, STOPPED), _decades(e, one, BEST)))),
    ),
    {
        **differs(f"{OURS} The runs of Figure 1 with two layers of width 64. {_MEASURED}"),
        "tiny": f"{settings.TWO_LAYERS_TINY} {OURS} {_MEASURED}",
    },
    ("curves",),
)  # fmt: skip
