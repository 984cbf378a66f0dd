"""Random study files and random damage to stores: one line each, or they work."""

import random
import shutil
import sqlite3
import string
from contextlib import closing, suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recollect.mixers import MIXERS
from recollect.models.spec import ModelSpec
from recollect.spec import UserError
from recollect.store import frames
from recollect.store.check import check
from recollect.store.repair import repair
from recollect.store.store import Store
from recollect.study.grid import put
from recollect.study.plan import make_plan
from recollect.study.run import expand
from recollect.study.spec import Study
from recollect.tasks import TASKS
from recollect.train.spec import TrainSpec

pytestmark = pytest.mark.long
RECORDED = Path(__file__).parents[1] / "recorded" / "store-2.sqlite"


def bounded(examples: int) -> settings:
    return settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, max_examples=examples)


numbers = st.one_of(
    st.integers(-5, 70),
    st.sampled_from([10**9, -(10**30), 1e-300, 1e300, float("nan"), float("inf"), 0.5]),
    st.booleans(),
)
words = st.one_of(
    st.text(string.printable, max_size=12),
    st.sampled_from(
        [
            "..:X",
            "os:system",
            "x.py:Y",
            "logspace(1e-5, 1, 3)",
            "linspace(1,2",
            "[/red]",
            "auto",
            "null",
            "learned",
            "rms",
        ]
    ),
)
values = st.recursive(
    st.one_of(numbers, words, st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=6,
)


def mapping(names: list[str]) -> st.SearchStrategy:
    """Some of the known fields, with any values."""
    return st.dictionaries(st.sampled_from(names), values, max_size=4)


tasks = st.one_of(
    values,
    st.builds(lambda kind, rest: {**rest, "kind": kind}, st.sampled_from(list(TASKS.built_in)),
              mapping(["length", "pairs", "vocab", "n", "k", "symbols", "parts", "weights", "min_length", "items", "noises"])),
)  # fmt: skip
mixers = st.one_of(
    values,
    st.builds(lambda kind, rest: {**rest, "kind": kind}, st.sampled_from(list(MIXERS.built_in)),
              mapping(["heads", "state", "kernel", "expand", "conv", "window", "head_dim", "rank", "dt_rank", "groups"])),
)  # fmt: skip
models = st.builds(
    lambda mixer, rest: {"mixer": mixer, **rest}, mixers,
    mapping(["width", "layers", "mlp", "mlp_ratio", "pattern", "blocks", "second", "positions", "norm", "preset", "canon"]),
)  # fmt: skip
trains = mapping([
    "lr", "seed", "steps", "epochs", "batch", "train_rows", "test_rows", "eval_rows", "optimiser", "schedule", "warmup", "groups",
    "protocol", "weight_decay", "precision", "snapshots",
])  # fmt: skip
BASE = {
    "task": {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}, "model": {"mixer": {"kind": "attention"}, "width": 8},
    "train": {"lr": 0.01, "steps": 5, "batch": 4},
}  # fmt: skip
FIELDS = [
    *(f"task.{name}" for name in ("kind", "length", "pairs", "vocab", "filler", "power_a")),
    *(f"model.{name}" for name in ModelSpec.model_fields), "model.mixer.kind", "model.mixer.heads", "model.mixer.kernel",
    *(f"train.{name}" for name in TrainSpec.model_fields), "train.protocol", "tests", "zip", "exclude", "search", "seed",
]  # fmt: skip
changes = st.lists(st.tuples(st.sampled_from(FIELDS), st.one_of(values, tasks, mixers, models)), min_size=1, max_size=2)


@bounded(1500)
@given(changes)
def test_any_change_of_a_study_is_planned_or_refused(found):
    data: dict = BASE
    for path, value in found:
        with suppress(UserError):
            data = put(data, path, value)
    refused_or_planned(yaml.safe_dump(data, allow_unicode=True))


studies = st.fixed_dictionaries(
    {"train": st.builds(lambda rest: {"steps": 5, **rest}, trains)},
    optional={
        "task": tasks, "model": st.one_of(models, values), "tests": st.lists(tasks, max_size=2), "search": values, "name": words,
        "zip": values, "exclude": values, "lr": values, "seed": values,
    },
)  # fmt: skip


@bounded(300)
@given(studies)
def test_any_study_file_is_planned_or_refused(data):
    refused_or_planned(yaml.safe_dump(data, allow_unicode=True))


@bounded(300)
@given(st.text(st.sampled_from("abk: \n-[]{}&*!|>#'\",?0.1~<"), max_size=60))
def test_any_text_is_refused_or_planned(text):
    refused_or_planned(f"task: mqar\ntrain: {{steps: 5}}\nmodel: {text}")
    refused_or_planned(text)


def refused_or_planned(text: str) -> None:
    """Fails on any error but those that become one line on the command line, and where a plan leaves runs out."""
    with suppress(UserError):
        (grid,) = expand(Study.from_yaml(text))
        if len(grid.runs) <= 20 and all(run.model.width <= 128 and run.model.layers <= 8 for run in grid.runs):
            assert make_plan(grid, None, "cpu").total("runs") == len(grid.runs)


def read_all(path: Path) -> None:
    with suppress(UserError):
        store = Store(path)
        store.studies(), store.done(), store.failures(), store.accuracies()
        for stored in store.recent(100):
            with suppress(UserError):
                assert stored.run.id
    for read in (frames.runs_frame, frames.curves_frame, frames.slices_frame, frames.snapshots_frame):
        with suppress(UserError):
            read(Store(path))


@bounded(150)
@given(st.integers(0, 2**32), st.integers(1, 400), st.integers(1, 3))
def test_any_damaged_file_is_read_or_refused_and_repaired(tmp_path_factory, seed, size, places):
    folder = tmp_path_factory.mktemp("damaged")
    draw, data = random.Random(seed), bytearray(RECORDED.read_bytes())
    for _ in range(places):
        place = draw.randrange(len(data))
        data[place : place + size] = draw.randbytes(min(size, len(data) - place))
    path = folder / "s.sqlite"
    path.write_bytes(data)
    read_all(path)
    with suppress(UserError):
        list(check(path))
    with suppress(UserError):
        repair(path, folder / "new.sqlite")
        assert all(finding.answer != "wrong" for finding in check(folder / "new.sqlite"))
    assert path.read_bytes() == data, "the old one is not touched"
    shutil.rmtree(folder)


TEXTS = ["{}", "[]", "null", "1", '{"a": NaN}', '{"train": 1}', "[" * 5000, '{"kind": "os:system"}']
cells = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=20), st.binary(max_size=20), st.sampled_from(TEXTS)
)  # fmt: skip
OF_RUNS = ("id spec model status step accuracy best_accuracy best_step final parameters seconds device versions notes ended "
           "state_size semantics")  # fmt: skip
COLUMNS = {"runs": OF_RUNS, "studies": "name source", "study_runs": "study run", "points": "data step", "slices": "data tag",
           "snapshots": "data share", "meta": "value"}  # fmt: skip
columns = st.sampled_from([(table, name) for table, names in COLUMNS.items() for name in names.split()])


@bounded(300)
@given(columns, cells, st.integers(0, 7))
def test_any_value_in_any_column_is_read_or_refused_and_repaired(tmp_path_factory, column, value, nth):
    folder = tmp_path_factory.mktemp("odd")
    path = Path(shutil.copy(RECORDED, folder / "s.sqlite"))
    table, name = column
    key = "run, step" if table == "points" else "run, step, tag" if table == "slices" else "rowid"
    which = f"({key}) = (SELECT {key} FROM {table} LIMIT 1 OFFSET {nth})"
    with closing(sqlite3.connect(path)) as db, suppress(sqlite3.IntegrityError, UnicodeEncodeError):
        db.execute(f"UPDATE {table} SET {name} = ? WHERE {which}", (value,))
        db.commit()
    read_all(path)
    list(check(path))
    repair(path, folder / "new.sqlite")
    assert all(finding.answer != "wrong" for finding in check(folder / "new.sqlite"))
    shutil.rmtree(folder)
