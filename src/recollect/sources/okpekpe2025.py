"""Okpekpe & Orvieto, "Revisiting associative recall in modern recurrent models" (2025). It runs Zoology's code."""

from recollect.sources import zoology2024
from recollect.sources.base import AnyTask, Fields, Source, Unknown


def protocol(task: AnyTask) -> Fields:
    """Okpekpe & Orvieto, A.2: 50 epochs over 100,000 rows, AdamW, linear warm-up over a tenth of the run."""
    return zoology2024.protocol(task) | {"epochs": 50, "warmup": 0.1, "stop_at": 0.0}


_UNKNOWN = (
    Unknown("task.filler", "blank", "Zoology's figure 2 has it in every version; its class default is random", "filler",
            "blank filler in Zoology's order"),
    Unknown("task.variant", "zoology", "keys are queried in the order of the released generator", "variants"),
    Unknown("task.roles", "split", "the text has one vocabulary, Zoology's code a half for keys and a half for values"),
    Unknown("accuracy", "at the last step", "or that of the best epoch", "stopping", "accuracy at the last step"),
    Unknown("train.stop_at", "0", "Zoology's code ends a run above 99 %; the text has 50 epochs", "stopping"),
    Unknown("model.mlp", "gelu", "a layer is a mixer and an MLP, Mamba's too; Zoology's block for Mamba has none", "readings",
            "an MLP after Mamba too"),
    Unknown("model.mlp_ratio", "4", "Zoology's class default is 1"),
    Unknown("model.mixer.dt_init", "published", "Zoology's block for mixers with an MLP zeroes Mamba's step-size bias",
            "readings"),
    Unknown("model.mixer of S6 + MLP", "the scan alone", "whether it keeps Mamba's convolution", "readings"),
    Unknown("model.mixer.conv_causal", "true", "the convolutions of Tables 2 and 3; kernel 4, no activation", "readings",
            "causal convolutions"),
    Unknown("model.dropout_embedding", "0", "Zoology's figure 2 drops 0.1 of embeddings and attention weights", "readings",
            "no dropout"),
    Unknown("train.lr", "17 rates from 1e-5 to 1e-1", "a finer grid than Zoology's, not listed", short="learning rates"),
    Unknown("model.tie", "true", "whether the head is the embedding", short="tied head"),
    Unknown("train.schedule", "cosine", "the shape of the decay after warm-up; Zoology's", short="cosine decay"),
    Unknown("train.clip", "0", "no clipping is named"),
    Unknown("model.positions", "learned", "the text gives positions to attention and Based, and no kind",
            short="learned positions"),
    Unknown("task and model.width", "stated in each caption", "those of Figures 1, 6 and 7 and of Tables 2 to 4"),
)  # fmt: skip
SOURCE = Source(
    "okpekpe2025",
    "Okpekpe & Orvieto, Revisiting associative recall in modern recurrent models",
    sized="okpekpe",
    unknown=_UNKNOWN,
)
