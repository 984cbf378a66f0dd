"""Made-up results: an item's own runs with accuracies from an invented law, so that its claims can be judged without training."""

from collections import Counter
from collections.abc import Callable

import pandas as pd
import pytest

from recollect.papers.item import Item
from recollect.papers.judge import Evidence, Scale
from recollect.store.frames import flat
from recollect.train.spec import RunSpec

Law = Callable[[RunSpec], float]
Curve = Callable[[RunSpec], list[dict[str, float]]]
_unfolded: dict[
    tuple[int, Scale], list[tuple[RunSpec, dict]]
] = {}  # unfolding a study is slow, and many tests share one


def _runs(item: Item, scale: Scale) -> list[tuple[RunSpec, dict]]:
    key = id(item), scale
    if key not in _unfolded:
        _unfolded[key] = [(run, flat(run.model_dump(mode="json"))) for run in item.runs(scale)]
    return _unfolded[key]


@pytest.fixture
def made_up() -> Callable[..., Evidence]:
    """(item, scale, law, curve, measured) to evidence: `law` gives a run's accuracy, `curve` its measurements."""

    def evidence(
        item: Item, scale: Scale, law: Law, curve: Curve | None = None, measured: pd.DataFrame | None = None
    ) -> Evidence:
        runs = _runs(item, scale)
        rows = [
            {"id": run.id, "model": run.model.title, "status": "finished", "step": run.train.total_steps,
             "accuracy": law(run), "parameters": run.model.layers * run.model.width**2, **fields}
            for run, fields in runs
        ]  # fmt: skip
        curves = [{"run": run.id, **point} for run, _ in runs for point in curve(run)] if curve else []
        kept = pd.DataFrame() if measured is None else measured
        asked_of = Counter(run.model.title for run, _ in runs)
        return Evidence(scale, pd.DataFrame(rows), len(runs), asked_of, curves=pd.DataFrame(curves), measured=kept)

    return evidence
