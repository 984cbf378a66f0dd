"""`recollect show`: look at a task or a model before training."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from recollect.cli.app import console, group, problems
from recollect.cli.options import complete_mixer, complete_task, named
from recollect.spec import SpecError
from recollect.spec.reading import read_yaml
from recollect.tasks import TASKS

if TYPE_CHECKING:
    from recollect.models.model import Model
    from recollect.tasks.base import Task

show_app = group("show", "Look at a task or a model before training.")


@show_app.command("task")
def show_task(
    kind: Annotated[
        str,
        Argument(help="A task: mqar, ar, copy, ngram, ... or module:Name of your own.", autocompletion=complete_task),
    ],
    options: Annotated[list[str] | None, Argument(help="Fields, as name=value.")] = None,
    seed: Annotated[int, Option(help="Which example.")] = 0,
    row: Annotated[int, Option(min=0, help="Which row of the seed; in a mixture the parts take turns.")] = 0,
) -> None:
    """One sampled example, with query, answer and loss positions marked; of your own task also which rules it breaks."""
    from recollect.probing.rules import FORM, broken_rules
    from recollect.tasks import as_task
    from recollect.tasks.show import Example

    task = as_task({"kind": kind, **named(options)})
    broken = {} if kind in TASKS else broken_rules(task)
    if not broken.keys() & FORM:
        console.print(Example(task, seed, row))
    if broken:
        lines = (f"{name}: {text}" for name, text in broken.items())
        problems.print("broken rules of a task:", *lines, sep="\n  ", style="red", soft_wrap=True)
        raise typer.Exit(1)


@show_app.command("model")
def show_model(
    mixer: Annotated[
        str,
        Argument(
            help="A mixer's name, a YAML mapping with its kind, module:Name of your own, a preset, a study file, or the folder "
            "of an exported run.",
            autocompletion=complete_mixer,
        ),
    ],
    options: Annotated[
        list[str] | None, Argument(help="Fields of the model or options of the mixer, as name=value.")
    ] = None,
    task: Annotated[str, Option(help="The task it is for, as kind or a YAML mapping.")] = "mqar",
    on: Annotated[
        str,
        Option(
            help="Also draw its step sizes, decays and gates at each token of a row of this task: a kind or a YAML mapping.",
            autocompletion=complete_task,
        ),
    ] = "",
    seed: Annotated[int, Option(help="Which row is drawn.")] = 0,
    to: Annotated[Path, Option(help="Where the picture goes, as PNG and SVG.")] = Path("results/signals.png"),
) -> None:
    """A block diagram, parameters by part, state size and operations; with --on, what it decides token by token."""
    from recollect.models.diagram import model_card
    from recollect.models.model import build
    from recollect.models.spec import ModelSpec
    from recollect.sources import is_preset, with_preset
    from recollect.store.export import load, specification
    from recollect.study.spec import Study
    from recollect.tasks import as_task

    trained = None
    if Path(mixer, "spec.json").is_file():
        run, trained = specification(mixer), load(mixer)
        pairs = [(run.model, run.task)]
    elif mixer.endswith((".yaml", ".yml")):
        first: dict[str, Any] = {}
        study = Study.load(mixer)
        study.check_size(allow_many=False)
        for run in study.runs():
            first.setdefault(run.model.model_dump_json(), run)
        pairs = [(run.model, run.task) for run in first.values()]
    else:
        given = named(options)
        if mixer.lstrip().startswith("{"):  # as in a study file
            written = read_yaml(mixer)
            mixer, given = str(written.pop("kind", "")), {**written, **given}
        fields = {name: value for name, value in given.items() if name in ModelSpec.model_fields}
        rest = {name: value for name, value in given.items() if name not in fields}
        base = {"preset": mixer} if is_preset(mixer) else {"mixer": {"kind": mixer, **rest}}
        pairs = [(ModelSpec(**with_preset({**base, **fields})), as_task(read_yaml(on or task)))]
    for spec, asked in pairs:
        console.print(model_card(spec, asked, trained or build(spec, asked.vocabulary, asked.row_length, seed=0)))
    if on:
        spec, asked = pairs[0]
        model = trained or build(spec, asked.vocabulary, asked.row_length, seed=0)
        row_task = asked if read_yaml(on) == asked.kind else as_task(read_yaml(on))
        _draw_signals(model, row_task, seed, "trained" if trained else "at its initial values", to)


def _draw_signals(model: "Model", task: "Task", seed: int, state: str, to: Path) -> None:
    """Draw what the mixers of a model decide at each token of a row of a task."""
    from recollect.figures.signals import signals_figure
    from recollect.figures.style import save
    from recollect.inspect.signals import signals
    from recollect.tasks.show import Example

    if task.vocabulary > model.vocabulary:
        raise SpecError(f"--on {task.kind}: it has {task.vocabulary} token ids, the model knows {model.vocabulary}")
    row = Example(task, seed)
    found = {
        place: {name: value[0, : len(row.tokens)].T.numpy() for name, value in own.items()}
        for place, own in signals(model, row.row.tokens[None]).items()
    }
    words = [row.word(token) for token in row.tokens]
    caption = f"A row of {task.kind}, seed {seed}; the model is {state}. Triangles: tokens at which an answer is read."
    paths = save(
        signals_figure(found, words, row.read, title=f"{model.spec.title} by token", caption=caption),
        to.with_suffix(""),
    )
    console.print(f"The picture: {paths[0]}  (and {paths[1].name})")
