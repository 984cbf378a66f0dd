"""Stores as they are kept: `recollect rename`, `remove`, `gc` and `merge`."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from recollect.cli.app import app, console
from recollect.cli.options import DEFAULT_STORE, StoreOption
from recollect.spec import SpecError, nearest
from recollect.store.manage import collect, garbage, remove_runs, remove_study, rename_study, runs_only_of
from recollect.store.merge import merge as bring
from recollect.store.store import Store

SureOption = Annotated[bool, Option("--yes", help="Do not ask.")]


@app.command()
def rename(
    old: Annotated[str, Argument(metavar="STUDY", help="A study's name.")],
    new: Annotated[str, Argument(metavar="NAME", help="Its new name.")],
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Give a study of the store another name; nothing is trained again."""
    rename_study(Store(store), old, new)
    console.print(f"study {old} is now called {new}; write `name: {new}` into its file to go on with it")


@app.command()
def remove(
    names: Annotated[list[str], Argument(metavar="STUDY|RUN...", help="Names of studies, or ids of runs.")],
    store: StoreOption = DEFAULT_STORE,
    with_runs: Annotated[
        bool, Option("--with-runs", help="Also remove the results of runs that no other study has.")
    ] = False,
    yes: SureOption = False,
) -> None:
    """Remove studies, whose results stay unless --with-runs is given; or single runs by their id."""
    opened = Store(store)
    known, done = opened.studies(), opened.done()
    studies = [name for name in names if name in known]
    for name in names:
        if name not in known and not opened.find(name):
            raise SpecError(f"no study and no run {name!r} in {store}: {nearest(name, known)}; or the id of a run")
    runs = [opened.lookup(name).id for name in names if name not in known]
    lost = [run for name in studies for run in runs_only_of(opened, name) if run in done] if with_runs else []
    what = [f"study {name}" for name in studies]
    what += [f"the results of {len({*lost, *runs})} runs"] if lost or runs else []
    _ask(f"Remove {' and '.join(what)} from {store}? It cannot be undone.", yes)
    for name in studies:
        remove_study(opened, name, with_runs)
    remove_runs(opened, runs)
    console.print(f"removed {' and '.join(what)}")
    if studies and not with_runs:
        console.print("their results are kept; `recollect gc` removes those of runs that belong to no study")


@app.command()
def gc(store: StoreOption = DEFAULT_STORE, yes: SureOption = False) -> None:
    """Remove what no study needs: results of runs that belong to none, and old checkpoints."""
    opened = Store(store)
    found = garbage(opened)
    if not (found.runs or found.begun or found.checkpoints):
        console.print("nothing to remove: every run belongs to a study, and no checkpoint is left over")
        return
    what = (
        f"{len(found.runs)} results and {len(found.begun)} unfinished runs that belong to no study, and "
        f"{len(found.checkpoints)} checkpoints ({found.bytes / 1e6:.1f} MB)"
    )
    _ask(f"Remove {what} from {store}? It cannot be undone.", yes)
    collect(opened, found)
    console.print(f"removed {what}")


@app.command()
def merge(
    others: Annotated[list[Path], Argument(metavar="OTHER.sqlite...", help="The stores to bring in.")],
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Bring the results of other stores into one; a run that both have is kept once."""
    from recollect.cli.tables import number

    merged = bring(Store(store, create=True), others)
    console.print(f"{merged.added} runs added to {store}, {merged.same} were there with the same result")
    if merged.weights:
        console.print(f"weights of {merged.weights} runs copied")
    if merged.studies:
        console.print(f"studies: {', '.join(merged.studies)}")
    if merged.differing:
        console.print(f"{len(merged.differing)} were there with another result, which was kept:")
        for id, (mine, theirs) in list(merged.differing.items())[:20]:
            console.print(f"  {id}: accuracy {number(mine)} here, {number(theirs)} left out")


def _ask(question: str, yes: bool) -> None:
    """Ask, unless the answer is given; where nobody can answer, refuse."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise SpecError(f"{question} Add --yes to confirm: there is no terminal to ask on")
    if not typer.confirm(question):
        raise SpecError("nothing was removed")
