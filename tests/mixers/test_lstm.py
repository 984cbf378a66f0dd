"""The LSTM is torch.nn.LSTM, with an op that can train in a cohort."""

import pytest
import torch
from torch import Tensor, nn
from torch.func import vmap

from recollect.mixers.lstm import LSTM
from recollect.ops.lstm import lstm, lstm_step


def by_steps(x: Tensor, recurrent: Tensor) -> Tensor:
    h = c = x.new_zeros(x.shape[0], recurrent.shape[1])
    out = []
    for x_t in x.unbind(1):
        h, c = lstm_step(x_t, recurrent, h, c)
        out.append(h)
    return torch.stack(out, dim=1)


@pytest.mark.parametrize("length", [1, 2, 63, 65, 257])
def test_fast_form_is_the_definition_forward_and_backward(length: int):
    x = torch.randn(3, length, 20, dtype=torch.float64, requires_grad=True)
    recurrent = torch.randn(20, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(3, length, 5, dtype=torch.float64)
    y, wanted = lstm(x, recurrent), by_steps(x, recurrent)
    torch.testing.assert_close(y, wanted, rtol=0, atol=1e-9)
    grads = torch.autograd.grad((y * weight).sum(), [x, recurrent])
    for got, right in zip(grads, torch.autograd.grad((wanted * weight).sum(), [x, recurrent]), strict=True):
        torch.testing.assert_close(got, right, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("width", "hidden"), [(6, 6), (7, 5)])
def test_equals_torch_with_the_same_weights(width: int, hidden: int):
    ours, theirs = LSTM(width, hidden=hidden).double(), nn.LSTM(width, hidden, batch_first=True).double()
    pairs = [
        (ours.inputs.weight, theirs.weight_ih_l0),
        (ours.inputs.bias, theirs.bias_ih_l0),
        (ours.recurrent, theirs.weight_hh_l0),
    ]
    for mine, torchs in pairs:
        torchs.data.copy_(mine.data)
    theirs.bias_hh_l0.data.zero_()
    x = torch.randn(2, 33, width, dtype=torch.float64, requires_grad=True)
    y, wanted = ours(x), ours.out(theirs(x)[0])
    torch.testing.assert_close(y, wanted, rtol=0, atol=1e-12)
    grads = torch.autograd.grad(y.square().sum(), [x, *(mine for mine, _ in pairs)])
    wanted_grads = torch.autograd.grad(wanted.square().sum(), [x, *(torchs for _, torchs in pairs)])
    for got, right in zip(grads, wanted_grads, strict=True):
        torch.testing.assert_close(got, right, rtol=0, atol=1e-10)


def test_a_members_bits_do_not_depend_on_the_others():
    x, recurrent = torch.randn(8, 3, 9, 64), torch.randn(8, 64, 16)

    def run(few: slice) -> list[Tensor]:
        leaves = [t[few].clone().requires_grad_() for t in (x, recurrent)]
        y = vmap(lstm)(*leaves)
        return [y, *torch.autograd.grad(y.square().sum(), leaves)]

    among_eight = run(slice(0, 8))
    for few in (slice(3, 5), slice(2, 5)):
        assert all(torch.equal(a, b[few]) for a, b in zip(run(few), among_eight, strict=True))


def test_saturated_gates_and_long_rows_stay_finite():
    x = (1e4 * torch.randn(1, 4096, 12)).requires_grad_()
    recurrent = (10 * torch.randn(12, 3)).requires_grad_()
    y = lstm(x, recurrent)
    assert all(t.isfinite().all() for t in (y, *torch.autograd.grad(y.sum(), [x, recurrent])))
