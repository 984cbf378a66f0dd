"""The papers' models by name with the papers' sizes, and the choices that no paper states."""

import pytest
import torch

from recollect.models.model import Model
from recollect.models.spec import ModelSpec
from recollect.papers import PAPERS
from recollect.sources import PROTOCOLS, SOURCES, is_preset, preset, preset_names, with_preset
from recollect.sources.retrievit2026 import COUNTS, SOURCE
from recollect.spec import SpecError
from recollect.tasks import as_task
from recollect.train.spec import TrainSpec


def size(fields: dict) -> int:
    """Parameters without embeddings and head."""
    with torch.device("meta"):
        model = Model(ModelSpec(**fields), vocabulary=33, length=100)
    return sum(
        p.numel() for name, p in model.named_parameters() if not name.startswith(("embedding", "head", "positions"))
    )


MILLIONS = {
    "transformer-rope": 151.15, "transformer-nope": 151.15, "mamba-16": 160.02, "mamba-32": 162.37, "mamba-64": 167.09,
    "mamba2-16": 152.89, "mamba2-32": 153.68, "mamba2-64": 155.27, "interleaved-mamba-1": 154.09, "interleaved-mamba-2": 155.57,
    "interleaved-mamba-3": 162.98, "interleaved-mamba-4": 157.05, "twostream-mamba": 154.09, "interleaved-mamba2-1": 151.72,
    "interleaved-mamba2-2": 152.01, "interleaved-mamba2-3": 158.53, "interleaved-mamba2-4": 152.31, "twostream-mamba2": 151.72,
    "reverse-mamba": 154.09, "reverse-mamba2": 151.72,
}  # fmt: skip
"""Millions of parameters of the layers, counted by hand."""


def test_the_transformer_has_the_published_count_to_the_parameter():
    assert (
        size(SOURCE.presets["retrievit-transformer-rope"])
        == size(SOURCE.presets["retrievit-transformer-nope"])
        == 151_156_736
    )


@pytest.mark.parametrize("name", MILLIONS)
def test_the_others_have_the_printed_whole_millions(name):
    millions = size(SOURCE.presets[f"retrievit-{name}"]) / 1e6
    assert abs(millions - MILLIONS[name]) < 0.01, millions
    assert int(millions) == COUNTS.get(name, int(millions))


@pytest.mark.parametrize(
    ("width", "layers", "state", "millions"),
    [
        *((1024, 12, 16, 80.0), (1024, 12, 32, 81.2), (1024, 24, 16, 160.0)),
        *((1024, 24, 32, 162.4), (1408, 12, 16, 150.6), (1408, 12, 32, 152.2)),
    ],
)
def test_the_copy_models_of_okpekpe_and_orvieto(width, layers, state, millions):
    fields = {
        "mixer": {"kind": "mamba", "state": state},
        "width": width,
        "layers": layers,
        "mlp": "none",
        "norm": "rms",
    }
    assert size(fields) / 1e6 == pytest.approx(millions, abs=0.06)


def test_every_preset_is_a_model_and_fields_beside_it_come_first():
    assert len([name for name in SOURCE.presets if "reverse" not in name]) == 18, "17 rows, one of them RoPE / NoPE"
    small = with_preset({"preset": "retrievit-twostream-mamba2", "width": 256, "layers": 4})
    assert ModelSpec(**small).layers == 4
    assert preset("okpekpe-mamba-128x2") == {"mixer": "mamba", "width": 128, "layers": 2}
    with pytest.raises(SpecError, match="did you mean 'retrievit-mamba2-16'"):
        preset("retrievit-mamba2-166")
    with pytest.raises(SpecError, match="unknown preset 'okpekpe-mambo-64x1'"):
        preset("okpekpe-mambo-64x1")


def test_a_first_word_distinguishes_a_preset_from_a_mixer():
    assert is_preset("retrievit-mamba2-166")
    assert is_preset("okpekpe-mambo-64x1")
    assert not is_preset("mamba2")
    assert not is_preset("my_module:Mixer")
    assert "okpekpe-MIXER-WIDTHxLAYERS" in preset_names()


@pytest.mark.parametrize("name", SOURCES)
def test_a_choice_that_no_paper_states_is_the_one_made(name):
    source, paper = SOURCES.find(name), PAPERS.find(name)
    assert paper.title == source.title
    assert paper.unknown == source.unknown
    protocols = [
        PROTOCOLS.find(name)(as_task({"kind": kind})) for kind in ("mqar", "words")
    ]  # it may depend on the task
    for fields in protocols:
        TrainSpec(**fields)
    for unknown in source.unknown:
        assert not unknown.control or paper.item(unknown.control)
        section, _, field = unknown.name.partition(".")
        if section == "train" and field in protocols[0]:
            values = tuple(str(fields[field]).removesuffix(".0") for fields in protocols)
            assert unknown.chosen.replace(",", "").startswith(values), unknown
