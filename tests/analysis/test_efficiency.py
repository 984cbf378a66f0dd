"""Examples to a threshold, with runs that never got there."""

import math

import pandas as pd
import pytest

from recollect.analysis.efficiency import data_efficiency, efficiency_ratio, fastest_rate, median_time, times

INF = math.inf


def frames(models: dict[str, list[tuple[float | None, str]]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Runs of models, measured each 100 examples up to 1000: when each reaches 0.95 (None: never), and how it ended."""
    runs, curves = [], []
    for model, members in models.items():
        for seed, (reaches, status) in enumerate(members):
            id = f"{model}{seed}"
            runs.append({"id": id, "configuration": model, "train.lr": 1e-3, "train.seed": seed, "status": status})
            for examples in range(100, 1001, 100):
                accuracy = 0.96 if reaches is not None and examples >= reaches else 0.1
                curves.append({"run": id, "step": examples // 10, "examples": examples, "accuracy": accuracy})
                if status == "solved" and accuracy > 0.95:
                    break
    return pd.DataFrame(runs), pd.DataFrame(curves)


RUNS, CURVES = frames(
    {
        "quick": [(200, "solved"), (300, "solved"), (400, "solved")],
        "slow": [(600, "solved"), (800, "finished"), (None, "finished")],
        "never": [(None, "finished"), (None, "finished"), (None, "diverged")],
    }
)
TIMES = times(CURVES, RUNS)


def of(model: str) -> pd.DataFrame:
    return TIMES[TIMES["configuration"] == model]


def test_the_first_measurement_that_reaches_the_threshold_counts():
    assert list(TIMES["time"]) == [200, 300, 400, 600, 800, 1000, 1000, 1000, INF]
    assert list(TIMES["reached"]) == [True] * 5 + [False] * 4
    assert list(times(CURVES, RUNS, unit="step")["time"][:3]) == [20, 30, 40]


def test_the_median_of_censored_times():
    assert median_time([200, 300, 400], [True] * 3) == 300
    assert median_time([600, 800, 1000], [True, True, False]) == 800
    assert median_time([600, 1000, 1000], [True, False, False]) == INF
    # one that was stopped at 100 says nothing of 200 and later: 2 runs are left, and half of them is reached at 200
    assert median_time([100, 200, 1000], [False, True, False]) == 200
    # one that diverged will never get there, and stays among those that have not
    assert median_time([INF, 200, 1000], [False, True, False]) == INF


def test_data_efficiency_of_models():
    table = data_efficiency(TIMES).set_index("configuration")
    assert list(table["median"]) == [300, 800, INF]
    assert list(table["reached"]) == [3, 2, 0]
    assert list(table["budget"]) == [400, 1000, 1000]
    assert (table.loc["quick", "low"], table.loc["quick", "high"]) == (200, 400)
    assert (table.loc["slow", "low"], table.loc["slow", "high"]) == (600, INF), "it may well not get there"
    assert table.loc["slow", "fastest"] == 600


def test_ratios_of_examples_and_the_bounds_that_censoring_leaves():
    exact = efficiency_ratio(of("slow"), of("quick"))
    assert (exact.value, exact.bound) == (pytest.approx(800 / 300), "exact")
    assert exact.low == pytest.approx(600 / 400)
    assert exact.high == INF
    same = efficiency_ratio(of("quick"), of("quick"))
    assert (same.low, same.value, same.high) == (0.5, 1.0, 2.0)
    above = efficiency_ratio(of("never"), of("quick"))
    assert (above.value, above.bound, above.low, above.high) == (pytest.approx(1000 / 300), "at least", INF, INF)
    below = efficiency_ratio(of("quick"), of("never"))
    assert (below.value, below.bound, below.low, below.high) == (pytest.approx(0.3), "at most", 0, 0)
    neither = efficiency_ratio(of("never"), of("never"))
    assert math.isnan(neither.value)
    assert (neither.low, neither.high, neither.bound) == (0, INF, "unknown")


def test_the_fastest_rate_is_the_one_with_the_least_median():
    other = TIMES.assign(**{"train.lr": 1e-2, "time": TIMES["time"] / 2})
    both = pd.concat([TIMES, other[other["configuration"] == "slow"]])
    kept = fastest_rate(both)
    assert set(kept.loc[kept["configuration"] == "slow", "train.lr"]) == {1e-2}
    assert len(kept) == 9
    assert data_efficiency(both).set_index("configuration").loc["slow", "median"] == 400


def test_one_run_gives_no_interval():
    row = data_efficiency(of("quick")[:1]).iloc[0]
    assert row["median"] == 200
    assert math.isnan(row["low"])
    assert math.isnan(efficiency_ratio(of("quick")[:1], of("slow")).low)
