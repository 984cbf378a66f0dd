"""Running studies: demo, run, plan, merge, status, results."""

from pathlib import Path
from typing import Annotated, Any

import typer

from recollect.cli.app import (
    DEFAULT_STORE,
    CohortOption,
    DeviceOption,
    StoreOption,
    YesOption,
    app,
    console,
    problems,
)
from recollect.spec import SpecError


@app.command()
def demo(store: StoreOption = DEFAULT_STORE, device: DeviceOption = "auto", cohort: CohortOption = 0) -> None:
    """A learning-rate sweep of three mixers in a few minutes, and the picture of their windows."""
    from recollect.cli import demo as example
    from recollect.study.executors import open_executor

    study = example.study()
    console.print(example.INTRODUCTION)
    with open_executor(device=device, workers=workers_for(study, device, cohort)) as place:
        frame = train_study(study, store, place, cohort)
    show_windows(study.name, frame, store, example.TITLE)
    console.print(example.NEXT.format(store=store))


@app.command()
def run(
    study_file: Annotated[Path, typer.Argument(metavar="STUDY.yaml")],
    store: StoreOption = DEFAULT_STORE,
    device: DeviceOption = "auto",
    cohort: CohortOption = 0,
    executor: Annotated[str, typer.Option(help="local, or ray: a Ray cluster.")] = "local",
    address: Annotated[
        str,
        typer.Option(
            envvar="RAY_ADDRESS", help="The Ray cluster's head, as host:port; auto: the one running on this machine."
        ),
    ] = "auto",
    workers: Annotated[
        int,
        typer.Option(min=0, help="Local worker processes; several may share a GPU. 0: one a GPU, or one a processor."),
    ] = 0,
    attempts: Annotated[
        int, typer.Option(min=1, help="How often a run that fails alone, or a cohort whose worker dies, is tried.")
    ] = 2,
    checkpoint_every: Annotated[
        float, typer.Option(min=0, help="Seconds of training between snapshots of a cohort.")
    ] = 60.0,
    keep_weights: Annotated[
        bool, typer.Option("--keep-weights", help="Also keep the trained models, in a folder beside the store.")
    ] = False,
    yes: YesOption = False,
    to_tensorboard: Annotated[Path | None, typer.Option(metavar="DIR", help="Curves also to TensorBoard.")] = None,
    to_wandb: Annotated[str | None, typer.Option(metavar="PROJECT", help="Curves also to Weights & Biases.")] = None,
) -> None:
    """Train every run of a study that the store does not have yet; after an interruption, the same command goes on."""
    from recollect.study.executors import open_executor
    from recollect.study.sinks import open_sinks
    from recollect.study.spec import Study

    study = Study.load(study_file)
    study.check_size(allow_many=yes)
    with (
        open_sinks(study.name, to_tensorboard, to_wandb) as sinks,
        open_executor(
            executor, device, workers or workers_for(study, device, cohort), address, checkpoint_every, keep_weights
        ) as place,
    ):
        frame = train_study(study, store, place, cohort, sinks, attempts)
    if len(set(frame["train.lr"])) > 1:
        show_windows(study.name, frame, store, study.name)
    console.print(f"The numbers: recollect results {study.name} --store {store}")


@app.command()
def plan(
    study_file: Annotated[Path, typer.Argument(metavar="STUDY.yaml")],
    store: StoreOption = DEFAULT_STORE,
    device: DeviceOption = "auto",
    cohort: CohortOption = 0,
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Time a few real steps of each shape here.")] = False,
    dollars_per_hour: Annotated[float, typer.Option(min=0, help="What an hour of the device costs.")] = 0.0,
    yes: YesOption = False,
) -> None:
    """What a study will cost before anything starts: runs, cohorts, tokens, operations, time, dollars."""
    from recollect.cli.tables import plan_table
    from recollect.store.store import Store
    from recollect.study.plan import make_plan
    from recollect.study.run import default_cohort
    from recollect.study.spec import Study
    from recollect.train.device import choose_device

    study = Study.load(study_file)
    study.check_size(allow_many=yes)
    if calibrate or not device.startswith(("cpu", "cuda")):  # a plan may be for a device of another machine
        device = choose_device(device)
    known = Store(store) if store.exists() else None
    made = make_plan(study, known, device, cohort or default_cohort(device), calibrate)
    console.print(plan_table(study.name, made, device, dollars_per_hour))
    for note in [*made.warnings, *([] if dollars_per_hour else ["--dollars-per-hour gives the cost"])]:
        console.print(f"note: {note}", markup=False)


@app.command()
def merge(
    others: Annotated[list[Path], typer.Argument(metavar="OTHER.sqlite...", help="The stores to bring in.")],
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Bring the results of other stores into one; a run that both have is kept once."""
    from recollect.cli.tables import number
    from recollect.store.merge import merge as bring
    from recollect.store.store import Store

    merged = bring(Store(store, create=True), others)
    console.print(f"{merged.added} runs added to {store}, {merged.same} were there with the same result")
    if merged.weights:
        console.print(f"weights of {merged.weights} runs came along")
    if merged.studies:
        console.print(f"studies: {', '.join(merged.studies)}")
    if merged.differing:
        console.print(f"{len(merged.differing)} were there with another result, which was kept:")
        for id, (mine, theirs) in list(merged.differing.items())[:20]:
            console.print(f"  {id}: accuracy {number(mine)} here, {number(theirs)} left out")


@app.command()
def status(store: StoreOption = DEFAULT_STORE) -> None:
    """Which studies the store knows, and how far each has come."""
    from recollect.cli.tables import status_table
    from recollect.store.store import Store

    console.print(status_table(Store(store)))


@app.command()
def results(
    study: Annotated[str | None, typer.Argument(help="A study's name; left out: every run in the store.")] = None,
    store: StoreOption = DEFAULT_STORE,
    to: Annotated[Path | None, typer.Option(help="Write a .csv, .parquet or .json file with every column.")] = None,
    what: Annotated[
        str, typer.Option(help="runs, curves (one row a measurement) or slices (accuracy by tag).")
    ] = "runs",
) -> None:
    """The results as a table, or as CSV, Parquet or JSON."""
    from recollect.cli.tables import results_table
    from recollect.spec import nearest
    from recollect.store import frames
    from recollect.store.store import Store

    makers = {"runs": frames.runs_frame, "curves": frames.curves_frame, "slices": frames.slices_frame}
    if what not in makers:
        raise SpecError(f"--what {what!r}: {nearest(what, makers)}")
    frame = makers[what](Store(store), study)
    if to is not None:
        frames.write(frame, to)
        console.print(f"{len(frame)} rows written to {to}")
        return
    console.print(results_table(frame))


def train_study(study: Any, store_path: Path, place: Any, cohort: int, sinks: Any = None, attempts: int = 2):
    """Run a study with progress; its results, or an exit that says how many runs failed."""
    from recollect.cli.tables import search_table
    from recollect.store.frames import runs_frame
    from recollect.store.store import Store
    from recollect.study.search.rounds import configurations, search_windows

    store = Store(store_path, create=True)

    def train(chosen: Any) -> dict[str, str]:
        return train_runs([chosen], store, place, cohort, sinks, attempts)

    if study.search:
        asked = len(configurations(study))
        console.print(f"study {study.name}: {asked} windows to find, on {place.device}, results in {store_path}")
        searched = search_windows(study, store, train)
        runs, failed = len(searched.asked), searched.failed
        console.print(search_table(searched))
    else:
        runs, failed = len(study.runs()), train(study)
    if failed:
        tell_failures(failed, runs)
        raise typer.Exit(1)
    return runs_frame(store, study.name)


def tell_failures(failed: dict[str, str], runs: int) -> None:
    """Say which runs failed, and why."""
    problems.print(f"{len(failed)} of {runs} runs failed; tracebacks are in the store's table `failures`:")
    for id, error in failed.items():
        problems.print(f"  {id}: {error}", markup=False)


def train_runs(
    studies: list[Any], store: Any, place: Any, cohort: int, sinks: Any = None, attempts: int = 2
) -> dict[str, str]:
    """Train what is left of some studies, with progress; which runs failed, and why."""
    from recollect.study.progress import StudyProgress
    from recollect.study.run import distinct, run_study

    done = set(store.done())
    for study in studies:
        asked = study.runs()
        reused = sum(run.id in done for run in asked)
        known = f", {reused} of them done already" if reused else ""
        console.print(f"study {study.name}: {len(asked)} runs{known}, on {place.device}, results in {store.path}")
    runs = distinct(studies)
    with StudyProgress(runs, done, console) as progress:

        def watch(members: Any, event: Any) -> None:
            progress.watch(members, event)
            if sinks:
                sinks.event(members, event)

        outcome = run_study(studies, store, cohort=cohort, watch=watch, executor=place, attempts=attempts)
    if outcome.ended:
        console.print("trained: " + ", ".join(f"{n} {status}" for status, n in sorted(outcome.ended.items())))
    return outcome.failed


def workers_for(study: Any, device: str, cohort: int) -> int:
    """On a CPU a process for each processor, as far as there are cohorts: faster there than one with many threads."""
    from recollect.study.run import default_cohort, pack
    from recollect.train.device import choose_device, cores

    if choose_device(device) != "cpu":
        return 0
    return min(cores(), len(pack(study.runs(), cohort or default_cohort("cpu"))))


def show_windows(name: str, frame: Any, store: Path, title: str) -> None:
    """Draw the learning-rate windows beside the store, and print them."""
    from recollect.cli.tables import windows_table
    from recollect.figures.style import save
    from recollect.figures.window import window_caption, window_figure

    paths = save(window_figure(frame, title, window_caption(frame)), store.parent / name / "window")
    console.print(windows_table(frame))
    console.print(f"\nThe picture: {paths[0]}  (and {paths[1].name})")
