"""The token-mixing matrix of a mixer: y = M(x) v, where row t is what token t reads from each token s <= t.

    S6 (Okpekpe & Orvieto, equation 1):  M_ts = C_t A_t .. A_{s+1} B_s, plus D where s = t

Every built-in mixer but the LSTM and the LRU, whose values are complex, has a part that is linear in its values v once queries,
keys, decays and gates are held fixed. That part is `mix(x, values)` (mixers/base.py), so M is what `mix` returns for unit
impulses: all impulses at once, as the channels of v, where the channels of a head are mixed alike; one impulse per row where
every channel is mixed in its own way.
It leaves out what acts on each token after it (norm, output gate and projection) and short convolutions before it.

Shapes: x (rows, length, width), M (rows, parts, length, length); a part is a head, or a channel.
"""

from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from recollect.mixers.base import defines
from recollect.spec import SpecError

NEEDED = "a mixing matrix is read from mix(x, values), the part of a mixer's forward that is linear in the values"


@torch.no_grad()
def mixing_matrix(mixer: nn.Module, x: Tensor) -> Tensor:
    """M (rows, parts, length, length) of one mixer for its own input x."""
    if not defines(mixer, "mix"):
        raise SpecError(f"no mixing matrix of {type(mixer).__name__}: {NEEDED}, and it has none")
    part: Any = mixer
    like = part.mix(x[:1])
    if like.dim() not in (3, 4) or like.shape[:2] != (1, x.shape[1]):
        raise SpecError(
            f"no mixing matrix of {type(mixer).__name__}: mix gives {tuple(like.shape)} for x {(1, *x.shape[1:])}, and must give "
            "(batch, length, heads, dim) or (batch, length, channels)"
        )
    impulses = torch.eye(x.shape[1], dtype=like.dtype, device=like.device)
    if like.dim() == 4:
        return _response(part, x, impulses[:, None].expand(len(x), -1, like.shape[2], -1)).permute(0, 2, 1, 3)
    by_row = impulses[:, :, None].repeat(1, 1, like.shape[2])  # row s is 1 at time s in all channels
    return torch.stack([_response(part, row.expand(len(by_row), -1, -1), by_row).permute(2, 1, 0) for row in x])


def _response(mixer: Any, x: Tensor, impulses: Tensor) -> Tensor:
    """The output of `mix` for these values minus its output for zeros, which removes a bias."""
    return mixer.mix(x, impulses) - mixer.mix(x, torch.zeros_like(impulses))


def mixing_matrices(module: nn.Module, inputs: Tensor) -> dict[str, Tensor]:
    """The mixing matrix of every mixer in a model (or a mixer), by dotted name, as it takes these tokens (or this x)."""
    matrices = {name: mixing_matrix(part, x) for name, part, x in mixer_inputs(module, inputs)}
    if not matrices:
        raise SpecError(f"no mixing matrix: {NEEDED}, and no part of {type(module).__name__} has one")
    return matrices


@torch.no_grad()
def mixer_inputs(
    module: nn.Module, inputs: Tensor, kind: type[nn.Module] = nn.Module, method: str = "mix"
) -> list[tuple[str, nn.Module, Tensor]]:
    """Every part of this class that has `method`, by dotted name, and its input when the whole takes `inputs`."""
    given: list[tuple[str, nn.Module, Tensor]] = []

    def listen(name: str, part: nn.Module):
        return part.register_forward_pre_hook(lambda part, args: given.append((name, part, args[0])))

    named = module.named_modules()
    parts = [(name, part) for name, part in named if isinstance(part, kind) and defines(part, method)]
    hooks = [listen(name, part) for name, part in parts]
    try:
        module(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return given


def mixing_frame(model: nn.Module, tokens: Tensor, title: str = "") -> pd.DataFrame:
    """One row per mixer (`matrix`: the title and the mixer's dotted name), `token` and the token it `reads`: the mean `size` over
    heads or channels, for the first row of `tokens`."""
    parts = []
    for name, matrix in mixing_matrices(model, tokens[:1]).items():
        size = matrix[0].abs().double().mean(0).cpu().numpy()
        token, reads = np.tril_indices(len(size))
        label = f"{title}, {name}" if title else name
        parts.append(pd.DataFrame({"matrix": label, "token": token, "reads": reads, "size": size[token, reads]}))
    return pd.concat(parts, ignore_index=True)


def distance_profile(matrix: Tensor) -> np.ndarray:
    """The mean |M_ts| at each distance t - s = 0, 1, ..: over parts, rows and positions, of M (.., length, length)."""
    size = matrix.abs().double().flatten(0, -3).mean(0).cpu().numpy()
    return np.array([np.diagonal(size, -apart).mean() for apart in range(len(size))])


def distance_profiles(model: nn.Module, tokens: Tensor) -> pd.DataFrame:
    """One row per mixer (`mixer`, its dotted name) and `distance`: the `size` of what is read from there, over all rows."""
    sums: dict[str, np.ndarray] = {}
    for row in tokens.split(1):  # one row at a time: a matrix for every channel takes much memory
        for name, matrix in mixing_matrices(model, row).items():
            sums[name] = sums.get(name, 0) + distance_profile(matrix)
    return pd.concat(
        pd.DataFrame({"mixer": name, "distance": range(len(total)), "size": total / len(tokens)})
        for name, total in sums.items()
    ).reset_index(drop=True)


def decay_rate(profile: np.ndarray) -> float:
    """How fast the off-diagonal terms fade, in nats per token: minus the slope of log size against distance, from 1 on."""
    apart, size = np.arange(1, len(profile)), np.asarray(profile, float)[1:]
    return -float(np.polyfit(apart[size > 0], np.log(size[size > 0]), 1)[0])
