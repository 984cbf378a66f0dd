"""Which of several right answers a model gives (Pantazopoulos et al., figures 5, 6, 14 to 16).

In the duplicates task the query stands once in each of s segments, each time before another k-gram, and the model decodes k
tokens on its own. Measurements record the outcome as slices with the tag `chosen.s`, by segment; the value s means
a prediction that matches no segment's k-gram.

    error rate = share of predictions that match none        preference rate of a segment = share that match its k-gram
"""

import numpy as np
import pandas as pd

from recollect.analysis.groups import groups

_KEYS = ["run", "test", "segments"]
_TAG = r"^(?:tests\.(\d+)\.)?chosen\.(\d+)$"


def choices(slices: pd.DataFrame) -> pd.DataFrame:
    """One row per run, `test` (-1: the task itself), number of `segments` and `segment` (from 0; -1: none), at the run's end.

    `count` predictions chose it, a `share` of all.
    """
    if slices.empty:
        return pd.DataFrame(columns=[*_KEYS, "segment", "count", "share"])
    parts = slices["tag"].str.extract(_TAG)
    found = slices.assign(test=parts[0].fillna("-1").astype(int), segments=parts[1]).loc[parts[1].notna()]
    found = found.loc[found["step"] == found.groupby("run")["step"].transform("max")]
    rows = []
    for values, group in groups(found, _KEYS):
        s = int(values["segments"])
        counts = group.set_index("value")["count"].reindex(range(s + 1), fill_value=0).to_numpy()
        for j, count in enumerate(counts):
            segment = j if j < s else -1
            rows.append({**values, "segments": s, "segment": segment, "count": count, "share": count / counts.sum()})
    return pd.DataFrame(rows)


def duplicate_measures(slices: pd.DataFrame) -> pd.DataFrame:
    """One row per run, test and number of segments: what its predictions were.

    `error`: matched no segment. `last`: matched the last one (recency). `last_of_matched`: the same among those that matched
    any. `uneven`: how far the choices among segments are from even: half the sum of |share - 1/s|, 0 even, 1 - 1/s always one.
    The last two are NaN where nothing matched.
    """
    rows = []
    for values, group in groups(choices(slices), _KEYS):
        *matched, error = group["share"]  # by segment, then none
        with np.errstate(invalid="ignore"):
            among = np.array(matched) / np.sum(matched)
        rows.append(
            {**values, "error": error, "last": matched[-1], "last_of_matched": among[-1],
             "uneven": np.abs(among - 1 / len(among)).sum() / 2}
        )  # fmt: skip
    return pd.DataFrame(rows)


def preference_matrix(slices: pd.DataFrame) -> pd.DataFrame:
    """Preference rates: a row for each number of segments, a column for each segment (from 1); over all runs.

    NaN where there is no such segment. One minus the sum of a row is the error rate.
    """
    found = choices(slices)
    totals = found.groupby("segments")["count"].sum()
    chosen = found.loc[found["segment"] >= 0].pivot_table(
        index="segments", columns="segment", values="count", aggfunc="sum"
    )
    return chosen.div(totals, axis=0).rename(columns=lambda j: j + 1).rename_axis(columns="segment")
