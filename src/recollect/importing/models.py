"""Zoology's models: layers, mixers and their options under the names they have here."""

from string import ascii_uppercase as LETTERS
from typing import Any

import yaml

from recollect.importing.fields import Fates, Fields, LeftOut
from recollect.importing.script import Made
from recollect.importing.tables import FEATURES, MIXERS, MODEL, MODEL_SAME, NO_EFFECT

MOST_LAYERS = 1000
"""The deepest model of which each layer is looked at."""


def zoology_model(made: Any, fates: Fates) -> tuple[Fields, int]:
    """The model, and its vocabulary in Zoology."""
    own = fates.fields(made, "model", "model")
    fates.take(own, "model", "name", NO_EFFECT)
    vocab = fates.take(own, "model", "vocab_size", "task.vocab", 8192)
    model = fates.rename(own, MODEL, "model", "model")
    layers = model.setdefault("layers", 2)
    if layers > MOST_LAYERS:
        raise LeftOut(f"n_layers {layers}: at most {MOST_LAYERS} are mapped")
    longest = fates.take(own, "model", "max_position_embeddings", "model.positions")
    model["positions"] = "learned" if longest else "none"
    block = fates.take(own, "model", "block_type", "model.mlp", "TransformerBlock")
    state, options = _parts(fates.take(own, "model", "state_mixer", "model.mlp", {"name": "MLP"}))
    mlp = "none"  # a block of Mamba has no second half
    if block == "TransformerBlock":
        if state not in ("Identity", "MLP"):
            raise LeftOut(f"state_mixer {state}: only Identity and MLP are mapped")
        mlp = "identity" if state == "Identity" else "gelu"
        model |= {"mlp_ratio": float(options.get("hidden_mult", 4))} if mlp == "gelu" else {}
    mixers = _mixers(own.pop("sequence_mixer", None), layers, fates)
    for mixer in mixers:
        if (
            mixer["kind"] == "mamba"
        ):  # Zoology draws its maps again, and zeroes its biases, in one of the two blocks only
            mixer |= {"dt_init": "zero"} if block == "TransformerBlock" else {"init": "pytorch"}
    fates.rest(own, MODEL_SAME, "model")
    if len({yaml.safe_dump(mixer) for mixer in mixers}) == 1:
        return {"mixer": mixers[0], "mlp": mlp, **model}, vocab
    kinds = list({yaml.safe_dump(mixer): mixer for mixer in mixers}.values())
    if len(kinds) > len(LETTERS):
        raise LeftOut(f"{len(kinds)} different mixers in one model: at most {len(LETTERS)} are mapped")
    blocks = {letter: {"mixer": mixer, "mlp": mlp} for letter, mixer in zip(LETTERS, kinds, strict=False)}
    return {"pattern": "".join(LETTERS[kinds.index(mixer)] for mixer in mixers), "blocks": blocks, **model}, vocab


def _parts(module: Any) -> tuple[str, Fields]:
    """The class name and the arguments of a module's configuration."""
    own = module.fields if isinstance(module, Made) else module or {}
    return str(own.get("name", "")).rpartition(".")[2], dict(own.get("kwargs") or {})


def _mixers(module: Any, layers: int, fates: Fates) -> list[Fields]:
    """What each layer mixes with; Hybrid's layers take turns."""
    kind, own = _parts(module)
    if kind == "Hybrid":
        fates.note("model.sequence_mixer.Hybrid.configs", None, "model.pattern and model.blocks")
        turns = own["configs"]
        return [_mixer(*_parts(turns[i % len(turns)]), i, fates) for i in range(layers)]
    return [_mixer(kind, own, i, fates) for i in range(layers)]


def _mixer(kind: str, own: Fields, layer: int, fates: Fates) -> Fields:
    """One mixer with the options that differ in name."""
    if kind not in MIXERS:
        raise LeftOut(f"mixer {kind or None} does not exist here")
    table, path, own = MIXERS[kind], f"model.sequence_mixer.{kind}", dict(own)
    mixer: Fields = {"kind": table.kind, **table.added}
    if kind == "BaseConv":
        sizes, implicit = own.pop("kernel_size", 3), own.pop("implicit_long_conv", True)
        size = sizes[layer] if isinstance(sizes, list) else sizes
        if size == -1 and not implicit:
            raise LeftOut("mixer BaseConv with an explicit long convolution does not exist here")
        mixer |= {"implicit": True} if size == -1 else {"kernel": size}
        fates.note(f"{path}.kernel_size", None, "mixer.kernel, or mixer.implicit for -1")
        fates.note(f"{path}.implicit_long_conv", None, "mixer.implicit where kernel_size is -1")
    if kind == "SlidingAttn":
        block = fates.take(own, path, "block_size", "mixer.window, which counts the token itself too", 256)
        mixer["window"] = block + 1
    if kind == "H3":
        state = int(fates.take(own, path, "d_state", "mixer.state (left out where it is the length)", 64))
        mixer |= {"state": state} if state != own.get("l_max") else {}
    if kind == "Based":
        feature = str(fates.take(own, path, "feature_name", "mixer.feature", "taylor_exp")).rpartition(".")[2]
        if feature not in FEATURES:
            raise LeftOut(f"mixer Based with the feature map {feature} does not exist here")
        mixer |= FEATURES[feature]
        if own.get("num_key_value_heads") == own.get("num_heads"):
            fates.take(own, path, "num_key_value_heads", "the same here")
    for name in [name for name in own if name in table.unused]:
        fate = "no effect here: the model knows its length" if name == "l_max" else NO_EFFECT
        fates.note(f"{path}.{name}", own.pop(name), fate)
    mixer |= fates.rename(own, table.renamed, path, "mixer")
    fates.rest(own, table.same, path)
    return mixer
