"""Layers of flash-linear-attention as mixers: options, refusals, and members one after another.

Most tests use a stand-in for the package, which takes long to import; one runs a real layer in Triton's interpreter.
"""

import builtins
import json
import os
import subprocess
import sys
import warnings
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from recollect.mixers import MIXERS
from recollect.mixers.fla import fla_mixer
from recollect.mixers.spec import MixerSpec
from recollect.models.spec import ModelSpec
from recollect.spec import SpecError
from recollect.train.events import Ended
from recollect.train.loop import train
from recollect.train.spec import RunSpec


class Averages(nn.Module):
    """As fla's layers are: a width by another name, options nobody checks, and a tuple as its result."""

    def __init__(
        self, hidden_size: int = 2048, num_heads: int = 16, head_dim: int = 128, expand: int = 2, layer_idx: int | None = None,
        num_hidden_layers: int | None = None, **kwargs,
    ):  # fmt: skip
        super().__init__()
        if num_heads == 7:
            raise ZeroDivisionError("integer modulo by zero")
        self.built = (hidden_size, num_heads, head_dim, layer_idx, num_hidden_layers)
        self.proj = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states: Tensor, **kwargs) -> tuple[Tensor, None, None]:
        seen = torch.arange(1, hidden_states.shape[1] + 1)[:, None]
        return self.proj(hidden_states).cumsum(1) / seen, None, None


class Helper(nn.Module):
    """A layer without a width."""


@pytest.fixture
def package(monkeypatch):
    """Stands in for `fla.layers`."""
    layers = SimpleNamespace(__all__=["Averages", "Helper"], Averages=Averages, Helper=Helper)
    monkeypatch.setitem(sys.modules, "fla.layers", layers)
    fla_mixer.cache_clear()
    yield
    fla_mixer.cache_clear()


def mixer(**options) -> MixerSpec:
    return ModelSpec(mixer={"kind": "fla:Averages", **options}).mixer


@pytest.mark.usefixtures("package")
def test_a_layer_gets_the_models_width_and_small_heads():
    assert mixer().build(24, layer=1, layers=3).layer.built == (24, 2, 24, 1, 3)  # heads share the expanded width
    assert mixer(num_heads=3).build(24, layer=0, layers=3).layer.built == (24, 3, 16, 0, 3)
    assert mixer(head_dim=5, expand=1).build(24, layer=0, layers=3).layer.built == (24, 2, 5, 0, 3)


@pytest.mark.usefixtures("package")
def test_identity_has_the_options_and_the_version():
    assert mixer(num_heads=2).options == {}
    assert mixer(num_heads=4).options == {"num_heads": 4}
    assert mixer().source.startswith("fla ")


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("fla:Averages", {"heads": 2}, "unknown option 'heads': did you mean 'num_heads'"),
        ("fla:Averages", {"hidden_size": 2}, "unknown option 'hidden_size'"),
        ("fla:Average", {}, "has no layer 'Average': did you mean 'Averages'"),
        ("fla:Helper", {}, "does not take a width"),
    ],
)
def test_wrong_names_are_refused(kind, options, message):
    with pytest.raises(ValueError, match=message):
        ModelSpec(mixer={"kind": kind, **options})


@pytest.mark.usefixtures("package")
def test_a_layer_that_cannot_be_built_says_with_which_options():
    with pytest.raises(
        SpecError, match=r"fla:Averages cannot be built at width 24 with .*'num_heads': 7.*modulo by zero"
    ):
        mixer(num_heads=7).build(24)


def test_without_the_package_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "fla.layers", None)
    with pytest.raises(SpecError, match=r"which cannot be imported .* pip install 'recollect\[fla\]'"):
        MIXERS.find("fla:KimiDeltaAttention")


@pytest.mark.usefixtures("package")
def test_without_a_gpu_it_says_so_and_names_our_own(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(
        SpecError, match=r"fla:Averages computes with Triton kernels, which need a CUDA GPU, and x is on the cpu$"
    ):
        mixer().build(8)(torch.zeros(1, 3, 8))
    monkeypatch.setattr(sys.modules["fla.layers"], "KimiDeltaAttention", Averages, raising=False)
    monkeypatch.setattr(sys.modules["fla.layers"], "__all__", ["KimiDeltaAttention"])
    with pytest.raises(SpecError, match="; the mixer kda needs none"):
        MIXERS.find("fla:KimiDeltaAttention")(8)(torch.zeros(1, 3, 8))


@pytest.mark.usefixtures("package")
def test_members_are_trained_one_after_another(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # the stand-in has no kernels
    runs = [
        RunSpec(
            task={"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32},
            model={"mixer": "fla:Averages", "width": 8, "layers": 1},
            train={"lr": lr, "steps": 2, "batch": 4, "eval_rows": 8, "test_rows": 8},
        )
        for lr in (1e-3, 1e-2)
    ]
    with pytest.warns(
        UserWarning, match="fla:Averages takes one member at a time.*; its members train one after another"
    ):
        ended = [event for event in train(runs) if isinstance(event, Ended)]
    assert [event.status for event in ended] == ["finished", "finished"]


@pytest.mark.long
def test_a_real_layer_computes_what_our_mixer_computes():
    pytest.importorskip("fla", reason="flash-linear-attention is not installed")
    pytest.importorskip("triton", reason="the kernels need Triton")
    environment = os.environ | {"TRITON_INTERPRET": "1", "RECOLLECT_TRITON": "0"}
    process = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout) < 1e-4


class Index(int):
    """A kernel's loop variable: the interpreter leaves it a plain number."""

    def to(self, dtype) -> "Index":
        return self


def error_of_kda() -> float:
    """How far fla's KimiDeltaAttention is from `kda` with the same weights."""
    from triton.runtime.autotuner import Autotuner

    Autotuner._bench = lambda self, *args, **options: [1.0, 1.0, 1.0]
    torch.manual_seed(0)
    theirs, ours = MIXERS.find("fla:KimiDeltaAttention")(32), MIXERS.find("kda")(32)
    for name, module in list(sys.modules.items()):
        if name.startswith("fla."):
            module.__dict__["range"] = lambda *ends: map(Index, builtins.range(*map(int, ends)))
    layer = theirs.layer
    convs = [getattr(layer, f"{part}_conv1d").weight[:, 0] for part in "qkv"]
    weights = {
        "qkv.weight": torch.cat([getattr(layer, f"{part}_proj").weight for part in "qkv"]), "conv.weight": torch.cat(convs),
        "beta.weight": layer.b_proj.weight, "norm.weight": layer.o_norm.weight, "out.weight": layer.o_proj.weight,
        "A_log": layer.A_log, "dt_bias": layer.dt_bias,
        **{f"decay.{i}.weight": layer.f_proj[i].weight for i in range(2)},
        **{f"z.{i}.weight": layer.g_proj[i].weight for i in range(2)},
    }  # fmt: skip
    ours.load_state_dict(weights)
    nn.init.zeros_(layer.g_proj[1].bias)  # ours has none
    x = torch.randn(1, 70, 32)
    y = ours(x)
    return ((theirs(x) - y).abs().max() / y.abs().max()).item()


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # the package misses a GPU
    json.dump(error_of_kda(), sys.stdout)
