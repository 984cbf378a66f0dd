"""The models of the papers, by name: `model: {preset: retrievit-mamba2-16}` or `model: {preset: okpekpe-mamba-128x2}`.

Any field that a study gives beside `preset` comes first.
"""

import re
from typing import Any

from recollect.mixers import MIXERS
from recollect.spec import SpecError, nearest

Fields = dict[str, Any]


def _transformer() -> Fields:
    """A GPT-NeoX layer: parallel residual, 16 heads, rotary on a quarter of each head."""
    return {"mixer": {"kind": "attention", "heads": 16, "rotary_fraction": 0.25}, "mlp": "gelu", "parallel": True}


def _ssm(kind: str, state: int) -> Fields:
    return {"mixer": {"kind": kind, "state": state}, "mlp": "none"}


def _retrievit() -> dict[str, Fields]:
    """Pantazopoulos et al., Table 1 (its 2:1 and 3:1 rows as their parameter counts say, not as printed)."""
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


RETRIEVIT = _retrievit()
_OKPEKPE = re.compile(r"okpekpe-([a-z0-9_]+)-(\d+)x(\d+)")


def preset(name: str) -> Fields:
    """The fields of a named model."""
    if name in RETRIEVIT:
        return RETRIEVIT[name]
    if (match := _OKPEKPE.fullmatch(name)) and match[1] in MIXERS:
        return {"mixer": match[1], "width": int(match[2]), "layers": int(match[3])}
    choices = [*RETRIEVIT, "okpekpe-MIXER-WIDTHxLAYERS (such as okpekpe-mamba-128x2)"]
    raise SpecError(f"unknown preset {name!r}: {nearest(name, choices)}")


def with_preset(model: Fields) -> Fields:
    """`model` with the fields of the preset it names filled in."""
    if "preset" not in model:
        return model
    return {**preset(str(model["preset"])), **{name: value for name, value in model.items() if name != "preset"}}
