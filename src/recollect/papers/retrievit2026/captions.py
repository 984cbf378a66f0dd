"""How each scale differs from the paper, for the captions of items: models, and the task that an item shows."""

from typing import Literal

from recollect.papers.judge import Scale
from recollect.sources.base import chosen_text
from recollect.sources.retrievit2026 import SOURCE

Kind = Literal["ngram", "position"]
_MODELS: dict[Scale, str] = {
    "tiny": "Models of 2 layers (interleaved N:1: N + 1) and width 64 with untied heads, one learning rate.",
    "small": "Models of 4 layers and width 256 with untied heads, the better of two learning rates, bfloat16.",
    "medium": "Models of 4 layers and width 256 with untied heads, the better of two learning rates (models beyond the five of "
    "Figure 4: one), bfloat16.",
}
_TASKS: dict[Kind, dict[Scale, str]] = {
    "ngram": {
        "tiny": "Rows of 6 to 12 tokens among 16 symbols, n = 1, k = 3, batch 64, at most 1,250 steps to 99 %.",
        "small": "Rows of 25 to 50 tokens, at most 12,000 steps to 99 %.",
        "medium": "Rows of 25 to 50 tokens, 5 seeds (models beyond the five: 3), at most 40,000 steps with the query last and "
        "16,000 with it first, to 99 %.",
        "paper": "rows of 50 to 100 tokens, n = 2, k = 3",
    },
    "position": {
        "tiny": "Rows of 10 tokens, batch 32, at most 2,500 steps to 95 %.",
        "small": "Rows of 32 tokens, at most 12,000 steps to 95 %.",
        "medium": "Rows of 64 tokens, at most 40,000 steps to 95 %.",
        "paper": "rows of 200 tokens",
    },
}


def differs(kind: Kind, tiny: str = "", small: str = "", paper: str = "") -> dict[Scale, str]:
    """The captions of an item by scale: what items of its task share, and what it adds; `small` is also for `medium`."""
    task, added = _TASKS[kind], {"tiny": tiny, "small": small, "medium": small}
    theirs = f"The paper: 150 M parameters, {task['paper']}, 20 M examples, SSMs and hybrids tied."
    found: dict[Scale, str] = {
        scale: f"{models} {task[scale]} {theirs} {added[scale]}".strip() for scale, models in _MODELS.items()
    }
    return {**found, "paper": f"As printed. {chosen_text(SOURCE.unknown)} {paper}".strip()}
