"""What a user's own script may look like: it must be clean for pyright."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from recollect import Batch, Mixer, ModelSpec, Optimiser, RunSpec, Study, Task, TrainSpec, load, probe, reproduce, run
from recollect.rng import Stream
from recollect.tasks import MQAR


class MyMixer(nn.Module):
    def __init__(self, width: int, *, gain: float = 1.0):
        super().__init__()
        self.out = nn.Linear(width, width)
        self.gain = gain

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x.cumsum(1)) * self.gain


class Recurrent(Mixer):
    def forward(self, x: Tensor) -> Tensor:
        return x


class Parrot(Task):
    words: int = 8

    @property
    def vocabulary(self) -> int:
        return self.words

    @property
    def row_length(self) -> int:
        return 2

    def sample(self, stream: Stream) -> Batch:
        word = stream.integers(1, 0, self.words)
        place = torch.ones_like(word)
        return Batch(word.expand(-1, 2), positions=place, answers=word, query=place, source=place)


model = ModelSpec(mixer="mamba", width=64)
models = [ModelSpec(mixer={"kind": "attention", "heads": 4}, layers=1, positions="rotary"), ModelSpec(mixer=MyMixer)]
train = TrainSpec(lr=1e-3, steps=100, weight_decay=0.0, beta2=0.95, schedule="linear", optimiser="adamw")
one = RunSpec(task=MQAR(length=64, pairs=4), model=model, train=train)
study = Study(
    name="mine",
    task=MQAR(length=16, pairs=2, vocab=32),
    model={"mixer": [MyMixer, "attention"], "width": 16},
    train={"steps": 10},
    lr=np.logspace(-3, -1, 3),
    seed=range(2),
    search="window",
)


def main() -> None:
    outcome = study.run(store="s.sqlite", workers=2, progress=False, keep_weights=True)
    print(outcome.results(columns="varying"), outcome.windows(), outcome.curves(), outcome.report("page.html").name)
    outcome.picture().savefig("window.png")
    both = run([study, study.changed(name="other")], store=Path("s.sqlite"), executor="local", device="cpu")
    verdicts = reproduce("okpekpe2025/fig7", scale="tiny").verdicts
    print(
        both.failed,
        verdicts,
        probe(MyMixer, steps=10).sentences,
        load("folder"),
        one.id,
        len(models),
        Optimiser,
        Parrot,
    )
