"""A run is its specification: its identity must not move when the software grows."""

import importlib

import pytest

from recollect.train.spec import RunSpec


def spec(**changes) -> RunSpec:
    data = {
        "task": {"kind": "mqar", "length": 64, "pairs": 4},
        "model": {"mixer": {"kind": "attention", "heads": 2}, "width": 32},
        "train": {"lr": 0.001, "steps": 100},
    }
    for path, value in changes.items():
        part, _, name = path.partition("__")
        data[part] = {**data[part], name: value}
    return RunSpec(**data)


GOLDEN = {1: ("eebc59133549fb50", "578c532b7d9a4947"), 2: ("1093923a19afbb0d", "063510d3225d49ce")}
"""Identities in each version of semantics."""


@pytest.mark.parametrize("semantics", GOLDEN)
def test_golden_identities(monkeypatch, semantics):
    """If one of these fails, old results would be trained again: change SEMANTICS only if they are truly void."""
    monkeypatch.setattr("recollect.train.spec.SEMANTICS", semantics)
    other = spec(task__filler="blank", model__mixer="mamba", train__seed=7)
    assert (spec().id, other.id) == GOLDEN[semantics]


@pytest.mark.parametrize(
    ("place", "attribute"),
    [("recollect.tasks.mqar", "MQAR"), ("recollect.mixers.attention", "Attention"),
     ("recollect.train.optimisers.adamw", "AdamW")],
)  # fmt: skip
def test_a_changed_law_concerns_the_runs_of_its_class_alone(monkeypatch, place, attribute):
    before = spec().id, spec(model__mixer="mamba").id
    monkeypatch.setattr(getattr(importlib.import_module(place), attribute), "version", 2, raising=False)
    assert spec().id != before[0]
    assert (spec(model__mixer="mamba").id == before[1]) == (attribute == "Attention")


def test_defaults_given_by_name_are_the_same_run():
    same = spec(
        task__vocab=8192,
        model__layers=2,
        train__warmup=0.1,
        model__mixer={"kind": "attention", "heads": 2, "bias": True},
    )
    assert same.id == spec().id
    assert spec(model__positions="learned").id == spec().id


def test_the_last_bit_of_a_rate_is_no_other_run_and_another_rate_is():
    assert spec(train__lr=0.001 * (1 + 1e-15)).id == spec().id
    assert spec(train__lr=0.00100001).id != spec().id


def test_precision_belongs_to_the_identity():
    assert spec(train__precision="float64").id != spec().id


def test_a_specification_survives_json():
    assert RunSpec.model_validate_json(spec().model_dump_json()).id == spec().id


def test_members_of_one_shape_differ_only_in_rates_and_seeds():
    assert spec(train__lr=0.1, train__seed=9, train__weight_decay=0.0, train__clip=1.0).shape == spec().shape
    assert spec(train__batch=32).shape != spec().shape
    assert spec(model__width=64).shape != spec().shape


def test_an_edited_file_is_another_run(tmp_path):
    file = tmp_path / "mine.py"
    source = """
from torch import nn

class Mine(nn.Linear):
    def __init__(self, width, *, gain: float = 1.0):
        super().__init__(width, width)
"""
    file.write_text(source)
    before = spec(model__mixer=f"{file}:Mine")
    assert spec(model__mixer=f"{file}:Mine").id == before.id
    file.write_text(source + "# edited\n")
    assert spec(model__mixer=f"{file}:Mine").id != before.id
