"""A study made small enough to see within minutes whether it does what was meant."""

from collections.abc import Mapping
from typing import Any

from recollect.study.grid import unfold
from recollect.study.spec import Study

RATES, STEPS = 3, 200
"""Learning rates of each configuration, and steps of each run, at most."""


def quick(study: Study) -> Study:
    """The study with at most three of its learning rates, one seed, 200 steps, and as little measuring; its name ends in
    `-quick`. What it varies besides stays, and lists that `zip` varies together too."""
    axes = {path: values for path, (values, _) in study.strategy.axes().items()} if study.strategy else {}
    trains = study.train if isinstance(study.train, list) else [study.train]
    small = [_small(dict(train), axes) if isinstance(train, Mapping) else train for train in trains]
    train = small if isinstance(study.train, list) else small[0]
    return study.changed(name=f"{study.name[:74]}-quick", train=train, search=None)


def _small(train: dict[str, Any], axes: Mapping[str, list[Any]]) -> dict[str, Any]:
    rates = unfold(train["lr"], "train.lr") if "lr" in train else axes.get("train.lr", [])
    if rates:
        last = len(rates) - 1
        train["lr"] = [rates[i] for i in sorted({round(last * k / (RATES + 1)) for k in range(1, RATES + 1)})]
    seeds = unfold(train["seed"], "train.seed") if "seed" in train else axes.get("train.seed", [])
    if seeds:
        train["seed"] = seeds[0]
    train.pop("epochs", None)
    steps = train.get("steps") or STEPS
    train["steps"] = min(steps, STEPS) if isinstance(steps, int) else STEPS
    return train | {"eval_every": max(1, train["steps"] // 5), "eval_rows": 128, "test_rows": 512}
