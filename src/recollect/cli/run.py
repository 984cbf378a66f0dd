"""`recollect run`: train a study."""

from pathlib import Path
from typing import Annotated

import typer

from recollect.cli.app import app, console
from recollect.cli.options import (
    DEFAULT_STORE,
    AddressOption,
    CohortOption,
    DeviceOption,
    ExecutorOption,
    GpusOption,
    PartitionOption,
    RetryOption,
    SlurmOption,
    StopAfterOption,
    StoreOption,
    TimeOption,
    TimeoutOption,
    WorkersOption,
    YesOption,
    completes,
    duration,
    named,
    show_windows,
    tell_best,
    tell_failed,
    tell_trained,
)
from recollect.spec import SpecError
from recollect.study.sinks import SINKS

NEXT = """The numbers: recollect results {study} --summary --store {store}
All of it as one page: recollect report {study} --store {store}
The same, live: recollect serve {store}"""


@app.command()
def run(
    study_file: Annotated[Path, typer.Argument(metavar="STUDY.yaml")],
    store: StoreOption = DEFAULT_STORE,
    device: DeviceOption = "auto",
    cohort: CohortOption = 0,
    executor: ExecutorOption = "local",
    address: AddressOption = "auto",
    partition: PartitionOption = "",
    gpus: GpusOption = 0,
    time: TimeOption = "",
    slurm: SlurmOption = None,
    workers: WorkersOption = 0,
    attempts: Annotated[
        int, typer.Option(min=1, help="How often a run that fails alone, or a cohort whose worker dies, is tried.")
    ] = 2,
    checkpoint_every: Annotated[
        float, typer.Option(min=0, help="Seconds of training between snapshots of a cohort.")
    ] = 60.0,
    stop_after: StopAfterOption = "",
    timeout: TimeoutOption = "",
    retry: RetryOption = False,
    keep_weights: Annotated[
        bool, typer.Option("--keep-weights", help="Also keep the trained models, in a folder beside the store.")
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Minutes instead: three rates, one seed, 200 steps; a study of its own, NAME-quick."
        ),
    ] = False,
    yes: YesOption = False,
    to_tensorboard: Annotated[Path | None, typer.Option(metavar="DIR", help="Curves also to TensorBoard.")] = None,
    to_wandb: Annotated[str | None, typer.Option(metavar="PROJECT", help="Curves also to Weights & Biases.")] = None,
    sink: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=TARGET", help="Curves also to this sink. Again for more.", autocompletion=completes(SINKS)
        ),
    ] = None,
) -> None:
    """Train every run of a study that the store does not have yet; after an interruption, the same command continues.

    Ctrl-C, SIGTERM and SIGHUP take a snapshot first. Code compiled for a GPU is kept in $RECOLLECT_CACHE (~/.cache/recollect),
    at most $RECOLLECT_CACHE_GB (20).
    """
    from recollect.cli.tables import search_table
    from recollect.study.progress import Progress
    from recollect.study.quick import quick as quick_form
    from recollect.study.run import run as train
    from recollect.study.sinks.base import open_sink
    from recollect.study.spec import Study

    study = quick_form(Study.load(study_file)) if quick else Study.load(study_file)
    targets = [("tensorboard", str(to_tensorboard))] if to_tensorboard else []
    targets += [("wandb", to_wandb)] if to_wandb else []
    for word in sink or []:
        kind, sign, target = word.partition("=")
        if not sign:
            raise SpecError(f"--sink: expected NAME=TARGET, got {word!r}")
        targets.append((kind, target))
    options = {"address": address, "partition": partition, "gpus": gpus, "time": duration(time, "--time")}
    outcome = train(
        study, store=store, executor=executor, device=device, workers=workers, cohort=cohort, progress=Progress(console),
        sinks=[open_sink(kind, target, study.name) for kind, target in targets], keep_weights=keep_weights,
        checkpoint_every=checkpoint_every, attempts=attempts, timeout=duration(timeout, "--timeout"), retry=retry,
        stop_after=duration(stop_after), options={**options, "parameters": named(slurm)}, allow_many=yes,
    )  # fmt: skip
    tell_trained(outcome)
    for searched in outcome.searches.values():
        console.print(search_table(searched))
    tell_failed(outcome)
    if len(set(outcome.results("all")["train.lr"])) > 1:
        show_windows(outcome, study.name)
    tell_best(outcome)
    console.print(NEXT.format(study=study.name, store=store), soft_wrap=True)
