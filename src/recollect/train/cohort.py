"""A cohort: runs of one shape, trained at once.

The members' parameters are stacked on axis 0. The plain model runs for all of them at once under vmap; the sum of their
losses is differentiated once; one optimiser step moves them all, each with its own rates. A member's numbers do not
depend on its company: on the CPU to the bit, as long as a cohort is never of one (train/members.py sees to that).
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from recollect import rng
from recollect.models.model import Model, build
from recollect.tasks.base import Task
from recollect.train.data import Feed
from recollect.train.embeddings import Album
from recollect.train.measure import Measures, measure
from recollect.train.members import Members
from recollect.train.optimisers.base import Parameters, shaped
from recollect.train.records import Records
from recollect.train.spec import RunSpec
from recollect.train.speed.compile import BACKEND, places
from recollect.train.speed.graph import Inputs, Replay


class Gradients(NamedTuple):
    """What a step forward and backward gives, the members on axis 0."""

    losses: Tensor
    hits: Tensor
    """Shares of right answers."""
    norms: Tensor
    """Of each member's whole gradient."""
    grads: Parameters


class Cohort:
    """Runs in training: `len(cohort)` of them. `members` has their tensors, `records` what is known of each so far."""

    def __init__(self, runs: Sequence[RunSpec], device: torch.device):
        if len({run.shape for run in runs}) != 1:
            raise ValueError(
                f"a cohort needs runs of one shape, and these {len(runs)} have {len({r.shape for r in runs})}"
            )
        run = runs[0]
        self.device, self.task, self.spec = device, run.task, run.train
        self.bf16 = run.train.precision == "bfloat16"
        dtype = torch.float64 if run.train.precision == "float64" else torch.float32
        with _one_thread():
            seeds = dict.fromkeys(r.train.seed for r in runs)
            models = {seed: build(run.model, run.task.vocabulary, run.row_length, seed) for seed in seeds}
        models = {seed: model.to(device, dtype) for seed, model in models.items()}
        self.model = models[run.train.seed]
        self.biases = [
            f"{name}.bias" for name, m in self.model.named_modules() if isinstance(m, nn.Linear) and m.bias is not None
        ]
        self.parameter_count = sum(p.numel() for p in self.model.parameters())
        self.state_size = _state_size(self.model, run.task.for_test().row_length)
        starts = {seed: {name: p.detach() for name, p in model.named_parameters()} for seed, model in models.items()}
        self.members = Members(runs, starts, device)
        self.records = Records(len(runs), Album(run.train, run.task))
        self.feed = Feed(run.task, run.train, self.members.seeds)
        self.vmapped = True
        self.compiled: Callable | None = None
        self.replay = Replay(self._step, device)

    def __len__(self) -> int:
        return len(self.members)

    @property
    def runs(self) -> list[RunSpec]:
        """The runs in training."""
        return self.members.runs

    def advance(self, step: int) -> None:
        """Take a training step; on a GPU, once it is compiled and warm, as one CUDA graph."""
        take = self._step if self.compiled is None else self.replay
        take(self.inputs(step))

    def inputs(self, step: int) -> Inputs:
        """What a training step starts from (0 is the first)."""
        batch = self.feed(step)
        drops = self.members.seeds[self.members.seed_of] * 1_000_003 + step  # decides dropout masks
        tensors = [batch.tokens, batch.positions, batch.answers, batch.trained, batch.scored]  # each (seeds, batch, ..)
        return Inputs(tensors, drops, step + 1, self.spec.rate_factor(step))

    def _step(self, inputs: Inputs) -> None:
        found = self.backward(inputs)
        self.move(found, inputs)
        columns = [torch.ones_like(found.losses), found.losses, found.hits, found.norms]
        self.members.sums += torch.stack(columns, dim=1).double()  # averaged later, without waiting for the device now

    def backward(self, inputs: Inputs) -> Gradients:
        """Losses, share of right answers, and gradients of a training step."""
        rows = [x[self.members.seed_of] for x in inputs.rows]  # each (places, batch, ..)
        params = {name: p.detach().requires_grad_() for name, p in self.members.params.items()}
        with self.matmul_precision():
            with self.autocast():
                losses, hits = self._losses(params, inputs.drops, *rows, *self._z_loss())
            grads = torch.autograd.grad(losses.sum(), list(params.values()), materialize_grads=True)
        return Gradients(losses.detach(), hits, _norms(grads), dict(zip(params, grads, strict=True)))

    @torch.no_grad()
    def move(self, found: Gradients, inputs: Inputs) -> None:
        """Take the optimiser's step, in place."""
        members, optimiser, grads = self.members, self.members.optimiser, found.grads
        clip = members.clip(found.norms)
        if members.clips and not optimiser.clips_itself:
            rounded = clip.to(found.norms.dtype)  # once for all of them
            grads = {name: g * shaped(rounded, g) for name, g in grads.items()}
        groups = members.groups(inputs.factor, clip if optimiser.clips_itself else None)
        with self.matmul_precision():
            optimiser.step(members.params, grads, members.state, groups, inputs.number)

    def compile(self) -> None:
        """From now on run forward and backward as compiled code, for as many members as there are."""
        if self.vmapped:
            self.compiled = torch.compile(vmap(self._loss), dynamic=False, backend=BACKEND)
            self.replay = Replay(self._step, self.device)

    def keep(self, stay: list[int], compiled_anew: bool = True) -> None:
        """Let the other runs leave. A compiled cohort keeps its places until half are free, or, unless it may be compiled anew,
        to the end."""
        if len(stay) == len(self):
            return
        taken = self.members.places if self.compiled is not None else 0
        self.records.keep(stay)
        self.members.select(stay, places(len(stay), taken) if compiled_anew else taken)
        self.replay = Replay(self._step, self.device)  # the old one's tensors are gone

    def evaluated(self) -> Parameters:
        """The parameters to be measured and kept: the runs' on the first rows."""
        return self.members.evaluated()

    def measures(self, task: Task, runs: Sequence[int], rows: int, sliced: bool, purpose: str) -> Measures:
        """Measure some runs on the first rows that a task has for a purpose: `valid` or `test`."""
        index = self.members.rows(runs)
        params = {name: p[index] for name, p in self.evaluated().items()}

        def forward(tokens: Tensor, positions: Tensor) -> Tensor:
            with self.autocast():
                return self._each(
                    lambda p, t, a: functional_call(self.model, self._rounded(p), (t, a)), params, tokens, positions
                )

        with self.matmul_precision():
            found = measure(forward, task, self.members.seeds, self.members.seed_of[index], rows, sliced, purpose)
        return found.of_first(len(runs))

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
        scored: Tensor, *z_loss: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """One member's loss and share of right answers."""
        with rng.dropping(drop):
            losses, right = functional_call(self.model, self._rounded(params), (tokens, positions, answers, *z_loss))
        hits = (right & scored).sum() / scored.sum()
        return (losses * trained).sum() / trained.sum(), hits

    def _z_loss(self) -> list[Tensor]:
        """Every member's weight of the squared logarithm of softmax's denominator, where that is part of the loss."""
        return [self.members.columns["z_loss"]] if self.spec.z_loss else []

    def _each(self, one: Callable, *stacked) -> Any:
        """`one` for every member: at once under vmap, or one after another where a model cannot be batched."""
        if self.vmapped:
            try:
                return vmap(one)(*stacked)
            except (RuntimeError, ValueError, TypeError) as error:
                if out_of_memory(error):
                    raise
                looped = _in_turn(one, *stacked)  # a model that is broken altogether raises its own error here
                self.vmapped = False
                self._note(f"cannot be batched ({_first_line(error)}); its members train one after another")
                return looped
        return _in_turn(one, *stacked)

    def _note(self, what: str) -> None:
        note = f"{self.runs[0].model.title} {what}"
        self.records.notes.append(note)
        warnings.warn(note, stacklevel=2)

    def _rounded(self, params: Parameters) -> Parameters:
        """Parameters as autocast takes them: under vmap it sees the products of linear maps, but not their biases."""
        return params | {name: params[name].bfloat16() for name in self.biases} if self.bf16 else params

    def autocast(self) -> torch.autocast:
        """The precision of a forward pass."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16)

    @contextmanager
    def matmul_precision(self) -> Iterator[None]:
        """The precision of those products that are not in 16 bits: on a GPU, where 16 bits are asked for, the others may be
        rounded too. It is a setting of the whole process, so it is put back."""
        if self.device.type != "cuda":
            yield
            return
        before = None
        with suppress(RuntimeError):  # PyTorch does not tell where it was set in its newer way as well
            before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high" if self.bf16 else "highest")
        try:
            yield
        finally:
            if before is not None:
                torch.set_float32_matmul_precision(before)


def _in_turn(one: Callable, *stacked) -> Any:
    """`one` for every member, one after another; of tensors and dictionaries of tensors, the last a tensor."""
    results = []
    for i in range(len(stacked[-1])):
        results.append(one(*({k: v[i] for k, v in x.items()} if isinstance(x, dict) else x[i] for x in stacked)))
    if isinstance(results[0], tuple):
        return tuple(torch.stack(column) for column in zip(*results, strict=True))
    return torch.stack(results)


def _norms(grads: Sequence[Tensor]) -> Tensor:
    """The norm of each member's whole gradient: (members,)."""
    return sum((g.reshape(len(g), -1).square().sum(1) for g in grads), torch.zeros((), device=grads[0].device)).sqrt()


def _state_size(model: Model, length: int) -> int | None:
    """Elements of the recurrent state after so many tokens, where every mixer tells."""
    try:
        return model.state_size(length)
    except (AttributeError, TypeError):
        return None


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
