"""A probed mixer beside known ones: records, one picture per depth, and a sentence."""

from pathlib import Path
from typing import Any

import pandas as pd

from recollect.analysis.window import THRESHOLD, decades_text, windows
from recollect.figures.style import save
from recollect.figures.window import window_figure
from recollect.probing.reference import about, shipped
from recollect.probing.setting import RATES, ProbeSetting
from recollect.train.spec import RunSpec

LINES = 8
"""The most curves in a picture."""


def beside_shipped(trained: pd.DataFrame, runs: list[RunSpec]) -> pd.DataFrame:
    """The runs trained now and the shipped ones of the same setting; what was trained now is not shown twice."""
    known = shipped(runs)
    here = set(zip(trained["model"], trained["model.layers"], strict=True))
    pairs = zip(known["model"], known["model.layers"], strict=True)
    known = known.loc[[pair not in here for pair in pairs]]
    both = [trained.assign(origin="now"), known.assign(origin="shipped")]
    frame = pd.concat([part[[*known.columns, "origin"]] for part in both if len(part)], ignore_index=True)
    marks = ["*" if origin == "shipped" else "" for origin in frame["origin"]]
    return frame.assign(configuration=[model + mark for model, mark in zip(frame["model"], marks, strict=True)])


def compared(frame: pd.DataFrame, mixer: str, task: str) -> list[dict[str, Any]]:
    """One record per model and depth on a task, by depth; the probed mixer first, then the widest windows."""
    records = []
    for layers, part in frame.groupby("model.layers"):
        rest = part.groupby("configuration").agg({"model": "first", "origin": "first", "parameters": "first"})
        solved = part[part["status"] == "solved"].groupby("configuration").agg({"step": "min"})
        found = windows(part, resamples=1).set_index("configuration").join([rest, solved]).reset_index()
        found = found.assign(task=task, layers=layers, probed=found["model"].eq(mixer) & found["origin"].eq("now"))
        records += found.sort_values(["probed", "decades", "best"], ascending=False).to_dict("records")
    return records


def pictures(frame: pd.DataFrame, records: list[dict[str, Any]], setting: ProbeSetting, stem: Path) -> list[Path]:
    """Accuracy against learning rate, one picture per depth: the probed mixer and those with the widest windows."""
    paths = []
    for layers in setting.layers:
        chosen = [row for row in records if row["layers"] == layers][:LINES]
        part = frame[frame["model.layers"] == layers].set_index("configuration", drop=False)
        part = part.loc[[row["configuration"] for row in chosen]].reset_index(drop=True)
        title = f"{chosen[0]['model']}: learning-rate window, {layers} layer{'s' * (layers > 1)}"
        place = stem if len(setting.layers) == 1 else stem.with_name(f"{stem.name}-{layers}-layers")
        paths += save(window_figure(part, title, caption(part, setting)), place)
    return paths


def caption(part: pd.DataFrame, setting: ProbeSetting) -> str:
    """What the picture shows, at which scale, and where the shipped curves are from."""
    now = list(part["origin"]).count("now")
    seeds = f"{setting.seeds} seed{'s' * (setting.seeds > 1)}"
    text = (
        f"{now} runs of a search among {RATES} rates and {seeds}; {setting}. Line: mean of the seeds tried; "
        f"band: lowest to highest; bars: accuracy at least {THRESHOLD:g}; dotted: the four rates of Zoology."
    )
    if now == len(part):
        return text
    made = about()["atlas.probe"]
    return f"{text} *: shipped, the same setting, made on {made['made']} on {made['hardware']}."


def verdicts(records: list[dict[str, Any]], chance: float) -> list[str]:
    """What the probe found out about the mixer, a sentence per depth. `chance` is what a model reaches that picks among the
    values that a row offers, so one that has not learnt yet which tokens are values may stay below it."""
    lines = []
    for row in records:
        if not row["probed"]:
            continue
        others = [other for other in records if other["layers"] == row["layers"] and not other["probed"]]
        narrower = [other["model"] for other in others if other["decades"] < row["decades"]]
        line = (
            f"{row['model']} on {row['task']}, {row['layers']} layer{'s' * (row['layers'] > 1)}: recalls {row['best']:.3f} "
            f"at its best rate (guessing among what a row offers: {chance:.3g})"
        )
        if not pd.isna(row["step"]):
            line += f", 0.99 after {row['step']:.0f} steps at the quickest"
        line += (
            f"; its window spans {decades_text(row)} decades" if row["decades"] else f"; no rate reaches {THRESHOLD:g}"
        )
        if others and row["decades"]:
            line += f", wider than {len(narrower)} of {len(others)} others"
        if 0 < len(narrower) < len(others):
            line += f" ({', '.join(narrower)})"
        lines.append(line)
    return lines
