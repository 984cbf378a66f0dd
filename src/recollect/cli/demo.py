"""`recollect demo`: a small learning-rate sweep, chosen so that it ends in minutes on two cores."""

from typing import TYPE_CHECKING, Annotated

from typer import Option

from recollect.cli.app import app, console
from recollect.cli.options import Training, print_failed, print_outcome, show_windows, trains

if TYPE_CHECKING:
    from recollect.study.spec import Study

INTRODUCTION = """
Multi-query associative recall: 4 key-value pairs, then each key is asked for its value among random tokens.
Three 1-layer models learn it at eight learning rates and two seeds each: which rates work, and for how many?
"""
QUICK = """
Twelve short runs of multi-query associative recall, too few and too short to learn it: they show that everything works here.
"""
TITLE = "MQAR (32, 4), 1 layer, width 32"
NEXT = """
What this scale shows: with a short convolution on its keys one layer of attention recalls over more than a decade of
learning rates, DeltaNet over less, and Mamba2 hardly at any within these 400 steps. What it cannot show: how wide the
windows are at the papers' scale (vocabulary 8,192, 50 epochs over 100,000 rows), or which model is best when each is tuned.

Next:
  recollect results demo --store {store}          the numbers behind the picture
  recollect show task mqar                        an example of the task
  recollect show model mamba2 width=32 layers=1   what a model is made of
  recollect report demo --store {store} --to demo.html   all of it as one page
  recollect run STUDY.yaml                        a sweep of your own (see examples/windows.yaml)
  recollect probe FILE.py:NAME                    a mixer of your own beside these
"""
MIXERS = [{"kind": "attention", "conv": "k"}, "deltanet", {"kind": "mamba2", "state": 16}]


@app.command()
@trains
def demo(
    training: Training,
    quick: Annotated[bool, Option("--quick", help="Four rates, one seed and 60 steps, in under a minute.")] = False,
) -> None:
    """A learning-rate sweep of three mixers in a few minutes, and the picture of their windows."""
    from recollect.study.run import run

    console.print(QUICK if quick else INTRODUCTION)
    outcome = run(demo_study(quick), **training)
    print_outcome(outcome)
    show_windows(outcome, outcome.windows(), TITLE)
    if not quick:
        console.print(NEXT.format(store=training["store"]))
    print_failed(outcome)


def demo_study(quick: bool = False) -> "Study":
    """48 runs: three mixers, eight rates, two seeds; or `quick`, 12 short ones that show only that everything works."""
    from recollect.study.spec import Study

    study = Study(
        name="demo",
        task={"kind": "mqar", "length": 32, "pairs": 4, "vocab": 64},
        model={"mixer": MIXERS, "width": 32, "layers": 1, "tie": False},
        train={
            "lr": "logspace(3e-4, 3e-2, 8)", "seed": [1, 2], "steps": 400, "batch": 64, "eval_every": 50,
            "eval_rows": 128, "test_rows": 512, "stop_at": 0.99,
        },
    )  # fmt: skip
    short = {"lr": "logspace(1e-3, 3e-2, 4)", "seed": 1, "steps": 60, "eval_every": 30}
    return study.changed(name="quick", train=study.train | short) if quick else study
