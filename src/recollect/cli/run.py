"""`recollect run`: train a study."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from recollect.cli.app import app, console
from recollect.cli.options import (
    Training,
    YesOption,
    completes,
    duration,
    named,
    print_best,
    print_failed,
    print_outcome,
    show_windows,
    trains,
)
from recollect.spec import SpecError
from recollect.study.sinks import SINKS

NEXT = """The numbers: recollect results {study} --summary --store {store}
All of it as one page: recollect report {study} --store {store}
The same, live: recollect serve {store}"""


@app.command()
@trains
def run(
    training: Training,
    study_file: Annotated[Path, Argument(metavar="STUDY.yaml")],
    partition: Annotated[str, Option(help="Slurm: the partition that jobs are submitted to.")] = "",
    gpus: Annotated[int, Option(min=0, help="Slurm: GPUs per job. 0: one with --device cuda, else none.")] = 0,
    time: Annotated[
        str,
        Option(metavar="TIME", help="Slurm: the time limit of a job, such as 4h; then it is requeued. Left out: 1h."),
    ] = "",
    slurm: Annotated[
        list[str] | None,
        Option(metavar="NAME=VALUE", help="Slurm: a further parameter of sbatch, such as account=me. Repeat."),
    ] = None,
    attempts: Annotated[
        int, Option(min=1, help="How often a run that fails alone, or a cohort whose worker dies, is tried.")
    ] = 2,
    checkpoint_every: Annotated[float, Option(min=0, help="Seconds of training between snapshots of a cohort.")] = 60.0,
    timeout: Annotated[
        str,
        Option(
            metavar="TIME",
            help="Kill a cohort that takes longer than 90s, 25m or 1h30m, and report its runs as failed. Left out: never.",
        ),
    ] = "",
    keep_weights: Annotated[
        bool, Option("--keep-weights", help="Also keep the trained models, in a folder beside the store.")
    ] = False,
    quick: Annotated[
        bool,
        Option("--quick", help="Minutes instead: three rates, one seed, 200 steps; a study of its own, NAME-quick."),
    ] = False,
    yes: YesOption = False,
    to_tensorboard: Annotated[Path | None, Option(metavar="DIR", help="Curves also to TensorBoard.")] = None,
    to_wandb: Annotated[str | None, Option(metavar="PROJECT", help="Curves also to Weights & Biases.")] = None,
    sink: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=TARGET", help="Curves also to this sink. Again for more.", autocompletion=completes(SINKS)
        ),
    ] = None,
) -> None:
    """Train every run of a study that the store does not have yet; after an interruption, the same command continues.

    Ctrl-C, SIGTERM and SIGHUP take a snapshot first. Code compiled for a GPU is kept in $RECOLLECT_CACHE (~/.cache/recollect),
    at most $RECOLLECT_CACHE_GB (20).
    """
    from recollect.analysis.window import windows
    from recollect.study.quick import quick as quick_form
    from recollect.study.run import run as train
    from recollect.study.spec import Study

    study = quick_form(Study.load(study_file)) if quick else Study.load(study_file)
    targets = [("tensorboard", str(to_tensorboard))] if to_tensorboard else []
    targets += [("wandb", to_wandb)] if to_wandb else []
    for word in sink or []:
        kind, sign, target = word.partition("=")
        if not sign:
            raise SpecError(f"--sink: expected NAME=TARGET, got {word!r}")
        targets.append((kind, target))
    cluster = {"partition": partition, "gpus": gpus, "time": duration(time, "--time"), "parameters": named(slurm)}
    training["options"] |= cluster
    outcome = train(
        study, sinks=[SINKS.find(kind)(target, study.name) for kind, target in targets], keep_weights=keep_weights,
        checkpoint_every=checkpoint_every, attempts=attempts, timeout=duration(timeout, "--timeout"), allow_many=yes, **training,
    )  # fmt: skip
    print_outcome(outcome)
    results = outcome.results("all")
    if not results.empty:
        found = windows(results, threshold=outcome.threshold)
        if len(set(results["train.lr"])) > 1:
            show_windows(outcome, found, study.name)
        print_best(found)
        console.print(NEXT.format(study=study.name, store=training["store"]), soft_wrap=True)
    print_failed(outcome)
