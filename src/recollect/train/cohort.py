"""A cohort: runs of one shape, trained at once.

The members' parameters are stacked on axis 0. The plain model runs for all of them at once under vmap; the sum of their
losses is differentiated once; one optimiser step moves them all, each with its own rates. A member's numbers do not
depend on its company: on the CPU to the bit, as long as a cohort is never of one (so a lone run brings a copy of itself).
"""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from recollect import rng
from recollect.models.model import build
from recollect.train.adamw import Parameters, Rates, adamw, gradient_norms, schedule
from recollect.train.data import Feed
from recollect.train.embeddings import Album
from recollect.train.measure import Measures, measure
from recollect.train.spec import RunSpec
from recollect.train.speed.compile import BACKEND, places
from recollect.train.speed.graph import Inputs, Replay


class Cohort:
    """Members in training: their specifications, stacked parameters, optimiser state and records, axis 0 the member."""

    def __init__(self, runs: list[RunSpec], device: torch.device):
        if len({run.shape for run in runs}) != 1:
            raise ValueError(
                f"a cohort needs runs of one shape, and these {len(runs)} have {len({r.shape for r in runs})}"
            )
        run = runs[0]
        self.device, self.task, self.spec, self.runs = device, run.task, run.train, list(runs)
        self.dtype = torch.float64 if run.train.precision == "float64" else torch.float32
        seeds = list(dict.fromkeys(r.train.seed for r in runs))
        with _one_thread():
            models = [build(run.model, run.task.vocabulary, run.row_length, seed) for seed in seeds]
        models = [model.to(device, self.dtype) for model in models]
        self.model = models[0]
        self.biases = [
            f"{name}.bias" for name, m in self.model.named_modules() if isinstance(m, nn.Linear) and m.bias is not None
        ]
        self.parameters = sum(p.numel() for p in self.model.parameters())
        self.seeds = torch.tensor(seeds, device=device)  # (seeds,)
        self.seed_of = torch.tensor([seeds.index(r.train.seed) for r in runs], device=device)  # (members,)
        self.feed = Feed(run.task, run.train, self.seeds)
        starts = [dict(model.named_parameters()) for model in models]
        self.params: Parameters = {
            name: torch.stack([start[name].detach() for start in starts])[self.seed_of] for name in starts[0]
        }
        self.mean = {name: torch.zeros_like(p) for name, p in self.params.items()}
        self.square = {name: torch.zeros_like(p) for name, p in self.params.items()}
        self.rates = Rates.of([r.train for r in runs], device)
        self.curves: list[list[dict[str, float]]] = [[] for _ in runs]
        self.slices: list[list[dict]] = [[] for _ in runs]
        self.seconds = [0.0 for _ in runs]
        self.notes: list[str] = []
        self.sums = torch.zeros(len(runs), 4, dtype=torch.float64, device=device)  # steps, losses, hits, norms
        self.album = Album(run.train, run.task)
        self.vmapped = True
        self.compiled: Callable | None = None
        self.replay = Replay(self._advance, device)
        if device.type == "cuda":  # short numbers are asked for: then the rest of the products may be shorter too
            torch.set_float32_matmul_precision("high" if run.train.precision == "bfloat16" else "highest")
        self._clock = time.perf_counter()
        if len(runs) == 1:
            self._take([0, 0])

    def advance(self, step: int) -> None:
        """Take a training step; on a GPU, once it is compiled and warm, as one CUDA graph."""
        inputs = self._inputs(step)
        if self.compiled is None:
            self._advance(inputs)
        else:
            self.replay(inputs)

    def _advance(self, inputs: Inputs) -> None:
        losses, hits, norms, grads = self._backward(inputs)
        self._move(grads, norms, inputs.number, inputs.factor)
        self.tally(losses, hits, norms)

    def backward(self, step: int) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        """Losses, share of right answers and gradient norms, each (members,), and the gradients of a training step."""
        return self._backward(self._inputs(step))

    def move(self, grads: list[Tensor], norms: Tensor, step: int) -> None:
        """Take the optimiser's step, in place."""
        self._move(grads, norms, step + 1, schedule(self.spec, step))

    def _inputs(self, step: int) -> Inputs:
        batch = self.feed(step)
        drops = self.seeds[self.seed_of] * 1_000_003 + step  # decides dropout masks
        tensors = [batch.tokens, batch.positions, batch.answers, batch.trained, batch.scored]  # each (seeds, batch, ..)
        return Inputs(tensors, drops, step + 1, schedule(self.spec, step))

    def _backward(self, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        rows = [x[self.seed_of] for x in inputs.rows]  # each (members, batch, ..)
        params = {name: p.detach().requires_grad_() for name, p in self.params.items()}
        with self._autocast():
            losses, hits = self._losses(params, inputs.drops, *rows)
        grads = torch.autograd.grad(losses.sum(), list(params.values()), materialize_grads=True)
        return losses.detach(), hits, gradient_norms(list(grads)), list(grads)

    def _move(self, grads: list[Tensor], norms: Tensor, number: int | Tensor, factor: float | Tensor) -> None:
        adamw(self.params, grads, norms, self.mean, self.square, self.rates, number, factor, self.spec.decay)

    def compile(self) -> None:
        """From now on run forward and backward as compiled code, for as many members as there are."""
        if self.vmapped:
            self.compiled = torch.compile(vmap(self._loss), dynamic=False, backend=BACKEND)
            self.replay = Replay(self._advance, self.device)

    def _losses(self, *stacked) -> tuple[Tensor, Tensor]:
        """Every member's loss and share of right answers."""
        if self.compiled is not None:
            try:
                return self.compiled(*stacked)
            except Exception as error:
                if out_of_memory(error):
                    raise
                self._note(f"cannot be compiled ({_first_line(error)}); it trains as it is")
                self.compiled = None
        return self._each(self._loss, *stacked)

    def _loss(
        self, params: Parameters, drop: Tensor, tokens: Tensor, positions: Tensor, answers: Tensor, trained: Tensor,
        scored: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """One member's loss and share of right answers."""
        with rng.dropping(drop):
            losses, right = functional_call(self.model, self._rounded(params), (tokens, positions, answers))
        hits = (right & scored).sum() / scored.sum()
        return (losses * trained).sum() / trained.sum(), hits

    def tally(self, losses: Tensor, hits: Tensor, norms: Tensor) -> None:
        """Add a step to the averages between measurements, without waiting for the device."""
        self.sums += torch.stack([torch.ones_like(losses), losses, hits, norms], dim=1).double()

    def keep(self, members: list[int], compiled_anew: bool = True) -> None:
        """Let the others leave. A compiled cohort keeps its places until half are free, or, unless it may be compiled anew,
        to the end."""
        if len(members) == len(self.runs):
            return
        for name in ("runs", "curves", "slices", "seconds"):
            setattr(self, name, [getattr(self, name)[i] for i in members])
        if self.compiled is not None and members:
            places_left = len(self.seed_of)
            if compiled_anew:
                places_left = places(len(members), places_left)
            members = [*members, *[members[0]] * (places_left - len(members))]
        self._take(members if len(members) != 1 else members * 2)

    def _take(self, members: list[int]) -> None:
        index = torch.tensor(members, dtype=torch.int64, device=self.device)
        for group in (self.params, self.mean, self.square):
            for name in group:
                group[name] = group[name][index]
        self.replay = Replay(self._advance, self.device)  # the old one's tensors are gone
        self.rates = self.rates.select(index)
        self.seed_of, self.sums = self.seed_of[index], self.sums[index]
        self.album.select(members)

    def measures(self, task, members, rows: int, sliced: bool) -> Measures:
        """Measure some members; a lone one in the company of its copy."""
        chosen = list(members)
        index = torch.tensor(chosen if len(chosen) != 1 else chosen * 2, device=self.device)
        params = {name: p[index] for name, p in self.params.items()}

        def forward(tokens: Tensor, positions: Tensor) -> Tensor:
            with self._autocast():
                return self._each(
                    lambda p, t, a: functional_call(self.model, self._rounded(p), (t, a)), params, tokens, positions
                )

        found = measure(forward, task, self.seeds, self.seed_of[index], rows, sliced)
        if len(chosen) != 1:
            return found
        alone = {name: (counted[:1], right[:1]) for name, (counted, right) in found.slices.items()}
        return Measures(found.loss[:1], found.answers[:1], found.rows[:1], alone)

    def _each(self, one: Callable, *stacked) -> Any:
        """`one` for every member: at once under vmap, or one after another where a model cannot be batched."""
        if self.vmapped:
            try:
                return vmap(one)(*stacked)
            except (RuntimeError, ValueError, TypeError) as error:
                if out_of_memory(error):
                    raise
                looped = self._in_turn(one, *stacked)  # a model that is broken altogether raises its own error here
                self.vmapped = False
                self._note(f"cannot be batched ({_first_line(error)}); its members train one after another")
                return looped
        return self._in_turn(one, *stacked)

    def _note(self, what: str) -> None:
        note = f"{self.runs[0].model.title} {what}"
        self.notes.append(note)
        warnings.warn(note, stacklevel=2)

    def _in_turn(self, one: Callable, *stacked):
        results = []
        for i in range(len(self.seed_of)):
            results.append(one(*({k: v[i] for k, v in x.items()} if isinstance(x, dict) else x[i] for x in stacked)))
        if isinstance(results[0], tuple):
            return tuple(torch.stack(column) for column in zip(*results, strict=True))
        return torch.stack(results)

    def _rounded(self, params: Parameters) -> Parameters:
        """Parameters as autocast takes them: under vmap it sees the products of linear maps, but not their biases."""
        if self.spec.precision != "bfloat16":
            return params
        return params | {name: params[name].bfloat16() for name in self.biases}

    def _autocast(self):
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.spec.precision == "bfloat16")

    def charge(self) -> None:
        """Share the time since the last call among the members."""
        now = time.perf_counter()
        for i in range(len(self.runs)):
            self.seconds[i] += (now - self._clock) / len(self.runs)
        self._clock = now


@contextmanager
def _one_thread() -> Iterator[None]:
    """A factorisation, as in orthogonal initialisation, has other last bits on another number of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that fewer members at once could have been trained."""
    words = ("out of memory", "not enough memory", "can't allocate memory", "alloc_failed")
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(word in str(error).lower() for word in words)
    )


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
