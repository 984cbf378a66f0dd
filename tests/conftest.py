"""What tests of several packages share: commands in this process, a sound store, stores with made-up results, which are
written in a moment, however many runs they have, and a browser."""

import math
import shutil
import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from recollect import Study
from recollect.store.store import Store
from recollect.train.events import Ended

RECORDED = Path(__file__).parent / "recorded" / "store-2.sqlite"
"""A sound store with the study `old` and eight runs."""


class Result(NamedTuple):
    """The result of a command."""

    code: int
    out: str
    err: str

    def refuses(self, *words: str) -> bool:
        """Whether it is exit code 2 and one line with these words."""
        return self.code == 2 and len(self.err.strip().splitlines()) == 1 and all(word in self.err for word in words)


@pytest.fixture
def sound(tmp_path) -> Path:
    """A sound store that a test may damage."""
    return Path(shutil.copy(RECORDED, tmp_path / "store.sqlite"))


@pytest.fixture
def cli(monkeypatch, capsys) -> Callable[..., Result]:
    """Runs a command in this process, which saves the seconds that a new one needs for its imports."""
    from recollect.cli.app import main

    def run(*words: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["recollect", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        return Result(int(end.value.code or 0), out, err)

    return run


def made_results(runs, points: int = 6, tags: bool = True) -> list[Ended]:
    """Results that look like training: accuracy rises to a height that depends on learning rate, width and seed."""
    found = []
    for run in runs:
        off = abs(math.log10(run.train.lr) + 2 + 0.3 * math.log2(run.model.width / 32))
        height = max(0.05, min(1.0, 1.25 - 0.5 * off - 0.03 * (run.train.seed % 4) - 0.1 * (len(run.model.title) % 3)))
        steps = [round(run.train.steps * (k + 1) / points) for k in range(points)]
        curve = [
            {"step": s, "examples": s * run.train.batch, "accuracy": height * (1 - math.exp(-3 * s / run.train.steps)),
             "train_loss": 3.0 * math.exp(-s / run.train.steps), "test_loss": 3.1 * math.exp(-height * s / run.train.steps)}
            for s in steps
        ]  # fmt: skip
        slices = [{"step": s, "tag": "gap", "values": [1, 2, 4, 8], "counts": [10, 10, 10, 10],
                   "right": [round(10 * height * s / run.train.steps / k) for k in (1, 1.2, 1.5, 2)]} for s in steps]  # fmt: skip
        final = {"accuracy": curve[-1]["accuracy"], "loss": curve[-1]["test_loss"], "valid": height}
        found.append(Ended(run, "finished", run.train.steps, final, curve, slices if tags else [], 1.5, 1000 * run.model.width,
                           state_size=run.model.width * 4))  # fmt: skip
    return found


def made_study(
    name: str = "made",
    mixers=("attention", "mamba2"),
    widths=(16, 32, 64),
    rates=(1e-3, 1e-2, 1e-1),
    seeds=(1, 2),
    **train,
):
    """A study whose runs nobody trains."""
    return Study(
        name=name, task={"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32},
        model={"mixer": list(mixers), "width": list(widths), "layers": 1},
        train={"lr": list(rates), "seed": list(seeds), "steps": 120, "batch": 8, **train},
    )  # fmt: skip


@pytest.fixture(scope="session")
def made():
    """A function that writes a store with made-up results of some studies, and returns it."""

    def make(path, *studies: Study, points: int = 6, tags: bool = True) -> Store:
        store = Store(path, create=True)
        with store.writing() as writer:
            for study in studies:
                writer.add_study(study.name, study.to_yaml(), study.runs())
                done = store.done()
                writer.add_results(
                    made_results([run for run in study.runs() if run.id not in done], points, tags), "cpu"
                )
        return store

    make.study, make.results = made_study, made_results
    return make


NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]  # parallel coordinates need WebGL


@pytest.fixture(scope="session")
def browser():
    """A function that opens a page of a width, light or dark; `page.messages` and `page.requested` are lists."""
    playwright = pytest.importorskip("playwright.sync_api")
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"no browser to open the page in: none of {', '.join(NAMES)} is installed")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=program, args=FLAGS)

        @contextmanager
        def open_page(width: int = 1400, dark: bool = False):
            size = {"width": width, "height": 900 if width > 800 else 844}
            context = chromium.new_context(
                viewport=size, color_scheme="dark" if dark else "light", accept_downloads=True
            )
            context.grant_permissions(["clipboard-read", "clipboard-write"])
            page = context.new_page()
            page.messages, page.requested = [], []
            page.on("console", lambda message: page.messages.append(message.text))
            page.on("pageerror", lambda error: page.messages.append(str(error)))
            page.on("request", lambda request: page.requested.append(request.url))
            yield page
            context.close()

        yield open_page
        chromium.close()
