"""The atlas: what it trains, how its table is made from a store, and what the page says."""

import pandas as pd
import pytest

from recollect.cli.atlas import TASKS
from recollect.mixers import MIXERS
from recollect.probing.atlas import NAMES, SCALES, atlas_study
from recollect.probing.overview import COLUMNS, markdown, overview, state_figure
from recollect.probing.reference import about, collect, read_table
from recollect.spec import SpecError
from recollect.study.run import run
from recollect.study.spec import Study


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("task", NAMES)
def test_every_mixer_is_trained_alike_on_every_task(task, scale):
    study = atlas_study(task, scale)
    models = [model["mixer"] for model in study.model]  # pyright: ignore
    assert models == [*MIXERS, {"kind": "attention", "conv": "k"}]
    assert len({str({k: v for k, v in model.items() if k not in ("mixer", "positions")}) for model in study.model}) == 1
    assert study.train["stop_at"] == 0.99


def test_the_command_completes_the_names_of_the_tasks():
    assert NAMES == TASKS


def test_unknown_tasks_and_scales_are_refused():
    with pytest.raises(SpecError, match="no task 'ngramm': did you mean 'ngram'"):
        atlas_study("ngramm")
    with pytest.raises(SpecError, match="no scale 'large'"):
        atlas_study("copy", "large")  # pyright: ignore[reportArgumentType]


def test_a_table_is_made_from_a_store_and_made_again(tmp_path, monkeypatch):
    full = atlas_study("copy", "tiny")
    small = Study.model_validate(
        {
            **full.model_dump(),
            "model": full.model[1:2],
            "train": {**full.train, "steps": 2, "lr": [1e-3, 1e-2], "seed": [1]},
        }
    )
    monkeypatch.setattr("recollect.probing.reference.atlas_study", lambda task, scale: small)
    run(small, store=tmp_path / "store.sqlite", workers=1)
    table = tmp_path / "atlas.csv"
    for _ in range(2):
        assert collect([tmp_path / "store.sqlite"], table, "a machine") == {"atlas.copy.tiny": 2}
    found = read_table(table)
    assert len(found) == 2
    assert about(table)["atlas.copy.tiny"]["hardware"] == "a machine"
    (row,) = overview(found).to_dict("records")
    assert (row["model"], row["decades"]) == ("linear_attention", 0)
    assert row["state_size"] > 0
    monkeypatch.setattr("recollect.probing.reference.NAMES", ("ngram",))
    with pytest.raises(SpecError, match="no runs of the atlas"):
        collect([tmp_path / "store.sqlite"], table)


def test_steps_are_those_of_the_soonest_rate_at_which_all_seeds_learn():
    rows = [("solved", 100, 1e-3), ("finished", 400, 1e-3), ("solved", 300, 1e-2), ("solved", 200, 1e-2)]
    runs = pd.DataFrame(rows, columns=["status", "step", "train.lr"]).assign(
        model="gla", accuracy=[1.0, 0.5, 1.0, 0.99], parameters=10, state_size=5, **{"train.seed": [1, 2, 1, 2]}
    )
    (row,) = overview(runs).to_dict("records")
    assert (row["steps"], row["best_lr"]) == (250, 1e-2)


def test_the_page_has_every_study_and_model_of_the_shipped_table():
    table, text = read_table(), markdown()
    assert text.count("\n## ") + text.startswith("## ") == table["study"].nunique()
    assert text.count(" | ".join(COLUMNS[:2])) == table["study"].nunique()
    assert sum(line.startswith("| ") for line in text.splitlines()) - table["study"].nunique() == len(
        table[["study", "model"]].drop_duplicates()
    )


def test_the_picture_has_a_panel_per_study_and_a_name_per_model():
    table = read_table()
    figure = state_figure(table.assign(state_size=range(1, len(table) + 1)))
    assert sum(axes.get_visible() for axes in figure.axes) == table["study"].nunique()
    assert len(figure.legends[0].get_texts()) == table["model"].nunique()
