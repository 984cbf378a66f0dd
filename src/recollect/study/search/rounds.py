"""Runs a study that searches: round after round, each for all configurations at once, until every window is known."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from recollect.spec import SpecError
from recollect.store.labels import run_labels
from recollect.store.store import Store
from recollect.study.search.window import Found, Rate, WindowSearch
from recollect.study.spec import Study
from recollect.train.spec import RunSpec


@dataclass(frozen=True)
class Configuration:
    """Everything but the learning rate and the seed, and the search for its window."""

    label: str
    search: WindowSearch
    runs: dict[Rate, RunSpec]
    """Every run of its grid, in the order of the study."""

    def results(self, accuracy: dict[str, float]) -> dict[Rate, float]:
        """Which of its runs have ended, and how well they did."""
        return {rate: accuracy[run.id] for rate, run in self.runs.items() if run.id in accuracy}


@dataclass
class Searched:
    """What a search came to."""

    windows: dict[str, Found]
    """The window of each configuration."""
    asked: list[RunSpec]
    """Every run that the search has asked for."""
    reused: int
    """How many of them the store had before."""
    dense: int
    """How many runs the whole grid has."""
    failed: dict[str, str] = field(default_factory=dict)
    """Runs that failed for good, id and error; the search of their configurations ended there."""


def search_windows(study: Study, store: Store, train: Callable[[Study], dict[str, str]]) -> Searched:
    """Search every configuration of a study; `train` runs a list of runs, given as a study, and tells which failed.

    Safe to call again after any interruption: the same runs are asked for, and those that the store has are not trained.
    """
    found = configurations(study)
    before = set(store.done())
    failed: dict[str, str] = {}
    first, left = True, 0
    while first or left:
        accuracy = accuracies(store)
        asked, left = [], 0
        for one in found:
            results = one.results(accuracy)
            wanted = {one.runs[rate].id for rate in one.search.asked(results)}
            if wanted & failed.keys():
                wanted &= accuracy.keys()
            asked += [run for run in one.runs.values() if run.id in wanted]
            left += len(wanted - accuracy.keys())
        if first or left:  # also once where nothing is left, so that the store knows the study
            failed |= train(study.only(asked))
        first = False
    windows = {one.label: one.search.found(one.results(accuracy)) for one in found}
    return Searched(windows, asked, sum(run.id in before for run in asked), sum(len(one.runs) for one in found), failed)


def configurations(study: Study) -> list[Configuration]:
    """The configurations of a study that searches."""
    assert study.search is not None, "only a study with `search` has configurations to search"
    groups: dict[str, list[RunSpec]] = {}
    for run in study.runs():
        data = run.canonical()
        train = {name: value for name, value in data["train"].items() if name not in ("lr", "seed")}
        groups.setdefault(json.dumps({**data, "train": train}, sort_keys=True), []).append(run)
    names = run_labels([runs[0] for runs in groups.values()])
    return [_configuration(name, runs, study) for name, runs in zip(names, groups.values(), strict=True)]


def _configuration(label: str, runs: list[RunSpec], study: Study) -> Configuration:
    rates = sorted({run.train.lr for run in runs})
    seeds = dict.fromkeys(run.train.seed for run in runs)
    if len(runs) != len(rates) * len(seeds):
        raise SpecError(
            f"search: {label} has {len(runs)} runs and not {len(rates)} rates x {len(seeds)} seeds; "
            "a search needs every seed at every rate, so leave rates and seeds out of zip and exclude"
        )
    assert study.search is not None
    search = WindowSearch(tuple(rates), tuple(seeds), study.search)
    return Configuration(label, search, {(run.train.lr, run.train.seed): run for run in runs})


def accuracies(store: Store) -> dict[str, float]:
    """The final accuracy of every run that has ended, by id; NaN where it diverged before it could be measured."""
    if not store.path.exists():
        return {}
    rows = store.query("SELECT id, accuracy FROM runs")
    return {id: float("nan") if accuracy is None else accuracy for id, accuracy in rows}


def describe(searched: Searched) -> str:
    """The search in one line."""
    found = searched.windows.values()
    share = f"{len(searched.asked)} of {searched.dense} runs ({len(searched.asked) / searched.dense:.0%})"
    unsettled = sum(not window.settled for window in found)
    more = f"; {unsettled} not settled within the runs allowed" if unsettled else ""
    return f"{sum(window.low == window.low for window in found)} of {len(found)} have a window, {share}{more}"
