"""Control: is finding 6 due to the models, or to which of them are tied?

The paper shows input embeddings, and ties the head to them in SSMs and hybrids but not in Transformers. In an untied model the
input embedding of a position token is read only to predict the end of the row, and need not encode the position; the head does.
Here each model is trained both ways, and both embeddings are measured.
"""

from itertools import product

import numpy as np
import pandas as pd

from recollect.analysis.embeddings import spiral
from recollect.papers.estimates import NotEnough
from recollect.papers.item import Item, table
from recollect.papers.judge import Claim, Evidence, Scale
from recollect.papers.questions import at_least
from recollect.papers.retrievit2026.embeddings import embeddings
from recollect.papers.retrievit2026.locality import FAR, NEAR, components, locality, near, near_in, nearness
from recollect.papers.retrievit2026.settings import CONTROLLED, TITLES, differs, study
from recollect.papers.retrievit2026.view import each, view
from recollect.study.spec import Study

LOCAL = ("M2", "HI-M2-1")
TIED_MODELS = ("RoPE", *LOCAL)
_NEAR = f"at most {NEAR} times as far as by chance in Mamba2 and interleaved 1:1, and at least {FAR} times in RoPE"


def tying_studies(scale: Scale) -> list[Study]:
    """The three models with the head tied and untied."""
    return [
        study(f"tying-{word}", scale, "position", TIED_MODELS, tie=tie)
        for word, tie in (("tied", True), ("untied", False))
    ]


def _by_head(evidence: Evidence) -> pd.DataFrame:
    """Spiral and neighbours of each model, tied and untied, in both embeddings."""
    rows, runs = [], view(evidence)
    for name, (tie, which) in product(TIED_MODELS, ((True, "input"), (False, "input"), (False, "output"))):
        try:
            found = embeddings(
                evidence, runs.loc[(runs["name"] == name) & (runs["model.tie"] == tie)], name, table=which
            )
        except NotEnough:
            continue
        spirals, kept = [spiral(x) for x in found], components(evidence.scale)[0]
        measured = {
            "model": TITLES[name], "head": "tied" if tie else "untied", "embedding": "both" if tie else which,
            "monotone": np.mean([one.monotone for one in spirals]), "turns": np.mean([one.turns for one in spirals]),
            "spirals": sum(one.found for one in spirals), "locality": np.mean([locality(x, kept) for x in found]),
            "distance / chance": np.mean([nearness(x) for x in found]), "runs": len(found),
        }  # fmt: skip
        rows.append(measured)
    columns = ["model", "head", "embedding", "monotone", "turns", "spirals", "locality", "distance / chance", "runs"]
    return pd.DataFrame(rows, columns=columns)


_BOTH = "Here each is trained both ways, with a tied and with an untied head."
TYING = Item(
    "tying", "Control: tied heads", "whether finding 6 is due to the models or to which of them are tied",
    table(_by_head, "Control: finding 6 with the head tied and untied"), tying_studies, 
    (
        Claim("F6-tied", f"With every head tied, neighbours are {_NEAR}",
              lambda e: near_in(e, LOCAL, "input", tie=True), CONTROLLED),
        Claim("F6-untied", f"With no head tied, neighbours in the head's embeddings are {_NEAR}",
              lambda e: near_in(e, LOCAL, "output", tie=False), CONTROLLED),
        Claim("F6-untied-inputs", f"With no head tied, the input embeddings of all three have neighbours at least {FAR} times as "
              "far as by chance: what they show is then due to tying",
              each(TIED_MODELS, lambda e, name: at_least(near(e, name, "input", tie=False), FAR)), CONTROLLED),
    ),
    differs(
        "position", tiny=_BOTH, small=_BOTH,
        paper="The paper ties SSMs and hybrids and no Transformer; here each is trained both ways.",
    ),
    ("snapshots",),
)  # fmt: skip
