"""How Zoology's names translate: for each mixer its options, and what becomes of every other field."""

from dataclasses import dataclass, field
from typing import Any

NO_EFFECT = "no effect on training"
NOT_MAPPED = "not mapped"


@dataclass(frozen=True)
class MixerTable:
    """How one of Zoology's mixers is written here."""

    kind: str
    renamed: dict[str, str] = field(default_factory=dict)
    """Options that have another name here."""
    same: dict[str, Any] = field(default_factory=dict)
    """Options that are no choice here, and the value at which both are the same."""
    unused: tuple[str, ...] = ("l_max",)
    """Options that decide nothing here: the model gives the length, or Zoology's code passes over them."""
    added: dict[str, Any] = field(default_factory=dict)
    """Where Zoology's module, with no option given, is not ours with no option given: the options that make ours the same."""


MIXERS = {
    "MHA": MixerTable("attention", {"num_heads": "heads", "dropout": "dropout", "bias": "bias"}),
    "SlidingAttn": MixerTable("attention", {"dropout": "dropout"}, unused=("l_max", "attention_dropout")),
    "Hyena": MixerTable("hyena", {"filter_order": "filter_width", "emb_dim": "features"}, added={"train_features": True}),
    "RWKVTimeMixer": MixerTable("rwkv", added={"init": "pytorch"}),
    "RWKV7Attention": MixerTable("rwkv7", {"head_dim": "head_dim"}),
    "BaseConv": MixerTable("base_conv", same={"use_act": False}),
    "H3": MixerTable("h3", {"head_dim": "head_dim"}, added={"head_dim": 1}),
    "Based": MixerTable(
        "linear_attention", {"num_heads": "heads", "feature_dim": "feature_dim"}, unused=("l_max", "train_view"),
        added={"heads": 12, "feature_dim": 16, "bias": False},
    ),
    "Mamba": MixerTable("mamba", {"d_state": "state", "d_conv": "kernel", "expand": "expand"}),
    "Mamba2": MixerTable(
        "mamba2", {"d_state": "state", "d_conv": "kernel", "expand": "expand", "headdim": "head_dim", "ngroups": "groups"},
        added={"state": 128},
    ),
    "DeltaNet": MixerTable(
        "deltanet", {"num_heads": "heads", "conv_size": "kernel"},
        same={"use_beta": True, "use_gate": False, "use_short_conv": True}, added={"heads": 4},
    ),
    "GatedDeltaNet": MixerTable(
        "gated_deltanet", {"num_heads": "heads", "conv_size": "kernel", "expand_v": "expand_v", "use_gate": "output_gate"},
        same={"use_short_conv": True}, added={"heads": 6, "expand_v": 2},
    ),
    "GatedLinearAttention": MixerTable(
        "gla", {"num_heads": "heads"}, same={"use_short_conv": False}, added={"heads": 4}
    ),
}  # fmt: skip
"""By the class name of Zoology's mixer. What is neither here nor handled in zoology.py is named as not mapped."""

FEATURES = {
    "taylor_exp": {"feature": "taylor"}, "TaylorExp": {"feature": "taylor"}, "ReLU": {"feature": "relu"},
    **{name: {"feature": "elu"} for name in ("pos_elu", "PosELU")},
    **{name: {"feature": "identity", "normalise": "on"} for name in ("none", "identity", "Identity")},
}  # fmt: skip
"""The feature maps of Zoology's Based, by the last part of their name."""

MODEL = {
    "d_model": "width", "n_layers": "layers", "resid_dropout": "dropout_residual", "embed_dropout": "dropout_embedding"
}  # fmt: skip
MODEL_SAME = {
    "drop_path": 0.0, "layer_norm_epsilon": 1e-5, "pad_vocab_size_multiple": 1, "learnable_word_embeddings": True,
    "embedding_init_type": "default",
}  # fmt: skip
TRAIN = {"learning_rate": "lr", "max_epochs": "epochs", "weight_decay": "weight_decay", "seed": "seed"}
TRAIN_SAME = {"loss_type": "ce", "input_type": "discrete"}
TRAIN_UNUSED = ("logger", "launch_id", "sweep_id", "run_id", "slice_keys", "predictions_path", "collect_predictions")
DATA_UNUSED = ("cache_dir", "force_cache", "caching")
TASK = {"input_seq_len": "length", "num_kv_pairs": "pairs", "vocab_size": "vocab", "power_a": "power_a"}
TASK_UNUSED = ("include_slices", "name", "train_power_a", "test_power_a")
"""The last two are no fields of Zoology's MQARConfig, which passes over them."""
ZOOLOGY_DEFAULTS = {
    "model": {"d_model": 128, "embed_dropout": 0.1, "max_position_embeddings": 64},
    "train": {"max_epochs": 100, "weight_decay": 0.1, "seed": 123, "early_stopping_threshold": 0.99},
    "task": {"num_kv_pairs": 8, "input_seq_len": 64, "num_examples": 1000},
}
"""Zoology's own defaults where they differ from ours, filled in before anything is translated."""
