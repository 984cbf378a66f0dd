"""New mixers beside running references: outputs and gradients agree, in float64, at lengths around every chunk.

A reference is another package's own layer or plain function, given our weights, or where no package has one, a second
definition written here from the paper's formulas. `python tests/mixers/test_parity.py` writes benchmarks/parity.md.
"""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from torch.overrides import TorchFunctionMode

from recollect.mixers import MIXERS

LENGTHS = (1, 2, 63, 65, 257)
LIMIT = 1e-5
Weights = dict[str, Tensor]
Reference = Callable[[Weights, Tensor, nn.Module], Tensor]
"""From our weights, the input and our mixer (asked for sizes only) to the output."""


class Float64(TorchFunctionMode):
    """Computes in float64 where a package casts to float32."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        func = torch.Tensor.double if func is torch.Tensor.float else func
        wide = [torch.float64 if a is torch.float32 else a for a in args]
        named = {name: torch.float64 if a is torch.float32 else a for name, a in (kwargs or {}).items()}
        return func(*wide, **named)


@contextmanager
def in_float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        with Float64():
            yield
    finally:
        torch.set_default_dtype(torch.float32)


def naive(module: str, function: str) -> Callable[..., Any]:
    """A plain function of flash-linear-attention; its file is loaded alone, since the package itself looks for a GPU."""
    found = importlib.util.find_spec("fla")
    if found is None or not found.submodule_search_locations:
        pytest.skip("flash-linear-attention is not installed")
    path = Path(found.submodule_search_locations[0], "ops", module, "naive.py")
    spec = importlib.util.spec_from_file_location(f"fla_naive_{module}", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return getattr(loaded, function)


def published(model: str, config: str, layer: str) -> tuple[Any, Any]:
    """Two classes of transformers: a model's configuration, and its layer in PyTorch's own ops."""
    with pytest.MonkeyPatch.context() as hidden:
        hidden.setitem(sys.modules, "fla", None)  # transformers would take its kernels, which need a GPU
        found = [import_module(f"transformers.models.{model}.{part}_{model}") for part in ("configuration", "modeling")]
    return getattr(found[0], config), getattr(found[1], layer)


def heads(t: Tensor, count: int) -> Tensor:
    return t.unflatten(-1, (count, -1))


def convolved(w: Weights, x: Tensor, sizes: list[int]) -> list[Tensor]:
    """Queries, keys and values after their convolution and silu."""
    taps = w["conv.weight"]
    qkv = F.pad((x @ w["qkv.weight"].T).mT, (taps.shape[1] - 1, 0))
    return list(F.silu(F.conv1d(qkv, taps[:, None], groups=len(taps))).mT.split(sizes, dim=-1))


def unit(t: Tensor) -> Tensor:
    return t / (t.square().sum(-1, keepdim=True) + 1e-6).sqrt()


def rms(t: Tensor, weight: Tensor) -> Tensor:
    return t / (t.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight


def delta_inputs(w: Weights, x: Tensor, m: Any) -> tuple[Tensor, Tensor, Tensor]:
    width, values = m.out.out_features, m.out.in_features
    q, k, v = (heads(t, m.heads) for t in convolved(w, x, [width, width, values]))
    return unit(q), unit(k), v


def deltanet(w: Weights, x: Tensor, m: Any) -> Tensor:
    q, k, v = (t.transpose(1, 2) for t in delta_inputs(w, x, m))
    beta = (m.beta_max * (x @ w["beta.weight"].T).sigmoid()).transpose(1, 2)
    y = naive("delta_rule", "delta_rule_recurrence")(q, k, v, beta)[0].transpose(1, 2)
    return rms(y, w["norm.weight"]).flatten(2) @ w["out.weight"].T


def decay(w: Weights, projected: Tensor) -> Tensor:
    rate = w["A_log"].exp()
    dt = F.softplus(projected + w["dt_bias"])
    return -rate * dt if dt.shape[-1] == len(rate) else -rate[:, None] * heads(dt, len(rate))


def deltaproduct(w: Weights, x: Tensor, m: Any) -> Tensor:
    width, values, n = m.out.out_features, m.out.in_features, m.steps
    q, k, v = convolved(w, x, [width, n * width, n * values])
    k, v = (t.unflatten(-1, (n, m.heads, -1)).flatten(1, 2) for t in (k, v))
    beta = m.beta_max * (x @ w["beta.weight"].T).sigmoid().unflatten(-1, (n, m.heads)).flatten(1, 2)
    log_alpha = decay(w, x @ w["a.weight"].T) if "a.weight" in w else None
    rule = naive("gated_delta_product", "naive_recurrent_gated_delta_product")
    q = unit(heads(q, m.heads))
    y = rule(q, unit(k), v, log_alpha, beta, scale=q.shape[-1] ** -0.5, num_householder=n)[0]
    y = rms(y, w["norm.weight"]).flatten(2)
    return (y * F.silu(x @ w["z.weight"].T) if "z.weight" in w else y) @ w["out.weight"].T


def low_rank(w: Weights, x: Tensor, name: str) -> Tensor:
    return x @ w[f"{name}.0.weight"].T @ w[f"{name}.1.weight"].T + w.get(f"{name}.1.bias", 0)


def channel_gated(w: Weights, x: Tensor, m: Any, rule: str, function: str, *gates: Tensor) -> Tensor:
    q, k, v = delta_inputs(w, x, m)
    y = naive(rule, function)(q, k, v, decay(w, low_rank(w, x, "decay")), *gates)[0]
    return (rms(y, w["norm.weight"]).flatten(2) * low_rank(w, x, "z").sigmoid()) @ w["out.weight"].T


def kda(w: Weights, x: Tensor, m: Any) -> Tensor:
    return channel_gated(w, x, m, "kda", "naive_recurrent_kda", m.beta_max * (x @ w["beta.weight"].T).sigmoid())


def gated_deltanet2(w: Weights, x: Tensor, m: Any) -> Tensor:
    erase, write = (heads((x @ w[f"{name}.weight"].T).sigmoid(), m.heads) for name in ("beta", "write"))
    return channel_gated(w, x, m, "gdn2", "naive_recurrent_gdn2", m.beta_max * erase, write)


def attention(w: Weights, x: Tensor, m: Any) -> Tensor:
    qkv = x @ w["qkv.weight"].T + w["qkv.bias"]
    if "canon.weight" in w:  # a residual convolution over the token and the three before it
        taps = w["canon.weight"]
        qkv = qkv + F.conv1d(F.pad(qkv.mT, (3, 0)), taps[:, None], groups=len(taps)).mT
    q, k, v = qkv.split(m.sizes, dim=-1)
    q, k, v = heads(q, m.heads), heads(k, m.kv_heads), heads(v, m.kv_heads)
    gates = F.logsigmoid(x @ w["forget.weight"].T + w["forget.bias"]) if "forget.weight" in w else None
    if "sinks" in w or gates is None:
        softmax = naive("attn", "naive_parallel_attn")
        y = softmax(q, k, v, window_size=m.window or None, g=gates, sink_bias=w.get("sinks"))[0]
    else:
        y = naive("forgetting_attn", "naive_forgetting_attn")(q, k, v, gates)
    y = y.flatten(2) * (x @ w["gate.weight"].T).sigmoid() if "gate.weight" in w else y.flatten(2)
    return y @ w["out.weight"].T + w["out.bias"]


def lru(w: Weights, x: Tensor, m: Any) -> Tensor:
    """The paper's recurrence in complex numbers, as its impulse response written out for every pair of tokens."""
    B, C = (
        torch.view_as_complex(w["B.weight"].unflatten(0, (-1, 2)).mT.contiguous()),
        w["out.weight"].unflatten(1, (-1, 2)),
    )
    u = torch.exp(w["gamma_log"]) * (x.to(torch.complex128) @ B.T)
    exponent = torch.complex(-torch.exp(w["nu_log"]), torch.exp(w["theta_log"]))
    apart = torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])
    response = torch.where(apart[..., None] < 0, 0, torch.exp(exponent * apart.clamp(min=0)[..., None]))
    h = torch.einsum("tsn,bsn->btn", response, u)
    return (h @ torch.complex(C[..., 0], -C[..., 1]).T).real + w["D"] * x


def mamba3(w: Weights, x: Tensor, m: Any) -> Tensor:
    """The paper's recurrence, token by token, B and C as complex numbers where they turn."""
    z, v, B, C, dt, A, share, omega = (x @ w["in_proj.weight"].T).split(m.sizes, dim=-1)
    v = heads(v, m.heads)
    B, C = (rms(heads(t, m.groups), w[f"norms.{i}.weight"]) for i, t in enumerate((B, C)))
    B, C = (t.repeat_interleave(m.heads // m.groups, 2) + w[f"{name}_bias"] for t, name in ((B, "B"), (C, "C")))
    dt = F.softplus(dt + w["dt_bias"])
    A = F.softplus(A) if m.decay == "softplus" else torch.where(A < 0, 1 / (1 - A.clamp(max=0)), 1 + A)
    alpha, share = torch.exp(-dt * A.clamp(min=m.decay_min)), share.sigmoid()
    phase = torch.zeros(len(x), m.heads, m.sizes[-1])
    state, last = torch.zeros(len(x), m.heads, m.state, v.shape[-1]), torch.zeros(len(x), m.heads, m.state, v.shape[-1])
    out = []
    for t in range(x.shape[1]):
        phase = phase + dt[:, t, :, None] * torch.pi * torch.tanh(omega[:, t, None])
        key, query = (rotated(y[:, t], phase) for y in (B, C))
        now = key[..., None] * v[:, t, :, None, :]
        before, after = ((dt * weight)[:, t, :, None, None] for weight in (1 - share, share))
        state = alpha[:, t, :, None, None] * (state + before * last) + after * now
        out.append(torch.einsum("bhn,bhnp->bhp", query, state) + w["D"][:, None] * v[:, t])
        last = now
    return (torch.stack(out, 1).flatten(2) * F.silu(z)) @ w["out.weight"].T


def rotated(t: Tensor, phase: Tensor) -> Tensor:
    pairs = torch.view_as_complex(t.unflatten(-1, (-1, 2)).contiguous())
    turn = torch.polar(torch.ones_like(phase), phase)
    still = torch.ones(*turn.shape[:-1], pairs.shape[-1] - turn.shape[-1], dtype=turn.dtype)
    return torch.view_as_real(pairs * torch.cat([turn, still], -1)).flatten(-2)


def kimi_linear(w: Weights, x: Tensor, m: Any) -> Tensor:
    """transformers' layer of Kimi Linear."""
    KimiLinearConfig, KimiLinearDeltaAttention = published(
        "kimi_linear", "KimiLinearConfig", "KimiLinearDeltaAttention"
    )
    width = m.out.out_features
    config = KimiLinearConfig(
        hidden_size=width, linear_num_heads=m.heads, linear_head_dim=width // m.heads, num_hidden_layers=1,
        linear_conv_kernel_dim=w["conv.weight"].shape[1], layer_types=["linear_attention"], rms_norm_eps=1e-5,
    )  # fmt: skip
    layer = KimiLinearDeltaAttention(config, 0).double()
    named = separate(w, width) | {
        "forget_gate.f_a_proj.weight": w["decay.0.weight"], "forget_gate.f_b_proj.weight": w["decay.1.weight"],
        "forget_gate.dt_bias": w["dt_bias"], "forget_gate.A_log": w["A_log"][:, None],
        "g_a_proj.weight": w["z.0.weight"], "g_b_proj.weight": w["z.1.weight"],
    }  # fmt: skip
    return functional_call(layer, named, (x,))


def olmo_hybrid(w: Weights, x: Tensor, m: Any) -> Tensor:
    """transformers' layer of OLMo Hybrid: Gated DeltaNet whose beta goes up to 2."""
    OlmoHybridConfig, OlmoHybridGatedDeltaNet = published("olmo_hybrid", "OlmoHybridConfig", "OlmoHybridGatedDeltaNet")
    width, values = m.out.out_features, m.out.in_features
    config = OlmoHybridConfig(
        hidden_size=width, linear_num_key_heads=m.heads, linear_num_value_heads=m.heads, num_hidden_layers=2,
        linear_key_head_dim=width // m.heads, linear_value_head_dim=values // m.heads,
        layer_types=["linear_attention", "full_attention"],
        linear_conv_kernel_dim=w["conv.weight"].shape[1], linear_allow_neg_eigval=m.beta_max == 2,
    )  # fmt: skip
    layer = OlmoHybridGatedDeltaNet(config, 0).double()
    named = {
        "a_proj.weight": w["a.weight"],
        "g_proj.weight": w["z.weight"],
        "A_log": w["A_log"],
        "dt_bias": w["dt_bias"],
    }
    return functional_call(layer, separate(w, width) | named, (x,))


def separate(w: Weights, width: int) -> Weights:
    """What transformers' delta layers have in common."""
    q, k, v = w["qkv.weight"].split([width, width, len(w["qkv.weight"]) - 2 * width])
    return {
        "q_proj.weight": q, "k_proj.weight": k, "v_proj.weight": v, "conv1d.weight": w["conv.weight"][:, None],
        "b_proj.weight": w["beta.weight"], "o_norm.weight": w["norm.weight"], "o_proj.weight": w["out.weight"],
    }  # fmt: skip


CASES: list[tuple[str, dict[str, Any], str, Reference]] = [  # a mixer, its options, whose the reference is, and it
    ("deltanet", {"beta_max": 2, "heads": 3}, "fla: delta_rule_recurrence", deltanet),
    ("gated_deltanet", {"beta_max": 2, "expand_v": 2}, "transformers: OlmoHybridGatedDeltaNet", olmo_hybrid),
    ("deltaproduct", {"steps": 3, "heads": 3}, "fla: naive_recurrent_gated_delta_product", deltaproduct),
    (
        "deltaproduct",
        {"forget": True, "output_gate": True, "expand_v": 2},
        "fla: naive_recurrent_gated_delta_product",
        deltaproduct,
    ),
    ("kda", {"beta_max": 2, "expand_v": 2}, "fla: naive_recurrent_kda", kda),
    ("kda", {"heads": 3}, "transformers: KimiLinearDeltaAttention", kimi_linear),
    ("gated_deltanet2", {"beta_max": 2, "expand_v": 2}, "fla: naive_recurrent_gdn2", gated_deltanet2),
    ("mamba3", {"state": 8, "head_dim": 4, "groups": 2}, "formula: the recurrence, complex", mamba3),
    ("mamba3", {"state": 6, "rotary_fraction": 1.0, "decay": "heavy_tail"}, "formula: the recurrence, complex", mamba3),
    ("lru", {"state": 5}, "formula: the impulse response, complex", lru),
    ("attention", {"heads": 4, "kv_heads": 2, "sinks": True, "window": 9}, "fla: naive_parallel_attn", attention),
    ("attention", {"heads": 3, "forget": True, "output_gate": True}, "fla: naive_forgetting_attn", attention),
    ("attention", {"heads": 4, "kv_heads": 1, "sinks": True, "forget": True}, "fla: naive_parallel_attn", attention),
    ("attention", {"heads": 2, "canon": True}, "fla: naive_parallel_attn", attention),
]
PACKAGES = {"fla": "flash-linear-attention", "transformers": "transformers"}


def errors(case: tuple[str, dict[str, Any], str, Reference], length: int, width: int = 12) -> tuple[float, float]:
    """The largest errors of the output and of the gradients of the input and all weights, relative to the largest number."""
    kind, options, _, reference = case
    torch.manual_seed(length)
    mixer = MIXERS.find(kind)(width, **options).double()
    weights = {name: p.detach() + 0.3 * torch.randn_like(p) for name, p in mixer.named_parameters()}
    leaves = {name: p.requires_grad_() for name, p in weights.items()}
    x, direction = (torch.randn(2, length, width, dtype=torch.float64) for _ in range(2))
    x.requires_grad_()
    ours = functional_call(mixer, leaves, (x,))
    with in_float64():
        theirs = reference(leaves, x, mixer)
    found = [
        torch.autograd.grad((y * direction).sum(), [x, *leaves.values()], materialize_grads=True)
        for y in (ours, theirs)
    ]
    return relative(ours, theirs), max(relative(a, b) for a, b in zip(*found, strict=True))


def relative(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape, f"{tuple(a.shape)} beside {tuple(b.shape)}"
    largest = b.abs().max().item()
    return (a - b).abs().max().item() / largest if largest > 1e-12 else (a - b).abs().max().item()


def title(case: tuple[str, dict[str, Any], str, Reference]) -> str:
    return "-".join([case[0], *(f"{name}={value}" for name, value in case[1].items()), case[2].partition(":")[0]])


@pytest.mark.parametrize("length", [pytest.param(n, marks=() if n in (1, 65) else pytest.mark.long) for n in LENGTHS])
@pytest.mark.parametrize("case", CASES, ids=title)
def test_outputs_and_gradients_are_the_references(case, length):
    of_output, of_gradients = errors(case, length)
    assert of_output < LIMIT
    assert of_gradients < LIMIT


def table() -> str:
    """The errors of every case and length, as Markdown."""
    lines = ["| mixer | options | reference | " + " | ".join(f"length {n}" for n in LENGTHS) + " |"]
    lines.append("|" + "---|" * (3 + len(LENGTHS)))
    for case in CASES:
        kind, options, (package, _, name) = *case[:2], case[2].partition(": ")
        whose = (
            f"{PACKAGES[package]} {metadata.version(PACKAGES[package])}: `{name}`" if package in PACKAGES else case[2]
        )
        cells = [f"{a:.0e} / {b:.0e}" for a, b in (errors(case, n) for n in LENGTHS)]
        chosen = ", ".join(f"{name}: {value}" for name, value in options.items())
        lines.append(f"| `{kind}` | {chosen} | {whose} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    head = (
        "# Parity of mixers with references\n\nLargest error of the outputs / of the gradients of the input and all weights, "
        "relative to the largest\nnumber, in float64. A reference is a package's own layer or plain function with our weights, "
        "or the paper's formula\nwritten a second time. Written by `python tests/mixers/test_parity.py`.\n\n"
    )
    Path(__file__).parents[2].joinpath("benchmarks", "parity.md").write_text(head + table() + "\n")
