"""How fast a machine trains: milliseconds per run and step, for cohorts of several sizes beside one run at a time.

One run at a time is a plain loop: the model, torch.optim.AdamW, PyTorch's cross-entropy at the answers; no cohort, no
kernels of ours, nothing compiled. Shares are of the largest cohort's step: sampling and optimiser are timed as they are, head and
mixers alone on random inputs of their shapes; the rest is MLPs, norms and embeddings.

The roofline is the larger of two times: operations over the rate of a large matrix product, and bytes over the rate of a large
copy, both measured on the same machine right before. Operations are those of matrix products and scans, three times forward.
Bytes are those of study/cost.py.
"""

import gc
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from recollect.models.model import build
from recollect.ops.answer_loss import answer_loss
from recollect.study.cost import step_bytes, work_of
from recollect.train.cohort import Cohort, out_of_memory
from recollect.train.data import sample, training_rows
from recollect.train.spec import RunSpec
from recollect.train.speed.graph import WARM

SECONDS = 0.5
"""The least seconds of a measurement."""


@dataclass(frozen=True)
class Shape:
    """The task, model and training of the runs to be timed."""

    mixer: Any
    width: int = 64
    length: int = 64
    pairs: int = 4
    batch: int = 512
    vocab: int = 8192
    layers: int = 2
    mlp: str = "gelu"
    precision: str = "float32"
    optimiser: str = "adamw"

    def runs(self, members: int) -> list[RunSpec]:
        """Runs of this shape, with rates and seeds as in a sweep."""
        task = {"kind": "mqar", "length": self.length, "pairs": self.pairs, "vocab": self.vocab}
        model = {"mixer": self.mixer, "width": self.width, "layers": self.layers, "mlp": self.mlp}
        train = {"steps": 10_000, "batch": self.batch, "precision": self.precision, "optimiser": self.optimiser}
        trains = [train | {"lr": 1e-4 * (i + 1), "seed": i % 3} for i in range(members)]
        return [RunSpec.model_validate({"task": task, "model": model, "train": one}) for one in trains]


@dataclass(frozen=True)
class Ceilings:
    """The highest rates of the machine."""

    flops: float
    """Operations per second of a large matrix product."""
    bytes: float
    """Bytes read and written per second by a large copy."""


@dataclass
class Row:
    """One cohort size of one shape."""

    mixer: str
    width: int
    length: int
    pairs: int
    batch: int
    layers: int
    mlp: str
    precision: str
    trained_by: str
    """The optimiser of the cohorts; one run at a time it is PyTorch's AdamW."""
    members: int
    """0: one run at a time, the plain loop."""
    ms: float
    """Milliseconds per run and step; NaN where memory was too small."""
    speedup: float = float("nan")
    """How many times faster than one run at a time."""
    first_step_s: float = float("nan")
    """Seconds to the end of the first step, compilation included."""
    memory_gib: float = float("nan")
    roofline: float = float("nan")
    """The roofline's time divided by the measured time."""
    sampling: float = float("nan")
    head: float = float("nan")
    mixers: float = float("nan")
    optimiser: float = float("nan")


def ceilings(device: torch.device) -> Ceilings:
    """Measure the machine: a matrix product in its lowest useful precision, and a copy."""
    cuda = device.type == "cuda"
    n, dtype = (8192, torch.bfloat16) if cuda else (1024, torch.float32)
    a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    source = torch.randn(2**28 if cuda else 2**24, device=device)
    target = torch.empty_like(source)
    product, copy = seconds_per_call(lambda: a @ b, device), seconds_per_call(lambda: target.copy_(source), device)
    return Ceilings(2 * n**3 / product, 2 * source.numel() * source.element_size() / copy)


def bench(shape: Shape, sizes: list[int], device: torch.device, best: Ceilings, compiled: bool) -> Iterator[Row]:
    """One run at a time, then each cohort size, smallest first; sizes that do not fit give a row without a time."""
    alone = _one_at_a_time(shape, device)
    yield _row(shape, 0, alone, alone, best)
    for members in sorted(sizes):
        try:
            yield _cohort(shape, members, alone, device, best, compiled, last=members == max(sizes))
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            yield _row(shape, members, float("nan"), alone, best)
        gc.collect()
        torch.compiler.reset()
        if device.type == "cuda":
            torch.cuda.empty_cache()


def seconds_per_call(step: Callable[[], object], device: torch.device) -> float:
    """Seconds per call: the median of three measurements, after a warm-up."""

    def measure(calls: int) -> float:
        started = _now(device)
        for _ in range(calls):
            step()
        return (_now(device) - started) / calls

    step()
    calls = max(1, int(SECONDS / 3 / max(measure(1), 1e-6)))
    return sorted(measure(calls) for _ in range(3))[1]


def _cohort(
    shape: Shape, members: int, alone: float, device: torch.device, best: Ceilings, compiled: bool, last: bool
) -> Row:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    cohort = Cohort(shape.runs(members), device)
    if compiled:
        cohort.compile()
    number = iter(range(10**9))

    def step() -> None:
        cohort.advance(next(number))

    started = _now(device)
    step()
    first = _now(device) - started
    for _ in range(WARM + 1):  # then, on a GPU, a step is recorded as a graph
        step()
    row = _row(shape, members, seconds_per_call(step, device) / members, alone, best)
    row.first_step_s = first
    if device.type == "cuda":
        row.memory_gib = torch.cuda.max_memory_allocated(device) / 2**30
    if last:

        def share(part: Callable[[], object]) -> float:
            return seconds_per_call(part, device) / (row.ms / 1000 * members)

        row.sampling = share(lambda: cohort.feed(next(number)).map(lambda x: x[cohort.members.seed_of]))
        row.head, row.mixers = share(_head(cohort)), share(_mixers(cohort))
        inputs = cohort.inputs(0)
        gradients = list(cohort.gradients(inputs))
        row.optimiser = share(lambda: [cohort.move(*found, inputs) for found in gradients])
    return row


def _row(shape: Shape, members: int, seconds: float, alone: float, best: Ceilings) -> Row:
    run = shape.runs(1)[0]
    floor = max(work_of(run).step_flops / best.flops, step_bytes(run) / best.bytes)
    return Row(
        run.model.title, shape.width, shape.length, shape.pairs, shape.batch, shape.layers, shape.mlp,
        shape.precision, shape.optimiser, members, seconds * 1000, alone / seconds, roofline=floor / seconds,
    )  # fmt: skip


def _one_at_a_time(shape: Shape, device: torch.device) -> float:
    """Seconds per step of a plain loop."""
    run = shape.runs(1)[0]
    model = build(run.model, run.task.vocabulary, run.row_length, seed=0).to(device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    seeds, number = torch.tensor([0], device=device), iter(range(10**9))

    def step() -> None:
        rows = training_rows(run.train, seeds, next(number))
        batch = sample(run.task, seeds, "train", rows).map(lambda x: x[0])
        with torch.autocast(device.type, torch.bfloat16, enabled=shape.precision == "bfloat16"):
            logits = model(batch.tokens, batch.positions)
        loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), batch.answers.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    with warnings.catch_warnings():  # its norms have no fused form in mixed precision, and a plain loop needs none
        warnings.filterwarnings("ignore", message="Mismatch dtype between input and weight")
        return seconds_per_call(step, device)


def _head(cohort: Cohort) -> Callable[[], object]:
    """The head and its loss, forward and backward, on random hidden states."""
    run, members = cohort.runs[0], cohort.members.places
    answers = run.train.batch * run.task.row_answers
    x = torch.randn(members, answers, run.model.width, device=cohort.device, requires_grad=True)
    w = torch.randn(members, run.task.vocabulary, run.model.width, device=cohort.device, requires_grad=True)
    right = torch.zeros(members, answers, dtype=torch.int64, device=cohort.device)

    def step() -> None:
        with cohort.arithmetic():
            with cohort.autocast():
                losses, _ = vmap(answer_loss)(x, w, right)
            torch.autograd.grad(losses.sum(), [x, w])

    return step


def _mixers(cohort: Cohort) -> Callable[[], object]:
    """Every layer's mixer, forward and backward, on random inputs; compiled where the cohort is."""
    run, members = cohort.runs[0], cohort.members.places
    size = (members, run.train.batch, run.task.row_length, run.model.width)
    x = torch.randn(size, device=cohort.device, requires_grad=True)
    parts: list[tuple[Callable, dict[str, Tensor]]] = []
    for name, module in cohort.model.named_modules():
        if name.endswith(".mixer"):
            params = {k[len(name) + 1 :]: p for k, p in cohort.members.params.items() if k.startswith(name + ".")}

            def mix(p: dict[str, Tensor], x: Tensor, module: nn.Module = module) -> Tensor:
                return functional_call(module, p, (x,))

            parts.append((torch.compile(vmap(mix), dynamic=False) if cohort.compiled else vmap(mix), params))

    def step() -> None:
        for mix, params in parts:
            held = {name: p.detach().requires_grad_() for name, p in params.items()}
            with cohort.arithmetic():
                with cohort.autocast():
                    y = mix(held, x)
                torch.autograd.grad(y.float().square().sum(), [x, *held.values()])

    return step


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
