"""A mixer from a file or a class to a picture: rules, recall, and its learning-rate window beside those of known mixers."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from recollect.models.spec import ModelSpec
from recollect.probing.compare import beside_shipped, compared, pictures, verdicts
from recollect.probing.require import missed, requirements
from recollect.probing.rules import Checked, check_rules
from recollect.probing.setting import ProbeSetting, baseline, probe_study, small_task
from recollect.spec import SpecError, finite
from recollect.spec.apart import run_apart
from recollect.store import DEFAULT_STORE
from recollect.store.frames import runs_frame
from recollect.store.store import Store
from recollect.study.outcome import Outcome
from recollect.study.run import Grid, expand, run
from recollect.study.values import plain

SHOWN = ("task", "model", "layers", "best", "best_lr", "decades", "low", "high", "open_low", "open_high", "step", "parameters",
         "origin", "probed")  # fmt: skip
"""What a result shows of each model."""


@dataclass(frozen=True)
class Compared:
    """The probed mixer beside others on one task."""

    setting: ProbeSetting
    study: str
    """The study that holds the runs trained now."""
    frame: pd.DataFrame
    """The runs trained now, and the shipped ones of the same setting."""
    records: list[dict[str, Any]]
    """One record per model and depth, the probed mixer first."""
    pictures: list[Path]
    sentences: list[str]
    """The result in words, one sentence per depth."""


@dataclass(frozen=True)
class Probe:
    """What a probe found out about a mixer."""

    mixer: str
    rules: list[Checked]
    """The result of each rule."""
    outcome: Outcome | None = None
    """The runs; None where nothing was trained."""
    tasks: list[Compared] = field(default_factory=list)
    """The result of each task."""
    missed: list[str] = field(default_factory=list)
    """What was required and not reached."""

    @property
    def broken(self) -> list[str]:
        """The names of the rules that do not hold."""
        return [rule.name for rule in self.rules if rule.outcome == "broken"]

    @property
    def fatal(self) -> list[str]:
        """Those of them with which training would mean nothing."""
        return [rule.name for rule in self.rules if rule.fatal]

    @property
    def records(self) -> list[dict[str, Any]]:
        """One record per task, depth and model."""
        return [record for one in self.tasks for record in one.records]

    @property
    def sentences(self) -> list[str]:
        """The result in words, one sentence per task and depth."""
        return [sentence for one in self.tasks for sentence in one.sentences]

    @property
    def passed(self) -> bool:
        """Whether every rule holds, every run could be trained, and all that was required is reached."""
        return not (self.broken or self.missed or (self.outcome and self.outcome.failed))

    def to_json(self) -> str:
        """All of it as JSON, for a program to read."""
        tasks = [
            {"setting": asdict(one.setting), "study": one.study, "sentences": one.sentences,
             "pictures": [str(path) for path in one.pictures],
             "models": [{name: finite(row[name]) for name in SHOWN} for row in one.records]} for one in self.tasks
        ]  # fmt: skip
        failed = self.outcome.failed if self.outcome else {}
        about = {"mixer": self.mixer, "passed": self.passed, "missed": self.missed, "failed": failed,
                 "rules": [asdict(rule) for rule in self.rules], "tasks": tasks}  # fmt: skip
        return json.dumps(about, indent=1, allow_nan=False)

    def __repr__(self) -> str:
        broken = f"broken rules: {', '.join(self.broken)}" if self.broken else "all rules hold"
        return f"Probe({'; '.join([f'{self.mixer}: {broken}', *self.sentences, *self.missed])})"

    def _repr_html_(self) -> str:
        columns = [name for name in SHOWN if name not in ("step", "probed")]
        table = pd.DataFrame(self.records, columns=columns).to_html(index=False, escape=True) if self.records else ""
        return f"{table}<p>{self!r}</p>".replace("Probe(", "", 1)


def probe(
    mixer: Any,
    *,
    task: Any = "mqar",
    length: int | None = None,
    pairs: int | None = None,
    vocab: int | None = None,
    width: int = 32,
    layers: Sequence[int] = (1,),
    positions: str = "none",
    steps: int = 400,
    seeds: int = 2,
    beside: Sequence[Any] = (),
    require: str = "",
    train: bool = True,
    on_rule: Callable[[Checked], None] = lambda rule: None,
    store: Store | str | Path = DEFAULT_STORE,
    **options: Any,
) -> Probe:
    """Check the rules of a mixer, search its learning-rate windows on a small recall task, and compare it with known mixers.

    Args:
        mixer: a class, `file.py:Name`, `module:Name`, a known name, or a mapping with `kind` and options.
        task: a task's name, a mapping, or a Task; or a list of them.
        length, pairs, vocab: fields of the task; of several tasks, of each.
        width: channels of the model.
        layers: the depths to try.
        positions: the positions that the mixer's model gets.
        steps: training steps at most; a run that recalls 99 % ends.
        seeds: how many seeds.
        beside: known mixers to train as well.
        require: what the mixer must reach on every task and at every depth, as `window>=1,accuracy>=0.95`; what it misses is in
            the result's `missed`.
        train: whether to train, or to check the rules only.
        on_rule: called with the result of each rule as soon as it is known.
        store: the results file.
        options: those of `recollect.run`: `executor`, `device`, `workers`, `cohort`, `progress` and others.
    """
    required = requirements(require)
    if required and not train:
        raise SpecError(f"require {require!r} needs results of training, but the probe does not train")
    given = {"length": length, "pairs": pairs, "vocab": vocab}
    tasks = task if isinstance(task, list | tuple) else [task]
    depths = tuple(dict.fromkeys(layers))
    settings = [ProbeSetting(small_task(plain(one, "task"), given), width, depths, steps, seeds) for one in tasks]
    own: dict[str, Any] = {"mixer": dict(mixer) if isinstance(mixer, Mapping) else mixer, "positions": positions}
    model = ModelSpec.model_validate({**own, "width": width, "layers": depths[0]})
    title = model.title
    name = f"probe-{model.mixer.kind.rpartition(':')[2]}"
    names = [name if len(settings) == 1 else f"{name}-{n}-{one.task_name}" for n, one in enumerate(settings, 1)]
    models = [own, *map(baseline, beside)]
    named_settings = zip(names, settings, strict=True)
    grids = expand([probe_study(name, models, setting) for name, setting in named_settings])  # finds bad input first
    rules = []
    for rule in run_apart(f"{model.mixer.kind}: checking its rules", check_rules, model.model_dump_json()):
        rules.append(rule)
        on_rule(rule)
    if not train or any(rule.fatal for rule in rules):
        return Probe(title, rules)
    outcome = run(grids, store=store, **options)
    if outcome.failed:
        return Probe(title, rules, outcome)
    found = [_compared(grid, setting, title, outcome.store) for grid, setting in zip(grids, settings, strict=True)]
    records = [record for one in found for record in one.records]
    return Probe(title, rules, outcome, found, missed(required, records))


def _compared(grid: Grid, setting: ProbeSetting, title: str, store: Store) -> Compared:
    """The mixer with this title beside those trained now and the shipped ones."""
    name = grid.study.name
    frame = beside_shipped(runs_frame(store, name), grid.runs)
    records = compared(frame, title, setting.task_name)
    paths = pictures(frame, records, setting, store.path.parent / name / "window")
    return Compared(setting, name, frame, records, paths, verdicts(records, grid.runs[0].task.chance))
