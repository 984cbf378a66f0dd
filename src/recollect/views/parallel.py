"""Parallel coordinates: a line per run through its fields and what came out of it."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from recollect.analysis.columns import is_share, logarithmic
from recollect.views.base import Choice, Frames, View
from recollect.views.fields import choose, measures, number, plain, text, value_text, varying
from recollect.views.frame import Frame

AXES = 8
"""Fields at most."""
MARGIN = {"l": 110, "r": 40, "t": 56, "b": 24}


class Parallel(View):
    """Parallel coordinates."""

    title = "Parallel coordinates"
    kind = "parallel"
    about = "A line per run. Drag along an axis to keep some runs, click it to keep all again; drag a name to move its axis."

    def choices(self, frames: Frames) -> list[Choice]:
        if frames.runs.empty or not varying(frames.runs):
            return []
        return [choose("y", "colour", measures(frames.runs), "accuracy")]

    def table(self, frames: Frames, chosen: dict[str, str]) -> Frame:
        runs = frames.runs
        sizes = [name for name in ("state_size",) if number(runs, name) and runs[name].nunique() > 1]
        several = ["study"] if runs["study"].nunique() > 1 else []
        others = [name for name in varying(runs) if not name.startswith("model.mixer")]
        fields = dict.fromkeys(["model", *several, *others, "train.seed"])
        names = [name for name in fields if runs[name].nunique(dropna=False) > 1][:AXES]
        return runs[["id", *dict.fromkeys([*names, *sizes, chosen["y"]])]]

    def draw(self, table: Frame, frames: Frames, chosen: dict[str, str]) -> go.Figure:
        y = chosen["y"]
        ends = (0, 1) if is_share(y) else (table[y].min(), table[y].max())
        line = {"color": table[y], "cmin": ends[0], "cmax": ends[1]}
        axes = [axis(table[name], name, name == y) for name in table.columns[1:]]
        figure = go.Figure(go.Parcoords(dimensions=axes, line=line, customdata=table["id"]))
        return figure.update_layout(margin=MARGIN)


def axis(values: Frame, name: str, measured: bool) -> dict:
    """An axis of numbers, logarithmic where a field's span much, or of names."""
    label = text(plain(name))
    if not pd.api.types.is_numeric_dtype(values):
        names = list(dict.fromkeys(str(value) for value in values))
        codes = [names.index(str(value)) for value in values]
        return {
            "label": label,
            "values": codes,
            "tickvals": list(range(len(names))),
            "ticktext": list(map(_short, names)),
        }
    known = np.sort(values.dropna().unique())
    if measured or not logarithmic(values):
        few = {"tickvals": known} if len(known) <= 12 and not measured else {}
        return {"label": label, "values": values} | few | ({"range": [0, 1]} if is_share(name) else {})
    ticks = known if len(known) <= 8 else known[[0, -1]]
    texts = [value_text(v) for v in ticks.tolist()]
    return {"label": label, "values": np.log10(values), "tickvals": np.log10(ticks), "ticktext": texts}


def _short(name: str) -> str:
    return text(name if len(name) <= 18 else name[:17] + "…")
