"""The shipped atlas as further studies: known mixers, for a mixer of one's own to stand beside."""

import json
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import resources

import pandas as pd

from recollect.spec.source import untrusted
from recollect.store.store import Store
from recollect.views.base import prepared
from recollect.views.frame import Frame


@cache
def atlas_runs() -> dict[str, Frame]:
    """The runs of each study of the atlas, by its title."""
    table = pd.read_csv(str(resources.files("recollect.probing").joinpath("atlas.csv")), dtype={"setting": str})
    table = table.assign(id=[f"atlas-{i}" for i in table.index], configuration=table["model"])
    table["model.mixer"] = table["model"].str.split(" ").str[0]
    parts = {f"{name} (shipped)": part for name, part in table.groupby("study", sort=False)}
    return {title: prepared(part.assign(study=title)) for title, part in parts.items()}


def other_setting(store: Store, runs: Sequence[str], atlas: str) -> bool:
    """Whether none of these runs was trained in the setting of a study of the atlas: the same in all but mixer, positions,
    learning rate and seed."""
    from recollect.probing.reference import setting_key  # brings torch along, which only this needs
    from recollect.train.spec import RunSpec

    wanted = set(atlas_runs()[atlas]["setting"])
    for stored in (found for run in runs for found in store.find(run)):
        spec = json.loads(stored.spec)
        spec["model"] |= {"mixer": {"kind": "attention"}, "positions": "none"}  # any: their code need not be imported
        with suppress(ValueError), untrusted():  # an old run, or a task of one's own, which the atlas does not have
            if setting_key(RunSpec.model_validate(spec)) in wanted:
                return False
    return True
