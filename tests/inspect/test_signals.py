"""What mixers decide at each token: names, shapes and ranges, and that it is what `step` works with."""

import pytest
import torch
from torch import nn

from recollect.cli import app
from recollect.inspect.signals import signals
from recollect.models.model import build
from recollect.models.spec import ModelSpec
from recollect.spec import SpecError
from recollect.store.export import export
from recollect.study.spec import Study

NAMES = {
    "mamba": {"step size", "output gate"},
    "s6": {"step size"},
    "mamba2": {"step size", "decay", "output gate"},
    "mamba3": {"step size", "decay", "share of the present token", "output gate"},
    "gla": {"decay", "output gate"},
    "deltanet": {"write strength"},
    "gated_deltanet": {"write strength", "decay"},
    "kda": {"write strength", "decay"},
    "gated_deltanet2": {"erase gate", "write gate", "decay"},
    "rwkv6": {"decay", "output gate"},
    "rwkv7": {"decay", "removal rate", "output gate"},
}
SHARES = {"decay", "write strength", "erase gate", "write gate", "removal rate", "share of the present token"}


class Gated(nn.Module):
    """A mixer of a user's own, with a signal of the wrong shape where asked."""

    def __init__(self, width: int, *, wrong: bool = False):
        super().__init__()
        self.gate, self.wrong = nn.Linear(width, 1), wrong

    def forward(self, x):
        return x * self.gate(x).sigmoid()

    def signals(self, x):
        gate = self.gate(x).sigmoid()
        return {"gate": gate[..., 0] if self.wrong else gate}


@pytest.mark.parametrize("kind", NAMES)
def test_a_mixers_signals_are_of_each_token_and_of_no_later_one(kind):
    model = build(ModelSpec.model_validate({"mixer": kind, "width": 16, "layers": 2}), 32, 12, seed=0)
    tokens = torch.arange(24).view(2, 12)
    found = signals(model, tokens)
    assert len(found) == 2
    changed = signals(model, tokens.where(torch.arange(12) < 8, 31 - tokens))
    for place, own in found.items():
        assert set(own) == NAMES[kind]
        for name, value in own.items():
            assert value.shape[:2] == (2, 12)
            torch.testing.assert_close(value[:, :8], changed[place][name][:, :8])
            assert name not in SHARES or ((value >= 0) & (value <= 1)).all(), name
            assert name != "step size" or (value > 0).all()


def test_the_decay_is_what_the_state_fades_by():
    mixer = build(ModelSpec.model_validate({"mixer": "gated_deltanet", "width": 16, "layers": 1}), 32, 12, seed=0)
    layer = mixer.layers[0].mixer
    x, state = torch.randn(1, 1, 16), layer.initial_state(1)
    state["S"] = torch.ones_like(state["S"])
    with torch.no_grad():
        layer.beta.weight.fill_(0)
        layer.conv.weight.zero_()  # no keys, no values: nothing is erased or written
        after = layer.step(x[:, 0], state)[1]["S"]
    torch.testing.assert_close(after[:, :, 0, 0], layer.signals(x)["decay"][:, 0])


def test_an_own_mixer_and_one_without_signals():
    own = build(ModelSpec.model_validate({"mixer": Gated, "width": 8, "layers": 1}), 32, 12, seed=0)
    assert signals(own, torch.zeros(1, 5, dtype=torch.long))["layers.0.mixer"]["gate"].shape == (1, 5, 1)
    wrong = {"mixer": {"kind": Gated, "wrong": True}, "width": 8, "layers": 1}
    with pytest.raises(SpecError, match=r"Gated.signals: 'gate' is \(1, 5\) for x \(1, 5, 8\), and must be \(batch"):
        signals(build(ModelSpec.model_validate(wrong), 32, 12, seed=0), torch.zeros(1, 5, dtype=torch.long))
    plain = build(ModelSpec.model_validate({"mixer": "attention", "width": 8, "layers": 1}), 32, 12, seed=0)
    with pytest.raises(SpecError, match="no signals: no mixer of this model has step sizes, decays or gates"):
        signals(plain, torch.zeros(1, 5, dtype=torch.long))


def test_the_picture_of_a_mixer_and_of_a_trained_run(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = "{kind: mqar, length: 16, pairs: 2, vocab: 32}"
    app(["show", "model", "gla", "width=8", "layers=1", "--on", task, "--to", "gla.png"], standalone_mode=False)
    study = Study.model_validate(
        {
            "task": {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32},
            "model": {"mixer": "mamba", "width": 8, "layers": 1},
            "train": {"lr": 0.01, "steps": 1, "batch": 2, "eval_rows": 2, "test_rows": 2},
        }
    )
    store = study.run(store=tmp_path / "store.sqlite", device="cpu", progress=False).store
    export(next(iter(store.done())), store, tmp_path / "run")
    app(["show", "model", "run", "--on", "mqar", "--to", "run.png"], standalone_mode=False)
    assert "The picture: run.png  (and run.svg)" in capsys.readouterr().out
    assert "the model is at its initial values" in (tmp_path / "gla.svg").read_text()
    assert "the model is trained" in (tmp_path / "run.svg").read_text()
    with pytest.raises(SpecError, match="--on mqar: it has 64 token ids, the model knows 32"):
        app(["show", "model", "run", "--on", "{kind: mqar, vocab: 64, length: 16, pairs: 2}"], standalone_mode=False)
