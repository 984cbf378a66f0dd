"""The model: embedding (+ positions), layers, norm, head; logits at answer positions only.

A layer adds its branch to the residual stream: x' = x + layer(x), where layer(x) = mixer(norm x), then what follows it.
"""

import math
from functools import lru_cache
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recollect import rng
from recollect.mixers.base import State, map_flops
from recollect.models.initialise import initialise
from recollect.models.layers import Decoder, Layer, norm_of, sinusoid
from recollect.models.spec import ADDED, BlockSpec, ModelSpec
from recollect.ops.answer_loss import answer_loss
from recollect.ops.positions import rotary
from recollect.ops.precision import product_dtype
from recollect.spec import SpecError


class Model(nn.Module):
    """A sequence model for a vocabulary, and for rows of at most `length` tokens where that matters."""

    def __init__(self, spec: ModelSpec, vocabulary: int, length: int):
        super().__init__()
        self.spec, self.length = spec, length
        released = spec.residual == "released"
        self.vocabulary = vocabulary
        rows = math.ceil(vocabulary / 8) * 8 if released else vocabulary
        self.embedding = nn.Embedding(rows, spec.width)
        self.positions = nn.Embedding(length, spec.width) if spec.positions == "learned" else None
        inside = "none" if spec.positions in ADDED else spec.positions
        base = spec.base_width if spec.parametrisation == "mup" else 0
        # No source states what "relative" means where no mixer takes positions: here the embedding is rotated.
        self.rotates = inside == "relative" and not any("positions" in mixer.takes for mixer in spec.mixers())

        def layer(block: BlockSpec, i: int) -> Layer:
            context = {"length": length, "layer": i, "layers": spec.layers, "positions": inside, "base_width": base}
            return Layer(block, spec, context)

        first = [layer(block, i) for i, block in enumerate(spec.layer_blocks())]
        second = [layer(spec.second.block, i) for i in range(spec.layers) if spec.second]
        self.layers, self.second = (cast(list[Layer], nn.ModuleList(stream)) for stream in (first, second))
        if spec.second and spec.second.gate != "none":
            shape = () if spec.second.gate == "scalar" else (spec.width,)
            self.gates = nn.ParameterList(nn.Parameter(torch.zeros(shape)) for _ in range(spec.layers))
        self.norm = norm_of(spec)
        self.decoder = Decoder(spec) if spec.head == "autoencoder" else None
        self.head = None if spec.tie else nn.Linear(spec.width, rows, bias=False)
        if not self.embedding.weight.is_meta:
            initialise(self)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor | None = None,
        answers: Tensor | None = None,
        z_loss: Tensor | None = None,
    ) -> Any:
        """Logits (batch, answers, vocabulary) at `positions` (batch, answers), or at every position.

        With `answers` (batch, answers): their losses, and whether the model prefers them to all others, each (batch, answers);
        with `z_loss` the losses include the squared logarithm of softmax's denominator times this.
        """
        x = self.hidden(tokens, positions)
        x = x if self.decoder is None else self.decoder(x)
        return self.logits(x) if answers is None else answer_loss(self.norm(x), self._head(), answers, z_loss)

    def hidden(self, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        """The residual stream before the last norm: (batch, answers or length, width)."""
        length = tokens.shape[1]
        if self.positions is not None and length > self.positions.num_embeddings:
            raise SpecError(
                f"a row of {length} tokens is longer than the table of learned positions ({self.positions.num_embeddings}); "
                "use other positions, or name the longer task among the run's tests so that the table is made larger"
            )
        x = self._embed(tokens, torch.arange(length, device=tokens.device))  # (batch, length, width)
        x = rng.dropout(x, self.spec.dropout_embedding)
        before = x
        for i in range(len(self.layers)):
            before, x = x, self._add(x, i, self.layers[i](x), self.second[i](x) if self.second else None)
        if self.spec.residual == "released":
            x = x + before
        if positions is not None:
            x = x.gather(1, positions[..., None].expand(-1, -1, x.shape[-1]))  # (batch, answers, width)
        return x

    def logits(self, x: Tensor) -> Tensor:
        """The head: (..., width) -> (..., vocabulary)."""
        return F.linear(self.norm(x), self._head())

    def _head(self) -> Tensor:
        weight = (self.embedding if self.head is None else self.head).weight
        return weight if len(weight) == self.vocabulary else weight[: self.vocabulary]

    def _embed(self, tokens: Tensor, position: Tensor) -> Tensor:
        x = self.embedding(tokens)
        if self.positions is not None:
            x = x + self.positions(position)
        elif self.spec.positions == "sinusoidal":
            x = x + self.spec.spread * sinusoid(position, x.shape[-1], x.dtype)
        elif self.rotates:
            x = rotary(x, position)
        return x.to(product_dtype(x))  # the residual stream has the precision of products: benchmarks/NOTES.md

    def _add(self, x: Tensor, i: int, first: Tensor, second: Tensor | None) -> Tensor:
        """The residual stream after layer i, given its branches."""
        released = self.spec.residual == "released"
        if second is None:
            return x + first + (x if released else 0)
        stream = self.spec.second
        assert stream is not None, "a second branch comes from a second stream"
        gate = (
            torch.ones((), device=x.device, dtype=x.dtype)
            if stream.gate == "none"
            else torch.tanh(self.gates[i]).to(x.dtype)
        )
        gated, plain = (second, first) if stream.gated == "second" else (first, second)
        if not released:
            return x + plain + gate * gated
        # The published code adds the input once more with the Transformer stream, inside that stream's gate.
        return x + plain + gate * gated + (gate * x if stream.gated == "second" else x)

    def initial_state(self, batch: int) -> list[State]:
        """The state before the first token: one per layer, then one per layer of the second stream, and the position."""
        states = [layer.initial_state(batch) for layer in [*self.layers, *self.second]]
        return [*states, {"position": torch.zeros(1, dtype=torch.int64, device=self.embedding.weight.device)}]

    def step(self, token: Tensor, state: list[State]) -> tuple[Tensor, list[State]]:
        """One token (batch,) and a state give logits (batch, vocabulary) and the next state."""
        if self.decoder is not None:
            raise SpecError("a model with `head: autoencoder` has no next token: it answers at the end of a row")
        position, depth, after = state[-1]["position"], len(self.layers), list(state)
        x = self._embed(token[:, None], position)[:, 0]  # (batch, width)
        before = x
        for i in range(depth):
            first, after[i] = self.layers[i].step(x, state[i])
            second = None
            if self.second:
                second, after[depth + i] = self.second[i].step(x, state[depth + i])
            before, x = x, self._add(x, i, first, second)
        if self.spec.residual == "released":
            x = x + before
        after[-1] = {"position": position + 1}
        return self.logits(x), after

    @torch.no_grad()
    def decode(self, prompt: Tensor, n: int) -> Tensor:
        """The n tokens that follow `prompt` (batch, length) greedily: (batch, n)."""
        state, logits, out = self.initial_state(len(prompt)), torch.empty(0), []
        for token in prompt.unbind(1):
            logits, state = self.step(token, state)
        for i in range(n):
            out.append(logits.argmax(-1))
            if i < n - 1:
                logits, state = self.step(out[-1], state)
        return torch.stack(out, dim=1)

    def state_size(self, length: int) -> int:
        """Elements of the recurrent state of one sequence after `length` tokens."""
        return sum(layer.state_size(length) for layer in [*self.layers, *self.second])

    def measures(self, params: dict[str, Tensor]) -> dict[str, Tensor]:
        """What a training curve shows of stacked parameters (members, ...), by name: the mean size of each gate, (members,)."""
        gates = {name.rpartition(".")[2]: p for name, p in params.items() if name.startswith("gates.")}
        return {f"gate.{i}": p.tanh().abs().reshape(len(p), -1).mean(1) for i, p in gates.items()}

    def flops(self, length: int, answers: int) -> int:
        """Floating-point operations of a forward pass of one row, logits at `answers` places."""
        layers = sum(layer.flops(length) for layer in [*self.layers, *self.second])
        return 2 * answers * self.embedding.weight.numel() + layers + map_flops(answers, self.decoder)


def build(spec: ModelSpec, vocabulary: int, length: int, seed: int) -> Model:
    """A model with the initial weights of a seed."""
    with rng.seeded(seed, "weights"):
        return Model(spec, vocabulary, length)


def outline(spec: ModelSpec, vocabulary: int, length: int) -> Model:
    """A model for reading its sizes, without memory for its weights where its parts can be built that way. It is shared: a
    plan asks for the same one many times."""
    return _outline(spec.model_dump_json(exclude_defaults=True), vocabulary, length)


@lru_cache(maxsize=128)
def _outline(model: str, vocabulary: int, length: int) -> Model:
    spec = ModelSpec.model_validate_json(model)
    try:
        with torch.device("meta"):
            return build(spec, vocabulary, length, seed=0)
    except RuntimeError:  # a user's mixer may compute with its weights while it is built
        return build(spec, vocabulary, length, seed=0)
