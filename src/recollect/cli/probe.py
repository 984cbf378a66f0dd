"""A mixer of your own, from file to picture: probe."""

from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from recollect.cli.app import DEFAULT_STORE, DeviceOption, StoreOption, app, console, named
from recollect.spec import SpecError

COHORT = 3
"""Runs trained together on a CPU: rounds of a search are small, and each core should have a part of one."""
SIGNS = {"holds": ("ok", "green"), "note": ("note", "yellow"), "broken": ("BROKEN", "bold red")}


@app.command()
def probe(
    mixer: Annotated[str, typer.Argument(metavar="FILE.py:NAME", help="Your mixer: a file and the class in it.")],
    options: Annotated[list[str] | None, typer.Argument(help="Options of its constructor, as name=value.")] = None,
    task: Annotated[str, typer.Option(help="A task's name, FILE.py:NAME of your own, or a YAML mapping.")] = "mqar",
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
) -> None:
    """Is your mixer causal, does it train in a cohort, how does it recall, and how wide is its learning-rate window?"""
    from recollect.models.spec import ModelSpec
    from recollect.probing.setting import Setting, baseline, probe_study, small_task

    if mixer.endswith(".py"):
        raise SpecError(f"{mixer}: name the class in it as well, as {mixer}:MyMixer")
    asked = small_task(yaml.safe_load(task), {"length": length, "pairs": pairs, "vocab": vocab})
    setting = Setting(asked, width, tuple(dict.fromkeys(layers or [1])), steps, seeds)
    own = {"mixer": {"kind": mixer, **named(options)}, "positions": positions}
    model = ModelSpec(**own, width=width, layers=setting.layers[0])
    known = [baseline(yaml.safe_load(word)) for word in beside or []]
    study = probe_study(f"probe-{mixer.rpartition(':')[2]}", [own, *known], setting)
    study.runs()  # what is wrong with the rest is found now, not after the checks

    broken = _check(model)
    if not no_train:
        _train(study, setting, store, device)
    if broken:
        console.print(f"\nbroken rules: {', '.join(broken)} (see above)")
        raise typer.Exit(1)


def _check(model: Any) -> list[str]:
    """Print what comes of each rule; the names of the broken ones, or an exit where training would mean nothing."""
    from rich.text import Text

    from recollect.probing.rules import check_rules

    broken, fatal = [], []
    console.print(f"{model.title}: the rules of a mixer, at width {model.width}")
    for rule in check_rules(model):
        word, style = SIGNS[rule.outcome]
        console.print(Text.assemble(f"  {rule.name:<19}", (f"{word:<8}", style), rule.text), soft_wrap=True)
        broken += [rule.name] if rule.outcome == "broken" else []
        fatal += [rule.name] if rule.fatal else []
    if fatal:
        console.print(f"\nnot trained: with {' and '.join(fatal)} broken, what it learns would mean nothing")
        raise typer.Exit(1)
    return broken


def _train(study: Any, setting: Any, store: Path, device: str) -> None:
    """Search the windows, then show them beside the shipped ones."""
    from recollect.cli.studies import train_study, workers_for
    from recollect.probing.compare import beside_shipped, compared, comparison_table, pictures, verdicts
    from recollect.study.executors import open_executor
    from recollect.train.device import choose_device

    runs = study.runs()
    mixer = runs[0].model.title
    cohort = COHORT if choose_device(device) == "cpu" else 0
    console.print()
    with open_executor(device=device, workers=workers_for(study, device, cohort)) as place:
        trained = train_study(study, store, place, cohort)
    frame = beside_shipped(trained, runs)
    records = compared(frame, mixer)
    console.print()
    console.print(comparison_table(records, f"{mixer} beside others: {setting}"))
    if "shipped" not in set(frame["origin"]):
        console.print("There are no shipped windows for this setting: --with attention --with deltanet trains some.")
    paths = pictures(frame, records, setting, store.parent / study.name / "window")
    console.print(*verdicts(records, runs[0].task.chance), sep="\n", markup=False, soft_wrap=True)
    console.print(f"The pictures: {', '.join(map(str, paths))}")
    console.print(f"The numbers: recollect results {study.name} --store {store}")
