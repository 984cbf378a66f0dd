"""Our own controls: do the choices that the paper leaves unstated decide the verdicts?

`filler`: blank filler, Zoology's and the task of every other item, against random filler. `stopping`: the runs of Figure 1
evaluated at their last step, at their best measurement, and as if training had ended at 99 %. `readings`: other models that the
paper's words allow.
"""

from functools import cache
from typing import Any

import pandas as pd

from recollect.analysis.scaling import at_best_rate
from recollect.analysis.window import THRESHOLD, ZOOLOGY_RATES, windows
from recollect.figures.panels import lines_figure, mean_and_range
from recollect.papers.drawing import table
from recollect.papers.item import Drawing, Item
from recollect.papers.judge import Evidence, Scale
from recollect.papers.okpekpe2025 import unstated
from recollect.papers.okpekpe2025.settings import (
    ABLATION_WIDTH,
    ABOVE,
    FINE,
    FOUR_RATES,
    LONGER,
    NAME,
    SETTINGS,
    differs,
    model,
    rates_at,
    study,
    tasks,
    train,
)
from recollect.papers.okpekpe2025.windows import WIDTH, fig1_studies
from recollect.study.spec import Study

STOP = 0.99
"""The accuracy above which Zoology's code ends a run."""
LAST, BEST, STOPPED = "last step", "best measurement", f"stop at {STOP:.0%}"
"""When accuracy is read."""
TWO_LAYERS = ["attention", "mamba", "hyena", "h3", "rwkv"]
ONE_LAYER = [{"kind": "mamba", "conv": False}, "s6", {"kind": "attention", "conv": "v"}]
RATES = {"tiny": FINE["tiny"][4:9:2], "small": FINE["small"][2:9], "medium": FOUR_RATES, "paper": None}
"""Rates around the best."""
EDGES = {"mamba": [*rates_at(6, 7, 9, 11, 12), ABOVE[0]], "attention": rates_at(2, 3, 6, 9, 10)}
"""At `medium`: rates on both sides of each edge of a model's window in Figure 1."""
ACROSS = {"mamba": [*rates_at(5, 6, 7, 9, 10, 11, 12), ABOVE[0]], "attention": rates_at(1, 2, 3, 5, 7, 9, 10, 11)}
"""At `medium`: more of them, because the filler may move the edges."""


def filler_studies(scale: Scale) -> list[Study]:
    """Five two-layer models, and three one-layer models of Tables 2 and 3 whose recall may depend on the filler, with blank and
    with random filler; at `tiny` the two-layer models that solve alone."""
    short = {"steps": LONGER} if scale == "tiny" else {}
    task = [one for filler in ("blank", "random") for one in tasks(scale, SETTINGS[scale][:1], filler=filler)]
    two = [model(mixer, scale, WIDTH[scale], 2) for mixer in (TWO_LAYERS[:2] if scale == "tiny" else TWO_LAYERS)]
    one = [model(mixer, scale, ABLATION_WIDTH[scale], 1) for mixer in ONE_LAYER]
    grids = {"filler": (two, RATES[scale]), "filler-one": (one, RATES[scale])}
    if scale == "tiny":
        del grids["filler-one"]
    if scale == "medium":  # windows of the two that solve
        windows = {
            f"filler-{name}": (one, ACROSS[name])
            for name, one in zip(TWO_LAYERS[:2], ([two[0]], [two[1]]), strict=True)
        }
        grids |= {"filler": (two[2:], RATES[scale]), **windows}
    return [
        Study(name=f"{NAME}.{part}.{scale}", model=models, task=task, train=train(scale, rates, **short))
        for part, (models, rates) in grids.items()
    ]


def draw_filler(evidence: Evidence, caption: str) -> Drawing:
    """Accuracy against learning rate, a panel per model, a line per filler."""
    runs = evidence.runs
    if len(runs):
        runs = runs.sort_values("model.layers", ascending=False, kind="stable")
        runs = runs.sort_values("model", key=lambda column: ~column.isin(TWO_LAYERS[:2]), kind="stable")
        named = zip(runs["model"], runs["model.layers"], strict=True)
        runs = runs.assign(panel=[f"{name}, {layers} layer{'s' * (layers > 1)}" for name, layers in named])
    table = mean_and_range(runs, ["panel", "task.filler", "train.lr"])
    figure = lines_figure(
        table, "train.lr", "task.filler", "panel", title="Control: blank and random filler", caption=caption,
        xlabel="learning rate", marks=ZOOLOGY_RATES,
    )  # fmt: skip
    return figure, _with_windows(runs, table, ["panel", "task.filler"])


def _with_windows(runs: pd.DataFrame, table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """The table with the decades of each group's window, and the interval over seeds."""
    if runs.empty:
        return table
    group = runs[by].astype(str).agg(" | ".join, axis=1)
    found = windows(runs.assign(group=group), by="group").set_index("group")
    rows = found.loc[table[by].astype(str).agg(" | ".join, axis=1), ["decades", "interval_low", "interval_high"]]
    return table.assign(**{name: rows[name].to_numpy() for name in rows})


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
        LAST: list(runs["accuracy"]),
        BEST: [best.get(run) for run in runs["id"]],
        STOPPED: [stopped.get(run, accuracy) for run, accuracy in ended],
    }
    return pd.concat([runs.assign(rule=rule, accuracy=accuracy) for rule, accuracy in rules.items()], ignore_index=True)


def draw_stopping(evidence: Evidence, caption: str) -> Drawing:
    """Accuracy against learning rate, a panel per rule, a line per model."""
    runs = _read(evidence)
    table = mean_and_range(runs, ["rule", "model", "train.lr"])
    figure = lines_figure(
        table, "train.lr", "model", "rule", title="Control: when accuracy is read", caption=caption, xlabel="learning rate",
        marks=ZOOLOGY_RATES,
    )  # fmt: skip
    return figure, _with_windows(runs, table, ["rule", "model"])


OF_WINDOWS: dict[str, dict[str, Any]] = {
    "Mamba and an MLP": {"mixer": "mamba"},
    "Mamba's own block twice, no MLP": {"mixer": "mamba", "layers": 4, "mlp": "none"},
    "Mamba's own block twice, no MLP, PyTorch's initial maps": {
        "mixer": {"kind": "mamba", "init": "pytorch"},
        "layers": 4,
        "mlp": "none",
    },
    "Mamba, step-size bias zero": {"mixer": {"kind": "mamba", "dt_init": "zero"}},
    "Mamba, dropout 0.1": {"mixer": "mamba", "dropout_embedding": 0.1},
    "attention": {"mixer": "attention"},
    "attention, dropout 0.1": {"mixer": {"kind": "attention", "dropout": 0.1}, "dropout_embedding": 0.1},
}
"""Interpretations of two-layer models, whose windows are compared; each with its fields."""
OF_RECALL: dict[str, dict[str, Any]] = {
    "S6 without convolution": {"mixer": "s6"},
    "S6 with Mamba's convolution": {"mixer": {"kind": "mamba", "expand": 1, "gate": False}},
    **{
        f"attention, {how} convolution on {part}": {
            "mixer": {"kind": "attention", "conv": part, **({} if how == "causal" else {"conv_causal": False})}
        }
        for part in "kv"
        for how in ("causal", "centred")
    },
}
"""Interpretations of one-layer models: whether they recall at all."""


@cache
def _studies(scale: Scale) -> dict[str, Study]:
    """A study per reading. `tiny` leaves out what is slow to train (models of four blocks, dropout), and attention, which only
    dropout is compared with."""
    found = {}
    for place, (name, fields) in enumerate({**OF_WINDOWS, **OF_RECALL}.items()):
        given: dict[str, Any] = {"layers": 2 if name in OF_WINDOWS else 1, **fields}
        if scale == "tiny" and (given["layers"] == 4 or "dropout" in name or name == "attention"):
            continue
        mixer, layers = given.pop("mixer"), given.pop("layers")
        width = (WIDTH if name in OF_WINDOWS else ABLATION_WIDTH)[scale]
        spec = model(mixer, scale, width, layers, **given)
        rates = FINE["tiny"][6:9:2] if scale == "tiny" and name in OF_WINDOWS else RATES[scale]
        if scale == "medium" and name in OF_WINDOWS:
            rates = EDGES[mixer if isinstance(mixer, str) else mixer["kind"]]
        how = ({"steps": LONGER} if name in OF_WINDOWS else {"batch": 64}) if scale == "tiny" else {}
        found[name] = study(f"reading-{place}", scale, [spec], SETTINGS[scale][:1], rates=rates, **how)
    return found


def _named(evidence: Evidence) -> pd.DataFrame:
    """The runs with their reading."""
    names = {run.id: name for name, study in _studies(evidence.scale).items() for run in study.runs()}
    return evidence.runs.assign(reading=[names[run] for run in evidence.runs["id"]])


def _by_reading(evidence: Evidence) -> pd.DataFrame:
    """Accuracy at the best rate and the window of each reading."""
    columns = ["reading", "layers", "accuracy", "lowest seed", "highest seed", "learning rate", "decades", "seeds"]
    rows = []
    if len(evidence.runs):
        runs = _named(evidence)
        decades = windows(runs, by="reading", resamples=1).set_index("reading")["decades"]
        for row in at_best_rate(runs, ["reading", "model.layers"]).to_dict("records"):
            seen = (row["accuracy"], row["min"], row["max"], row["lr"], decades[row["reading"]], row["seeds"])
            rows.append((row["reading"], row["model.layers"], *seen))
    return pd.DataFrame(rows, columns=columns)


_OURS = "Not in the paper: a control."
_MEDIUM = "Two layers: width 64; one layer: width 128; 3 to 7 rates."
FILLER = Item(
    "filler", "Control: blank and random filler", "whether the filler decides which models solve, and their windows",
    draw_filler, filler_studies, unstated.FILLER,
    differs(_OURS, tiny=f"{_OURS} Three rates, attention and Mamba.", medium=f"{_OURS} {_MEDIUM}"),
)  # fmt: skip
STOPPING = Item(
    "stopping", "Control: when accuracy is read", "whether the last step, the best one or a stop at 99 % decides the windows",
    draw_stopping, fig1_studies, unstated.stopping_claims(_read, LAST, BEST, STOPPED),
    differs(f"{_OURS} The runs of Figure 1; measured on validation rows during training.", tiny=f"{_OURS} Runs end at 99 %."),
    ("curves",),
)  # fmt: skip
READINGS = Item(
    "readings", "Control: readings of the paper", "models that the paper's words allow beside those of the other items",
    table(_by_reading, f"Control: readings of the paper (windows at {THRESHOLD:g})"),
    lambda scale: list(_studies(scale).values()), unstated.reading_claims(_named, list(OF_WINDOWS)),
    differs(_OURS, tiny=f"{_OURS} Two or three rates.", medium=f"{_OURS} {_MEDIUM}"),
)  # fmt: skip
