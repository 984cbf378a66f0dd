"""Which of several right answers was given, from counts that are known."""

import math

import pandas as pd
import pytest

from recollect.analysis.choices import choices, duplicate_measures, preference_matrix


def slices(counts: dict[tuple[str, str], list[int]], step: int = 50) -> pd.DataFrame:
    """By run and tag: how many predictions matched each segment, then how many none; zeros leave no row, as in a store."""
    return pd.DataFrame(
        {"run": run, "step": step, "tag": tag, "value": value, "count": n, "right": n * (value < len(found) - 1)}
        for (run, tag), found in counts.items() for value, n in enumerate(found) if n
    )  # fmt: skip


FRAME = slices({
    ("a", "tests.0.chosen.2"): [10, 70, 20], ("a", "tests.1.chosen.3"): [30, 30, 30, 10],
    ("b", "tests.0.chosen.2"): [0, 100, 0], ("b", "tests.1.chosen.3"): [0, 0, 0, 100],
    ("a", "place"): [5, 5],
})  # fmt: skip


def test_choices_count_every_prediction():
    found = choices(FRAME)
    assert set(found["test"]) == {0, 1}
    assert list(found.groupby(["run", "segments"])["share"].sum()) == pytest.approx([1] * 4)
    none = found[(found["run"] == "b") & (found["segments"] == 2)]
    assert list(none["segment"]) == [0, 1, -1]
    assert list(none["count"]) == [0, 100, 0]
    assert choices(pd.DataFrame()).empty


def test_error_recency_and_evenness():
    found = duplicate_measures(FRAME).set_index(["run", "segments"])
    assert found.loc[("a", 2), ["error", "last"]].tolist() == [0.2, 0.7]
    assert found.loc[("a", 2), "last_of_matched"] == pytest.approx(7 / 8)
    assert found.loc[("a", 2), "uneven"] == pytest.approx(3 / 8)
    assert found.loc[("a", 3), "uneven"] == pytest.approx(0)
    assert found.loc[("b", 2), "uneven"] == pytest.approx(1 / 2)
    assert found.loc[("b", 3), "error"] == 1
    assert math.isnan(found.loc[("b", 3), "uneven"])


def test_the_preference_matrix_takes_runs_together_and_lacks_the_errors():
    matrix = preference_matrix(FRAME)
    assert list(matrix.index) == [2, 3]
    assert list(matrix.columns) == [1, 2, 3]
    assert matrix.loc[2].tolist()[:2] == [10 / 200, 170 / 200]
    assert math.isnan(matrix.loc[2, 3])
    assert matrix.loc[3].tolist() == [0.15, 0.15, 0.15]


def test_only_the_last_measurement_counts():
    early = slices({("a", "chosen.2"): [100, 0, 0]}, step=10)
    late = slices({("a", "chosen.2"): [0, 100, 0]}, step=20)
    found = duplicate_measures(pd.concat([early, late]))
    assert (found["test"].item(), found["last"].item()) == (-1, 1.0)
