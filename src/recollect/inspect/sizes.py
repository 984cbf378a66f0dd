"""How large a model's state is."""

from collections.abc import Iterable

from recollect.models.model import outline
from recollect.train.spec import RunSpec


def state_sizes(runs: Iterable[RunSpec]) -> dict[str, int]:
    """By run id: elements of the recurrent state after the longest row of the task that a run is tested on."""
    sizes: dict[str, int] = {}
    by_shape: dict[str, int] = {}
    for run in runs:
        if run.shape not in by_shape:
            model = outline(run.model, run.task.vocabulary, run.row_length)
            by_shape[run.shape] = model.state_size(run.task.for_test().row_length)
        sizes[run.id] = by_shape[run.shape]
    return sizes
