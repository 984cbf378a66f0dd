"""The window search: both edges with few runs, the same runs whatever interrupts it, and a word where it is unsure."""

import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import recollect
from recollect.spec import SpecError
from recollect.store.frames import runs_frame
from recollect.store.store import Store
from recollect.study.executors.base import Executor
from recollect.study.executors.reports import Broken, Done
from recollect.study.grid import axis
from recollect.study.packing import filling
from recollect.study.search.base import Searched
from recollect.study.search.finder import WindowFinder
from recollect.study.search.window import WindowSearch
from recollect.study.spec import Study
from recollect.train.events import Ended, Measured

_PATH = Path(__file__).parents[2] / "benchmarks" / "window_search.py"
_SPEC = importlib.util.spec_from_file_location("window_search", _PATH)
bench = importlib.util.module_from_spec(_SPEC)
sys.modules["window_search"] = bench
_SPEC.loader.exec_module(bench)

THRESHOLD = 0.95
COST = bench.Cost(5.0, 23.0, 36)
RATES = tuple(axis("logspace", 1e-5, 1e-1, 17))
SEEDS = (42, 123, 777)


def made(kind: str, points: int, draws: int):
    generator = np.random.default_rng(7)
    return [bench.synthetic(kind, points, generator) for _ in range(draws)]


@pytest.mark.parametrize("points", [17, 33])
@pytest.mark.parametrize(
    ("kind", "usual", "most"),
    [
        ("one step", 0.4, 0.5),
        ("one step, alone", 0.4, 0.5),
        ("two steps", 0.4, 0.5),
        ("wide", 0.4, 0.4),
        ("uneven edges", 0.4, 0.4),
        ("seeds disagree", 0.4, 0.5),
        ("none", 0.4, 0.5),
        ("none, but nearly", 0.4, 0.5),
    ],
)
def test_both_edges_are_found_to_one_step_with_part_of_the_runs(kind, points, usual, most):
    tried = [bench.search(sweep, WindowSearch(), COST) for sweep in made(kind, points, 60)]
    assert max(one.error for one in tried) <= 1
    assert np.mean([one.share for one in tried]) <= usual
    assert max(one.share for one in tried) <= most


@pytest.mark.parametrize("place", range(17))
@pytest.mark.parametrize("steepness", [0.02, 0.2, 0.6])
def test_a_window_of_one_rate_is_found_wherever_it_lies(place, steepness):
    x = np.arange(17)
    sigmoid = [1 / (1 + np.exp(np.clip((abs(x - place) - 0.5) / (0.1 * steepness), -50, 50)))] * 3
    sweep = bench.Sweep("sigmoid", RATES, SEEDS, np.array(sigmoid).T)
    tried = bench.search(sweep, WindowSearch(), COST)
    assert not math.isnan(sweep.edges()[0])
    assert tried.error <= 1
    assert tried.share <= 0.5


def test_random_search_and_four_rates_do_worse_with_as_many_runs():
    tried = bench.compare(made("wide", 17, 60), WindowSearch(), COST)
    near = {name: np.mean([one.error <= 1 for one in all_of]) for name, all_of in tried.items()}
    assert near["search"] == 1
    assert max(near["random"], near["four rates"]) < 0.9


def test_both_edges_of_recorded_sweeps_are_found_with_part_of_the_runs():
    sweeps = bench.recorded(_PATH.with_name("sweeps.csv"))
    assert len(sweeps) >= 6
    for sweep in sweeps:
        tried = bench.search(sweep, WindowSearch(), COST)
        assert tried.error <= 1, sweep.name
        assert tried.share <= (0.5 if math.isnan(sweep.edges()[0]) else 0.4), sweep.name


@pytest.mark.parametrize("kind", ["wide", "seeds disagree", "none, but nearly", "one step"])
def test_cut_short_anywhere_it_asks_for_the_same_runs(kind):
    generator = np.random.default_rng(0)
    for sweep in made(kind, 17, 10):
        finder = WindowFinder(sweep.rates, sweep.seeds, THRESHOLD)
        whole = finder.asked(sweep.results)
        known = {}
        while wanted := finder.next_points(known):
            some = generator.permutation(len(wanted))[: generator.integers(1, len(wanted) + 1)]
            known |= {wanted[i]: sweep.results[wanted[i]] for i in some}
        assert sorted(known) == sorted(whole)
        assert finder.found(known) == finder.found(sweep.results), "runs of a dense study change no decision"


def test_a_run_that_diverged_unmeasured_fails():
    finder = WindowFinder(RATES, SEEDS, THRESHOLD)
    accuracy = {(rate, seed): 1.0 if rate < 1e-3 else math.nan for rate in RATES for seed in SEEDS}
    found = finder.found(accuracy)
    assert (found.open_low, found.open_high, found.settled) == (True, False, True)
    assert found.low == 1e-5
    assert 5e-4 < found.high < 1e-3


def test_a_window_as_wide_as_the_grid_is_open_at_both_ends():
    finder = WindowFinder(RATES, SEEDS, THRESHOLD)
    found = finder.found({(rate, seed): 1.0 for rate in RATES for seed in SEEDS})
    assert (found.open_low, found.open_high, found.settled, found.runs) == (True, True, True, 9)


def test_one_bad_seed_closes_a_rate_and_a_doubtful_one_does_not():
    rates = tuple(axis("logspace", 1e-5, 1e-1, 5))
    accuracy = {(rate, seed): 0.1 for rate in rates for seed in SEEDS}
    accuracy |= {(1e-3, 42): 0.94, (1e-3, 123): 0.97, (1e-3, 777): 0.96}
    finder = WindowFinder(rates, SEEDS, THRESHOLD, limit=15)
    found = finder.found(accuracy)
    assert (found.low < 1e-3 < found.high, found.runs, found.settled) == (True, 7, True)


def test_no_more_runs_than_allowed_are_asked_for_and_the_doubt_is_reported():
    sweep = made("seeds disagree", 33, 1)[0]
    for allowed in (5, 9, 12):
        finder = WindowFinder(sweep.rates, sweep.seeds, THRESHOLD, limit=allowed)
        found = finder.found(sweep.results)
        assert found.runs == allowed
        assert not found.settled


def test_a_coarser_resolution_needs_fewer_runs():
    sweep = made("wide", 33, 1)[0]
    runs = [
        WindowFinder(sweep.rates, sweep.seeds, THRESHOLD, resolution=decades).found(sweep.results).runs
        for decades in (0.0, 0.25, 0.5)
    ]
    assert runs[0] > runs[1] > runs[2]


def study(**fields) -> Study:
    task = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
    model = {"mixer": ["attention", {"kind": "attention", "conv": "k"}], "width": 16, "layers": 1}
    return Study(**{"name": "s", "task": task, "model": model, "train": {"steps": 4}, "search": "window", **fields})


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store.sqlite", create=True)


class Pretending(Executor):
    """Training that knows the answer: gives what `accuracy(run)` says, and may be stopped or break."""

    device, slots = "cpu", 1

    def __init__(self, accuracy, trained: list, stop_after: int = 10**9, broken: str = ""):
        self.accuracy, self.trained, self.stop_after, self.broken = accuracy, trained, stop_after, broken

    @classmethod
    def start(cls, resources):
        raise NotImplementedError

    @classmethod
    def has_bfloat16(cls, resources):
        return False

    def submit(self, job, saved):
        self.job, self.reports = job, self.attempt(job)

    def attempt(self, job):
        for run in list(job.runs):
            if len(self.trained) >= self.stop_after:
                raise KeyboardInterrupt
            if run.id == self.broken:
                yield Broken("error", "RuntimeError: planted", "")
                return
            self.trained.append(run.id)
            yield Measured(4, 4, {}, 1)
            yield Ended(run, "finished", 4, {"accuracy": self.accuracy(run)}, [], [], 0.1, 10)
        yield Done()

    def next(self):
        return self.job, next(self.reports)

    def close(self):
        pass


def search(asked: Study, store: Store, *arguments, device: str = "cpu", cohort: int = 1, **options) -> Searched:
    """Run a study that searches, with training that knows the answer."""
    with Pretending(*arguments, **options) as executor:
        executor.device = device
        outcome = recollect.run(asked, store=store, executor=executor, cohort=cohort, attempts=1, progress=False)
    return outcome.searches[asked.name] if asked.search else outcome


def between(run) -> float:
    low, high = (1e-4, 1e-2) if run.model.mixer.options else (2e-3, 1e-2)
    return 1.0 if low <= run.train.lr <= high else 0.1


def test_a_study_is_searched_for_all_its_configurations(store):
    trained = []
    searched = search(study(), store, between, trained)
    assert list(searched.found) == ["attention", "attention(conv=k)"]
    for label, low in (("attention", 2e-3), ("attention(conv=k)", 1e-4)):
        found = searched.found[label]
        assert found.settled
        assert low / 1.8 < found.low <= low * 1.8
        assert 1e-2 <= found.high < 1.8e-2
    assert len(trained) == len(set(trained)) == len(searched.asked) <= 0.4 * searched.grid
    assert set(runs_frame(store, "s")["id"]) == {run.id for run in searched.asked}


def test_a_round_on_a_gpu_is_filled_with_the_runs_that_will_be_needed_and_finds_the_same(store, tmp_path):
    alone, ahead = [], []
    usual = search(study(), store, between, alone)
    filled = search(study(), Store(tmp_path / "gpu.sqlite", create=True), between, ahead, device="cuda", cohort=36)
    assert filled.found == usual.found
    assert {run.id for run in filled.asked} == set(alone) <= set(ahead)
    assert len(ahead) == len(set(ahead)) <= 0.6 * filled.grid
    assert len(runs_frame(Store(tmp_path / "gpu.sqlite"), "s")) == len(ahead), "runs trained ahead belong to the study"


def test_runs_trained_ahead_save_rounds_and_change_no_edge():
    sweeps = bench.recorded(_PATH.with_name("sweeps.csv"))
    usual, filled = ([bench.search(sweep, WindowSearch(), COST, full) for sweep in sweeps] for full in (False, True))
    assert [one.error for one in filled] == [one.error for one in usual]
    assert sum(one.rounds for one in filled) <= 0.65 * sum(one.rounds for one in usual)
    assert max(one.rounds for one in filled) <= 3
    assert np.mean([one.share for one in filled]) < 0.52
    assert np.mean([one.time for one in filled]) < 0.9 * np.mean([one.time for one in usual])


def test_only_free_places_of_a_cohort_are_filled():
    runs = study().runs()
    shapes = {run.model.title: [one for one in runs if one.shape == run.shape] for run in runs}
    few, many = shapes["attention"], shapes["attention(conv=k)"]
    assert filling(few[:5], [*many[:9], *few[5:30]], 8) == few[5:8], "a shape without a round is left alone"
    assert filling(few[:8], few[8:], 8) == []
    assert filling(few[:9], few[9:], 8) == few[9:16]


@pytest.mark.parametrize("stop_after", [0, 3, 11, 17, 23])
def test_a_search_goes_on_where_it_stopped_and_reuses_what_is_there(store, stop_after):
    trained = []
    with pytest.raises(KeyboardInterrupt):
        search(study(), store, between, trained, stop_after)
    assert len(trained) == stop_after
    searched = search(study(), store, between, trained)
    assert len(trained) == len(set(trained)) == len(searched.asked)
    again = search(study(), store, between, trained)
    assert (again.reused, len(trained)) == (len(searched.asked), len(searched.asked))
    assert again.found == searched.found


def test_a_search_over_a_dense_study_trains_nothing_and_is_a_study_of_its_own(store):
    trained = []
    dense = study(name="dense", search=None, train={"steps": 4, "lr": "logspace(1e-5, 1e-1, 17)", "seed": list(SEEDS)})
    search(dense, store, between, trained)
    searched = search(study(), store, between, trained)
    assert len(trained) == 102
    assert len(runs_frame(store, "s")) == len(searched.asked) == searched.reused < 41


def test_a_failed_run_ends_the_search_of_its_configuration_alone(store):
    first = study().runs()[0]
    searched = search(study(), store, between, [], broken=first.id)
    assert first.id not in store.done()
    assert not searched.found["attention"].settled
    assert searched.found["attention(conv=k)"].settled


def test_the_grid_is_the_studys_own_where_it_gives_one():
    runs = study(train={"steps": 4, "lr": "logspace(1e-3, 1e-1, 9)", "seed": [5, 4]}).runs()
    assert sorted({run.train.lr for run in runs}) == axis("logspace", 1e-3, 1e-1, 9)
    assert list(dict.fromkeys(run.train.seed for run in runs)) == [5, 4]
    dense = study(search=None, train={"steps": 4, "lr": "logspace(1e-5, 1e-1, 17)", "seed": list(SEEDS)})
    assert {run.id for run in dense.runs()} == {run.id for run in study().runs()}, "runs are shared with a dense study"


def test_a_searching_study_goes_to_yaml_and_back(tmp_path):
    path = tmp_path / "s.yaml"
    for one in (study(), study(search={"kind": "window", "points": 9, "seeds": [3, 4]})):
        path.write_text(one.to_yaml())
        assert Study.load(path) == one


def wanted(asked: Study):
    assert asked.strategy is not None
    return asked.strategy.wanted(asked.runs(), {}, ())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"search": "windw"}, "did you mean 'window'"),
        ({"search": {"resolutoin": 1}}, "did you mean 'resolution'"),
        ({"search": {"low": 1e-2, "high": 1e-3}}, "low 0.01 must be below high 0.001"),
        ({"search": {"resolution": 9}}, "resolution 9 is as wide as the 4 decades"),
        ({"search": {"threshold": 1.5}}, "threshold: input should be less than or equal to 1"),
        ({"search": {"points": 1}}, "points: input should be greater than or equal to 2"),
        ({"search": {"coarse": 1}}, "coarse: input should be greater than or equal to 2"),
        ({"search": {"seeds": []}}, "at least one seed"),
        ({"search": {"seeds": [1, 1]}}, "each once"),
        ({"search": {"max_runs": 3}}, "less than the 5 runs of the first round"),
        ({"search": {"points": 9}, "train": {"steps": 4, "lr": [0.1, 0.01]}}, "search.points and train.lr both say"),
        ({"search": {"seeds": [1]}, "train": {"steps": 4, "seed": 2}}, "search.seeds and train.seed both say"),
        ({"train": {"steps": 4, "lr": 0.1}}, "at least two learning rates"),
        ({"exclude": [{"train.lr": 1e-5, "train.seed": 42}]}, "every seed at every rate"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(tmp_path, fields, message):
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump({"search": "window", "train": {"steps": 4}, **fields}))
    with pytest.raises(SpecError, match=message):
        wanted(Study.load(path))
