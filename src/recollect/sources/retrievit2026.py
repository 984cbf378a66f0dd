"""Pantazopoulos et al., "Retrievit: In-context Retrieval Capabilities of Transformers, State Space Models, and Hybrid
Architectures" (2026): Table 1 (its 2:1 and 3:1 rows as their parameter counts say, not as printed) and Table 2.

The text states no precision; the released code trains in bfloat16, and so does scale `paper` here.
"""

from recollect.sources.base import AnyTask, Fields, Source, Unknown


def protocol(task: AnyTask) -> Fields:
    """Pantazopoulos et al., Table 2: fresh rows, 312,500 steps of 64, cosine after a tenth of warm-up, ends at 95 %."""
    return {
        "steps": 312_500, "batch": 64, "train_rows": 0, "test_rows": 100_000, "eval_rows": 2048, "eval_every": 500,
        "weight_decay": 0.01, "decay": "matrices", "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "clip": 1.0, "warmup": 0.1,
        "schedule": "cosine", "stop_at": 0.95, "slices": "always",
    }  # fmt: skip


def _transformer() -> Fields:
    """A GPT-NeoX layer: parallel residual, 16 heads, rotary positions on a quarter of each head."""
    return {"mixer": {"kind": "attention", "heads": 16, "rotary_fraction": 0.25}, "mlp": "gelu", "parallel": True}


def _ssm(kind: str, state: int) -> Fields:
    return {"mixer": {"kind": kind, "state": state}, "mlp": "none"}


def _models() -> dict[str, Fields]:
    models: dict[str, Fields] = {
        f"transformer-{name}": {**_transformer(), "width": 1024, "layers": 12, "positions": positions, "tie": False}
        for name, positions in (("rope", "rotary"), ("nope", "none"))
    }
    hybrid = {"width": 1024, "norm": "rms", "positions": "rotary", "tie": True}
    for kind in ("mamba", "mamba2"):
        for state in (16, 32, 64):
            models[f"{kind}-{state}"] = {**_ssm(kind, state), "width": 1024, "layers": 24, "norm": "rms", "tie": True}
        blocks = {"M": _ssm(kind, 16), "T": _transformer()}
        for n, layers in ((1, 16), (2, 18), (3, 20), (4, 20)):
            models[f"interleaved-{kind}-{n}"] = {**hybrid, "pattern": "M" * n + "T", "blocks": blocks, "layers": layers}
        for name, gated in (("twostream", "second"), ("reverse", "first")):
            second = {"block": _transformer(), "gated": gated}
            models[f"{name}-{kind}"] = {**hybrid, **_ssm(kind, 16), "layers": 8, "second": second}
    return {f"retrievit-{name}": fields for name, fields in models.items()}


COUNTS = {
    "transformer-rope": 151, "transformer-nope": 151, "mamba-16": 160, "mamba-32": 162, "mamba-64": 167, "mamba2-16": 152,
    "mamba2-32": 153, "mamba2-64": 155, "interleaved-mamba-1": 154, "interleaved-mamba-2": 155, "interleaved-mamba-3": 162,
    "interleaved-mamba-4": 157, "twostream-mamba": 154, "interleaved-mamba2-1": 151, "interleaved-mamba2-2": 152,
    "interleaved-mamba2-3": 158, "interleaved-mamba2-4": 152, "twostream-mamba2": 151,
}  # fmt: skip
"""Whole millions of parameters without embeddings (Table 1). Its 2:1 and 3:1 rows have their columns mixed up: layers here are as
the counts say. RoPE and NoPE are one row there."""
SOURCE = Source(
    "retrievit2026",
    "Pantazopoulos et al., Retrievit: In-context Retrieval Capabilities of Transformers, State Space Models, and Hybrids",
    presets=_models(),
    unknown=(
        Unknown("train.decay", "matrices", "which parameters decay", short="which parameters decay (matrices)"),
        Unknown(
            "train.seed", "one for data and weights", "what the seeds decide", short="one seed for data and weights"
        ),
        Unknown("curves", "the runs of the best rate", "whether curves pool the rates or pick one"),
    ),
)
