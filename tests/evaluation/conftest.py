"""Two models whose weights are written down, not learned: each predicts what followed the last token before.

Tokens are one-hot. A layer looks one token back, another (or the same, through its convolution) finds the place whose
token before is the present one, and gives the token there.
"""

import math
from pathlib import Path

import pytest
import safetensors.torch
import torch
import transformers
from torch import Tensor
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

from recollect import Study
from recollect.store.export import export

SHARP = 60.0


def neox(vocabulary: int, positions: int = 512) -> GPTNeoXForCausalLM:
    """GPT-NeoX of two layers; blocks of the stream: A this token, B the one before it, C the prediction."""
    V = vocabulary + vocabulary % 2
    config = GPTNeoXConfig(
        vocab_size=vocabulary, hidden_size=3 * V, num_hidden_layers=2, num_attention_heads=1, intermediate_size=4,
        max_position_embeddings=positions, bos_token_id=None, eos_token_id=None,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": (V + 0.5) / (3 * V)},
    )  # fmt: skip
    model = GPTNeoXForCausalLM(config)
    one = torch.eye(V)
    a, b, c = slice(0, V), slice(V, 2 * V), slice(2 * V, 3 * V)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "layernorm" not in name and "layer_norm" not in name:
                p.zero_()
        model.get_input_embeddings().weight[:, a] = one[:vocabulary]
        model.get_output_embeddings().weight[:, c] = one[:vocabulary]
        before, match = (layer.attention for layer in model.gpt_neox.layers)

        # Positions alone: the score of place j at t is the sum over frequencies of cos((t - 1 - j) f), highest at t - 1.
        f = 10000.0 ** (-torch.arange(0, V, 2) / V)
        q, k = before.query_key_value.bias[: 3 * V], before.query_key_value.bias[3 * V : 6 * V]
        q[: V // 2], q[V // 2 : V] = SHARP * f.cos(), -SHARP * f.sin()
        k[: V // 2] = math.sqrt(3 * V)  # undoes the division by the root of the head's width
        _value(before)[a, a] = one
        before.dense.weight[b, a] = one

        # Content alone, in the dims that are not rotated. Minus A: the first place has itself as the token before it.
        _part(match, 0)[b, a] = SHARP * one
        _part(match, 1)[b, b], _part(match, 1)[b, a] = one, -one
        _value(match)[a, a] = one
        match.dense.weight[c, a] = 10 * one
    return model.eval()


def _part(attention, number: int) -> Tensor:
    size = attention.head_size
    return attention.query_key_value.weight[number * size : (number + 1) * size]


def _value(attention) -> Tensor:
    return _part(attention, 2)


def exported(folder: Path, task: dict) -> Path:
    """A run of attention with a convolution on its keys, exported, and then given the weights written down here."""
    vocabulary = task["vocab"]
    study = Study(
        name="written",
        task=task,
        model={"mixer": {"kind": "attention", "conv": "k"}, "width": vocabulary, "layers": 1, "mlp": "none",
               "positions": "none"},
        train={"steps": 1, "batch": 2, "test_rows": 2, "eval_rows": 2},
    )  # fmt: skip
    store = study.run(device="cpu", workers=1, store=folder / "store.sqlite", progress=False).store
    export(next(iter(store.done())), store, folder / "model")
    path = folder / "model" / "model.safetensors"
    weights, one = safetensors.torch.load_file(path), torch.eye(vocabulary)
    changed = {name: torch.ones_like(p) if "norm" in name and "weight" in name else torch.zeros_like(p)
               for name, p in weights.items()}  # fmt: skip
    changed["embedding.weight"] = one.clone()
    changed["layers.0.mixer.qkv.weight"] = torch.cat([SHARP * one, one, one])
    changed["layers.0.mixer.out.weight"] = 10 * one
    changed["layers.0.mixer.convs.k.weight"][:, -2] = 1.0  # the token before
    safetensors.torch.save_file(changed, path)
    return folder / "model"


@pytest.fixture(scope="session", autouse=True)
def _offline():
    """Nothing here may reach for the network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        transformers.utils.logging.disable_progress_bar()
        yield


@pytest.fixture(scope="session")
def inducing(tmp_path_factory) -> Path:
    """The GPT-NeoX above in a Hugging Face folder, without a tokenizer: 80 tokens."""
    folder = tmp_path_factory.mktemp("inducing") / "neox"
    neox(80).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def make_neox():
    """The GPT-NeoX above for a vocabulary."""
    return neox


@pytest.fixture(scope="session")
def recalling(tmp_path_factory) -> Path:
    """The exported run above, of associative recall with 64 tokens."""
    return exported(tmp_path_factory.mktemp("recalling"), {"kind": "ar", "pairs": 8, "vocab": 64})
