"""Study files that no person can have meant are refused in one line, before anything is allocated."""

import time

import pytest

from recollect.spec import SpecError
from recollect.spec.reading import read_yaml
from recollect.study.run import expand
from recollect.study.spec import Study

BASE = "task: {kind: mqar, length: 16, pairs: 2, vocab: 32}\ntrain: {steps: 10, lr: 0.01}\n"
ANCHORS = "".join(f"    - &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 10)}]\n" for i in range(9))
REFUSED = {
    "lr true": ("train: {steps: 10, lr: true}", "lr: expected a number, not true"),
    "seed true": ("seed: true\ntrain: {steps: 10}", "seed: expected a number"),
    "a seed of several true": (
        "search: {kind: window, seeds: [1, true]}\ntrain: {steps: 10}",
        "seeds: expected a number",
    ),
    "steps true": ("train: {steps: true}", "steps: expected a number"),
    "batch true": ("train: {steps: 10, batch: true}", "batch: expected a number"),
    "test_rows true": ("train: {steps: 10, test_rows: true}", "test_rows: expected a number"),
    "eval_rows false": ("train: {steps: 10, eval_rows: false}", "eval_rows: expected a number, not false"),
    "weight_decay true": ("train: {steps: 10, weight_decay: true}", "weight_decay: expected a number"),
    "width true": (BASE + "model: {width: true}", "width: expected a number"),
    "heads true": (BASE + "model: {mixer: {kind: attention, heads: true}}", "heads: expected a number"),
    "a task's length true": ("task: {kind: mqar, length: true}\ntrain: {steps: 10}", "length: expected a number"),
    "a relative module": (BASE + "model: {mixer: '..:X'}", "'..'"),
    "blocks a list": (BASE + "model: {blocks: [1]}", "blocks: input should be a valid dictionary"),
    "blocks a number": (BASE + "model: {blocks: 5}", "blocks: input should be a valid dictionary"),
    "a model that is a number": (BASE + "model: [{mixer: attention}, 5]", "model: expected a mapping, got 5"),
    "training that is a number": ("train: [{steps: 10}, 5]", "train: expected a mapping, got 5"),
    "a key twice": (BASE + "model: {width: 8, width: 16}", "line 3: 'width' is given twice"),
    "a key twice at the top": (BASE + BASE, "line 3: 'task' is given twice, first in line 1"),
    "state 0": (BASE + "model: {mixer: {kind: mamba, state: 0}}", "state = 0: choose from 1 to"),
    "state -4": (BASE + "model: {mixer: {kind: mamba, state: -4}}", "state = -4: choose from 1 to"),
    "a long path": (BASE + f"model: {{mixer: '{'a' * 5000}.py:X'}}", "no file"),
    "a key that is a number": (BASE + "1: 2", "line 3: the key 1 is not text"),
    "a control character": ("name: a\x01b", "not YAML: unacceptable character"),
    "an empty file": ("", "a study is a mapping with name, task, model and train; got None"),
    "a key that is null": (BASE + "null: 2", "the key null is not text"),
    "a key that is a list": (BASE + "? [1, 2]\n: 3", "the key sequence is not text"),
    "a list in itself": ("task: &a [*a]", "an anchor contains itself"),
    "a mapping in itself": ("task: &a {kind: *a}", "an anchor contains itself"),
    "a model in itself": (BASE + "model: &a {mixer: *a}", "an anchor contains itself"),
    "2000 lists in one another": ("task: " + "[" * 2000 + "]" * 2000, "nested too deeply"),
    "100 lists in one another": ("task: " + "[" * 100 + "]" * 100, "nested more than 50 deep"),
    "a billion rates": (
        f"train:\n  steps: 10\n  lr:\n    - &a [1e-3, 1e-3]\n{ANCHORS}",
        "unfold into more than 1,000,000",
    ),
    "a long range": ("lr: logspace(1e-5, 1, 1000000000)\ntrain: {steps: 10}", "at most 100,000"),
    "a fairly long range": ("lr: logspace(1e-5, 1, 50000000)\ntrain: {steps: 10}", "at most 100,000"),
    "many points": ("search: {kind: window, points: 1000000000}\ntrain: {steps: 10}", "less than or equal to 100000"),
    "much to zip": (
        "zip:\n" + "".join(f"  - {{train.{n}: 'linspace(1, 1000, 1000)'}}\n" for n in ("lr", "seed", "clip")),
        "1,000,000,000 combinations",
    ),
    "a long row": (
        "task: {kind: mqar, length: 1000000000, vocab: 4000000000}\ntrain: {steps: 10}",
        "length: input should be",
    ),
    "long keys": (
        "task: {kind: fuzzy, key_length: 1000000000}\ntrain: {steps: 10}",
        "key_length: input should be less",
    ),
    "many layers": (BASE + "model: {layers: 1000000}", "layers: input should be less"),
    "a wide model": (BASE + "model: {width: 1000000000}", "width: input should be less"),
    "a large state": (BASE + "model: {mixer: {kind: mamba, state: 1000000000}}", "state = 1000000000: choose from"),
    "a large batch": ("train: {steps: 10, batch: 1000000000000}", "batch: input should be less"),
    "a day that is none": ("name: 2026-13-45", "not YAML"),
    "a number of 5000 digits": ("seed: " + "1" * 5000, "not YAML"),
    "a tag": ("name: !!python/object/apply:os.system [true]", "not YAML"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_study_that_cannot_be_meant_is_refused_at_once(case):
    text, message = REFUSED[case]
    began = time.monotonic()
    with pytest.raises(SpecError) as refused:
        expand(Study.from_yaml(text))
    assert message in str(refused.value)
    assert time.monotonic() - began < 10


def test_what_yaml_offers_besides_is_read():
    assert read_yaml("a: &x {b: 1}\nc: {<<: *x, b: 2}\nd: [*x, *x]") == {
        "a": {"b": 1}, "c": {"b": 2}, "d": [{"b": 1}, {"b": 1}],
    }  # fmt: skip
    assert read_yaml("") is None
    assert read_yaml("true") is True


def test_booleans_stay_where_they_are_meant():
    (run,) = Study.from_yaml(BASE + "model: {tie: false, parallel: true, mixer: {kind: mamba, mimetic: true}}").runs()
    assert (run.model.tie, run.model.parallel, run.model.mixer.options) == (False, True, {"mimetic": True})
