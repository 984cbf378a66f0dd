"""Do attention heads form an induction circuit (Olsson et al. 2022)? Two scores of each head's attention weights:

    previous token    mean weight that a token gives to the one before it
    prefix matching   mean weight that a repeated token gives to the token after its earlier occurrence

A circuit is a head high in the first and, in a later layer, one high in the second. With convolved keys one layer can do both.
"""

import pandas as pd
import torch
from torch import Tensor, nn

from recollect import rng
from recollect.inspect.mixing import mixer_inputs, mixing_matrix
from recollect.mixers.attention import Attention
from recollect.spec import SpecError


def previous_token_score(weights: Tensor) -> Tensor:
    """Weights (rows, heads, length, length) to one score per head: (heads,)."""
    return weights.diagonal(-1, dim1=-2, dim2=-1).mean((0, 2))


def prefix_matching_score(weights: Tensor, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
    """Weights (rows, heads, length, length) over tokens (rows, length) to one score per head: (heads,).

    Counts tokens that occurred before; with `positions` (rows, any) only those there, such as the queries of a task.
    """
    length = tokens.shape[1]
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)  # (rows, t, s): the token at t was at s before
    followed = torch.zeros_like(same)
    followed[:, :, 1:] = same[:, :, :-1]  # what came after it; s + 1 <= t
    counts = same.any(-1)  # (rows, t)
    if positions is not None:
        counts &= torch.zeros(len(tokens), length, dtype=torch.bool, device=tokens.device).scatter(1, positions, True)
    if not counts.any():
        raise SpecError("prefix matching: no token occurs twice at these positions; give rows that repeat tokens")
    given = (weights * followed[:, None]).sum(-1)  # (rows, heads, t)
    return (given * counts[:, None]).sum((0, 2)) / counts.sum()


@torch.no_grad()
def induction_scores(model: nn.Module, tokens: Tensor, positions: Tensor | None = None) -> pd.DataFrame:
    """One row per attention layer (`mixer`, its dotted name) and `head`: `previous_token` and `prefix_matching`."""
    rows = []
    for name, mixer, x in mixer_inputs(model, tokens, Attention):
        weights = mixing_matrix(mixer, x)
        scores = previous_token_score(weights).tolist(), prefix_matching_score(weights, tokens, positions).tolist()
        for head, (previous, prefix) in enumerate(zip(*scores, strict=True)):
            rows.append({"mixer": name, "head": head, "previous_token": previous, "prefix_matching": prefix})
    if not rows:
        raise SpecError("induction scores are of attention heads, and this model has none")
    return pd.DataFrame(rows)


def repeated_tokens(vocabulary: int, half: int, rows: int, seed: int = 0) -> Tensor:
    """Olsson et al.'s probe: `half` random tokens (none of them 0), then the same again: (rows, 2 half)."""
    once = rng.stream(seed, "repeated", torch.arange(rows)).integers(half, 1, vocabulary)
    return torch.cat([once, once], dim=1)
