"""Jelassi et al., "Repeat after me: Transformers are better than state space models at copying" (2024).

The tasks and the protocol are those of its released code; what the code does not state about a figure is marked as unknown.
"""

from dataclasses import replace
from itertools import product
from typing import Any

import pandas as pd

from recollect.analysis.groups import groups
from recollect.analysis.pooled import pool
from recollect.analysis.window import THRESHOLD
from recollect.figures.panels import mean_and_range
from recollect.papers.estimates import Estimate, NotEnough, mean_of
from recollect.papers.examples import curve_table, examples_ratio
from recollect.papers.item import Item, Paper, lines
from recollect.papers.judge import Claim, Evidence, Scale, where
from recollect.papers.questions import Finding, at_least, every, exceeds
from recollect.sources import preset
from recollect.sources.base import chosen_text
from recollect.sources.jelassi2024 import COPYING, SOURCE
from recollect.sources.jelassi2024 import NGRAM as NGRAM_UNKNOWN
from recollect.study.spec import Study

NAME = SOURCE.name
Fields = dict[str, Any]
TITLES = {
    "rotary": "Transformer (RoPE)", "none": "Transformer (NoPE)", "hard_alibi": "Transformer (hard ALiBi)", "mamba": "Mamba",
    "lstm": "LSTM",
}  # fmt: skip
"""By positions of a Transformer, or by mixer."""
PERCENT = f"{100 * THRESHOLD:g} %"
MORE, FURTHER = 1.0, 0.1
"""The least ratio of examples that counts as more; the least lead in accuracy that counts as further."""
SEEDS = {"tiny": [1, 2], "small": [1, 2, 3], "paper": [1, 2, 3]}
SIZES: dict[Scale, Fields] = {"tiny": {"width": 64, "layers": 2}, "small": {"width": 256, "layers": 4}, "paper": {}}
HEADS = {"tiny": 2, "small": 4, "paper": 16}
COPY: dict[Scale, Fields] = {"tiny": {"min_length": 2, "length": 6}, "small": {}, "paper": {"packed": True}}
LONGER = {"tiny": (9, 12), "small": (30, 40), "paper": (30, 40, 60, 80)}
"""Strings to copy that are longer than those trained on."""
NGRAM: dict[Scale, Fields] = {"tiny": {"n": 1, "k": 3, "min_length": 7, "length": 12}, "small": {"min_length": 25, "length": 50},
                              "paper": {"packed": True}}  # fmt: skip
_TINY: Fields = {"protocol": NAME, "batch": 32, "lr": 1e-3, "eval_rows": 256, "test_rows": 512, "stop_at": 0.99}
_SMALL: Fields = {"protocol": NAME, "batch": 64, "lr": 5e-4, "eval_rows": 512, "precision": "bfloat16", "stop_at": 0.99}
TRAIN: dict[Scale, dict[str, Fields]] = {
    "tiny": {"copy": {**_TINY, "steps": 1200}, "ngram": {**_TINY, "steps": 2000}},
    "small": {"copy": {**_SMALL, "steps": 3000}, "ngram": {**_SMALL, "steps": 6000}},
    "paper": {"copy": {"protocol": NAME, "lr": 1e-5}, "ngram": {"protocol": NAME, "lr": 1e-5}},
}


def models(scale: Scale, *names: str) -> list[Fields]:
    """A model for each name, as TITLES has them."""
    made = []
    for name in names:
        if name == "lstm":
            fields: Fields = {"mixer": "lstm", "mlp": "none", "positions": "none", "width": 1024, "layers": 4}
        elif name == "mamba":
            fields = preset(f"retrievit-mamba-{32 if scale == 'paper' else 16}")
        else:
            mixer = {"kind": "attention", "heads": HEADS[scale]}
            fields = {**preset("retrievit-transformer-rope"), "mixer": mixer, "positions": name}
        made.append({**fields, **SIZES[scale], **({} if scale == "paper" else {"tie": False})})
    return made


def copy_studies(scale: Scale) -> list[Study]:
    """Five models on copying, tested on longer strings too."""
    tests = [{"kind": "copy", "min_length": length, "length": length} for length in LONGER[scale]]
    train = {**TRAIN[scale]["copy"], "seed": SEEDS[scale]}
    task = {"kind": "copy", **COPY[scale]}
    return [Study(name=f"{NAME}.copy.{scale}", task=task, model=models(scale, *TITLES), train=train, tests=tests)]


def ngram_studies(scale: Scale) -> list[Study]:
    """RoPE and Mamba on n-gram lookup, with the query after and before the sequence."""
    task = {"kind": "ngram", "variant": "jelassi", "query": ["suffix", "prefix"], **NGRAM[scale]}
    train = {**TRAIN[scale]["ngram"], "seed": SEEDS[scale]}
    return [Study(name=f"{NAME}.ngram.{scale}", task=task, model=models(scale, "rotary", "mamba"), train=train)]


def named(evidence: Evidence) -> pd.DataFrame:
    """The runs with the `name` of their model."""
    runs = evidence.runs
    kinds = zip(runs["model.mixer"], runs["model.positions"], strict=True)
    return runs.assign(name=[positions if mixer == "attention" else mixer for mixer, positions in kinds])


def _ratio(evidence: Evidence, slow: str, fast: str, query: str = "") -> Estimate:
    runs = named(evidence)
    if query:
        runs = where(runs, query=query)
    for name in (slow, fast):
        evidence.whole(where(runs, name=name))
    found = examples_ratio(evidence.curves, runs, slow, fast)
    return replace(found, name=f"{query} {found.name}".strip())


def _transformers_first(evidence: Evidence) -> Finding:
    each = product(("mamba", "lstm"), ("rotary", "hard_alibi"))
    return every(each, lambda slow, fast: at_least(_ratio(evidence, slow, fast), MORE))


def _at_twice(evidence: Evidence, name: str) -> Estimate:
    """Accuracy on strings of twice the longest trained length."""
    rows = evidence.whole(where(named(evidence), name=name))
    twice = 2 * COPY[evidence.scale].get("length", 20)
    column = f"final.tests.{LONGER[evidence.scale].index(twice)}.accuracy"
    if column not in rows:
        raise NotEnough(f"no test at {twice} letters")
    samples = [list(part[column].dropna()) for _, part in groups(named(evidence), ["name"])]
    return mean_of(rows[column], f"{name}, {twice} letters", pool(samples, bounded=True))


def _hard_alibi_furthest(evidence: Evidence) -> Finding:
    best = _at_twice(evidence, "hard_alibi")
    return every(("rotary", "none", "mamba", "lstm"), lambda name: exceeds(best, _at_twice(evidence, name), by=FURTHER))


def _by_length(evidence: Evidence) -> pd.DataFrame:
    """Accuracy against the length of strings that are longer than those trained on."""
    rows = [
        {"model": TITLES[run["name"]], "letters": length, "accuracy": run[column]}
        for run in named(evidence).to_dict("records")
        for i, length in enumerate(LONGER[evidence.scale])
        if (column := f"final.tests.{i}.accuracy") in run
    ]
    return mean_and_range(pd.DataFrame(rows, columns=["model", "letters", "accuracy"]), ["model", "letters"])


def _by_query(evidence: Evidence) -> pd.DataFrame:
    """Accuracy against examples, with the query after and before the sequence."""
    runs = named(evidence)
    inside = {query: runs.loc[runs["task.query"] == query] for query in ("suffix", "prefix")}
    tables = [curve_table(evidence.curves, part, TITLES).assign(query=query) for query, part in inside.items()]
    return pd.concat(tables, ignore_index=True)


_COPY_DIFFERS: dict[Scale, str] = {
    "tiny": "Strings of 2 to 6 letters, models of 2 layers and width 64 with untied heads, at most 1,200 steps of 32 rows, "
    "learning rate 1e-3, ends at 99 %.",
    "small": "Strings of 5 to 20 letters, one per row, models of 4 layers and width 256 with untied heads, at most 3,000 steps "
    "of 64 rows, learning rate 5e-4, bfloat16.",
    "paper": "The released defaults: 5 to 20 letters packed into 220 tokens, 2,000 steps of 8, learning rate 1e-5. "
    f"{chosen_text(COPYING)}",
}
_NGRAM_DIFFERS: dict[Scale, str] = {
    "tiny": "n = 1, k = 3, rows of 7 to 12 letters, models of 2 layers and width 64 with untied heads, at most 2,000 steps of 32 "
    "rows, learning rate 1e-3.",
    "small": "Rows of 25 to 50 letters, models of 4 layers and width 256 with untied heads, at most 6,000 steps of 64 rows, "
    "learning rate 5e-4, bfloat16.",
    "paper": f"Examples packed into 220 tokens and the released defaults of copying. {chosen_text(NGRAM_UNKNOWN)}",
}
COPY_ITEM = Item(
    "copy", "Copying: data efficiency", "Transformers learn to copy from fewer examples than Mamba and an LSTM",
    lines(
        lambda e: curve_table(e.curves, named(e), TITLES), "examples", "model", title="Copying", xlabel="training examples",
        logx=False,
    ),
    copy_studies,
    (
        Claim("transformers-first", f"Mamba and the LSTM need more examples to copy {PERCENT} of the strings than Transformers "
              "with RoPE and hard ALiBi (ratio of medians above 1)", _transformers_first),
    ),
    _COPY_DIFFERS, ("curves",),
)  # fmt: skip
LENGTHS = Item(
    "lengths", "Copying: longer strings", "hard ALiBi copies strings longer than those trained on",
    lines(_by_length, "letters", "model", title="Copying longer strings", xlabel="letters in the string", logx=False),
    copy_studies,
    (
        Claim("hard-alibi-furthest", "On strings of twice the trained length hard ALiBi exceeds each other model by at least "
              f"{FURTHER}", _hard_alibi_furthest),
    ),
    _COPY_DIFFERS,
)  # fmt: skip
NGRAM_ITEM = Item(
    "ngram", "N-gram lookup: data efficiency", "Mamba needs more examples, less so where the query comes first",
    lines(
        _by_query, "examples", "model", "query", title="N-gram lookup", xlabel="training examples", logx=False, columns=2
    ),
    ngram_studies,
    (
        Claim("mamba-needs-more", f"With the query after the sequence Mamba needs more examples than RoPE to reach {PERCENT} "
              "(ratio of medians above 1)", lambda e: at_least(_ratio(e, "mamba", "rotary", "suffix"), MORE)),
        Claim("prefix-closes-the-gap", "With the query before the sequence the ratio of Mamba's examples to RoPE's is smaller",
              lambda e: exceeds(_ratio(e, "mamba", "rotary", "suffix"), _ratio(e, "mamba", "rotary", "prefix"))),
    ),
    _NGRAM_DIFFERS, ("curves",),
)  # fmt: skip
PAPER = Paper(NAME, SOURCE.title, (COPY_ITEM, LENGTHS, NGRAM_ITEM), ("tiny", "small", "paper"), SOURCE.unknown)
