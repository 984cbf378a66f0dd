"""A cohort: runs of one shape, trained at once.

The members' parameters are stacked on axis 0. The plain model runs for all of them at once under vmap; the sum of their
losses is differentiated once; one optimiser step moves them all, each with its own rates. On a CPU this pays only where a
model is so small that PyTorch's overhead per operation decides; larger ones are trained one member after another, whose
numbers then stay in the cache. A member's numbers do not depend on the other members: on the CPU to the bit, as long as vmap
never runs for one member (train/members.py sees to that).
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from recollect import rng
from recollect.models.model import Model, build
from recollect.spec.errors import line_of
from recollect.train.data import Feed
from recollect.train.device import matmul_precision, one_thread
from recollect.train.embeddings import Album
from recollect.train.measure import EvaluationRows, Measures, measure
from recollect.train.members import Members
from recollect.train.optimisers.base import Parameters, shaped
from recollect.train.records import Records
from recollect.train.spec import RunSpec
from recollect.train.speed.compile import BACKEND, places
from recollect.train.speed.graph import Inputs, Replay
from recollect.train.speed.process import prepare

SMALL = 2**16
"""Models whose residual stream has fewer numbers (batch x tokens x width) are trained at once on a CPU. Measured there: at a
quarter of it, training twelve at once takes 0.6 times the time of one after another; at four times as many, 1.6 times."""


class Gradients(NamedTuple):
    """The result of a forward and a backward pass, the members on axis 0."""

    losses: Tensor
    hits: Tensor
    """Shares of right answers."""
    norms: Tensor
    """Of each member's whole gradient."""
    grads: Parameters


class Cohort:
    """Runs in training: `len(cohort)` of them. `members` has their tensors, `records` what has been measured so far."""

    def __init__(self, runs: Sequence[RunSpec], device: torch.device):
        if (shapes := len({run.shape for run in runs})) != 1:
            raise ValueError(f"a cohort needs runs of one shape, and these {len(runs)} have {shapes}")
        prepare(device)
        run = runs[0]
        self.device, self.task, self.spec = device, run.task, run.train
        self.bf16 = run.train.precision == "bfloat16"
        dtype = torch.float64 if run.train.precision == "float64" else torch.float32
        with one_thread():  # a factorisation, as in orthogonal initialisation, has other last bits on more threads
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
        self.vmapped = batched(run, device)
        self.members = Members(runs, starts, device, least=2 if self.vmapped else 1)
        self.records = Records(len(runs), Album(run.train, run.task))
        self.feed = Feed(run.task, run.train, self.members.seeds)
        self.compiled: Callable | None = None
        self.replay = Replay(self._step, device)

    def __len__(self) -> int:
        return len(self.members)

    @property
    def runs(self) -> list[RunSpec]:
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
        for members, gradients in self.gradients(inputs):
            self.move(members, gradients, inputs)
            steps = torch.ones_like(gradients.losses)
            columns = torch.stack([steps, gradients.losses, gradients.hits, gradients.norms], dim=1)
            members.sums += columns.to(members.sums.dtype)  # averaged later, without waiting for the device now

    def gradients(self, inputs: Inputs) -> Iterator[tuple[Members, Gradients]]:
        """Members and their gradients at a training step: all at once, or one after another."""
        failed = None
        if self.vmapped:
            try:
                together = self._together(inputs)
            except (RuntimeError, ValueError, TypeError) as error:
                if out_of_memory(error):
                    raise
                failed, self.vmapped = error, False
            else:
                yield self.members, together
                return
        for i, member in enumerate(self.members.each()):
            alone = self._alone(member, inputs, i)  # a model that fails in any case raises its own error here
            if failed and i == 0:
                self._note(f"cannot be batched ({_first_line(failed)}); its members train one after another")
            yield member, alone

    def _together(self, inputs: Inputs) -> Gradients:
        rows = [x[self.members.seed_of] for x in inputs.rows]  # each (places, batch, ..)
        params = {name: p.detach().requires_grad_() for name, p in self.members.params.items()}
        with self.arithmetic():
            with self.autocast():
                losses, hits = self._losses(params, inputs.drops, *rows, *_z_loss(self.members))
            grads = torch.autograd.grad(losses.sum(), list(params.values()), materialize_grads=True)
        return Gradients(losses.detach(), hits, _norms(grads), dict(zip(params, grads, strict=True)))

    def _alone(self, member: Members, inputs: Inputs, i: int) -> Gradients:
        rows = [x[member.seed_of[0]] for x in inputs.rows]  # each (batch, ..)
        params = {name: p[0].detach().requires_grad_() for name, p in member.params.items()}
        with self.arithmetic():
            with self.autocast():
                loss, hits = self._loss(params, inputs.drops[i], *rows, *(x[0] for x in _z_loss(member)))
            grads = torch.autograd.grad(loss, list(params.values()), materialize_grads=True)
        norm = nn.utils.get_total_norm(grads)
        named = {name: g[None] for name, g in zip(params, grads, strict=True)}
        return Gradients(loss.detach()[None], hits[None], norm[None], named)

    @torch.no_grad()
    def move(self, members: Members, gradients: Gradients, inputs: Inputs) -> None:
        """Take the optimiser's step of some members, in place."""
        optimiser, grads = members.optimiser, gradients.grads
        clip = members.clip(gradients.norms)
        if members.clips and not optimiser.clips_itself:
            rounded = clip.to(gradients.norms.dtype)  # once for all of them
            grads = {name: g * shaped(rounded, g) for name, g in grads.items()}
        groups = members.groups(inputs.factor, clip if optimiser.clips_itself else None)
        with self.arithmetic():
            optimiser.step(members.params, grads, members.state, groups, inputs.number)

    def compile(self, backend: str = BACKEND) -> None:
        """Compile forward and backward, for the present number of members."""
        if self.vmapped:
            self.compiled = torch.compile(vmap(self._loss), dynamic=False, backend=backend)
            self.replay = Replay(self._step, self.device)

    def keep(self, stay: list[int], compiled_anew: bool = True) -> None:
        """Keep these runs only. A compiled cohort keeps its number of rows, or, where it may be compiled again, until half of
        them are free."""
        rows_now = self.members.places if self.compiled is not None else 0
        rows = places(len(stay), rows_now) if compiled_anew else rows_now
        if len(stay) == len(self) and rows == rows_now:
            return
        self.records.keep(stay)
        self.members.select(stay, rows)
        self.replay = Replay(self._step, self.device)  # the old one's tensors are gone

    @cached_property
    def validation(self) -> EvaluationRows:
        """The rows of each measurement during training, drawn once."""
        return EvaluationRows(self.task.for_test(), self.members.seeds, "valid", self.spec.eval_rows)

    def measures(self, rows: EvaluationRows, runs: Sequence[int], sliced: bool) -> Measures:
        """Loss and accuracy of some runs."""
        index = self.members.rows(runs)
        params = {name: p[index] for name, p in self.members.evaluated().items()}

        def forward(tokens: Tensor, positions: Tensor) -> Tensor:
            with self.autocast():
                return self._logits(params, tokens, positions)

        with self.arithmetic():
            measures = measure(forward, rows, self.members.seed_of[index], sliced)
        return measures.of_first(len(runs))

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
        return vmap(self._loss)(*stacked)

    def _loss(
        self, params: Parameters, drop: Tensor, tokens: Tensor, positions: Tensor, answers: Tensor, trained: Tensor,
        scored: Tensor, *z_loss: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """One member's loss and share of right answers."""
        with rng.dropping(drop):
            losses, right = functional_call(self.model, self._rounded(params), (tokens, positions, answers, *z_loss))
        hits = (right & scored).sum() / scored.sum()
        return (losses * trained).sum() / trained.sum(), hits

    def _logits(self, params: Parameters, tokens: Tensor, positions: Tensor) -> Tensor:
        """Every member's logits: at once under vmap, or one after another where a model cannot be batched."""

        def of_member(params: Parameters, tokens: Tensor, positions: Tensor) -> Tensor:
            return functional_call(self.model, self._rounded(params), (tokens, positions))

        if self.vmapped:
            try:
                return vmap(of_member)(params, tokens, positions)
            except (RuntimeError, ValueError, TypeError) as error:
                if out_of_memory(error):
                    raise
                self.vmapped = False
        members = range(len(tokens))
        return torch.stack(
            [of_member({name: p[i] for name, p in params.items()}, tokens[i], positions[i]) for i in members]
        )

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

    def arithmetic(self) -> AbstractContextManager[None]:
        """How products are computed: on a GPU, the precision of those that are not in 16 bits; on a CPU, where members are
        trained one after another, one thread, because sums over tokens have other last bits on more."""
        if self.device.type == "cuda":
            return matmul_precision("high" if self.bf16 else "highest")
        return nullcontext() if self.vmapped else one_thread()


def batched(run: RunSpec, device: torch.device) -> bool:
    """Whether runs of this shape are trained at once: the specification decides, never timing, so that a run's numbers are the
    same on every machine of a kind."""
    return device.type != "cpu" or run.train.batch * run.task.row_length * run.model.width < SMALL


def _z_loss(members: Members) -> list[Tensor]:
    """Every member's weight of the squared logarithm of softmax's denominator, where that is part of the loss."""
    return [members.columns["z_loss"]] if members.runs[0].train.z_loss else []


def _norms(grads: Sequence[Tensor]) -> Tensor:
    """The norm of each member's whole gradient: (members,)."""
    return sum((g.reshape(len(g), -1).square().sum(1) for g in grads), torch.zeros((), device=grads[0].device)).sqrt()


def _state_size(model: Model, length: int) -> int | None:
    """Elements of the recurrent state after so many tokens, where every mixer defines it."""
    try:
        return model.state_size(length)
    except (AttributeError, TypeError):
        return None


def out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory is too small, so that fewer members may fit."""
    words = ("out of memory", "not enough memory", "can't allocate memory", "alloc_failed")
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(word in str(error).lower() for word in words)
    )


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0] + line_of(error)
