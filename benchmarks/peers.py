"""Our step beside Zoology's own trainer, and beside a jitted vmap of the same model in JAX: milliseconds per run and step.

python benchmarks/peers.py PATH [--device cuda] [--mixer attention] [--cohort 36] [--to table.csv]

PATH is a checkout of HazyResearch/zoology; its modules, its data and its `Trainer.train_epoch` run as they are, in float32, its
default. It is patched only where it would not start otherwise (`PATCHES`), and every patch that was needed is printed. JAX is
timed where it is installed: attention only, the cohort's size, logits at answers only, bf16 products on a GPU.
"""

import argparse
import contextlib
import importlib
import inspect
import io
import sys
import time
from collections.abc import Callable
from functools import partial, partialmethod
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from recollect.bench.timing import Shape, bench, ceilings

SETTINGS = {
    "cuda": [
        Shape("", precision="bfloat16"),
        Shape("", width=128, length=256, pairs=16, batch=256, precision="bfloat16"),
    ],
    "cpu": [Shape("", batch=64), Shape("", batch=64, vocab=256)],
}
MIXERS = {
    "attention": lambda setting: ("zoology.mixers.attention.MHA", {"num_heads": 1}),
    "hyena": lambda setting: ("zoology.mixers.hyena.Hyena", {"l_max": setting.length}),
}
"""By our name: Zoology's class and its options for a setting."""
STEPS = {"cuda": 100, "cpu": 8}
"""Steps per epoch that is timed."""
PATCHES: list[str] = []
"""What Zoology needed to start on this machine."""


class Identity(nn.Module):
    """Stands for torchvision's StochasticDepth, whose probability is 0 here."""

    def __init__(self, p: float, mode: str):
        super().__init__()
        if p:
            raise ValueError(f"drop_path {p} needs torchvision")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def load_zoology(path: Path, device: str) -> SimpleNamespace:
    """Zoology's modules, patched where they would not start."""
    sys.path.insert(0, str(path))
    for name, parts in {"torchvision": {"ops": {"StochasticDepth": Identity}}, "wandb": {}}.items():
        try:
            importlib.import_module(name)
        except ImportError:
            _stand_in(name, parts)
            PATCHES.append(f"{name} is not installed: a stand-in without effect takes its place")
    load = importlib.import_module
    model, train, config = load("zoology.model"), load("zoology.train"), load("zoology.config")
    if device == "cpu":
        model.TokenEmbeddings = partial(model.TokenEmbeddings, device="cpu")
        PATCHES.append("TokenEmbeddings is given device='cpu', because its default is cuda")
    embeddings = inspect.signature(model.LanguageModel.forward).parameters.get("return_embeddings")
    if embeddings is not None and embeddings.default:
        model.LanguageModel.forward = partialmethod(model.LanguageModel.forward, return_embeddings=False)
        PATCHES.append(
            "LanguageModel.forward is given return_embeddings=False: the trainer takes its output for logits"
        )
    data, mqar = load("zoology.data.utils"), load("zoology.data.multiquery_ar")
    return SimpleNamespace(model=model, train=train, config=config, data=data, mqar=mqar)


def _stand_in(name: str, parts: dict[str, Any]) -> ModuleType:
    """A module of this name with these parts; dictionaries become modules in it."""
    module = sys.modules[name] = ModuleType(name)
    for key, part in parts.items():
        setattr(module, key, _stand_in(f"{name}.{key}", part) if isinstance(part, dict) else part)
    return module


def time_zoology(zoology: SimpleNamespace, setting: Shape, device: str) -> float:
    """Milliseconds per step of Zoology's trainer: the faster of two epochs, after one that warms it up."""
    name, options = MIXERS[setting.mixer](setting)
    steps = STEPS[device]
    rows = zoology.mqar.MQARConfig(
        vocab_size=setting.vocab, input_seq_len=setting.length, num_kv_pairs=setting.pairs,
        num_examples=steps * setting.batch, random_non_queries=False,
    )  # fmt: skip
    few = rows.model_copy(update={"num_examples": setting.batch})
    data = zoology.config.DataConfig(train_configs=[rows], test_configs=[few], batch_size=setting.batch)
    spec = zoology.config.ModelConfig(
        sequence_mixer=zoology.config.ModuleConfig(name=name, kwargs=options), d_model=setting.width,
        n_layers=setting.layers, max_position_embeddings=setting.length, vocab_size=setting.vocab,
    )  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        model = zoology.model.LanguageModel(spec).to(device)
        train, test = zoology.data.prepare_data(data)
        logger = SimpleNamespace(log=lambda values: None)
        trainer = zoology.train.Trainer(model, train, test, device=device, logger=logger)
        trainer.loss_fn = nn.CrossEntropyLoss()
        trainer.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
        epochs = [_seconds(lambda: trainer.train_epoch(0)) for _ in range(3)]
    return 1000 * min(epochs[1:]) / steps


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - started


def time_jax(setting: Shape, members: int) -> float | None:
    """Milliseconds per run and step of a cohort in JAX, or nothing where JAX is not installed."""
    try:
        import jax
    except ImportError:
        return None
    jnp = jax.numpy
    width, dtype = setting.width, jnp.bfloat16 if setting.precision == "bfloat16" else jnp.float32
    shapes: dict[str, tuple[int, ...]] = {"words": (setting.vocab, width), "positions": (setting.length, width)}
    for i in range(setting.layers):
        maps = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width), "down": (4 * width, width)}
        for name, shape in maps.items():
            shapes |= {f"{i}.{name}": shape, f"{i}.{name}.bias": shape[1:]}
        shapes |= {f"{i}.{norm}.{part}": (width,) for norm in ("norm1", "norm2") for part in ("scale", "shift")}
    shapes |= {"norm.scale": (width,), "norm.shift": (width,)}
    mask = jnp.tril(jnp.ones((setting.length, setting.length), bool))

    def norm(p: dict, name: str, x: Any) -> Any:
        x = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * p[f"{name}.scale"] + p[f"{name}.shift"]

    def linear(p: dict, name: str, x: Any) -> Any:
        return (x.astype(dtype) @ p[name].astype(dtype)).astype(jnp.float32) + p[f"{name}.bias"]

    def loss(p: dict, tokens: Any, places: Any, answers: Any) -> Any:
        x = p["words"][tokens] + p["positions"]
        for i in range(setting.layers):
            q, k, v = (t.astype(dtype) for t in jnp.split(linear(p, f"{i}.qkv", norm(p, f"{i}.norm1", x)), 3, -1))
            scores = jnp.where(mask, (q @ k.swapaxes(-1, -2)).astype(jnp.float32) * width**-0.5, -1e9)
            read = (jax.nn.softmax(scores).astype(dtype) @ v).astype(jnp.float32)
            x = x + linear(p, f"{i}.out", read)
            x = x + linear(p, f"{i}.down", jax.nn.gelu(linear(p, f"{i}.up", norm(p, f"{i}.norm2", x))))
        x = norm(p, "norm", jnp.take_along_axis(x, places[..., None], axis=1))
        logits = (x.astype(dtype) @ p["words"].T.astype(dtype)).astype(jnp.float32)
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), answers[..., None], axis=-1).mean()

    def adamw(p: Any, g: Any, m: Any, v: Any, number: Any, rate: Any) -> tuple[Any, Any, Any]:
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        move = m / (1 - 0.9**number) / (jnp.sqrt(v / (1 - 0.999**number)) + 1e-8)
        return p * (1 - 0.1 * rate) - rate * move, m, v

    def step(p: dict, m: dict, v: dict, number: Any, rate: Any, *rows: Any) -> tuple[dict, dict, dict]:
        g = jax.grad(loss)(p, *rows)
        new = {name: adamw(p[name], g[name], m[name], v[name], number, rate) for name in p}
        return tuple({name: parts[i] for name, parts in new.items()} for i in range(3))  # type: ignore[return-value]

    random = np.random.default_rng(0)
    params = {
        name: jnp.asarray(0.02 * random.normal(size=(members, *shape)), jnp.float32) for name, shape in shapes.items()
    }
    m, v = ({name: jnp.zeros_like(p) for name, p in params.items()} for _ in range(2))
    size = (members, setting.batch, setting.length)
    tokens = jnp.asarray(random.integers(setting.vocab, size=size))
    places = jnp.asarray(random.integers(setting.length, size=(*size[:2], setting.pairs)))
    answers, rates = jnp.asarray(random.integers(setting.vocab, size=places.shape)), jnp.full(members, 1e-3)
    jitted = jax.jit(jax.vmap(step, in_axes=(0, 0, 0, None, 0, 0, 0, 0)), donate_argnums=(0, 1, 2))

    def spell(calls: int) -> float:
        nonlocal params, m, v
        started = time.perf_counter()
        for i in range(calls):
            params, m, v = jitted(params, m, v, float(i + 1), rates, tokens, places, answers)
        jax.block_until_ready(params)
        return time.perf_counter() - started

    spell(2)  # compiles
    calls = 50 if jax.default_backend() == "gpu" else 3
    return 1000 * min(spell(calls) for _ in range(3)) / calls / members


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="a checkout of HazyResearch/zoology")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
    parser.add_argument("--mixer", default="attention", choices=list(MIXERS))
    parser.add_argument("--cohort", type=int, default=0, help="runs trained together; 0: 36 on a GPU, 4 on a CPU")
    parser.add_argument("--to", type=Path, help="a CSV file for the table")
    asked = parser.parse_args()
    if not (asked.path / "zoology" / "train.py").exists():
        parser.error(f"{asked.path} is not a checkout of zoology: it has no zoology/train.py")
    device, members = torch.device(asked.device), asked.cohort or (36 if asked.device == "cuda" else 4)
    if asked.device == "cpu":
        torch.set_num_threads(1)
    zoology, best = load_zoology(asked.path, asked.device), ceilings(device)
    rows = []
    for shape in SETTINGS[asked.device]:
        setting = Shape(**{**vars(shape), "mixer": asked.mixer})
        ours = {row.members: row.ms for row in bench(setting, [1, members], device, best, asked.device == "cuda")}
        theirs = time_zoology(zoology, setting, asked.device)
        row = {
            "mixer": asked.mixer, "width": setting.width, "length": setting.length, "batch": setting.batch,
            "vocab": setting.vocab, "zoology": theirs, "plain loop": ours[0], "cohort of 1": ours[1],
            f"cohort of {members}": ours[members], "zoology / cohort": theirs / ours[members],
        }  # fmt: skip
        jax = time_jax(setting, members) if asked.mixer == "attention" else None
        rows.append(row if jax is None else row | {"jax": jax, "jax / cohort": jax / ours[members]})
    table = pd.DataFrame(rows)
    print(table.round(3).to_string(index=False))
    print(
        "milliseconds per run and step;", "JAX is not installed" if "jax" not in table else "JAX trains the same cohort"
    )
    print("\n".join(["What Zoology needed to start here:", *(f"- {patch}" for patch in PATCHES)] if PATCHES else []))
    if asked.to:
        table.to_csv(asked.to, index=False)


if __name__ == "__main__":
    main()
