"""Figures 1, 2 and 4a and Tables 1 and 2: the tasks, the models and the protocol, which need no training."""

from functools import cache, partial

import pandas as pd
import torch

from recollect.figures.text import rendered, text_figure
from recollect.models.diagram import diagram
from recollect.models.model import Model
from recollect.models.spec import ModelSpec
from recollect.papers.item import Drawing, Item, table
from recollect.papers.judge import SCALES, Evidence, claim
from recollect.papers.questions import Finding
from recollect.papers.retrievit2026.settings import RATES, SEEDS
from recollect.sources.retrievit2026 import COUNTS, SOURCE, protocol
from recollect.tasks import as_task
from recollect.tasks.base import Task
from recollect.tasks.show import Example
from recollect.train.spec import TrainSpec

NGRAM = as_task({"kind": "ngram"})


def _examples(title: str, tasks: dict[str, Task], evidence: Evidence, caption: str) -> Drawing:
    text = "\n\n".join(f"{name}\n{rendered(Example(task, describe=False))}" for name, task in tasks.items())
    rows = []
    for name, task in tasks.items():
        row = task.batch(0, "show", 1).map(lambda x: x[0])
        asked, read = set(row.query.tolist()), dict(zip(row.positions.tolist(), row.answers.tolist(), strict=True))
        for place, token in enumerate(row.tokens.tolist()):
            answer = task.word(read[place]) if place in read else ""
            rows.append((name, place, task.word(token), place in asked, answer))
    frame = pd.DataFrame(rows, columns=["task", "place", "token", "query", "answer read here"])
    return text_figure(text, title, caption), frame


def draw_architectures(evidence: Evidence, caption: str) -> Drawing:
    """Block diagrams of both kinds of hybrid."""
    shown = {"interleaved, N = 2": "retrievit-interleaved-mamba2-2", "two-stream": "retrievit-twostream-mamba2"}
    text = {name: diagram(ModelSpec(**SOURCE.presets[preset]), NGRAM) for name, preset in shown.items()}
    figure = text_figure("\n".join(f"{name}\n{lines}" for name, lines in text.items()), "Hybrid architectures", caption)
    return figure, pd.DataFrame([{"model": name, "preset": preset} for name, preset in shown.items()])


@cache
def size(name: str) -> dict[str, object]:
    """A row of Table 1, counted on a model without memory behind its weights."""
    spec = ModelSpec(**SOURCE.presets[f"retrievit-{name}"])
    with torch.device("meta"):
        model = Model(spec, NGRAM.vocabulary, NGRAM.row_length)
    parts = model.named_parameters()
    count = sum(p.numel() for part, p in parts if not part.startswith(("embedding", "head", "positions")))
    heads = next((mixer.options["heads"] for mixer in spec.mixers() if "heads" in mixer.options), "-")
    return {
        "model": name, "layers": spec.layers, "width": spec.width, "heads": heads, "positions": spec.positions,
        "state elements": model.state_size(NGRAM.row_length), "parameters": count,
    }  # fmt: skip


def sizes() -> pd.DataFrame:
    """Table 1: one row per model."""
    return pd.DataFrame([{**size(name), "paper, millions": printed} for name, printed in COUNTS.items()])


def _with_commas(table: pd.DataFrame) -> pd.DataFrame:
    counts = ("parameters", "state elements", "paper, millions")
    return table.assign(**{name: [f"{count:,}" for count in table[name]] for name in counts})


@claim("counts", SCALES)
def _counts_agree(evidence: Evidence) -> Finding:
    """Each model has as many whole millions of parameters without embeddings as Table 1 prints"""
    found = sizes()
    off = found.loc[found["parameters"] // 1_000_000 != found["paper, millions"]]
    numbers = {
        row["model"]: f"{row['parameters']:,} (paper: {row['paper, millions']} M)" for row in off.to_dict("records")
    }
    return Finding(off.empty, numbers or {"models": str(len(found)), "that differ": "0"})


def protocol_table(evidence: Evidence) -> pd.DataFrame:
    """Table 2, from the protocol itself."""
    spec = TrainSpec(**protocol(NGRAM))
    rows = {
        "training examples": f"{spec.total_steps * spec.batch:,}", "evaluation examples": f"{spec.test_rows:,}",
        "seeds": ", ".join(map(str, SEEDS)), "batch": spec.batch,
        "learning rates": ", ".join(f"{rate:g}" for rate in RATES), "schedule": spec.schedule,
        "warm-up": spec.warmup, "steps": f"{spec.total_steps:,}", "optimiser": "AdamW", "beta1": spec.beta1,
        "beta2": spec.beta2, "epsilon": spec.eps, "weight decay": f"{spec.weight_decay} ({spec.decay})",
        "gradient clipping": spec.clip, "ends at accuracy": spec.stop_at,
    }  # fmt: skip
    return pd.DataFrame([(name, str(value)) for name, value in rows.items()], columns=["field", "value"])


_TASKS: dict[str, Task] = {
    "n-gram retrieval, query after the sequence": as_task({"kind": "ngram", "k": 2, "min_length": 24, "length": 24}),
    "position retrieval": as_task({"kind": "position", "length": 12}),
}
_QUERIES: dict[str, Task] = {
    query: as_task({"kind": "ngram", "query": query, "min_length": 24, "length": 24}) for query in ("suffix", "prefix")
}
FIG1 = Item(
    "fig1", "The tasks", "one short example of each task: query, answer, and where it is read",
    partial(_examples, "The tasks", _TASKS),
)  # fmt: skip
FIG4A = Item(
    "fig4a", "Suffix and prefix", "the query after the sequence, or before it, in short examples",
    partial(_examples, "Suffix and prefix", _QUERIES),
)  # fmt: skip
FIG2 = Item("fig2", "Hybrid architectures", "interleaved and two-stream layers", draw_architectures)
TABLE1 = Item(
    "table1", "Models", "layers, width, heads, positions, state and parameters of the models",
    table(lambda evidence: sizes(), "Models", shown=_with_commas), claims=(_counts_agree,),
)  # fmt: skip
TABLE2 = Item(
    "table2", "Protocol", "the training protocol, printed from the preset",
    table(protocol_table, "The protocol, from the preset retrievit2026"),
)  # fmt: skip
