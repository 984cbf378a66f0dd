"""What a study will cost, before anything starts: runs, cohorts, tokens, operations, time, dollars.

The plan says where its time is from, the first that there is of: runs of the same shape in the store, a few real steps timed
now, for a GPU the model of study/cost.py, other runs in the store on that kind of device, an assumption. Runs that end early
make it cheaper.
"""

import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from recollect.spec import SpecError
from recollect.spec.apart import run_apart
from recollect.store.labels import configurations, run_labels
from recollect.store.store import Store
from recollect.study import cost
from recollect.study.cost import H200, Machine, Work, kind_of, work_of
from recollect.study.executors.base import own_code
from recollect.study.packing import by_shape, cohort_size, pack
from recollect.study.run import Grid
from recollect.train.cohort import Cohort
from recollect.train.device import cores
from recollect.train.loop import measured
from recollect.train.spec import RunSpec
from recollect.train.speed.compile import allowed, worth
from recollect.train.speed.graph import WARM

T = TypeVar("T")
RECENT = 2000
"""How many of the store's last runs are looked at for rates."""


@dataclass
class Part:
    """The runs of one shape."""

    label: str
    example: RunSpec
    runs: int
    done: int
    left: list[RunSpec]
    """Those still to train; for a search, the most that it may train."""
    cohorts: int = 0
    tokens: float = 0.0
    """Tokens read by the runs that are left, in training and measuring."""
    flops: float = 0.0
    """Their operations."""
    seconds: float = 0.0
    """The device time they need."""
    basis: str = ""
    """Where the rate is from."""


@dataclass
class Plan:
    """A study before it starts."""

    parts: list[Part]
    searches: int
    """How many windows it searches for; 0: it trains the whole grid."""
    warnings: list[str] = field(default_factory=list)

    def total(self, name: str) -> float:
        """The sum of a number over all parts."""
        return sum(getattr(part, name) for part in self.parts)

    @property
    def left(self) -> int:
        """Runs still to train."""
        return sum(len(part.left) for part in self.parts)


def make_plan(
    grid: Grid,
    store: Store | None,
    device: str,
    cohort: int = 0,
    calibrate: bool = False,
    machine: Machine | None = None,
) -> Plan:
    """The plan of a study on a kind of device, given what the store already has. `machine`: the GPU that it is for, if it is not
    the one that the store's runs were trained on."""
    accuracy = store.accuracies() if store else {}
    search = grid.study.strategy
    pending = search.left(grid.runs, accuracy) if search else [run for run in grid.runs if run.id not in accuracy]
    left = {run.id for run in pending}
    size = cohort or cohort_size(device, len(left), cores() if kind_of(device) == "cpu" else 1)
    groups = list(by_shape(grid.runs).values())
    parts = [
        Part(name, runs[0], len(runs), sum(run.id in accuracy for run in runs), [run for run in runs if run.id in left])
        for name, runs in zip(run_labels([runs[0] for runs in groups]), groups, strict=True)
    ]
    plan = Plan(parts, len(configurations(grid.runs)) if search else 0)
    own, other = ({}, None) if machine else _measured(store, {part.example.model.title for part in parts}, device)
    gpu = machine or H200
    for part in parts:
        cohorts = pack(part.left, size)
        work = _own_process(work_of, part.example)
        part.cohorts, part.tokens, part.flops = len(cohorts), len(part.left) * work.tokens, len(part.left) * work.flops
        if not work.counted:
            plan.warnings.append(
                f"{part.label}: a mixer does not count its operations; two per parameter and token are assumed"
            )
        if part.example.shape in own:
            part.seconds, part.basis = part.flops * own[part.example.shape], "measured"
        elif calibrate and cohorts:
            timing = _own_process(time_steps, cohorts[0], device)
            part.seconds, part.basis = timing.seconds(work, len(part.left), len(cohorts)), "timed now"
        elif kind_of(device) == "cuda":
            sizes = Counter(map(len, cohorts))
            part.seconds = _own_process(_gpu_seconds, part.example, sizes, gpu, work)
            part.basis = f"{gpu.title} model"
        elif other:
            part.seconds, part.basis = len(part.left) * cost.cpu_seconds(part.example, work) * other, "other runs"
        else:
            part.seconds, part.basis = len(part.left) * cost.cpu_seconds(part.example, work), "assumed"
    plan.warnings += _warnings([part for part in parts if part.left], gpu)
    return plan


def _warnings(parts: list[Part], gpu: Machine) -> Iterator[str]:
    """What to know about the times of parts that have runs left."""
    if any(part.basis == "assumed" for part in parts):
        yield (
            "assumed times are those of one core of another machine, and may be off by several times; --calibrate times a few "
            "real steps"
        )
    modelled = [part for part in parts if part.basis == f"{gpu.title} model"]
    if modelled:
        of = "" if gpu is H200 else f" and scaled by the peak rates and the memory of an {gpu.title}: an estimate"
        yield (
            f"times are those of an NVIDIA H200, fitted to two shapes of six mixers in bfloat16{of}; --calibrate, on the machine "
            "itself, times real steps"
        )
    if any(part.example.train.precision != "bfloat16" for part in modelled):
        yield "products in float32 were timed at width 64 only; wider ones are assumed to reach up to 85 % of the hardware's peak"
    advice = (cost.measuring_advice(part.example.train, len(part.example.tests)) for part in parts)
    yield from list(filter(None, advice))[:1]
    if any(part.example.train.stop_at for part in parts):
        yield "runs may end early (stop_at): this is what they cost if none does"


def _own_process(function: Callable[..., T], runs: RunSpec | list[RunSpec], *given: Any) -> T:
    """What a function of runs returns. Where they have code of a user's own it is called in another process, which that code
    may end or change."""
    run = runs if isinstance(runs, RunSpec) else runs[0]
    if not own_code(run):
        return function(runs, *given)
    (result,) = run_apart(f"{run.model.title}: building it", _listed, function, runs, *given)
    return result


def _gpu_seconds(run: RunSpec, cohorts: Counter[int], gpu: Machine, work: Work) -> float:
    """What cohorts of such runs take on a GPU, given how many there are of each size."""
    return sum(n * size * cost.gpu_seconds(run, size, gpu, work) for size, n in cohorts.items())


def _listed(function: Callable[..., T], *given: Any) -> list[T]:
    return [function(*given)]


def _measured(store: Store | None, titles: set[str], device: str) -> tuple[dict[str, float], float | None]:
    """Seconds an operation took on this kind of device, by shape for models of the study; and how many times as long as a core
    is assumed to take runs took, the median of all. An operation of a small model takes far longer than one of a large model,
    so seconds per operation say nothing of other shapes."""
    if store is None or not store.path.exists():
        return {}, None
    seconds, flops, assumed = (defaultdict[str, float](float) for _ in range(3))
    work: dict[str, Work] = {}
    mine = set[str]()
    for stored in store.recent(RECENT):
        if kind_of(stored.device) != kind_of(device) or not stored.step:
            continue
        try:
            run = stored.run
        except SpecError:  # of another version, or with code that only the store names
            continue
        if run.shape not in work:
            work[run.shape] = _own_process(work_of, run)
        seconds[run.shape] += stored.seconds
        share = stored.step / run.train.total_steps
        flops[run.shape] += work[run.shape].flops * share
        assumed[run.shape] += cost.cpu_seconds(run, work[run.shape]) * share
        if stored.model in titles:
            mine.add(run.shape)
    times = [seconds[shape] / assumed[shape] for shape in assumed]
    return {shape: seconds[shape] / flops[shape] for shape in mine}, statistics.median(times) if times else None


@dataclass(frozen=True)
class Timing:
    """How long a cohort takes, by the clock."""

    training: float
    """Seconds per operation and member in training."""
    measuring: float
    """Seconds per operation and member in measuring."""
    once: float
    """Seconds before training is under way; code that must be compiled is then in the compiler's cache."""

    def seconds(self, work: Work, runs: int, cohorts: int) -> float:
        """What runs in so many cohorts take."""
        training = work.flops - work.measured_flops
        return runs * (training * self.training + work.measured_flops * self.measuring) + cohorts * self.once


def time_steps(runs: list[RunSpec], device: str) -> Timing:
    """The times of a cohort, from a few real steps and a measurement; compiled if it would be when it trains."""
    began = time.perf_counter()
    cohort, spec = Cohort(runs, torch.device(device)), runs[0].train
    number = iter(range(10**9))

    def step() -> None:
        cohort.advance(next(number))
        cohort.members.sums[0, 0].item()  # waits for the device

    step()
    once, taken = time.perf_counter() - began, _lasting(step)
    if allowed(cohort.device) and worth(taken, spec.total_steps):
        for _ in range(2):  # the second time from the compiler's cache, as training will
            torch.compiler.reset()
            began = time.perf_counter()
            cohort.compile()
            for _ in range(WARM + 1):
                step()
        once, taken = once + time.perf_counter() - began, _lasting(step)
    measuring = _lasting(lambda: measured(cohort, 1))
    work = work_of(runs[0])
    rows = spec.eval_rows * cost.row_flops(cost.outline_of(runs[0]), runs[0].task.for_test())[0]
    return Timing(taken / (len(runs) * work.step_flops), measuring / (len(runs) * rows), once)


def _lasting(call: Callable[[], object]) -> float:
    """Seconds a call takes, from as many as make half a second."""
    calls = 1
    while True:
        began = time.perf_counter()
        for _ in range(calls):
            call()
        if (taken := time.perf_counter() - began) >= 0.5 or calls >= 256:
            return taken / calls
        calls *= 4
