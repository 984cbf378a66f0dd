"""A mixer from a file or a class to a picture: rules, recall, and its learning-rate window beside those of known mixers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from recollect.models.spec import ModelSpec
from recollect.probing.compare import beside_shipped, compared, pictures, verdicts
from recollect.probing.rules import Checked, check_rules
from recollect.probing.setting import Setting, baseline, probe_study, small_task
from recollect.spec import SpecError
from recollect.spec.state import GlobalState
from recollect.store import DEFAULT_STORE
from recollect.store.store import Store
from recollect.study.outcome import Outcome
from recollect.study.run import expand, run
from recollect.study.values import plain


@dataclass(frozen=True)
class Probe:
    """What a probe found out about a mixer."""

    mixer: str
    setting: Setting
    rules: list[Checked]
    """What came of each rule."""
    outcome: Outcome | None = None
    """The runs; None where nothing was trained."""
    frame: pd.DataFrame = field(default_factory=pd.DataFrame)
    """The runs trained now, and the shipped ones of the same setting."""
    records: list[dict[str, Any]] = field(default_factory=list)
    """One record per model and depth, the probed mixer first."""
    pictures: list[Path] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    """The result in words, one sentence per depth."""

    @property
    def broken(self) -> list[str]:
        """The names of the rules that do not hold."""
        return [rule.name for rule in self.rules if rule.outcome == "broken"]

    @property
    def fatal(self) -> list[str]:
        """Those of them with which training would mean nothing."""
        return [rule.name for rule in self.rules if rule.fatal]

    def __repr__(self) -> str:
        broken = f"broken rules: {', '.join(self.broken)}" if self.broken else "all rules hold"
        return f"Probe({'; '.join([f'{self.mixer}: {broken}', *self.sentences])})"

    def _repr_html_(self) -> str:
        columns = ["model", "layers", "best", "best_lr", "decades", "low", "high", "parameters", "origin"]
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
    train: bool = True,
    on_rule: Callable[[Checked], None] = lambda rule: None,
    store: Store | str | Path = DEFAULT_STORE,
    **options: Any,
) -> Probe:
    """Check the rules of a mixer, search its learning-rate windows on a small recall task, and compare it with known mixers.

    Args:
        mixer: a class, `file.py:Name`, `module:Name`, a known name, or a mapping with `kind` and options.
        task: a task's name, a mapping, or a Task.
        length, pairs, vocab: fields of the task.
        width: channels of the model.
        layers: the depths to try.
        positions: the positions that the mixer's model gets.
        steps: training steps at most; a run that recalls 99 % ends.
        seeds: how many seeds.
        beside: known mixers to train as well.
        train: whether to train, or to check the rules only.
        on_rule: called with what came of each rule as soon as it is known.
        store: the results file.
        options: those of `recollect.run`: `executor`, `device`, `workers`, `cohort`, `progress` and others.
    """
    named = mixer.get("kind") if isinstance(mixer, Mapping) else mixer
    if isinstance(named, str) and named.endswith(".py"):
        raise SpecError(f"{named}: name the class in it as well, as {named}:MyMixer")
    asked = small_task(plain(task, "task"), {"length": length, "pairs": pairs, "vocab": vocab})
    setting = Setting(asked, width, tuple(dict.fromkeys(layers)), steps, seeds)
    own: dict[str, Any] = {"mixer": dict(mixer) if isinstance(mixer, Mapping) else mixer, "positions": positions}
    model = ModelSpec.model_validate({**own, "width": width, "layers": setting.layers[0]})
    title = model.title
    name = f"probe-{model.mixer.kind.rpartition(':')[2]}"
    (grid,) = expand(probe_study(name, [own, *map(baseline, beside)], setting))  # bad input is found before the checks
    rules, state = [], GlobalState()
    for rule in check_rules(model):
        rules.append(rule)
        on_rule(rule)
    state.restore()  # the mixer's code has run in this process, from which workers inherit the environment
    if not train or any(rule.fatal for rule in rules):
        return Probe(title, setting, rules)
    outcome = run([grid], store=store, **options)
    if outcome.failed:
        return Probe(title, setting, rules, outcome)
    frame = beside_shipped(outcome.results("all"), grid.runs)
    records = compared(frame, title)
    paths = pictures(frame, records, setting, outcome.store.path.parent / name / "window")
    return Probe(title, setting, rules, outcome, frame, records, paths, verdicts(records, grid.runs[0].task.chance))
