"""`recollect probe`: a mixer of your own, from file to picture."""

from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.app import app, console
from recollect.cli.options import (
    DEFAULT_STORE,
    AddressOption,
    CohortOption,
    DeviceOption,
    ExecutorOption,
    StopAfterOption,
    StoreOption,
    WorkersOption,
    complete_mixer,
    complete_task,
    duration,
    named,
    tell_failed,
    tell_trained,
)
from recollect.spec.reading import read_yaml

if TYPE_CHECKING:
    from recollect.probing.rules import Checked

SIGNS = {"holds": ("ok", "green"), "note": ("note", "yellow"), "broken": ("BROKEN", "bold red")}


@app.command()
def probe(
    mixer: Annotated[
        str,
        typer.Argument(
            metavar="FILE.py:NAME", help="Your mixer: a file and the class in it.", autocompletion=complete_mixer
        ),
    ],
    options: Annotated[list[str] | None, typer.Argument(help="Options of its constructor, as name=value.")] = None,
    task: Annotated[
        str,
        typer.Option(help="A task's name, FILE.py:NAME of your own, or a YAML mapping.", autocompletion=complete_task),
    ] = "mqar",
    length: Annotated[int | None, typer.Option(min=1, help="Tokens in a row. MQAR: 32.")] = None,
    pairs: Annotated[int | None, typer.Option(min=1, help="Key-value pairs in a row. MQAR: 4.")] = None,
    vocab: Annotated[int | None, typer.Option(min=1, help="Token ids. MQAR: twice the length.")] = None,
    width: Annotated[int, typer.Option(min=1, help="Channels of the model.")] = 32,
    layers: Annotated[list[int] | None, typer.Option(min=1, help="Layers; repeat to try several. Default: 1.")] = None,
    positions: Annotated[
        str, typer.Option(help="Positions for your mixer: none, learned, sinusoidal, or rotary and others it takes.")
    ] = "none",
    steps: Annotated[int, typer.Option(min=1, help="Training steps at most; a run that recalls 99 % ends.")] = 400,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds.")] = 2,
    beside: Annotated[
        list[str] | None, typer.Option("--with", help="Also train this known mixer; a name or a YAML mapping. Repeat.")
    ] = None,
    no_train: Annotated[bool, typer.Option("--no-train", help="Check the rules only.")] = False,
    store: StoreOption = DEFAULT_STORE,
    device: DeviceOption = "auto",
    executor: ExecutorOption = "local",
    address: AddressOption = "auto",
    workers: WorkersOption = 0,
    cohort: CohortOption = 0,
    stop_after: StopAfterOption = "",
) -> None:
    """Is your mixer causal, does it train in a cohort, how does it recall, and how wide is its learning-rate window?"""
    from recollect.cli.tables import comparison_table, search_table
    from recollect.probing.probe import probe as examine
    from recollect.study.progress import Progress

    console.print(f"{mixer}: the rules of a mixer, at width {width}")
    found = examine(
        {"kind": mixer, **named(options)}, task=read_yaml(task), length=length, pairs=pairs, vocab=vocab, width=width,
        layers=layers or [1], positions=positions, steps=steps, seeds=seeds,
        beside=[read_yaml(word) for word in beside or []], train=not no_train, on_rule=_tell, store=store, device=device,
        executor=executor, workers=workers, cohort=cohort, progress=Progress(console), options={"address": address},
        stop_after=duration(stop_after),
    )  # fmt: skip
    if found.fatal:
        console.print(f"\nnot trained: with {' and '.join(found.fatal)} broken, what it learns would mean nothing")
        raise typer.Exit(1)
    if found.outcome:
        tell_trained(found.outcome)
        for searched in found.outcome.searches.values():
            console.print(search_table(searched))
        tell_failed(found.outcome)
        console.print()
        console.print(comparison_table(found.records, f"{found.mixer} beside others: {found.setting}"))
        if "shipped" not in set(found.frame["origin"]):
            console.print(
                "There are no shipped windows for this setting: --with attention --with deltanet trains some."
            )
        console.print(*found.sentences, sep="\n", soft_wrap=True)
        console.print(f"The pictures: {', '.join(map(str, found.pictures))}")
        console.print(f"The numbers: recollect results {found.outcome.names[0]} --store {store}")
    if found.broken:
        console.print(f"\nbroken rules: {', '.join(found.broken)} (see above)")
        raise typer.Exit(1)


def _tell(rule: "Checked") -> None:
    """Print what came of a rule."""
    from rich.text import Text

    word, style = SIGNS[rule.outcome]
    console.print(Text.assemble(f"  {rule.name:<19}", (f"{word:<8}", style), rule.text), soft_wrap=True)
