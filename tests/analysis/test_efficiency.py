"""Examples to a threshold, with runs that never reached it."""

import math

import pandas as pd
import pytest

from recollect.analysis.efficiency import data_efficiency, efficiency_ratio, fastest_rate, log_times, median_time, times
from recollect.analysis.pooled import pool

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
    # one that diverged will never reach it, and stays among those that have not
    assert median_time([INF, 200, 1000], [False, True, False]) == INF


def test_data_efficiency_of_models():
    table = data_efficiency(TIMES).set_index("configuration")
    assert list(table["median"]) == [300, 800, INF]
    assert list(table["reached"]) == [3, 2, 0]
    assert list(table["budget"]) == [400, 1000, 1000]
    assert (table.loc["quick", "low"], table.loc["quick", "high"]) == (200, 400)
    assert (table.loc["slow", "low"], table.loc["slow", "high"]) == (600, INF), "it may well not reach it"
    assert table.loc["slow", "fastest"] == 600


def test_ratios_of_examples_and_the_bounds_that_censoring_leaves():
    exact = efficiency_ratio(of("slow"), of("quick"))
    assert (exact.value, exact.bound) == (pytest.approx(800 / 300), "exact")
    assert 0 < exact.low < exact.value < exact.high < INF
    same = efficiency_ratio(of("quick"), of("quick"))
    assert same.low < 1 == same.value < same.high
    assert same.low == pytest.approx(1 / same.high), "an interval on a logarithmic axis"
    above = efficiency_ratio(of("never"), of("quick"))
    assert (above.value, above.bound, above.high) == (pytest.approx(1000 / 300), "at least", INF)
    assert 1 < above.low < above.value, "the budget is known, what the other needs is not exactly"
    below = efficiency_ratio(of("quick"), of("never"))
    assert (below.value, below.bound, below.low) == (pytest.approx(0.3), "at most", 0)
    assert below.value < below.high < 1
    neither = efficiency_ratio(of("never"), of("never"))
    assert math.isnan(neither.value)
    assert (neither.low, neither.high, neither.bound) == (0, INF, "unknown")


def test_a_pool_of_models_makes_ratios_sharper():
    pooled = pool(log_times(TIMES, ["configuration"]))
    alone, shared = (efficiency_ratio(of("slow"), of("quick"), one) for one in (None, pooled))
    assert alone.low < shared.low < shared.value < shared.high < alone.high


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
