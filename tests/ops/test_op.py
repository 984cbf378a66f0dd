"""Registration of an op: members fold, gradients follow, tracing sees the shapes, ints, strings and None pass."""

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from recollect.ops.op import op, takes_outputs


def _forward(x: Tensor, w: Tensor, b: Tensor | None, power: int, sign: str) -> tuple[Tensor, Tensor]:
    """x (members * rows, ...), w and b (members, ...): w's axis 0 gives the number of members."""
    x = x.unflatten(0, (len(w), -1))
    raised = x**power
    y = raised * w[:, None] + (0 if b is None else b[:, None])
    return (-y if sign == "minus" else y).flatten(0, 1), raised.flatten(0, 1)


def _backward(
    grad: Tensor, x: Tensor, w: Tensor, b: Tensor | None, power: int, sign: str, y: Tensor, raised: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    grad, x, raised = (t.unflatten(0, (len(w), -1)) for t in (-grad if sign == "minus" else grad, x, raised))
    dx = grad * w[:, None] * power * x ** (power - 1)
    return dx.flatten(0, 1), (grad * raised).sum(1), grad.new_empty(0) if b is None else grad.sum(1)


def _fake(x: Tensor, w: Tensor, b: Tensor | None, power: int, sign: str) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), torch.empty_like(x)


scaled_power = op("test_scaled_power", _forward, _backward, _fake)


def definition(x: Tensor, w: Tensor, b: Tensor | None, power: int, sign: str) -> Tensor:
    return (-1 if sign == "minus" else 1) * (x**power * w + (0 if b is None else b))


def registered(x: Tensor, w: Tensor, b: Tensor | None, power: int, sign: str) -> Tensor:
    return scaled_power(x, w[None], None if b is None else b[None], power, sign)[0]


def results(function, tensors: list[Tensor], *options, backend: str | None = None) -> list[Tensor]:
    """What members get, and their gradients; with a backend the cohort's forward is traced."""

    def cohort(*leaves: Tensor) -> Tensor:
        return vmap(lambda x, w, *b: function(x, w, *(b or (None,)), *options))(*leaves)

    leaves = [t.clone().requires_grad_() for t in tensors]
    run = cohort if backend is None else torch.compile(cohort, backend=backend, dynamic=False, fullgraph=True)
    y = run(*leaves)
    return [y, *torch.autograd.grad((y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)).sum(), leaves)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
@pytest.mark.parametrize("backend", [None, "aot_eager"])
@pytest.mark.parametrize(("power", "sign", "biased"), [(2, "plus", True), (3, "minus", False)])
def test_an_op_is_its_definition_for_members_and_when_traced(power, sign, biased, backend):
    torch.manual_seed(0)
    shapes = [(3, 2, 5), (3, 5), (3, 5)][: 2 + biased]
    tensors = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    got = results(registered, tensors, power, sign, backend=backend)
    for a, b in zip(got, results(definition, tensors, power, sign), strict=True):
        torch.testing.assert_close(a, b)


def test_what_tracing_sees_is_what_runs():
    x, w = torch.randn(4, 5, dtype=torch.float64, requires_grad=True), torch.randn(2, 5, dtype=torch.float64)
    for b in (None, torch.randn(2, 5, dtype=torch.float64)):
        found = torch.library.opcheck(scaled_power, (x, w, b, 2, "minus"))
        assert len(found) >= 4, "schema, autograd, fake tensors and tracing are checked"
        assert set(found.values()) == {"SUCCESS"}


def test_a_backward_that_recomputes_is_given_no_outputs():
    assert takes_outputs(_forward, _backward)
    assert not takes_outputs(lambda x: (x,), lambda grad, x: (grad,))
    assert takes_outputs(lambda x: (x,), lambda grad, *saved: (grad,))
    given = []

    def forward(x: Tensor, n: int) -> tuple[Tensor, Tensor]:
        return n * x, x.clone()

    def backward(grad: Tensor, x: Tensor, n: int) -> tuple[Tensor]:
        given.append((x, n))
        return (n * grad,)

    times = op("test_times", forward, backward, fake=lambda x, n: (torch.empty_like(x), torch.empty_like(x)))
    x = torch.ones(2, 3, requires_grad=True)
    (grad,) = torch.autograd.grad(times(x, 3)[0].sum(), x)
    assert torch.equal(grad, torch.full((2, 3), 3.0))
    assert len(given) == 1


def test_gradients_are_of_the_first_tensors_where_that_is_asked():
    def forward(x: Tensor, index: Tensor) -> tuple[Tensor]:
        return (x.gather(1, index),)

    def backward(grad: Tensor, x: Tensor, index: Tensor) -> tuple[Tensor]:
        return (torch.zeros_like(x).scatter_add(1, index, grad),)

    def fake(x: Tensor, index: Tensor) -> tuple[Tensor]:
        return (x.new_empty(index.shape),)

    chosen = op("test_chosen", forward, backward, fake, gradients=1)
    x, index = torch.randn(2, 3, requires_grad=True), torch.tensor([[0], [2]])
    (grad,) = torch.autograd.grad(chosen(x, index)[0].sum(), x)
    assert torch.equal(grad, torch.tensor([[1.0, 0, 0], [0, 0, 1]]))
