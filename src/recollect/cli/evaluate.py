"""Recall of a finished language model: evaluate."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from recollect.cli.app import app, console
from recollect.cli.options import DeviceOption, TrustOption
from recollect.spec import SpecError
from recollect.spec.output import output_errors


@app.command()
def evaluate(
    folder: Annotated[Path | None, Argument(help="A folder that `recollect export` made.")] = None,
    hf: Annotated[
        str, Option(metavar="MODEL", help="A local Hugging Face folder instead, or org/name of a model of the Hub.")
    ] = "",
    task: Annotated[
        list[str] | None,
        Option(
            help="copy, ngram, phonebook, ar; needle: all needles in a haystack, or needle_single_1 and others; own: what an "
            "exported model was trained on. Again for more."
        ),
    ] = None,
    length: Annotated[
        list[int] | None,
        Option(
            min=1, help="Words to copy, words of the n-gram's text or the haystack, entries, or pairs. Again for more."
        ),
    ] = None,
    shots: Annotated[int, Option(min=0, help="Solved examples before the question.")] = 2,
    rows: Annotated[int, Option(min=1, help="Questions of each task and length.")] = 128,
    form: Annotated[str, Option(help="text or tokens. Left out: text where there is a tokenizer.")] = "",
    seed: Annotated[int, Option(help="Which questions.")] = 0,
    trust: TrustOption = False,
    device: DeviceOption = "auto",
    precision: Annotated[str, Option(help="Of a Hugging Face model: float32, bfloat16 or float16.")] = "float32",
    to: Annotated[
        Path | None, Option(metavar="DIR", help="Write accuracy.csv, positions.csv and the picture there.")
    ] = None,
) -> None:
    """How well a finished language model recalls from its context: by task and length, with no training."""
    from recollect.cli.tables import results_table
    from recollect.evaluation import evaluate as ask
    from recollect.evaluation import open_exported, open_hf
    from recollect.evaluation.picture import evaluation_figure
    from recollect.figures.style import save
    from recollect.store.frames import write

    if (folder is None) == (not hf):
        raise SpecError("name one model: a folder that `recollect export` made, or a Hugging Face model with --hf")
    model = open_hf(hf, device, precision) if hf else open_exported(str(folder), device, trust)

    def watch(task: str, length: int) -> None:
        if console.is_terminal:
            console.print(f"asking {task}, length {length or 'as trained'} ..", style="dim")

    found = ask(model, task or (), length or (), shots, rows, seed, form, watch)
    console.print(results_table(found.accuracy))
    if to is not None:
        with output_errors(to):
            to.mkdir(parents=True, exist_ok=True)
        write(found.accuracy, to / "accuracy.csv")
        write(found.positions, to / "positions.csv")
        save(evaluation_figure(found, f"recall of {model.name}"), to / "recall")
        console.print(f"accuracy.csv, positions.csv, recall.png and recall.svg are in {to}")
