"""The token-mixing matrix of a mixer: y = M(x) v, row t what token t reads of each token s <= t.

    S6 (Okpekpe & Orvieto, equation 1):  M_ts = C_t A_t .. A_{s+1} B_s, and D besides where s = t

Every built-in mixer but the LSTM is linear in its values v once queries, keys, decays and gates are held fixed, so M is what
comes out where unit impulses go in. An op that treats all channels of a head alike takes all impulses at once, as the channels
of v; one whose channels mix each in its own way (S6, RWKV-4, long convolutions) takes one impulse per row.
Left out is what acts token by token after it (norm, output gate and projection), and short convolutions before it.

Shapes: x (rows, length, width), M (rows, parts, length, length); a part is a head, or a channel.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from recollect.mixers.attention import Attention
from recollect.mixers.base_conv import BaseConv
from recollect.mixers.deltanet import DeltaNet
from recollect.mixers.gla import GLA
from recollect.mixers.h3 import H3
from recollect.mixers.hyena import Hyena
from recollect.mixers.linear_attention import LinearAttention
from recollect.mixers.mamba import SelectiveSSM
from recollect.mixers.mamba2 import Mamba2
from recollect.mixers.retnet import RetNet
from recollect.mixers.rwkv import RWKV, shifted
from recollect.mixers.rwkv6 import RWKV6
from recollect.mixers.rwkv7 import RWKV7
from recollect.ops.activations import sigmoid
from recollect.ops.attention import attention_definition
from recollect.ops.delta_rule import delta_rule
from recollect.ops.gated_linear_attention import gated_linear_attention
from recollect.ops.linear_attention import linear_attention
from recollect.ops.long_conv import long_conv
from recollect.ops.positions import distance, rotary
from recollect.ops.selective_scan import selective_scan
from recollect.ops.ssd import ssd
from recollect.ops.wkv import wkv
from recollect.ops.wkv6 import wkv6
from recollect.ops.wkv7 import wkv7
from recollect.spec import SpecError

# Each of the functions below gives what a mixer's op makes of impulses in place of its values, all else as x decides it.


def _all_at_once(v: Tensor) -> Tensor:
    """Impulses like v (rows, heads, length, any): channel s is 1 at time s."""
    return torch.eye(v.shape[2], dtype=v.dtype, device=v.device).expand(*v.shape[:2], -1, -1)


def _one_a_row(v: Tensor) -> Tensor:
    """Impulses like v (1, length, channels): row s is 1 at time s in all channels."""
    return torch.eye(v.shape[1], dtype=v.dtype, device=v.device)[:, :, None].repeat(1, 1, v.shape[2])


def _attention(m: Attention, x: Tensor) -> Tensor:
    q, k, v = m._project(x, [conv(x) for conv in m.convs.values()])
    position = torch.arange(x.shape[1], device=x.device)
    if m.positions == "rotary":
        q, k = (rotary(t, position, m.rotary_fraction) for t in (q, k))
    return attention_definition(q, k, _all_at_once(v), m._bias(distance(position, position), x.dtype))


def _linear_attention(m: LinearAttention, x: Tensor) -> Tensor:
    convolved = {name: conv(x) for name, conv in m.convs.items()}
    q, k, v = (t.transpose(1, 2) for t in m._project(x, convolved))
    return linear_attention(q, k, _all_at_once(v), m.feature, m.normalise)


def _deltanet(m: DeltaNet, x: Tensor) -> Tensor:
    q, k, v = (t.transpose(1, 2) for t in m._split(m.conv(m.qkv(x))))
    beta, log_alpha = sigmoid(m.beta(x)), m._log_alpha(x)
    forget = None if log_alpha is None else log_alpha.transpose(1, 2)
    return delta_rule(q, k, _all_at_once(v), beta.transpose(1, 2), forget)


def _gla(m: GLA, x: Tensor) -> Tensor:
    q, k, v, log_alpha = (t.transpose(1, 2) for t in m._project(x))
    return gated_linear_attention(q, k, _all_at_once(v), log_alpha)


def _retnet(m: RetNet, x: Tensor) -> Tensor:
    q, k, v = m._project(x, torch.arange(x.shape[1], device=x.device))  # (rows, length, heads, dim)
    impulses = _all_at_once(v.transpose(1, 2)).transpose(1, 2)
    return ssd(impulses, m._log_gamma(v), k, q).transpose(1, 2)


def _mamba2(m: Mamba2, x: Tensor) -> Tensor:
    _, xBC, dt = m._project(x)
    v, log_a, B, C = m._scanned(m.conv(xBC), dt)  # v (rows, length, heads, p)
    impulses = _all_at_once(v.transpose(1, 2)).transpose(1, 2)
    return (ssd(impulses * dt[..., None], log_a, B, C) + m.D[:, None] * impulses).transpose(1, 2)


def _rwkv6(m: RWKV6, x: Tensor) -> Tensor:
    r, k, v, log_w = (t.transpose(1, 2) for t in m._project(x, shifted(x))[:-1])
    return wkv6(r, k, _all_at_once(v), log_w, m.bonus)


def _rwkv7(m: RWKV7, x: Tensor) -> Tensor:
    r, k, v, log_w, a, b = (t.transpose(1, 2) for t in m._project(x, shifted(x))[:-1])
    return wkv7(r, k, _all_at_once(v), log_w, a, b)


def _h3(m: H3, x: Tensor) -> Tensor:
    q, k, v = m.qkv(x).chunk(3, dim=-1)
    k = long_conv(k, m.shift) + m.shift_skip * k
    q, k, v = (t.unflatten(-1, (m.heads, m.head_dim)) for t in (q, k, v))  # (rows, length, heads, head_dim)
    impulses = _all_at_once(v.transpose(1, 2)).transpose(1, 2)
    outer = k[..., None] * impulses[..., None, :]  # (rows, length, heads, head_dim, impulses)
    y = m.diagonal(outer.flatten(-2)).view_as(outer)
    return (q[..., None] * y).sum(-2).transpose(1, 2)


def _s6(m: SelectiveSSM, x: Tensor) -> Tensor:
    dt, B, C = (t.expand(x.shape[1], -1, -1) for t in m._project(x))
    return selective_scan(_one_a_row(x), dt, m.dt_proj.bias, -m.A_log.exp(), B, C, m.D)


def _rwkv(m: RWKV, x: Tensor) -> Tensor:
    _, k, v = m._project(x, shifted(x))
    return wkv(m.time_decay.exp(), m.time_first, k.repeat(x.shape[1], 1, 1), _one_a_row(v))


def _hyena(m: Hyena, x: Tensor) -> Tensor:
    *gates, v = m.short(m.project(x)).chunk(m.order + 1, dim=-1)
    v = _one_a_row(v)
    for gate, filter, skip in zip(gates, m.filters(x.shape[1]), m.skip, strict=False):
        v = gate * v
        v = long_conv(v, filter) + skip * v
    return gates[-1] * v


def _base_conv(m: BaseConv, x: Tensor) -> Tensor:
    v = _one_a_row(x)
    return m.gate(x) * (m.conv(v) - m.conv(torch.zeros_like(v))) + v  # without the bias, which mixes nothing


Read = Callable[[Any, Tensor], Tensor]
BY_HEAD: dict[type, Read] = {
    Attention: _attention, LinearAttention: _linear_attention, DeltaNet: _deltanet, GLA: _gla, RetNet: _retnet,
    Mamba2: _mamba2, RWKV6: _rwkv6, RWKV7: _rwkv7, H3: _h3,
}  # fmt: skip
BY_CHANNEL: dict[type, Read] = {SelectiveSSM: _s6, RWKV: _rwkv, Hyena: _hyena, BaseConv: _base_conv}


@torch.no_grad()
def mixing_matrix(mixer: nn.Module, x: Tensor) -> Tensor:
    """M (rows, parts, length, length) of one mixer, of a class that the tables above name, for its own input x."""
    for kind in type(mixer).__mro__:
        if kind in BY_HEAD:
            return BY_HEAD[kind](mixer, x)
        if kind in BY_CHANNEL:
            return torch.stack([BY_CHANNEL[kind](mixer, row[None]).permute(2, 1, 0) for row in x])
    raise SpecError(f"no mixing matrix of {type(mixer).__name__}; choose from: {', '.join(_names())}")


def mixing_matrices(module: nn.Module, inputs: Tensor) -> dict[str, Tensor]:
    """The mixing matrix of every mixer in a model (or a mixer), by dotted name, as it takes these tokens (or this x).

    In Mamba it is the S6 inside that mixes: `layers.0.mixer.ssm`.
    """
    found = {place: mixing_matrix(part, x) for place, part, x in mixer_inputs(module, inputs, (*BY_HEAD, *BY_CHANNEL))}
    if not found:
        raise SpecError(f"no mixing matrix: {type(module).__name__} has none of: {', '.join(_names())}")
    return found


@torch.no_grad()
def mixer_inputs(module: nn.Module, inputs: Tensor, kinds: tuple[type, ...]) -> list[tuple[str, nn.Module, Tensor]]:
    """Every part of one of these classes, by dotted name, and what it is given when the whole takes `inputs`."""
    given: list[tuple[str, nn.Module, Tensor]] = []
    parts = [(place, part) for place, part in module.named_modules() if isinstance(part, kinds)]
    hooks = [
        part.register_forward_pre_hook(lambda part, args, place=place: given.append((place, part, args[0])))
        for place, part in parts
    ]
    try:
        module(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return given


def distance_profile(matrix: Tensor) -> np.ndarray:
    """The mean |M_ts| at each distance t - s = 0, 1, ..: over parts, rows and places, of M (.., length, length)."""
    size = matrix.abs().double().flatten(0, -3).mean(0).cpu().numpy()
    return np.array([np.diagonal(size, -apart).mean() for apart in range(len(size))])


def distance_profiles(model: nn.Module, tokens: Tensor) -> pd.DataFrame:
    """One row per mixer (`place`, its dotted name) and `distance`: the `size` of what is read from there, over all rows."""
    sums: dict[str, np.ndarray] = {}
    for row in tokens.split(1):  # one row at a time: a matrix for every channel takes much memory
        for place, matrix in mixing_matrices(model, row).items():
            sums[place] = sums.get(place, 0) + distance_profile(matrix)
    return pd.concat(
        pd.DataFrame({"place": place, "distance": range(len(total)), "size": total / len(tokens)})
        for place, total in sums.items()
    ).reset_index(drop=True)


def decay_rate(profile: np.ndarray) -> float:
    """How fast the off-diagonal terms fade, in nats per token: minus the slope of log size against distance, from 1 on."""
    apart, size = np.arange(1, len(profile)), np.asarray(profile, float)[1:]
    return -float(np.polyfit(apart[size > 0], np.log(size[size > 0]), 1)[0])


def _names() -> list[str]:
    return sorted(kind.__name__ for kind in (*BY_HEAD, *BY_CHANNEL))
