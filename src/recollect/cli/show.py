"""`recollect show`: look at a task or a model before training."""

from typing import Annotated, Any

import typer

from recollect.cli.app import app, console, help_alone
from recollect.cli.options import complete_mixer, complete_task, named
from recollect.spec.reading import read_yaml

show_app = typer.Typer()
app.add_typer(show_app, name="show")


@show_app.callback(invoke_without_command=True)
def _show(context: typer.Context) -> None:
    """Look at a task or a model before training."""
    help_alone(context)


@show_app.command("task")
def show_task(
    kind: Annotated[
        str,
        typer.Argument(
            help="A task: mqar, ar, copy, ngram, ... or module:Name of your own.", autocompletion=complete_task
        ),
    ],
    options: Annotated[list[str] | None, typer.Argument(help="Fields, as name=value.")] = None,
    seed: Annotated[int, typer.Option(help="Which example.")] = 0,
    row: Annotated[int, typer.Option(min=0, help="Which row of the seed; in a mixture the parts take turns.")] = 0,
) -> None:
    """One sampled example, with query, answer and loss positions marked."""
    from recollect.tasks import as_task
    from recollect.tasks.show import example

    console.print(example(as_task({"kind": kind, **named(options)}), seed, row))


@show_app.command("model")
def show_model(
    mixer: Annotated[
        str,
        typer.Argument(
            help="A mixer's name, module:Name of your own, a preset, or a study file.", autocompletion=complete_mixer
        ),
    ],
    options: Annotated[
        list[str] | None, typer.Argument(help="Fields of the model or options of the mixer, as name=value.")
    ] = None,
    task: Annotated[str, typer.Option(help="The task it is for, as kind or a YAML mapping.")] = "mqar",
) -> None:
    """A block diagram, parameters by part, state size and operations."""
    from recollect.models.diagram import model_card
    from recollect.models.model import build
    from recollect.models.presets import with_preset
    from recollect.models.spec import ModelSpec
    from recollect.study.spec import Study
    from recollect.tasks import as_task

    if mixer.endswith((".yaml", ".yml")):
        first: dict[str, Any] = {}
        study = Study.load(mixer)
        study.check_size(allow_many=False)
        for run in study.runs():
            first.setdefault(run.model.model_dump_json(), run)
        pairs = [(run.model, run.task) for run in first.values()]
    else:
        given = named(options)
        fields = {name: value for name, value in given.items() if name in ModelSpec.model_fields}
        rest = {name: value for name, value in given.items() if name not in fields}
        base = {"preset": mixer} if mixer.startswith(("retrievit-", "okpekpe-")) else {"mixer": {"kind": mixer, **rest}}
        pairs = [(ModelSpec(**with_preset({**base, **fields})), as_task(read_yaml(task)))]
    for spec, asked in pairs:
        console.print(model_card(spec, asked, build(spec, asked.vocabulary, asked.row_length, seed=0)))
