"""Rules that a sequence mixer must satisfy, one function per rule.

Each takes `make`, which builds the mixer (one that must know its longest row: for 1024 tokens), and the width and length
of the rows it is given. It raises AssertionError with what is wrong and where, returns None if the rule holds, and a note
if it does not apply. Everything runs on the CPU.
"""

import copy
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from recollect.mixers.base import defines
from recollect.rng import seeded
from recollect.testing.check import Check, Conformance, checks
from recollect.testing.measure import (
    Make,
    assert_close,
    assert_finite,
    build,
    in_one_line,
    largest,
    numbers,
    results,
    scale,
    together,
)  # fmt: skip


def output_shape(make: Make, width: int, length: int) -> None:
    """The output has the shape of the input."""
    module = build(make)
    for rows in (1, 3):
        x = numbers(rows, length, width)
        y = module(x)
        assert isinstance(y, Tensor), f"forward gives {type(y).__name__}, not one tensor"
        assert y.shape == x.shape, f"input {tuple(x.shape)} gives output {tuple(y.shape)}: the shapes must be equal"


def dtype(make: Make, width: int, length: int) -> None:
    """float32 in gives float32 out, float64 in gives float64 out."""
    for kind in (torch.float32, torch.float64):
        got = build(make, kind)(numbers(2, length, width, kind=kind)).dtype
        assert got == kind, f"weights and input of {kind} give an output of {got}"


def parameters(make: Make, width: int, length: int) -> None:
    """Every build has the same parameters, each with a name and memory of its own."""
    first, second = (build(make, torch.get_default_dtype(), seed) for seed in (0, 1))
    shapes, others = ({n: tuple(p.shape) for n, p in m.named_parameters()} for m in (first, second))
    assert shapes == others, f"two builds differ in their parameters: {sorted(shapes.items() ^ others.items())}"
    clash = shapes.keys() & dict(first.named_buffers()).keys()
    assert not clash, f"names of both a parameter and a buffer: {sorted(clash)}"
    owner: dict[int, str] = {}
    for name, p in [*first.named_parameters(), *(("second " + n, p) for n, p in second.named_parameters())]:
        if p.numel():
            other = owner.setdefault(p.untyped_storage().data_ptr(), name)
            assert other == name, f"parameters {other!r} and {name!r} share memory; each needs its own"


def finite(make: Make, width: int, length: int) -> None:
    """The output and the gradient of every parameter are finite."""
    for kind in (torch.float32, torch.float64):
        assert_finite(build(make, kind), numbers(2, length, width, kind=kind), f"{kind}, length {length}")


def causality(make: Make, width: int, length: int, exact: bool = True, kind: torch.dtype = torch.float64) -> None:
    """No output depends on a later token, in value or by gradient.

    To the bit; to rounding if not `exact`, or if the mixer has `exact_causality = False` (as where FFTs convolve).
    """
    module, x = build(make, kind), numbers(2, length, width, kind=kind).requires_grad_()
    rounding = 1e-10 if kind == torch.float64 else 1e-4
    allowed = 0.0 if exact and getattr(module, "exact_causality", True) else rounding
    y = module(x)
    apart = max(1, length // 64)  # short rows token by token: a leak may affect a single token
    for t in sorted({1, 2, *range(3, length, apart), length - 1} & set(range(1, length))):
        changed = x.detach().clone()
        changed[:, t] = 3 * numbers(2, width, kind=kind, seed=t)
        with torch.no_grad():
            moved, where = largest((module(changed) - y)[:, :t], "batch row", "position", "channel")
        assert moved <= allowed * scale(y), f"not causal: token {t} moves the output by {moved:.3g} at {where}"
    for s in sorted({0, length // 3, length // 2, length - 2} & set(range(length - 1))):
        (grad,) = torch.autograd.grad((y[:, s] * numbers(2, width, kind=kind)).sum(), x, retain_graph=True)
        slope, where = largest(grad[:, s + 1 :], "batch row", "position", "channel", first=s + 1)
        assert slope <= allowed * scale(grad), (
            f"not causal: the output at position {s} has a gradient of {slope:.3g} to the input at {where}"
        )


def looks_ahead(make: Make, width: int, length: int) -> str:
    """What is wrong with the causality of a mixer as it is evaluated; empty if nothing is, or if it is not known.

    Numbers that are not finite, or that change from call to call, say nothing about causality.
    """
    for kind in (torch.float64, torch.float32):  # some mixers compute in float32 only
        try:
            with seeded(0, "conformance"), torch.no_grad():
                module, x = build(make, kind), numbers(2, length, width, kind=kind)
                steady = torch.equal(module(x), module(x))
            if steady:
                causality(make, width, length, exact=False, kind=kind)
        except Exception as error:
            if (text := str(error)).startswith("not causal: "):  # and not an assertion of the mixer's own
                return text
            continue
        return ""
    return ""


def batch_independence(make: Make, width: int, length: int) -> None:
    """A row's output does not depend on the other rows of its batch."""
    module, x, others = build(make), numbers(3, length, width), numbers(3, length, width, seed=1)
    with torch.no_grad():
        usual = module(x)
        for row in range(3):
            with_others = torch.cat([others[:row], x[row : row + 1], 10 * others[row + 1 :]])
            what = f"batch row {row} depends on the rows beside it: with other rows"
            assert_close(module(with_others)[row], usual[row], what, "position", "channel")
            what = f"batch row {row} depends on the rows beside it: alone"
            assert_close(module(x[row : row + 1])[0], usual[row], what, "position", "channel")


def determinism(make: Make, width: int, length: int) -> None:
    """The same call gives the same bits, whatever was called before, and leaves the module as it was."""
    module, x = build(make, torch.float32), numbers(2, length, width, kind=torch.float32)
    before = copy.deepcopy(module.state_dict())
    first = results(module, x)
    for other in (x, numbers(3, length + 1, width, kind=torch.float32, seed=1)):  # what is kept may fit one shape only
        module(other)
        second = results(module, x)
        for name, value in first.items():
            moved, where = largest(second[name] - value)
            if moved:
                raise AssertionError(
                    f"the same call twice: {name} moves by {moved:.3g} at {where}; {_cause_of_change(make, width, length)}"
                )
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), f"forward changed {name!r} of the module"


def _cause_of_change(make: Make, width: int, length: int) -> str:
    """Why the same call gives other results: random numbers are the same again after the same torch seed, a state is not."""
    module, x = build(make, torch.float32), numbers(2, length, width, kind=torch.float32)
    outputs = []
    for _ in range(2):
        with seeded(0, "conformance"):
            outputs.append(module(x))
    if torch.equal(*outputs):
        return "forward draws random numbers"
    return "the module keeps something from call to call"


def cohort(make: Make, width: int, length: int) -> str | None:
    """Members trained together under vmap get the same numbers as each alone, and the same bits whatever the other members are.

    PyTorch computes sigmoid, silu, softplus, elu and pow by another formula in the last few (under 32) elements of a
    tensor, so tokens are a multiple of 32 here, as in most training; `recollect.ops.activations` has forms that do not.
    """
    singles = [build(make, torch.float32, seed) for seed in range(8)]
    for name, buffer in singles[1].named_buffers():
        same = torch.equal(buffer, singles[0].get_buffer(name))
        assert same, f"buffer {name!r} differs between two builds, but members share buffers: make it a Parameter"
    x = numbers(8, 2, -(-length // 16) * 16, width, kind=torch.float32)
    try:
        among = {size: together(singles[:size], x[:size]) for size in (2, 3, 8)}
    except Exception as error:
        return f"cannot be vmapped ({in_one_line(error)}): members are trained one after another"
    for size in (2, 3):
        for name, value in among[size].items():
            moved, where = largest(among[8][name][:size] - value, "member")
            assert moved == 0, (
                f"{name} depends on the other members: among {size} and among 8 it differs by {moved:.3g} at {where}"
            )
    doubles, x = [build(make, seed=seed) for seed in range(3)], numbers(3, 2, length, width)
    stacked = together(doubles, x)
    for i, module in enumerate(doubles):
        for name, value in results(module, x[i]).items():
            assert_close(stacked[name][i], value, f"vmapped, {name} of member {i} is not what it is alone:")
    return None


def mixing(make: Make, width: int, length: int) -> str | None:
    """`mix` is linear in its values except for a bias, takes heads of any dim, and does not look ahead."""
    module, x = build(make), numbers(2, length, width)
    if not defines(module, "mix"):
        return "has no mix"
    with torch.no_grad():
        own = module.mix(x)
        right = own.dim() in (3, 4) and own.shape[:2] == (2, length)
        wanted = f"(2, {length}, heads, dim) or (2, {length}, channels)"
        assert right, f"mix gives {tuple(own.shape)} for 2 rows of {length} tokens, where it must give {wanted}"
        shape = (*own.shape[:3], own.shape[3] + 1) if own.dim() == 4 else own.shape
        a, b = numbers(*shape), numbers(*shape, seed=1)
        of_a, of_b, of_none = (module.mix(x, values) for values in (a, b, torch.zeros_like(a)))
        what = "mix is not linear in its values: of a + 2 b it is not mix of a and twice that of b,"
        assert_close(module.mix(x, a + 2 * b) + 2 * of_none, of_a + 2 * of_b, what, "batch row", "position")
        half = (length + 1) // 2
        late = module.mix(x, torch.cat([a[:, :half], b[:, half:]], dim=1))
        assert_close(
            late[:, :half], of_a[:, :half], "mix looks ahead: values change an earlier", "batch row", "position"
        )
    return None


def recurrence(make: Make, width: int, length: int) -> str | None:
    """`step`, token after token, gives what `forward` gives."""
    module, x = build(make), numbers(2, length, width)
    if not defines(module, "step"):
        return "has no step"
    with torch.no_grad():
        y, state = module(x), module.initial_state(2)
        for t in range(length):
            y_t, state = module.step(x[:, t], state)
            assert y_t.shape == (2, width), f"step gives {tuple(y_t.shape)} for an input of {(2, width)}"
            assert_close(y_t, y[:, t], f"step at position {t} is not what forward gives:", "batch row", "channel")
    return None


def state_size(make: Make, width: int, length: int) -> str | None:
    """`state_size` is the number of floating-point elements `step` carries for a sequence."""
    module, x = build(make), numbers(2, length, width)
    if not (defines(module, "step") and hasattr(module, "state_size")):
        return "has no step and state_size"
    state = module.initial_state(2)
    with torch.no_grad():
        for t in range(length):
            state = module.step(x[:, t], state)[1]
            for name, value in state.items():
                assert len(value) == 2, f"state {name!r} is {tuple(value.shape)}: axis 0 must be the batch, here 2"
            held = {name: value[0].numel() for name, value in state.items() if value.is_floating_point()}
            claimed = module.state_size(t + 1)
            assert claimed == sum(held.values()), f"state_size({t + 1}) says {claimed}, the state holds {held}"
    return None


def flops(make: Make, width: int, length: int) -> str | None:
    """`flops` is a positive whole number that grows with the length."""
    module = build(make)
    if not defines(module, "flops"):
        return "has no flops"
    counts = {n: module.flops(n) for n in (1, 2, 63, 65, 128)}
    assert all(isinstance(n, int) and n > 0 for n in counts.values()), f"flops must be positive integers: {counts}"
    assert list(counts.values()) == sorted(set(counts.values())), f"flops must grow with the length: {counts}"
    return None


def odd_lengths(make: Make, width: int, length: int) -> None:
    """Rows of 1, 2, 63 and 65 tokens work, and the end of a row does not change its beginning."""
    module, x = build(make), numbers(2, 65, width)
    with torch.no_grad():
        outputs = {}
        for n in (65, 63, 2, 1):
            try:
                outputs[n] = module(x[:, :n])
            except Exception as error:
                raise AssertionError(f"a row of {n} tokens fails: {in_one_line(error)}") from error
            assert outputs[n].shape == (2, n, width), f"a row of {n} tokens gives {tuple(outputs[n].shape)}"
            what = f"the first {n} tokens of a row of 65, on their own, give something else:"
            assert_close(outputs[n], outputs[65][:, :n], what, "batch row", "position", "channel")


def extremes(make: Make, width: int, length: int) -> None:
    """Inputs 50 times as large, and rows of 1024 tokens, keep outputs and gradients finite."""
    kind = torch.float32
    assert_finite(build(make, kind), 50 * numbers(2, length, width, kind=kind), f"inputs x50, length {length}")
    assert_finite(build(make, kind), numbers(1, 1024, width, kind=kind), "length 1024")


MIXER_CHECKS: list[Check] = checks(
    output_shape, dtype, parameters, finite, determinism, causality, batch_independence, cohort, mixing, recurrence,
    state_size, flops, odd_lengths, extremes,
)  # fmt: skip


class MixerConformance(Conformance, rules=MIXER_CHECKS):
    """Tests for your own mixer: inherit, call the class Test.., and set `mixer` and `options` or define `make`."""

    mixer: ClassVar[Any] = None
    """The class to build."""
    options: ClassVar[dict[str, Any]] = {}
    """Its keyword options."""
    width: int = 16
    length: int = 33
    exact_causality: bool = True
    """Whether a later token may not move an output by a single bit. False allows rounding, as where FFTs convolve."""

    def make(self) -> nn.Module:
        """A fresh module."""
        return type(self).mixer(self.width, **self.options)

    def given(self, check: Check) -> dict[str, Any]:
        more = {"exact": self.exact_causality} if check.function is causality else {}
        return {"make": self.make, "width": self.width, "length": self.length, **more}
