"""A user's editor knows the specifications: what may be given is accepted, what may not is marked, what is read has a type."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import recollect

SCRIPT = """
from torch import Tensor, nn
from recollect.mixers.spec import MixerSpec
from recollect.models.spec import BlockSpec, ModelSpec, SecondStream
from recollect.tasks import MQAR
from recollect.train.spec import RunSpec, TrainSpec

class MyMixer(nn.Module):
    def __init__(self, width: int):
        super().__init__()
    def forward(self, x: Tensor) -> Tensor:
        return x

ModelSpec()
ModelSpec(mixer="mamba", width=64)
ModelSpec(mixer={"kind": "attention", "heads": 4})
ModelSpec(mixer={"kind": MyMixer})
ModelSpec(mixer=MyMixer, positions="rotary", tie=False)
ModelSpec(mixer=MixerSpec(kind="mamba"), positions=None)
BlockSpec(mixer="mamba", mlp="none")
ModelSpec(pattern="M", blocks={"M": BlockSpec(mixer=MyMixer)}, second=SecondStream(block=BlockSpec(mixer="attention")))
kind: str = ModelSpec(mixer="mamba").mixer.kind
wider: ModelSpec = ModelSpec(mixer="mamba").changed(width=128)
longer: MQAR = MQAR(length=64, pairs=4).changed(length=128)
"""
RUN = """
run = RunSpec(task=MQAR(length=64, pairs=4), model=ModelSpec(mixer=MyMixer), train=TrainSpec(lr=1e-3, steps=100))
rate: float = run.train.lr
"""
WRONG = """
ModelSpec(mixer=3)
ModelSpec(width="wide")
ModelSpec(widht=64)
MQAR(pairs="four")
BlockSpec()
"""


def marked(folder: Path, source: str) -> list[int]:
    """The lines that pyright marks as errors."""
    pytest.importorskip("pyright", reason="needs the extra: pip install 'recollect[dev]'")
    config = {"typeCheckingMode": "basic", "extraPaths": [str(Path(recollect.__file__).parents[1])]}
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    (folder / "script.py").write_text(source)
    words = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return sorted(one["range"]["start"]["line"] for one in found if one["severity"] == "error")


def test_a_users_script_is_clean_and_its_mistakes_are_marked(tmp_path):
    first = SCRIPT.count("\n") + 1
    assert marked(tmp_path, SCRIPT + WRONG) == [first + line for line in range(5)]


def test_a_run_by_keywords_is_clean(tmp_path):
    assert marked(tmp_path, SCRIPT + RUN) == []
