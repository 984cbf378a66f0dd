"""`recollect probe`: a mixer of your own, from file to picture."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer import Argument, Option

from recollect.cli.app import app, console, problems
from recollect.cli.options import Training, complete_mixer, complete_task, named, print_failed, print_outcome, trains
from recollect.spec.reading import read_yaml

if TYPE_CHECKING:
    from recollect.probing.probe import Probe
    from recollect.probing.rules import Checked

SIGNS = {"holds": ("ok", "green"), "note": ("note", "yellow"), "broken": ("BROKEN", "bold red")}


@app.command()
@trains
def probe(
    training: Training,
    mixer: Annotated[
        str,
        Argument(metavar="FILE.py:NAME", help="Your mixer: a file and the class in it.", autocompletion=complete_mixer),
    ],
    options: Annotated[list[str] | None, Argument(help="Options of its constructor, as name=value.")] = None,
    task: Annotated[
        str,
        Option(
            help="A task's name, FILE.py:NAME of your own, or a YAML mapping; several with commas, as words,mqar.",
            autocompletion=complete_task,
        ),
    ] = "mqar",
    length: Annotated[int | None, Option(min=1, help="Tokens in a row. MQAR: 32.")] = None,
    pairs: Annotated[int | None, Option(min=1, help="Key-value pairs in a row. MQAR: 4.")] = None,
    vocab: Annotated[int | None, Option(min=1, help="Token ids. MQAR: twice the length.")] = None,
    width: Annotated[int, Option(min=1, help="Channels of the model.")] = 32,
    layers: Annotated[list[int] | None, Option(min=1, help="Layers; repeat to try several. Default: 1.")] = None,
    positions: Annotated[
        str, Option(help="Positions for your mixer: none, learned, sinusoidal, or rotary and others it takes.")
    ] = "none",
    steps: Annotated[int, Option(min=1, help="Training steps at most; a run that recalls 99 % ends.")] = 400,
    seeds: Annotated[int, Option(min=1, help="Seeds.")] = 2,
    against: Annotated[
        list[str] | None,
        Option(
            "--against", "--with", help="Also train these mixers: names or YAML mappings, with commas, as deltanet,kda."
        ),
    ] = None,
    require: Annotated[
        str,
        Option(
            help="What the mixer must reach, as window>=1,accuracy>=0.95 (also steps, parameters); exit code 1 if it misses."
        ),
    ] = "",
    as_json: Annotated[bool, Option("--json", help="Print the result as JSON, and the rest to stderr.")] = False,
    no_train: Annotated[bool, Option("--no-train", help="Check the rules only.")] = False,
) -> None:
    """Is your mixer causal, does it train in a cohort, how does it recall, and how wide is its learning-rate window?"""
    from recollect.probing.probe import probe as examine
    from recollect.study.progress import Progress

    out = problems if as_json else console
    training["progress"] = Progress(out)
    out.print(f"{mixer}: the rules of a mixer, at width {width}")
    found = examine(
        {"kind": mixer, **named(options)}, task=_listed([task]), length=length, pairs=pairs, vocab=vocab, width=width,
        layers=layers or [1], positions=positions, steps=steps, seeds=seeds, beside=_listed(against or []), require=require,
        train=not no_train, on_rule=partial(_print_rule, out), **training,
    )  # fmt: skip
    if as_json:
        typer.echo(found.to_json())
    _summarise(found, out, training["store"])
    if found.fatal or not found.passed:
        raise typer.Exit(1)


def _listed(words: list[str]) -> list[Any]:
    """Names or YAML mappings, with commas between them."""
    return [item for word in words for item in read_yaml(f"[{word}]")]


def _summarise(found: "Probe", out: Console, store: Path) -> None:
    """Print what the probe found out."""
    from recollect.cli.tables import comparison_table

    if found.fatal:
        out.print(f"\nnot trained: with {' and '.join(found.fatal)} broken, what it learns would mean nothing")
        return
    if found.outcome:
        print_outcome(found.outcome, out)
        print_failed(found.outcome)
    for one in found.tasks:
        out.print()
        out.print(comparison_table(one.records, f"{found.mixer} beside others: {one.setting}"))
        if "shipped" not in set(one.frame["origin"]):
            out.print("There are no shipped windows for this setting: --against attention,deltanet trains some.")
        out.print(*one.sentences, sep="\n", soft_wrap=True)
        out.print(f"The pictures: {', '.join(map(str, one.pictures))}")
        out.print(f"The numbers: recollect results {one.study} --store {store}")
    if found.missed:
        out.print("\nrequired and missed:", *found.missed, sep="\n  ", style="bold red", soft_wrap=True)
    if found.broken:
        out.print(f"\nbroken rules: {', '.join(found.broken)} (see above)")


def _print_rule(out: Console, rule: "Checked") -> None:
    """Print the result of a rule."""
    from rich.text import Text

    word, style = SIGNS[rule.outcome]
    out.print(Text.assemble(f"  {rule.name:<19}", (f"{word:<8}", style), rule.text), soft_wrap=True)
