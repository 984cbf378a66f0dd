"""Accuracy against size, from frames whose best rates are known."""

import pandas as pd
import pytest

from recollect.analysis.rates import at_best_rate
from recollect.analysis.window import ZOOLOGY_RATES


def runs(accuracy: dict[tuple[str, int, float], list[float | None]]) -> pd.DataFrame:
    """Runs of models, widths and rates: one accuracy a seed."""
    return pd.DataFrame(
        {"model": model, "model.width": width, "train.lr": lr, "train.seed": seed, "accuracy": value,
         "parameters": 1000 * width}
        for (model, width, lr), values in accuracy.items() for seed, value in enumerate(values)
    )  # fmt: skip


FRAME = runs(
    {
        ("mamba", 64, 1e-3): [0.2, 0.4, 0.6],
        ("mamba", 64, 2e-3): [0.9, None, 0.9],  # diverged: mean 0.6
        ("mamba", 128, 1e-3): [0.96, 0.98, 1.0],
        ("mamba", 128, 2e-3): [0.5, 0.5, 0.5],
        ("hyena", 64, 1e-4): [0.1, 0.1, 0.1],
        ("hyena", 64, 2e-3): [0.3, 0.3, 0.3],
    }
)


def test_the_best_rate_is_that_of_the_best_mean_and_what_diverged_counts_as_nothing():
    table = at_best_rate(FRAME, ["model", "model.width"])
    row = table.iloc[0]
    assert (row["model"], row["model.width"], row["lr"], row["rates"], row["seeds"]) == ("mamba", 64, 2e-3, 2, 3)
    assert (row["accuracy"], row["min"], row["max"]) == (pytest.approx(0.6), 0.0, 0.9)
    assert list(table["lr"]) == [2e-3, 1e-3, 2e-3]
    assert row["parameters"] == 64_000


def test_a_coarser_grid_can_miss_the_best_rate():
    table = at_best_rate(FRAME, ["model"], rates=ZOOLOGY_RATES)
    assert list(table["model"]) == ["hyena"], "no other run is at one of the four rates"
    assert table["accuracy"].item() == pytest.approx(0.1)
