"""Softmax attention, with the switches of Okpekpe & Orvieto's Tables 2 and 3.

Glossary (Vaswani et al. 2017): q, k, v = queries, keys, values; h = heads; d = width / heads.
"""

import math
from typing import Literal, cast

import torch
from torch import Tensor, nn

from recollect.mixers.base import Mixer, State, divides, map_flops
from recollect.ops.activations import sigmoid
from recollect.ops.attention import attention, attention_definition, forget_bias, projected_attention
from recollect.ops.norms import Norm, absorbed
from recollect.ops.positions import BUCKETS, alibi, bucket, distance, hard_alibi, rotary
from recollect.ops.short_conv import Canon, ShortConv
from recollect.spec import SpecError, nearest

Convolved = Literal["none", "q", "k", "v", "qk", "qv", "kv", "qkv"]
POSITIONS = ("none", "rotary", "alibi", "hard_alibi", "relative")


class Attention(Mixer):
    """Causal multi-head softmax attention.

    heads: how many heads the width is split into.
    bias: whether the projections have biases.
    conv: which of the projections q, k, v read their input through a short convolution, each its own.
    kernel, conv_activation: length of those convolutions, and what follows them.
    conv_causal: whether those convolutions are causal; false centres them, so that they read kernel // 2 tokens ahead. The
        mixer is then not causal and has no `step`.
    window: how many tokens back a query sees, itself included; 0 sees all.
    dropout: share of attention weights dropped in training.
    rotary_fraction: share of each head's dims that rotary positions rotate.
    kv_heads: how many heads keys and values have, each shared by its part of the heads (grouped-query attention, Ainslie et
        al. 2023); 0 takes as many as there are heads.
    sinks: whether each head has a learned score that competes with those of the tokens and has no value (GPT-OSS).
    forget: whether scores are lowered by forget gates, the sum of log sigmoid(w_f x + b_f) over the tokens between key and
        query, per head (FoX, Lin et al. 2025).
    output_gate: whether the heads' outputs are multiplied by sigmoid(W_g x), channel by channel, before the last map.
    qk_norm: whether queries and keys are normalised, head by head, with learned gains (RMSNorm; Dehghani et al. 2023).
    init: how the projections start: normal, by the model's default, which is GPT-2's and Zoology's; pytorch, by nn.Linear's;
        or mimetic (Trockman & Kolter 2023), W_q^T W_k of each head near 0.7 (I + noise), and W_out W_v near 0.4 (noise - I).

    Under muP scores are divided by d and not by sqrt(d), so that they are the same at the base width.
    In a block with `canon` B queries, keys and values pass a Canon layer after their projection.
    Initial values: the projections as `init` says; the convolutions as nn.Conv1d's; relative positions and sinks start at zero;
    the maps of forget gates and output gate by the model's default.
    """

    wants_positions = True  # Okpekpe & Orvieto, A.2

    def __init__(
        self, width: int, *, heads: int = 1, bias: bool = True, conv: Convolved = "none", kernel: int = 4,
        conv_activation: Literal["none", "silu"] = "none", conv_causal: bool = True, window: int = 0,
        dropout: float = 0.0, positions: str = "none", rotary_fraction: float = 1.0, qk_norm: bool = False,
        init: Literal["normal", "pytorch", "mimetic"] = "normal", base_width: int = 0, kv_heads: int = 0,
        sinks: bool = False, forget: bool = False, output_gate: bool = False, canon: bool = False,
    ):  # fmt: skip
        super().__init__()
        head_dim = divides("attention: heads", heads, width)
        self.kv_heads = kv_heads or heads
        divides("attention: kv_heads", self.kv_heads, heads, "heads")
        if init == "mimetic" and self.kv_heads != heads:
            raise SpecError("attention: init 'mimetic' pairs each head's queries with its own keys; leave out kv_heads")
        if positions not in POSITIONS:
            raise SpecError(f"attention: positions {positions!r}: {nearest(positions, POSITIONS)}")
        if not 0 <= rotary_fraction <= 1:
            raise SpecError(f"attention: rotary_fraction {rotary_fraction} is not a share; choose from 0 to 1")
        if not 0 <= dropout < 1:
            raise SpecError(f"attention: dropout {dropout} is not a share; choose from 0 up to, not with, 1")
        self.heads, self.window, self.dropout = heads, window, dropout
        self.positions, self.rotary_fraction, self.init = positions, rotary_fraction, init
        self.query_scale = math.sqrt(base_width / width) if base_width else 1.0
        self.sizes = (width, self.kv_heads * head_dim, self.kv_heads * head_dim)  # of q, k and v
        self.qkv = nn.Linear(width, sum(self.sizes), bias=bias)
        self.out = nn.Linear(width, width, bias=bias)
        self.convs = convolutions(conv, width, kernel, conv_activation, conv_causal)
        self.norms = nn.ModuleList(nn.RMSNorm(head_dim, eps=1e-5) for _ in "qk") if qk_norm else None
        self.sinks = nn.Parameter(torch.zeros(heads)) if sinks else None
        self.forget = nn.Linear(width, heads) if forget else None
        self.gate = nn.Linear(width, width, bias=False) if output_gate else None
        self.canon = Canon(sum(self.sizes)) if canon else None
        changed = conv != "none" or window or dropout or qk_norm or self.query_scale != 1 or positions != "none"
        self.plain = not (changed or sinks or forget or canon or self.kv_heads != heads)
        if positions == "relative":
            self.relative = nn.Parameter(torch.zeros(BUCKETS, heads))  # one number per distance bucket and head

    @torch.no_grad()
    def initialise(self) -> None:
        """The model has drawn the projections by its default: here they are drawn again where `init` names another."""
        if self.init == "normal":
            return
        if self.init == "pytorch":
            self.qkv.reset_parameters()
            self.out.reset_parameters()
        else:
            q, k, v = (part.unflatten(0, (self.heads, -1)) for part in self.qkv.weight.chunk(3))  # each (h, d, width)
            for head in range(self.heads):
                left, right = _factors(0.7, 0.7, q[head])
                q[head].copy_(left.T)
                k[head].copy_(right)
            left, right = _factors(0.4, -0.4, self.out.weight)
            v.flatten(0, 1).copy_(right)
            self.out.weight.copy_(left)

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        return self._finish(self.mix(x), x)

    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:  # (batch, length, h, d)
        if self.plain and values is None:
            return projected_attention(x, self.qkv.weight, self.qkv.bias, self.heads)
        qkv = self._project(x, {name: conv(x) for name, conv in self.convs.items()})
        q, k, v = self._split(qkv if self.canon is None else self.canon(qkv))
        position = torch.arange(x.shape[1], device=x.device)
        if self.positions == "rotary":
            q, k = (rotary(t, position, self.rotary_fraction) for t in (q, k))
        k, v = self._for_heads(k), self._for_heads(v) if values is None else values.transpose(1, 2)
        bias = self._bias(distance(position, position), x.dtype)
        if self.forget is not None:
            faded = forget_bias(self._log_forget(x))  # (batch, h, length, length)
            bias = faded if bias is None else faded + bias
        return attention(q, k, v, bias, self.dropout, self.sinks).transpose(1, 2)

    def after_norm(self, norm: Norm, x: Tensor) -> Tensor:
        # Where q, k and v are W x + b and nothing else; a subclass may have a forward of its own.
        if not self.plain or self.gate is not None or self.qkv.bias is None or type(self) is not Attention:
            return super().after_norm(norm, x)
        x, w, b = absorbed(norm, x, self.qkv.weight, self.qkv.bias)
        return self.out(projected_attention(x, w, b, self.heads).flatten(2))

    def _project(self, x: Tensor, convolved: dict[str, Tensor]) -> Tensor:
        """Queries, keys and values side by side, each from x or from its own convolution of x: (..., sum of sizes)."""
        if not convolved:
            return self.qkv(x)
        weights = self.qkv.weight.split(self.sizes)
        biases = (None,) * 3 if self.qkv.bias is None else self.qkv.bias.split(self.sizes)
        parts = zip("qkv", weights, biases, strict=True)
        return torch.cat([nn.functional.linear(convolved.get(n, x), w, b) for n, w, b in parts], dim=-1)

    def _split(self, qkv: Tensor) -> list[Tensor]:
        """Queries (batch, h, length, d), keys and values (batch, kv_heads, length, d)."""
        dim = self.sizes[0] // self.heads
        q, k, v = (t.unflatten(-1, (-1, dim)).transpose(1, 2) for t in qkv.split(self.sizes, dim=-1))
        if self.norms is not None:
            q, k = (norm(t) for norm, t in zip(self.norms, (q, k), strict=True))
        return [q * self.query_scale if self.query_scale != 1 else q, k, v]

    def _for_heads(self, t: Tensor) -> Tensor:
        """Keys or values (batch, kv_heads, length, d) for every head that shares them: (batch, h, length, d)."""
        return t if self.kv_heads == self.heads else t.repeat_interleave(self.heads // self.kv_heads, dim=1)

    def signals(self, x: Tensor) -> dict[str, Tensor]:
        return {} if self.forget is None else {"forget gate": self._log_forget(x).exp().transpose(1, 2)}

    def _log_forget(self, x: Tensor) -> Tensor:
        """The logarithms of the forget gates: (batch, h, length)."""
        assert self.forget is not None, "called only where there are forget gates"
        return nn.functional.logsigmoid(self.forget(x)).transpose(1, 2)

    def _finish(self, y: Tensor, x: Tensor) -> Tensor:
        """From the heads' outputs (batch, length, h, d) to the mixer's."""
        y = y.flatten(2)
        return self.out(y if self.gate is None else y * sigmoid(self.gate(x)))

    def _bias(self, distances: Tensor, dtype: torch.dtype) -> Tensor | None:
        """The bias of the scores at `distances` (queries, keys): (h, queries, keys), or None."""
        bias = None
        if self.positions == "alibi":
            bias = alibi(self.heads, distances, dtype)
        elif self.positions == "hard_alibi":
            bias = hard_alibi(self.heads, distances, dtype)
        elif self.positions == "relative":
            bias = self.relative[bucket(distances)].movedim(-1, 0)
        if self.window:
            seen = torch.zeros(distances.shape, dtype=dtype, device=distances.device)
            hidden = seen.masked_fill(distances >= self.window, -math.inf)
            bias = hidden if bias is None else bias + hidden
        return bias

    def initial_state(self, batch: int) -> State:
        like = self.qkv.weight
        empty = like.new_zeros(batch, self.kv_heads, 0, self.sizes[0] // self.heads)
        state = {"k": empty, "v": empty, "position": torch.zeros(batch, dtype=torch.int64, device=like.device)}
        if self.forget is not None:
            state["faded"] = like.new_zeros(batch, self.heads, 0)
        if self.canon is not None:
            state["canon"] = self.canon.initial_state(batch)
        return state | {f"conv_{name}": conv.initial_state(batch) for name, conv in self.convs.items()}

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:  # x (batch, width)
        convolved, new = {}, {}
        for name, conv in self.convs.items():
            convolved[name], new[f"conv_{name}"] = conv.step(x, state[f"conv_{name}"])
        qkv = self._project(x, convolved)
        if self.canon is not None:
            qkv, new["canon"] = self.canon.step(qkv, state["canon"])
        q, k, v = self._split(qkv[:, None])  # (batch, h or kv_heads, 1, d)
        now = state["position"][:1]  # every row of a batch is at the same position
        if self.positions == "rotary":
            q, k = (rotary(t, now, self.rotary_fraction) for t in (q, k))
        first = max(0, state["k"].shape[2] + 1 - self.window) if self.window else 0  # of those held, the first seen
        k, v = (torch.cat([state[name], t], dim=2)[:, :, first:] for name, t in (("k", k), ("v", v)))
        held = now - torch.arange(k.shape[2] - 1, -1, -1, device=x.device)  # positions of the keys held
        bias = self._bias(distance(now, held), x.dtype)
        if self.forget is not None:
            gate = self._log_forget(x[:, None])  # (batch, h, 1)
            new["faded"] = torch.cat([state["faded"] + gate, torch.zeros_like(gate)], dim=2)[:, :, first:]
            bias = new["faded"][:, :, None] + (0 if bias is None else bias)
        y = attention_definition(q, self._for_heads(k), self._for_heads(v), bias, sinks=self.sinks)
        y = self._finish(y.transpose(1, 2), x[:, None])[:, 0]
        return y, {"k": k, "v": v, "position": state["position"] + 1, **new}

    def state_size(self, length: int) -> int:
        held = min(length, self.window) if self.window else length
        per_token = sum(self.sizes[1:]) + (self.heads if self.forget is not None else 0)
        return super().state_size(length) + held * per_token

    def flops(self, length: int) -> int:
        near = min(length, self.window or length)
        seen = near * (near + 1) // 2 + (length - near) * near  # pairs of query and key
        return map_flops(length, self) + 4 * seen * self.out.in_features


def convolutions(
    names: Convolved, width: int, kernel: int, activation: Literal["none", "silu"], causal: bool
) -> dict[str, ShortConv]:
    """The short convolutions through which some of q, k and v read their input, by name, as an nn.ModuleDict."""
    each = "" if names == "none" else names
    convs = {name: ShortConv(width, kernel, activation=activation, causal=causal) for name in each}
    return cast(dict[str, ShortConv], nn.ModuleDict(convs))


def _factors(noise: float, identity: float, like: Tensor) -> tuple[Tensor, Tensor]:
    """L (width, r) and R (r, width) whose product is the best of rank r to noise Z + identity I, where Z has entries of variance
    1 / width; `like` is (r, width)."""
    rank, width = like.shape
    target = noise * torch.randn(width, width, dtype=like.dtype, device=like.device) / math.sqrt(width)
    u, s, vh = torch.linalg.svd(target + identity * torch.eye(width, dtype=like.dtype, device=like.device))
    root = s[:rank].sqrt()
    return u[:, :rank] * root, root[:, None] * vh[:rank]
