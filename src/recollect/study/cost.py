"""What a run costs: operations, bytes, and on a GPU that was measured, seconds.

Operations are those of matrix products and scans, as the mixers count them: a training step is three forward passes (one
forward, two backward), a measurement is one. On a GPU a full cohort's step takes about

    seconds per run = T / members + a mixer's bytes / its B + other bytes / R + operations / P

where T is the time of a cohort's step that does not depend on its members, P the rate of large products, R that of memory, and B
the rate at which a mixer moves bytes: it is below R because a mixer moves more than the least and computes meanwhile. All were
fitted by benchmarks/fit_cost.py to times on an NVIDIA H200 in bfloat16 (benchmarks/h200): width 64 with rows of 64 tokens, width
128 with rows of 256. Products in float32 were timed at width 64 only (attention 1.35 ms and Mamba 1.81 ms, 36 members); wider
ones come closer to the hardware's peak, and no step is predicted to take less than its operations at that peak.
"""

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache

from torch import nn

from recollect.models.model import Model, outline
from recollect.tasks.base import Task
from recollect.train.optimisers.base import Optimiser
from recollect.train.spec import RunSpec, TrainSpec
from recollect.train.speed.compile import COST, SAVED, worth

CPU, CPU_STEP = 3e10, 0.005
"""Operations per second on one CPU core, and the seconds that a step of a run takes beside them. With these, the five shapes of
docs/benchmarks.md are estimated within 1.8 times of what was measured."""
STEP = 9.83e-4
"""T, seconds."""
PRODUCTS = 4.69e14
"""P, operations per second."""
REST = 4.48e12
"""R, bytes per second."""
BYTES = {
    "attention": 1.98e12, "linear_attention": 1.8e12, "hyena": 1.69e12, "mamba": 9.74e11, "mamba2": 1.22e12, "deltanet": 7.43e11,
}  # fmt: skip
"""B, bytes per second, by mixer."""
OTHER = 7e11
"""B of mixers that were not measured: an assumption."""
NARROW = 62
"""The width at which products in float32 run at half the rate of wide ones: attention is predicted 8 % too fast, Mamba too
slow."""
WIDE = 0.85
"""The share of the hardware's peak that wide products in float32 reach: an assumption."""
MEASURING = 0.2
"""What measuring may cost, over training, before a plan says so."""
COMPILING = 40.0
"""Seconds to the first compiled step, caches empty."""
UNCOMPILED = 0.012
"""Seconds that a step takes at the least before it is compiled, because its kernels are launched one by one: 11 to 19 ms were
measured for five mixers with two layers in cohorts of 6 (statetracking2025/parity at scale medium, H200, while other processes
were compiling)."""


@dataclass(frozen=True)
class Machine:
    """A GPU whose times are known or estimated."""

    title: str
    peak: dict[str, float]
    """Operations per second at most, by precision, as the maker states them; float32 without TF32."""
    memory: float
    """Bytes per second at most."""


H200 = Machine("H200", {"bfloat16": 9.89e14, "float32": 6.7e13, "float64": 3.4e13}, 4.8e12)
MACHINES = {
    "h200": H200,
    "a100": Machine("A100", {"bfloat16": 3.12e14, "float32": 1.95e13, "float64": 9.7e12}, 2.04e12),
}
"""GPUs that a plan can be for. Only the H200 was measured: the times of another are those of the H200, its products scaled by the
peaks, its bytes by the memory's rate."""


@dataclass(frozen=True)
class Work:
    """What one run takes."""

    tokens: float
    flops: float
    measured_flops: float
    """Operations of the measurements."""
    step_flops: float
    """Operations of one training step."""
    counted: bool
    """Whether every mixer counts its operations."""


def work_of(run: RunSpec) -> Work:
    """Tokens and operations of a whole run, measurements included."""
    spec, model = run.train, outline_of(run)
    row, counted = row_flops(model, run.task)
    step = 3.0 * spec.batch * row
    tests = run.all_tests
    rows = [(tests[0], math.ceil(spec.total_steps / spec.cadence) * spec.eval_rows)]
    rows += [(test, spec.test_rows) for test in tests]
    tokens = spec.total_steps * spec.batch * run.task.row_length + sum(n * task.row_length for task, n in rows)
    measured = sum(n * row_flops(model, task)[0] for task, n in rows)
    return Work(tokens, spec.total_steps * step + measured, measured, step, counted)


def measuring_advice(train: TrainSpec, tests: int = 0) -> str:
    """What measuring costs where it is more than a fifth of training, and the fields of `train` that make it a fifth; else
    nothing. Rows are counted: a training row costs three forward passes."""
    training = 3 * train.total_steps * train.batch
    rows = math.ceil(train.total_steps / train.cadence) * train.eval_rows + (1 + tests) * train.test_rows
    allowed = MEASURING * training
    if rows <= allowed:
        return ""
    final = max(1, min(train.test_rows, int(allowed / 2 / (1 + tests))))
    each = max(1, min(train.eval_rows, 128, int(allowed / 4)))
    every = math.ceil(train.total_steps * each / (allowed / 2))
    return (
        f"measuring costs {rows / training:.0%} of what training does; `eval_every: {max(every, train.cadence)}, "
        f"eval_rows: {each}, test_rows: {final}` in train makes it a fifth"
    )


def row_flops(model: Model, task: Task) -> tuple[float, bool]:
    """Operations of one row forward, and whether all were counted."""
    try:
        return float(model.flops(task.row_length, task.row_answers)), True
    except (AttributeError, TypeError):
        return 2.0 * task.row_length * sum(p.numel() for p in model.parameters()), False


def step_bytes(run: RunSpec) -> float:
    """The least bytes that a training step moves if layers are computed separately."""
    rest, mixers = bytes_moved(run)
    return rest + sum(mixers.values())


def bytes_moved(run: RunSpec) -> tuple[float, dict[str, float]]:
    """These bytes without those of the mixers, and those of the mixers by kind.

    The inputs and outputs of every linear map once forward, and twice backward; parameters, gradients and the optimiser's state
    once in, once out.
    """
    model = outline_of(run)
    size = 2 if run.train.precision == "bfloat16" else 4
    tokens = run.train.batch * run.task.row_length
    answers = run.train.batch * run.task.row_answers

    def of(part: nn.Module) -> float:
        maps = [m for m in part.modules() if isinstance(m, nn.Linear)]
        return sum(3.0 * tokens * (m.in_features + m.out_features) * size for m in maps)

    params, state = held_bytes(run)
    rest = (3.0 * answers + 2 * tokens) * run.model.width * size + 4 * params + 2 * state
    mixers: dict[str, float] = defaultdict(float)
    for layer in [*model.layers, *model.second]:
        mixers[layer.kind] += of(layer.mixer)
        rest += of(layer.mlp)
    return rest, mixers


def outline_of(run: RunSpec) -> Model:
    """The model of a run, for reading its sizes."""
    return outline(run.model, run.task.vocabulary, run.row_length)


def held_bytes(run: RunSpec) -> tuple[int, int]:
    """Bytes of the parameters of a run, and of its optimiser's state."""
    optimiser = run.train.built_optimiser
    return _held_bytes(outline_of(run), type(optimiser), optimiser.model_dump_json())


@lru_cache(maxsize=128)
def _held_bytes(model: Model, optimiser: type[Optimiser], numbers: str) -> tuple[int, int]:
    """Remembered, as `outline` is: a plan asks for the same several times, and a state has two tensors per parameter."""
    params = dict(model.named_parameters())
    return sum(p.nbytes for p in params.values()), optimiser.model_validate_json(numbers).state_bytes(params)


def cpu_seconds(run: RunSpec, work: Work) -> float:
    """About how many seconds a run takes on one CPU core."""
    return run.train.total_steps * CPU_STEP + work.flops / CPU


def gpu_seconds(run: RunSpec, members: int, machine: Machine = H200, work: Work | None = None) -> float:
    """Seconds that one of so many runs takes in a cohort on a GPU, measurements and compilation included. `work`: what
    `work_of` returns, where it is known."""
    work = work or work_of(run)
    step = max(STEP / members + _busy(run, work, machine), work.step_flops / machine.peak[run.train.precision])
    compiling = COMPILING / members
    if not will_compile(run, members):
        step, compiling = max(step, uncompiled_step(run, members)[0] / members), 0.0
    return run.train.total_steps * step + work.measured_flops / work.step_flops * step + compiling


def step_share(run: RunSpec, members: int) -> float:
    """The share of a compiled step of so many runs in which an H200 is busy."""
    busy = members * _busy(run, work_of(run))
    return busy / (STEP + busy)


def uncompiled_step(run: RunSpec, members: int) -> tuple[float, float]:
    """Seconds of a step of so many runs that is not compiled, and the share of them in which an H200 is busy."""
    busy = members * _busy(run, work_of(run)) / (1 - SAVED)
    step = max(busy, UNCOMPILED)
    return step, busy / step


def will_compile(run: RunSpec, members: int, cost: float = COST) -> bool:
    """Whether a cohort of so many runs is expected to be compiled: whether that saves more seconds than it costs."""
    return worth(uncompiled_step(run, members)[0], run.train.total_steps, cost)


def _busy(run: RunSpec, work: Work, machine: Machine = H200) -> float:
    """Seconds for which a step of one run keeps a GPU busy."""
    rest, mixers = bytes_moved(run)
    moving = rest / REST + sum(moved / BYTES.get(kind, OTHER) for kind, moved in mixers.items())
    precision, width = run.train.precision, run.model.width
    if precision == "bfloat16":
        rate = PRODUCTS * machine.peak[precision] / H200.peak[precision]
    else:
        rate = WIDE * machine.peak[precision] * width / (width + NARROW)
    return moving * H200.memory / machine.memory + work.step_flops / rate


def kind_of(device: str) -> str:
    """`cpu` or `cuda`, whatever the number."""
    return "cuda" if device.startswith("cuda") else "cpu"
