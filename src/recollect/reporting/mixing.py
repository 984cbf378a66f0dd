"""Mixing matrices of models whose weights a store has kept."""

from typing import TYPE_CHECKING

import pandas as pd

from recollect.spec import SpecError
from recollect.store.store import Store
from recollect.views.frame import Frame

if TYPE_CHECKING:
    from recollect.train.spec import RunSpec

MOST, LONGEST = 8, 160
"""Configurations at most, and the longest row that is shown."""


def kept_mixing(store: Store, runs: Frame) -> Frame:
    """The matrices of one run at the best learning rate of each configuration, where its weights were kept, for one validation
    row of its task."""
    if runs.empty or not store.weights.is_dir():
        return pd.DataFrame()
    import safetensors.torch  # it, and the models, bring torch along, which a page without matrices does not need
    from safetensors import SafetensorError

    from recollect.inspect.mixing import mixing_frame
    from recollect.models.model import build

    kept = runs.loc[runs["at_best"] & runs["id"].map(lambda id: store.weights_file(id).is_file())]
    parts = []
    for id, label in kept.drop_duplicates(["study", "configuration"])[["id", "configuration"]].head(MOST).to_numpy():
        (stored,) = store.find(id)
        try:
            run = stored.run
            if run.row_length > LONGEST or _size(run) > store.weights_file(id).stat().st_size:
                continue  # the file cannot be that model's
            model = build(run.model, run.task.vocabulary, run.row_length, run.train.seed)
            model.load_state_dict(safetensors.torch.load_file(store.weights_file(id)), strict=False)
            tokens = run.task.batch(seed=run.train.seed, purpose="valid", rows=1).tokens
            parts.append(mixing_frame(model, tokens, label))
        except (SpecError, SafetensorError, OSError, RuntimeError, ValueError):
            continue  # its code has changed, it has no matrix, or the file is damaged
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _size(run: "RunSpec") -> int:
    """Bytes of a run's parameters, counted without making them."""
    from recollect.models.model import outline

    parameters = outline(run.model, run.task.vocabulary, run.row_length).parameters()
    return sum(parameter.nbytes for parameter in parameters)
