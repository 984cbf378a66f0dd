"""The command line: parses, calls, prints. Exit codes: 0 done, 1 some runs failed, 2 bad input, 3 store in use, 130 stopped."""

import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from pydantic import ValidationError
from rich.console import Console

import recollect
from recollect.spec import SpecError, explain

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
show_app = typer.Typer(no_args_is_help=True, help="Look at a task or a model before training.")
app.add_typer(show_app, name="show")
console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)  # a file has room
problems = Console(stderr=True, highlight=False)

StoreOption = Annotated[Path, typer.Option("--store", envvar="RECOLLECT_STORE", help="The results file.")]
DeviceOption = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, or auto: a GPU where there is one.")]
CohortOption = Annotated[int, typer.Option(min=0, help="Runs trained together at most. 0: chosen for the device.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Also unfold a grid of more than a million runs.")]
DEFAULT_STORE = Path("results/store.sqlite")


def main() -> None:
    """The entry point: turns what a user can mend into one line and an exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever asks it to end is answered as Ctrl-C is
    try:
        from recollect.study.store import StoreBusy, StoreError

        code = app(standalone_mode=False)
        if code == 130:  # what typer makes of Ctrl-C
            raise KeyboardInterrupt
        sys.exit(code)
    except (KeyboardInterrupt, typer.Abort):
        problems.print("stopped; what has ended is kept, and the same command goes on from here")
        sys.exit(130)
    except (SpecError, StoreError) as error:
        problems.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        sys.exit(3 if isinstance(error, StoreBusy) else 2)
    except ValidationError as error:
        problems.print(f"error: {explain(error)}", style="red", markup=False, soft_wrap=True)
        sys.exit(2)
    except Exception as error:
        if hasattr(error, "format_message"):  # click's own: an unknown option, a missing argument
            problems.print(f"error: {error.format_message()}", style="red", markup=False, soft_wrap=True)  # pyright: ignore
            sys.exit(2)
        raise


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """How well, how fast and how reliably does a sequence model learn to recall from its context?"""
    if version:
        console.print(f"recollect {recollect.__version__}")
        raise typer.Exit


@app.command()
def demo(store: StoreOption = DEFAULT_STORE, device: DeviceOption = "auto", cohort: CohortOption = 0) -> None:
    """A learning-rate sweep of three mixers in a few minutes, and the picture of their windows."""
    from recollect import demo as example
    from recollect.study.executors import open_executor

    study = example.study()
    console.print(example.INTRODUCTION)
    with open_executor(device=device, workers=_workers(study, device, cohort)) as place:
        frame = _train(study, store, place, cohort)
    _show_windows(study.name, frame, store, example.TITLE)
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
        typer.Option(min=0, help="Local worker processes. 0: one a GPU, or one a processor."),
    ] = 0,
    attempts: Annotated[
        int, typer.Option(min=1, help="How often a run that fails alone, or a cohort whose worker dies, is tried.")
    ] = 2,
    checkpoint_every: Annotated[
        float, typer.Option(min=0, help="Seconds of training between snapshots of a cohort.")
    ] = 60.0,
    yes: YesOption = False,
    to_tensorboard: Annotated[Path | None, typer.Option(metavar="DIR", help="Curves also to TensorBoard.")] = None,
    to_wandb: Annotated[str | None, typer.Option(metavar="PROJECT", help="Curves also to Weights & Biases.")] = None,
) -> None:
    """Train every run of a study that the store does not have yet; after an interruption, the same command goes on."""
    from recollect.study.executors import open_executor
    from recollect.study.sinks import open_sinks
    from recollect.study.study import Study

    study = Study.load(study_file)
    study.check_size(allow_many=yes)
    with (
        open_sinks(study.name, to_tensorboard, to_wandb) as sinks,
        open_executor(executor, device, workers or _workers(study, device, cohort), address, checkpoint_every) as place,
    ):
        frame = _train(study, store, place, cohort, sinks, attempts)
    if len(set(frame["train.lr"])) > 1:
        _show_windows(study.name, frame, store, study.name)
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
    """What a study will cost before anything starts: runs, cohorts, tokens, operations, hours, dollars."""
    from recollect.study.plan import make_plan
    from recollect.study.runner import choose_device, default_cohort
    from recollect.study.store import Store
    from recollect.study.study import Study
    from recollect.tables import plan_table

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
    from recollect.study.merge import merge as bring
    from recollect.study.store import Store
    from recollect.tables import number

    merged = bring(Store(store, create=True), others)
    console.print(f"{merged.added} runs added to {store}, {merged.same} were there with the same result")
    if merged.studies:
        console.print(f"studies: {', '.join(merged.studies)}")
    if merged.differing:
        console.print(f"{len(merged.differing)} were there with another result, which was kept:")
        for id, (mine, theirs) in list(merged.differing.items())[:20]:
            console.print(f"  {id}: accuracy {number(mine)} here, {number(theirs)} left out")


@app.command()
def status(store: StoreOption = DEFAULT_STORE) -> None:
    """Which studies the store knows, and how far each has come."""
    from recollect.study.store import Store
    from recollect.tables import status_table

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
    from recollect.spec import nearest
    from recollect.study import results as frames
    from recollect.study.store import Store
    from recollect.tables import results_table

    makers = {"runs": frames.runs_frame, "curves": frames.curves_frame, "slices": frames.slices_frame}
    if what not in makers:
        raise SpecError(f"--what {what!r}: {nearest(what, makers)}")
    frame = makers[what](Store(store), study)
    if to is not None:
        frames.write(frame, to)
        console.print(f"{len(frame)} rows written to {to}")
        return
    console.print(results_table(frame))


@show_app.command("task")
def show_task(
    kind: Annotated[str, typer.Argument(help="A task: mqar, ar, copy, ngram, ... or module:Name of your own.")],
    options: Annotated[list[str] | None, typer.Argument(help="Fields, as name=value.")] = None,
    seed: Annotated[int, typer.Option(help="Which example.")] = 0,
) -> None:
    """One sampled example, with query, answer and loss positions marked."""
    from recollect.tasks import as_task
    from recollect.tasks.show import example

    console.print(example(as_task({"kind": kind, **_fields(options)}), seed))


@show_app.command("model")
def show_model(
    mixer: Annotated[str, typer.Argument(help="A mixer's name, module:Name of your own, a preset, or a study file.")],
    options: Annotated[
        list[str] | None, typer.Argument(help="Fields of the model or options of the mixer, as name=value.")
    ] = None,
    task: Annotated[str, typer.Option(help="The task it is for, as kind or a YAML mapping.")] = "mqar",
) -> None:
    """A block diagram, parameters by part, state size and operations."""
    from recollect.architecture import ModelSpec
    from recollect.diagram import model_card
    from recollect.model import build
    from recollect.presets import with_preset
    from recollect.study.study import Study
    from recollect.tasks import as_task

    if mixer.endswith((".yaml", ".yml")):
        first: dict[str, Any] = {}
        for run in Study.load(mixer).runs():
            first.setdefault(run.model.model_dump_json(), run)
        pairs = [(run.model, run.task) for run in first.values()]
    else:
        given = _fields(options)
        fields = {name: value for name, value in given.items() if name in ModelSpec.model_fields}
        rest = {name: value for name, value in given.items() if name not in fields}
        named = (
            {"preset": mixer} if mixer.startswith(("retrievit-", "okpekpe-")) else {"mixer": {"kind": mixer, **rest}}
        )
        pairs = [(ModelSpec(**with_preset({**named, **fields})), as_task(yaml.safe_load(task)))]
    for spec, asked in pairs:
        console.print(model_card(spec, asked, build(spec, asked.vocabulary, asked.row_length, seed=0)))


def _train(study: Any, store_path: Path, place: Any, cohort: int, sinks: Any = None, attempts: int = 2):
    """Run a study with progress; its results, or an exit that says how many runs failed."""
    from recollect.study.results import runs_frame
    from recollect.study.rounds import configurations, search_windows
    from recollect.study.store import Store
    from recollect.tables import search_table

    store = Store(store_path, create=True)

    def train(chosen: Any) -> dict[str, str]:
        return _train_runs(chosen, store, place, cohort, sinks, attempts)

    if study.search:
        asked = len(configurations(study))
        console.print(f"study {study.name}: {asked} windows to find, on {place.device}, results in {store_path}")
        searched = search_windows(study, store, train)
        runs, failed = len(searched.asked), searched.failed
        console.print(search_table(searched))
    else:
        runs, failed = len(study.runs()), train(study)
    if failed:
        problems.print(f"{len(failed)} of {runs} runs failed; tracebacks are in the store's table `failures`:")
        for id, error in failed.items():
            problems.print(f"  {id}: {error}", markup=False)
        raise typer.Exit(1)
    return runs_frame(store, study.name)


def _train_runs(study: Any, store: Any, place: Any, cohort: int, sinks: Any, attempts: int) -> dict[str, str]:
    """Train what is left of a study; which runs failed, and why."""
    from recollect.progress import StudyProgress
    from recollect.study.runner import run_study

    runs = study.runs()
    done = set(store.done())
    reused = sum(run.id in done for run in runs)
    known = f", {reused} of them done already" if reused else ""
    console.print(f"study {study.name}: {len(runs)} runs{known}, on {place.device}, results in {store.path}")
    with StudyProgress(runs, done, console) as progress:

        def watch(members: Any, event: Any) -> None:
            progress.watch(members, event)
            if sinks:
                sinks.event(members, event)

        outcome = run_study(study, store, cohort=cohort, watch=watch, executor=place, attempts=attempts)
    if outcome.ended:
        console.print("trained: " + ", ".join(f"{n} {status}" for status, n in sorted(outcome.ended.items())))
    return outcome.failed


def _workers(study: Any, device: str, cohort: int) -> int:
    """On a CPU a process for each processor, as far as there are cohorts: faster there than one with many threads."""
    from recollect.study.executors import choose_device, cores
    from recollect.study.runner import default_cohort, pack

    if choose_device(device) != "cpu":
        return 0
    return min(cores(), len(pack(study.runs(), cohort or default_cohort("cpu"))))


def _show_windows(name: str, frame: Any, store: Path, title: str) -> None:
    """Draw the learning-rate windows beside the store, and print them."""
    from recollect.figures.style import save
    from recollect.figures.window import window_caption, window_figure
    from recollect.tables import windows_table

    paths = save(window_figure(frame, title, window_caption(frame)), store.parent / name / "window")
    console.print(windows_table(frame))
    console.print(f"\nThe picture: {paths[0]}  (and {paths[1].name})")


def _fields(options: list[str] | None) -> dict[str, Any]:
    """`name=value` words as a mapping, values read as YAML."""
    fields = {}
    for option in options or []:
        name, sign, value = option.partition("=")
        if not sign:
            raise SpecError(f"expected name=value, got {option!r}")
        fields[name] = yaml.safe_load(value)
    return fields


if __name__ == "__main__":
    main()
