"""What a run is: a task, a model, and how it is trained. A run is its specification."""

import json
import math
from functools import cached_property
from typing import Literal

from pydantic import Field, model_validator

from recollect.models.spec import ModelSpec
from recollect.spec import Spec, SpecError, digest
from recollect.tasks import AnyTask
from recollect.tasks.base import Task

SEMANTICS = 1
"""Raised when the same specification starts to mean another computation: old results are then no longer reused."""


class TrainSpec(Spec):
    """How a run is trained and measured."""

    lr: float = Field(1e-3, gt=0)
    """Peak learning rate."""
    seed: int = Field(42, ge=0, lt=2**63)
    """Decides the initial weights, the data and its order."""
    steps: int = Field(0, ge=0)
    """Optimiser steps. 0: as `epochs` says."""
    epochs: float = Field(0.0, ge=0)
    """Passes over the fixed training set, in place of `steps`."""
    batch: int = Field(64, ge=1)
    """Rows in a step."""
    train_rows: int = Field(0, ge=0)
    """Rows of a fixed training set, shuffled anew each epoch. 0: fresh rows at every step."""
    test_rows: int = Field(3000, ge=1)
    """Held-out rows of the final measurement."""
    eval_rows: int = Field(512, ge=1)
    """Held-out rows (the first of the test rows) of each measurement during training."""
    eval_every: int = Field(0, ge=0)
    """Steps between measurements. 0: a fiftieth of the run."""
    weight_decay: float = Field(0.1, ge=0)
    """AdamW's decoupled weight decay."""
    decay: Literal["all", "matrices"] = "all"
    """Which parameters decay: all (as PyTorch's AdamW and Zoology), or only those with two or more axes."""
    beta1: float = Field(0.9, ge=0, lt=1)
    """Decay of the gradient's running mean."""
    beta2: float = Field(0.999, ge=0, lt=1)
    """Decay of the squared gradient's running mean."""
    eps: float = Field(1e-8, gt=0)
    """AdamW's denominator offset."""
    clip: float = Field(0.0, ge=0)
    """Largest gradient norm. 0: no clipping."""
    warmup: float = Field(0.1, ge=0)
    """Linear warm-up: a share of the run where below 1, else steps."""
    schedule: Literal["constant", "linear", "cosine"] = "cosine"
    """The learning rate after warm-up: constant, or down to zero at the last step."""
    stop_at: float = Field(0.0, ge=0, le=1)
    """End as solved when a measurement reaches this accuracy. 0: never."""
    stop_hopeless: float = Field(0.0, ge=0, lt=1)
    """End as hopeless when, after this share of the steps, the training loss is still above 98 % of what it was at the
    first measurement. 0: never."""
    max_loss: float = Field(1000.0, gt=0)
    """End as diverged when the training loss, in nats and averaged between measurements, is above this or not finite."""
    slices: Literal["final", "always"] = "final"
    """Whether accuracy by tag is kept for the final measurement only, or for each."""
    snapshots: int = Field(0, ge=0)
    """How many snapshots of the embeddings are kept, at equal shares of the run's own length. 0: none."""
    precision: Literal["float32", "float64", "bfloat16"] = "float32"
    """Precision of the computation; parameters and optimiser state are float32 or, with float64, float64."""

    @model_validator(mode="after")
    def _length_of_training(self) -> "TrainSpec":
        if bool(self.steps) == bool(self.epochs):
            raise SpecError(f"give steps or epochs, one of them (got steps {self.steps}, epochs {self.epochs:g})")
        if self.epochs and not self.train_rows:
            raise SpecError(f"epochs {self.epochs:g} need a fixed training set: give train_rows, or steps")
        return self

    @property
    def total_steps(self) -> int:
        """Optimiser steps of the whole run."""
        return self.steps or math.ceil(self.epochs * self.train_rows / self.batch)

    @property
    def cadence(self) -> int:
        """Steps between measurements."""
        return self.eval_every or max(1, self.total_steps // 50)

    @property
    def warmup_steps(self) -> int:
        """Steps of warm-up."""
        return round(self.warmup * self.total_steps) if self.warmup < 1 else round(self.warmup)


PER_MEMBER = ("lr", "seed", "weight_decay", "beta1", "beta2", "eps", "clip", "stop_at", "stop_hopeless", "max_loss")
"""Fields of TrainSpec in which the members of one cohort may differ."""


class RunSpec(Spec):
    """One run: a model trained on a task, and measured on it and on any further tests."""

    task: AnyTask
    """What is asked."""
    model: ModelSpec
    """Who is asked."""
    train: TrainSpec
    """How it learns."""
    tests: tuple[AnyTask, ...] = ()
    """Further tasks of the same vocabulary, measured at the end."""

    @model_validator(mode="after")
    def _same_vocabulary(self) -> "RunSpec":
        for test in self.tests:
            if test.vocabulary != self.task.vocabulary:
                raise SpecError(
                    f"test {test.kind} has {test.vocabulary} tokens and the task {self.task.kind} has {self.task.vocabulary}"
                )
        return self

    @cached_property
    def id(self) -> str:
        """The run's identity: a hash of what is not default, and of the meaning of the defaults."""
        return digest({"semantics": SEMANTICS, **self.canonical()})

    @cached_property
    def shape(self) -> str:
        """What the members of one cohort share."""
        data = self.canonical()
        train = {name: value for name, value in data.get("train", {}).items() if name not in PER_MEMBER}
        return json.dumps({**data, "train": train}, sort_keys=True)

    @property
    def row_length(self) -> int:
        """The longest row the model will see."""
        return max(task.row_length for task in [*self.all_tests, self.task])

    @property
    def all_tests(self) -> list[Task]:
        """The task as it is tested, then the further tests."""
        return [self.task.for_test(), *self.tests]
