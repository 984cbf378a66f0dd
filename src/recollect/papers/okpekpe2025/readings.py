"""Our own control of the words of the paper: models that they allow beside those of the other items.

A claim that does not hold says that the reading matters.
"""

import re
from functools import cache
from typing import Any

import pandas as pd

from recollect.analysis.rates import at_best_rate
from recollect.analysis.window import THRESHOLD, windows
from recollect.papers.item import Item, table
from recollect.papers.judge import Claim, Evidence, Scale, where
from recollect.papers.okpekpe2025 import settings
from recollect.papers.okpekpe2025.cells import PRINTED
from recollect.papers.okpekpe2025.controls import OURS, RATES, SIZES
from recollect.papers.okpekpe2025.settings import differs, model, rates_at, study_of, tiny_text
from recollect.papers.okpekpe2025.windows import WIDER, WIDTH
from recollect.papers.questions import Finding, all_of, at_least, every, not_, within
from recollect.study.spec import Study

EDGES = {"mamba": [*rates_at(6, 7, 9, 11, 12), settings.ABOVE[0]], "attention": rates_at(2, 3, 6, 9, 10)}
"""At `medium`: rates on both sides of each edge of a model's window in Figure 1."""
OF_WINDOWS: dict[str, dict[str, Any]] = {
    "Mamba and an MLP": {"mixer": "mamba"},
    "Mamba's own block twice, no MLP": {"mixer": "mamba", "layers": 4, "mlp": "none"},
    "Mamba's own block twice, no MLP, PyTorch's initial maps": {
        "mixer": {"kind": "mamba", "init": "pytorch"}, "layers": 4, "mlp": "none"
    },
    "Mamba, step-size bias zero": {"mixer": {"kind": "mamba", "dt_init": "zero"}},
    "Mamba, dropout 0.1": {"mixer": "mamba", "dropout_embedding": 0.1},
    "attention": {"mixer": "attention"},
    "attention, dropout 0.1": {"mixer": {"kind": "attention", "dropout": 0.1}, "dropout_embedding": 0.1},
}  # fmt: skip
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
        width = (WIDTH if name in OF_WINDOWS else settings.ABLATION_WIDTH)[scale]
        spec = model(mixer, scale, width, layers, **given)
        tasks, how = settings.SETTINGS[scale][:1], {"rates": RATES[scale]}
        if scale == "tiny":
            how = settings.TINY_WINDOWS if name in OF_WINDOWS else {"rates": settings.FINE["tiny"][4:9:2], "batch": 64}
            tasks = [(8, 2)] if name in OF_WINDOWS else tasks
        elif scale == "medium" and name in OF_WINDOWS:
            how = {"rates": EDGES[mixer if isinstance(mixer, str) else mixer["kind"]]}
        found[name] = study_of(f"reading-{place}", scale, [spec], tasks, **how)
    return found


def _named(evidence: Evidence) -> pd.DataFrame:
    """The runs with their reading."""
    names = {run.id: name for name, study in _studies(evidence.scale).items() for run in study.runs()}
    return evidence.runs.assign(reading=[names[run] for run in evidence.runs["id"]])


def _by_reading(evidence: Evidence) -> pd.DataFrame:
    """Accuracy at the best rate and the window of each reading."""
    columns = ["reading", "model.layers", "accuracy", "min", "max", "lr", "decades", "open", "seeds"]
    names = {"model.layers": "layers", "min": "lowest seed", "max": "highest seed", "lr": "learning rate"}
    runs = _named(evidence)
    table = at_best_rate(runs, ["reading", "model.layers"])
    if len(runs):
        found = windows(runs, by="reading", resamples=1).set_index("reading")
        table = table.join(found[["decades", "open_low", "open_high"]], on="reading")
        table["open"] = table["open_low"] | table["open_high"]
    return pd.DataFrame(table, columns=columns).rename(columns=names)


def _with_open_windows(table: pd.DataFrame) -> pd.DataFrame:
    """The table as it is shown: a sign before a window that goes on beyond the rates tried."""
    text = [f"{'≥ ' * bool(row['open'])}{row['decades']:.3g}" for row in table.to_dict("records")]
    return table.assign(decades=text).drop(columns="open")


def _runs(evidence: Evidence, reading: str) -> pd.DataFrame:
    return evidence.whole(where(evidence.once("readings", _named), reading=reading))


def _recalls(evidence: Evidence, reading: str) -> Finding:
    return at_least(evidence.best(_runs(evidence, reading), reading), THRESHOLD)


def _same_window(reading: str) -> Claim:
    """The claim that a reading does not move the window of attention or of Mamba."""
    base = "attention" if reading.startswith("attention") else "Mamba and an MLP"

    def test(evidence: Evidence) -> Finding:
        found = (evidence.window(_runs(evidence, name), f"{name}: decades") for name in (reading, base))
        return within(*found, margin=WIDER)

    name = f"reading-{re.sub(r'[^a-z0-9]+', '-', reading.lower())}"
    return Claim(name, f"2 layers, {reading}: the window is within {WIDER} decades of that of {base}", test, PRINTED)


def _only(evidence: Evidence, reading: str, other: str) -> Finding:
    """Whether one reading recalls, and the other does not."""
    return all_of(lambda: _recalls(evidence, reading), lambda: not_(_recalls(evidence, other)))


READINGS = Item(
    "readings", "Control: readings of the paper", "models that the paper's words allow beside those of the other items",
    table(_by_reading, f"Control: readings of the paper (windows at {THRESHOLD:g})", shown=_with_open_windows),
    lambda scale: list(_studies(scale).values()),
    (
        *(_same_window(reading) for reading in OF_WINDOWS if reading not in ("attention", "Mamba and an MLP")),
        Claim("reading-s6-needs-convolution", f"1-layer S6 with Mamba's convolution reaches {THRESHOLD}, and without it does not",
              lambda e: _only(e, "S6 with Mamba's convolution", "S6 without convolution"), PRINTED),
        Claim("reading-v-needs-centred", f"1-layer attention with a centred convolution on v reaches {THRESHOLD}, and with a "
              "causal one does not",
              lambda e: _only(e, *(f"attention, {how} convolution on v" for how in ("centred", "causal"))), PRINTED),
        Claim("reading-k-either-way", f"1-layer attention with a convolution on k reaches {THRESHOLD}, causal or centred",
              lambda e: every(("causal", "centred"), lambda how: _recalls(e, f"attention, {how} convolution on k")), PRINTED),
    ),
    {
        **differs(OURS, medium=f"{OURS} {SIZES} 4 to 6 rates."),
        "tiny": f"{tiny_text(batch=64)} {OURS} Width 32, three rates; two layers: 8 tokens, 2 pairs, 2,000 steps, 9 rates.",
    },
)  # fmt: skip
