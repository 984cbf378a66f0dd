"""The events that a cohort yields while it trains."""

from dataclasses import dataclass, field
from typing import Literal

from recollect.train.spec import RunSpec

Ending = Literal["finished", "solved", "diverged", "hopeless"]


@dataclass
class Ended:
    """A run that ended, with all its results."""

    run: RunSpec
    status: Ending
    step: int
    """At which step it ended."""
    final: dict[str, float]
    """The last measurement, on all test rows."""
    curve: list[dict[str, float]]
    """Every measurement during training."""
    slices: list[dict]
    """Accuracy by tag: step, tag, and for each value of the tag how many were scored and how many were right."""
    seconds: float
    """Its share of the cohort's time."""
    parameters: int
    """How many parameters the model has."""
    state_size: int | None = None
    """Elements of the recurrent state of one sequence after the longest row of the task it is tested on; None where a mixer
    does not define it."""
    notes: list[str] = field(default_factory=list)
    """What a reader of the result should know."""
    weights: bytes | None = None
    """The trained parameters as safetensors, where they were requested."""
    snapshots: list[tuple[float, int, bytes]] = field(default_factory=list)
    """Embeddings, where they were requested: share of the run's length, step, and tables as safetensors."""


@dataclass
class Measured:
    """A measurement of the whole cohort, for progress displays."""

    step: int
    steps: int
    accuracy: dict[str, float]
    """By run id."""
    ending: int = 0
    """How many members end here: their results follow at once."""
    points: dict[str, dict[str, float]] = field(default_factory=dict)
    """Everything measured, by run id: the last point of each curve."""
    full_speed: bool = True
    """Whether the cohort trains as fast as it will: not so while its step is being compiled."""


@dataclass
class Saved:
    """A snapshot of the members that have not ended."""

    step: int
    data: bytes


Event = Ended | Measured | Saved
