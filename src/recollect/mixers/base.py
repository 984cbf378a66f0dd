"""The base class of sequence mixers.

Any `nn.Module` that maps (batch, length, width) to the same shape and does not look ahead can be trained. The built-in
ones derive from `Mixer` and add a recurrent form, the size of its state, and a count of operations.

A mixer's constructor takes `width` first and its options by keyword, each with a default. Whether a size is in range is checked
where a specification gives it (mixers/spec.py), so a constructor checks the rest. Six keywords are filled in by
the model where a constructor has them: `length` (the longest row), `layer` and `layers` (which layer, of how many),
`positions` (the kind of positions the model has: "none", "rotary", "alibi", "hard_alibi" or "relative"), `base_width`
(the width from which muP scales the model, or 0), and `canon` (whether what it projects its input to passes a Canon layer).

Initialisation: the model draws the weight of every nn.Linear from N(0, 0.02), zeroes its bias, and divides a Linear
called `out` (the end of a residual branch) by sqrt(2 x layers). Then it calls `initialise()` where a mixer has one, for the
parts with initial values of their own. Other parameters keep what the constructor gave them. Each mixer's docstring says whose
initial values it has; "the model's default" there is the distribution of this paragraph.
"""

from typing import ClassVar, Literal

from torch import Tensor, nn

from recollect.ops.norms import Norm
from recollect.ops.short_conv import ShortConv
from recollect.spec import SpecError

State = dict[str, Tensor]
"""What a mixer carries from token to token: named tensors, axis 0 the batch. Integer tensors (a position) are bookkeeping."""

Init = Literal["normal", "pytorch"]
"""How linear maps start where a mixer has the option: by the model's default, or by that of nn.Linear."""


class Mixer(nn.Module):
    """A sequence mixer with a parallel and a recurrent form."""

    wants_positions: ClassVar[bool] = False
    """Whether a model of it gets learned positions by default. It is not inherited; any module may have it."""
    version: int = 1
    """Raised when what the mixer computes by default, or its initial values, change, so that runs from before and after the
    change are never taken for the same."""

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, width) -> (batch, length, width), causal."""
        raise TypeError(f"{type(self).__name__} must define forward")

    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:
        """The part of `forward` that moves information between tokens: linear in the values, of the values' shape.

        x is the input of `forward`; it determines everything else, such as queries, keys, decays and gates, and the values where
        none are given. Values are (batch, length, heads, dim) where the channels of a head are mixed alike: `mix` then takes any
        dim. They are (batch, length, channels) where every channel is mixed in its own way. With `mix` a mixer has mixing
        matrices (inspect/mixing.py). Where one op does the work of `forward`, `mix` is its definition.
        """
        raise TypeError(f"{type(self).__name__} must define mix")

    def signals(self, x: Tensor) -> dict[str, Tensor]:
        """What the mixer decides at each token, by name, such as step sizes, decays and gates: (batch, length, parts) each.

        A part is a head or a channel; x is what `forward` takes. `recollect show model NAME --on TASK` draws them. It is
        optional, any module may have it, and training never calls it.
        """
        return {}

    def after_norm(self, norm: Norm, x: Tensor) -> Tensor:
        """self(norm(x)), which training on a GPU calls instead: a mixer may put the norm's scale into its first linear map
        (ops/norms.py). Where the mixer has hooks, the model calls it itself instead."""
        return self(norm(x))

    def initial_state(self, batch: int) -> State:
        """The state before the first token."""
        raise TypeError(f"{type(self).__name__} must define initial_state")

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """One token: (batch, width) and a state give (batch, width) and the next state."""
        raise TypeError(f"{type(self).__name__} must define step")

    def state_size(self, length: int) -> int:
        """Elements of the state of one sequence after `length` tokens: those of the initial state, unless it grows."""
        return sum(held.numel() for held in self.initial_state(1).values() if held.is_floating_point())

    def flops(self, length: int) -> int:
        """Floating-point operations of `forward` for one sequence: two for a multiply-add, matrix products and scans only."""
        raise TypeError(f"{type(self).__name__} must define flops")


def defines(module: nn.Module, method: str) -> bool:
    """Whether a module defines a method itself, not only inherits the placeholder of `Mixer`."""
    defined = getattr(type(module), method, None)
    return defined is not None and defined is not getattr(Mixer, method, None)


def map_flops(length: int, *modules: nn.Module | None) -> int:
    """Operations of all linear maps and short convolutions in some modules over one sequence."""
    parts = (part for module in modules if module is not None for part in module.modules())
    return sum(2 * length * part.weight.numel() for part in parts if isinstance(part, nn.Linear | ShortConv))


def divides(what: str, parts: int, whole: int, of: str = "width") -> int:
    """`whole // parts`, or an error that names both; `of` says what the whole is."""
    if parts < 1 or whole % parts:
        choices = ", ".join(str(n) for n in range(1, min(whole, 64) + 1) if whole % n == 0)
        raise SpecError(f"{what}: {parts} does not divide {of} {whole}; choose from: {choices}")
    return whole // parts
