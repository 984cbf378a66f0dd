"""Options and arguments that several commands share, and how the shell completes them."""

import inspect
import re
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer import Option

from recollect.cli.app import console, problems
from recollect.mixers import MIXERS
from recollect.papers import PAPERS
from recollect.spec import SpecError
from recollect.spec.reading import read_yaml
from recollect.store import DEFAULT_STORE
from recollect.study.executors import EXECUTORS
from recollect.tasks import TASKS

if TYPE_CHECKING:
    import pandas as pd

    from recollect.study.outcome import Outcome

__all__ = ["DEFAULT_STORE"]
BEST = 3
"""Configurations whose best learning rates the end of a run names."""
IDS = 6
"""Runs that are named where several had the same error."""


def completes(names: Iterable[str]) -> Callable[[str], list[str]]:
    """A completion that offers the names which begin as the word does."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


complete_mixer, complete_task, complete_paper = completes(MIXERS), completes(TASKS), completes(PAPERS)

StoreOption = Annotated[Path, Option("--store", envvar="RECOLLECT_STORE", help="The results file.")]
DeviceOption = Annotated[
    str, Option(help="cpu, cuda, cuda:1, mps (Apple, float32 only), or auto: cuda where there is one.")
]
CohortOption = Annotated[int, Option(min=0, help="Runs trained together at most. 0: chosen for the device.")]
WhereOption = Annotated[
    list[str] | None,
    Option(metavar="CONDITION", help="Only runs such as 'accuracy > 0.9' or 'mixer = mamba2'. Again for more."),
]
TrustOption = Annotated[
    bool,
    Option("--trust", help="Import code that the file names and that is not part of recollect: it can do anything."),
]
YesOption = Annotated[bool, Option("--yes", help="Also expand a grid of more than a million runs.")]
ToFileOption = Annotated[Path | None, Option(help="Write the table to this .csv, .parquet or .json file too.")]
SCALES = ("tiny", "small", "medium", "paper")
Training = dict[str, Any]
"""Keyword arguments of `recollect.run`."""


def trains(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of training, which reach it as its argument `training`."""
    shared = inspect.signature(_training).parameters
    own = [each for each in inspect.signature(command).parameters.values() if each.name != "training"]

    @wraps(command)
    def with_training(**given: Any) -> None:
        training = _training(**{name: given.pop(name) for name in shared})
        command(**given, training=training)

    with_training.__signature__ = inspect.Signature([*own, *shared.values()])  # pyright: ignore[reportAttributeAccessIssue]
    return with_training


def _training(
    store: StoreOption = DEFAULT_STORE,
    device: DeviceOption = "auto",
    executor: Annotated[
        str, Option(help="local, ray: a Ray cluster, slurm, or one of your own.", autocompletion=completes(EXECUTORS))
    ] = "local",
    address: Annotated[
        str,
        Option(
            envvar="RAY_ADDRESS", help="The Ray cluster's head, as host:port; auto: the one running on this machine."
        ),
    ] = "auto",
    workers: Annotated[
        int,
        Option(
            min=0,
            help="Cohorts trained at once; several may share a GPU. 0: as many as fill the GPU, or one per processor.",
        ),
    ] = 0,
    cohort: CohortOption = 0,
    stop_after: Annotated[
        str,
        Option(
            metavar="TIME",
            help="Stop after 90s, 25m or 1h30m, with a snapshot and exit code 75; the same command continues. Left out: never.",
        ),
    ] = "",
    retry: Annotated[bool, Option("--retry", help="Also try the runs again that failed before.")] = False,
) -> Training:
    from recollect.study.progress import Progress

    return {
        "store": store, "device": device, "executor": executor, "options": {"address": address}, "workers": workers,
        "cohort": cohort, "stop_after": duration(stop_after), "retry": retry, "progress": Progress(console),
    }  # fmt: skip


def duration(text: str, option: str = "--stop-after") -> float:
    """The seconds of `90s`, `25m` or `1h30m`; 0 where nothing is given."""
    match = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?", text)
    if match is None or (text and not any(match.groups())):
        raise SpecError(f"{option} {text!r}: write a time such as 90s, 25m or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return 3600.0 * hours + 60 * minutes + seconds


def named(options: list[str] | None) -> dict[str, Any]:
    """`name=value` words as a mapping, values read as YAML."""
    given = {}
    for option in options or []:
        name, sign, value = option.partition("=")
        if not sign:
            raise SpecError(f"expected name=value, got {option!r}")
        given[name] = read_yaml(value)
    return given


def print_outcome(outcome: "Outcome", out: Console = console) -> None:
    """Print how the runs ended, and the results of the searches."""
    from recollect.cli.tables import search_table

    print_trained(outcome, out)
    for searched in outcome.searches.values():
        out.print(search_table(searched))


def print_trained(outcome: "Outcome", out: Console = console) -> None:
    """Print how the runs that were trained now ended."""
    if outcome.ended:
        out.print("trained: " + ", ".join(f"{n} {status}" for status, n in sorted(outcome.ended.items())))


def print_failed(outcome: "Outcome") -> None:
    """Print which runs failed, and why; a command with failed runs ends with exit code 1."""
    if not outcome.failed:
        return
    problems.print(f"{len(outcome.failed)} of {outcome.runs} runs failed:")
    errors: dict[str, list[str]] = {}
    for id, error in outcome.failed.items():
        errors.setdefault(error, []).append(id)
    for error, ids in errors.items():
        problems.print(f"  {error}\n    {some(ids)}", soft_wrap=True)
    if outcome.left:
        problems.print(f"{len(outcome.left)} of them failed before and were not tried now.")
    problems.print(
        f"recollect failures --traceback --store {outcome.store.path} prints the tracebacks; the same command with --retry tries "
        "them again.",
        soft_wrap=True,
    )
    raise typer.Exit(1)


def some(ids: list[str]) -> str:
    """How many runs these are, and the first of their ids."""
    more = f" and {len(ids) - IDS} more" if len(ids) > IDS else ""
    return f"{len(ids)} run{'s' if len(ids) > 1 else ''}: {', '.join(ids[:IDS])}{more}"


def print_best(windows: "pd.DataFrame") -> None:
    """Print the best learning rate of each configuration, the best one first."""
    found = windows.sort_values(by="best", ascending=False, kind="stable").to_dict("records")
    found = [row for row in found if row["diverged"] < 1]
    if not found:
        console.print("No learning rate is best: every run diverged.")
        return
    best = [f"{row['configuration']}: {row['best_lr']:.2g} (accuracy {row['best']:.3f})" for row in found[:BEST]]
    more = f"; and {len(found) - BEST} more" if len(found) > BEST else ""
    console.print(f"Best learning rate of {'; '.join(best)}{more}", soft_wrap=True)


def write_too(frame: "pd.DataFrame", to: Path | None) -> None:
    """Write a table that was printed to a file, where one is named."""
    from recollect.store.frames import write

    if to is not None:
        write(frame, to)
        console.print(f"{len(frame)} rows written to {to}")


def show_windows(outcome: "Outcome", windows: "pd.DataFrame", title: str) -> None:
    """Draw an outcome beside the store, and print its learning-rate windows."""
    from recollect.cli.tables import windows_table
    from recollect.figures.style import save

    paths = save(outcome.picture(title), outcome.store.path.parent / outcome.names[0] / "window")
    console.print(windows_table(windows, outcome.threshold))
    console.print(f"\nThe picture: {paths[0]}  (and {paths[1].name})")
