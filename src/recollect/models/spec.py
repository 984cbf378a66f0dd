"""What a model is, as a specification: mixers, their order, and everything around them."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from recollect.mixers import MIXERS
from recollect.mixers.spec import AnyMixer, MixerSpec, option_names
from recollect.spec import Spec, SpecError, nearest

MLP = Literal["gelu", "swiglu", "none", "identity"]
Positions = Literal["none", "learned", "sinusoidal", "rotary", "alibi", "hard_alibi", "relative"]
ADDED = ("learned", "sinusoidal")
"""Positions that are added to the embedding; the others act inside the mixers that take them."""


class BlockSpec(Spec):
    """One layer: a mixer, and what follows it."""

    mixer: AnyMixer
    """The sequence mixer."""
    mlp: MLP = "gelu"
    """What follows the mixer: a GELU or SwiGLU network, `none`, or `identity` (Zoology's: adds a normalised copy)."""
    parallel: bool = False
    """Mixer and MLP side by side, x + mixer(norm x) + mlp(norm x), instead of one after the other (GPT-NeoX)."""
    canon: str = Field(default="", pattern="^A?B?C?D?$")
    """Where Canon layers are inserted, x + a causal convolution of x with 4 taps (Allen-Zhu 2025): A before the mixer, B on
    attention's queries, keys and values, C before the MLP, D inside it, before its activation. `ABCD` has all four."""

    @model_validator(mode="after")
    def _canon_has_its_places(self) -> Self:
        if "B" in self.canon and "canon" not in self.mixer.takes:
            raise SpecError(
                f"canon {self.canon!r}: B is inside attention, which {self.mixer.kind} does not have; leave out B"
            )
        if ("C" in self.canon and self.mlp == "none") or ("D" in self.canon and self.mlp not in ("gelu", "swiglu")):
            raise SpecError(f"canon {self.canon!r}: C and D belong to an MLP, and mlp is {self.mlp!r}; leave them out")
        return self


class SecondStream(Spec):
    """The second stream of a two-stream model: x' = x + first(x) + tanh(b) * second(x)."""

    block: BlockSpec
    """The layer that runs beside the first, on the same input."""
    gate: Literal["scalar", "vector", "none"] = "scalar"
    """What multiplies the gated stream: one learned number per layer, one per channel, or nothing."""
    gated: Literal["second", "first"] = "second"
    """Which stream the gate is on."""


@cache  # a dump without defaults asks for it, once per run
def _attention() -> Any:
    return MixerSpec(kind="attention")


class ModelSpec(Spec):
    """A sequence model: embedding (+ positions), layers, norm, head."""

    also = ("preset",)

    mixer: AnyMixer = Field(default_factory=_attention)
    """The mixer of every layer, unless `pattern` says otherwise."""
    width: int = Field(default=64, ge=1, le=2**16)
    """Channels of the residual stream."""
    layers: int = Field(default=2, ge=1, le=1024)
    """How many layers; a layer is a mixer and what follows it."""
    mlp: MLP = "gelu"
    """What follows each mixer: a GELU or SwiGLU network, `none`, or `identity` (Zoology's: adds a normalised copy)."""
    mlp_ratio: float = Field(default=4.0, gt=0, le=1024)
    """Width of the MLP over width of the model."""
    parallel: bool = False
    """Mixer and MLP side by side instead of one after the other (GPT-NeoX)."""
    canon: str = Field(default="", pattern="^A?B?C?D?$")
    """Where each layer has Canon layers: A before the mixer, B in attention, C before the MLP, D in it; with `pattern`, a field
    of each block instead."""
    norm: Literal["layer", "rms"] = "layer"
    """LayerNorm or RMSNorm, before each mixer and MLP and before the head."""
    positions: Positions | None = None
    """Positions. Left out: `learned` where a mixer wants them, as attention and Based do, else `none`."""
    tie: bool = True
    """Whether the head is the embedding transposed."""
    head: Literal["linear", "autoencoder"] = "linear"
    """What turns outputs into logits: a linear map, or, for tasks whose answers are all read at one place, MAD's decoder before
    it: a sine-cosine code of the answer's number is added, and a two-layer network follows."""
    dropout_embedding: float = Field(default=0.0, ge=0, lt=1)
    """Share of the embedding's outputs dropped in training."""
    dropout_residual: float = Field(default=0.0, ge=0, lt=1)
    """Share of each branch's outputs dropped in training."""
    pattern: str = ""
    """The order of different layers, repeated until `layers` are reached: `MMT` with `blocks: {M: .., T: ..}`."""
    blocks: dict[str, BlockSpec] = Field(default_factory=dict)
    """The block of each letter of `pattern`."""
    second: SecondStream | None = None
    """A second stream beside every layer."""
    spread: float = Field(default=0.02, gt=0)
    """Standard deviation of embeddings and linear maps at the start. Sinusoidal positions are scaled by it too, so that they do
    not dominate the tokens: in Vaswani et al. embeddings have unit variance."""
    parametrisation: Literal["standard", "mup"] = "standard"
    """How initial values and rates follow the width: not at all, or by muP: a model of `base_width` is the standard one."""
    base_width: int = Field(default=64, ge=1, le=2**16)
    """The width at which muP changes nothing."""
    residual: Literal["clean", "released"] = "clean"
    """`released`: the residual sums, initialisation and padded vocabulary of Retrievit's published code."""

    @model_validator(mode="after")
    def _default_positions(self) -> Self:
        if self.positions is None:
            mixers = [] if self.pattern else [self.mixer]
            mixers += [block.mixer for block in self.blocks.values()]
            wanted = any(mixer.wants_positions for mixer in mixers)
            object.__setattr__(self, "positions", "learned" if wanted else "none")  # frozen from here on
        return self

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        for letter in self.pattern:
            if letter not in self.blocks:
                example = "give `blocks`, e.g. {M: {mixer: mamba, mlp: none}}"
                hint = nearest(letter, self.blocks) if self.blocks else example
                raise SpecError(f"pattern {self.pattern!r}: letter {letter!r} has no block; {hint}")
        if self.blocks and not self.pattern:
            raise SpecError(f"blocks {sorted(self.blocks)} are given but no pattern that uses them")
        inside = self.positions in ("alibi", "hard_alibi", "rotary")
        if inside and not any("positions" in mixer.takes for mixer in self.mixers()):
            kinds = ", ".join(sorted({mixer.kind for mixer in self.mixers()}))
            raise SpecError(
                f"positions {self.positions!r} act inside attention, and {kinds} has none; "
                "choose from: none, learned, sinusoidal, relative"
            )
        if self.canon and self.pattern:
            raise SpecError(f"canon {self.canon!r} is given beside a pattern; give it in `blocks`, letter by letter")
        if self.canon:
            self.layer_blocks()  # a block refuses a Canon layer that it has no place for
        return self

    def layer_blocks(self) -> list[BlockSpec]:
        """What each layer is, in order."""
        if self.pattern:
            return [self.blocks[self.pattern[i % len(self.pattern)]] for i in range(self.layers)]
        return [BlockSpec(mixer=self.mixer, mlp=self.mlp, parallel=self.parallel, canon=self.canon)] * self.layers

    @classmethod
    def _belongs(cls, key: str, data: Mapping[str, Any]) -> str:
        """An option of the mixer is a key of `mixer`."""
        mixer = data.get("mixer", "attention")
        kind = mixer.get("kind") if isinstance(mixer, Mapping) else mixer
        if kind not in MIXERS.built_in or key not in option_names(kind):
            return ""
        return f"it is an option of the mixer, so write `mixer: {{kind: {kind}, {key}: {data[key]}}}`"

    def mixers(self) -> list[MixerSpec]:
        """Every mixer, layer by layer, the second stream's included."""
        first = [block.mixer for block in self.layer_blocks()] if self.pattern else [self.mixer] * self.layers
        return first + ([self.second.block.mixer] * self.layers if self.second else [])

    @property
    def title(self) -> str:
        """A short name for tables and legends."""

        def short(mixer: MixerSpec) -> str:
            options = ", ".join(f"{k}={v}" for k, v in mixer.options.items())
            return mixer.kind.rpartition(":")[2] + (f"({options})" if options else "")

        if self.pattern:
            return "-".join(short(self.blocks[letter].mixer) for letter in self.pattern)
        return short(self.mixer) + (f" | {short(self.second.block.mixer)}" if self.second else "")
