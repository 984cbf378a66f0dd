"""Options and arguments that several commands share, and how the shell completes them."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from recollect.cli.app import console, problems
from recollect.mixers import MIXERS
from recollect.papers import PAPERS
from recollect.spec import SpecError
from recollect.spec.reading import read_yaml
from recollect.store import DEFAULT_STORE
from recollect.study.executors import EXECUTORS
from recollect.tasks import TASKS

if TYPE_CHECKING:
    from recollect.study.outcome import Outcome

__all__ = ["DEFAULT_STORE"]
BEST = 3
"""Configurations whose best learning rates the end of a run names."""


def completes(names: Iterable[str]) -> Callable[[str], list[str]]:
    """A completion that offers the names which begin as the word does."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


complete_mixer, complete_task, complete_paper = completes(MIXERS), completes(TASKS), completes(PAPERS)

StoreOption = Annotated[Path, typer.Option("--store", envvar="RECOLLECT_STORE", help="The results file.")]
DeviceOption = Annotated[
    str, typer.Option(help="cpu, cuda, cuda:1, mps (Apple, float32 only), or auto: cuda where there is one.")
]
CohortOption = Annotated[int, typer.Option(min=0, help="Runs trained together at most. 0: chosen for the device.")]
ExecutorOption = Annotated[
    str, typer.Option(help="local, ray: a Ray cluster, slurm, or one of your own.", autocompletion=completes(EXECUTORS))
]
WorkersOption = Annotated[
    int,
    typer.Option(
        min=0,
        help="Cohorts trained at once; several may share a GPU. 0: as many as fill the GPU, or one per processor.",
    ),
]
StopAfterOption = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="Stop after 90s, 25m or 1h30m, with a snapshot and exit code 75; the same command continues. Left out: never.",
    ),
]
TimeoutOption = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="Kill a cohort that takes longer than 90s, 25m or 1h30m, and report its runs as failed. Left out: never.",
    ),
]
RetryOption = Annotated[bool, typer.Option("--retry", help="Also try the runs again that failed before.")]
AddressOption = Annotated[
    str,
    typer.Option(
        envvar="RAY_ADDRESS", help="The Ray cluster's head, as host:port; auto: the one running on this machine."
    ),
]
WhereOption = Annotated[
    list[str] | None,
    typer.Option(metavar="CONDITION", help="Only runs such as 'accuracy > 0.9' or 'mixer = mamba2'. Again for more."),
]
PartitionOption = Annotated[str, typer.Option(help="Slurm: the partition that jobs are submitted to.")]
GpusOption = Annotated[int, typer.Option(min=0, help="Slurm: GPUs per job. 0: one with --device cuda, else none.")]
TimeOption = Annotated[
    str,
    typer.Option(
        "--time", metavar="TIME", help="Slurm: the time limit of a job, such as 4h; then it is requeued. Left out: 1h."
    ),
]
SlurmOption = Annotated[
    list[str] | None,
    typer.Option(
        "--slurm", metavar="NAME=VALUE", help="Slurm: a further parameter of sbatch, such as account=me. Repeat."
    ),
]
TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust", help="Import code that the file names and that is not part of recollect: it can do anything."
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Also expand a grid of more than a million runs.")]
ScaleOption = Annotated[
    str,
    typer.Option(
        help="tiny: minutes per item on two cores, about an hour per paper; small: an hour of one GPU per paper; medium: one "
        "or two hours of an H200; paper: the protocol as printed. Left out: tiny, or all of --from-runs.",
        autocompletion=completes(("tiny", "small", "medium", "paper")),
    ),
]


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


def tell_trained(outcome: "Outcome", out: Console = console) -> None:
    """Print how the runs that were trained now ended."""
    if outcome.ended:
        out.print("trained: " + ", ".join(f"{n} {status}" for status, n in sorted(outcome.ended.items())))


def tell_failed(outcome: "Outcome") -> None:
    """Print which runs failed, and why; a command with failed runs ends with exit code 1."""
    if not outcome.failed:
        return
    problems.print(f"{len(outcome.failed)} of {outcome.runs} runs failed:")
    for id in [id for id in outcome.failed if id not in outcome.left]:
        problems.print(f"  {id}: {outcome.failed[id]}")
    if outcome.left:
        problems.print(f"{len(outcome.left)} of them failed before and were not tried now.")
    problems.print(
        f"recollect failures --traceback --store {outcome.store.path} prints the tracebacks; the same command with --retry tries "
        "them again.",
        soft_wrap=True,
    )
    raise typer.Exit(1)


def tell_best(outcome: "Outcome") -> None:
    """Print the best learning rate of each configuration, the best one first."""
    frame = outcome.results("all")
    if frame.empty:
        return
    found = outcome.windows().sort_values(by="best", ascending=False, kind="stable").to_dict("records")
    best = [f"{row['configuration']}: {row['best_lr']:.2g} (accuracy {row['best']:.3f})" for row in found[:BEST]]
    more = f"; and {len(found) - BEST} more configurations" if len(found) > BEST else ""
    console.print(f"Best learning rate of {'; '.join(best)}{more}", soft_wrap=True)


def show_windows(outcome: "Outcome", title: str) -> None:
    """Draw the learning-rate windows beside the store, and print them."""
    from recollect.cli.tables import windows_table
    from recollect.figures.style import save

    paths = save(outcome.picture(title), outcome.store.path.parent / outcome.names[0] / "window")
    console.print(windows_table(outcome.windows(), outcome.threshold))
    console.print(f"\nThe picture: {paths[0]}  (and {paths[1].name})")
