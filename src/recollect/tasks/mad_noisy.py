"""Noisy recall as in MAD (Poli et al. 2024): in-context recall where some pairs are two tokens of noise."""

from typing import Literal

from pydantic import Field

from recollect.tasks.base import MOST
from recollect.tasks.mad_recall import MADRecall


class MADNoisy(MADRecall):
    """MAD's noisy recall: in-context recall with noise among the pairs."""

    kind: Literal["mad_noisy"] = "mad_noisy"  # pyright: ignore[reportIncompatibleVariableOverride]
    vocab: int = Field(default=32, ge=2, le=MOST, multiple_of=2)
    """Token ids: keys, as many values, then the noise."""
    noises: int = Field(default=16, ge=1, le=MOST)
    """Different noise tokens, which are part of the vocabulary."""
    noise: float = Field(default=0.2, gt=0, lt=1)
    """The probability that a pair is noise. One random pair of a row, and the last one, never are."""

    @property
    def _noise(self) -> float:
        return self.noise

    @property
    def _noises(self) -> int:
        return self.noises
