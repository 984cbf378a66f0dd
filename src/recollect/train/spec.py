"""The specification of a run: a task, a model, and how it is trained. It is the run's identity."""

import json
import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PrivateAttr, ValidationError, model_serializer, model_validator
from pydantic.functional_validators import ModelWrapValidatorHandler
from pydantic_core.core_schema import SerializationInfo, SerializerFunctionWrapHandler

from recollect.models.spec import ModelSpec
from recollect.spec import Spec, SpecError, digest
from recollect.tasks import AnyTask
from recollect.tasks.base import Task
from recollect.train.groups import Factors, as_groups, check_factors, check_run
from recollect.train.optimisers.adamw import AdamW
from recollect.train.optimisers.base import Optimiser
from recollect.train.parts import Part, build, check_names, collected, find_kinds
from recollect.train.schedules import Schedule

SEMANTICS = 2
"""Raised when every specification starts to mean another computation: old results are then no longer reused. Where the behaviour
of one task, mixer or optimiser changes, its own `version` is raised instead, and other runs keep their identity."""
_MOST = 10**9
"""The most steps, epochs or rows of a run."""
_ADAMW = AdamW()
_DECLARED = tuple(AdamW.model_fields)
"""Fields of TrainSpec that are an optimiser's."""
_PER_MEMBER = ("lr", "seed", "clip", "z_loss", "stop_at", "stop_hopeless", "stop_below", "max_loss")
"""Fields in which the members of one cohort may differ, whatever the optimiser."""


class TrainSpec(Spec):
    """How a run is trained and measured. The fields of its optimiser and of its schedule are given beside the others."""

    lr: float = Field(default=1e-3, gt=0)
    """Peak learning rate."""
    seed: int = Field(default=42, ge=0, lt=2**63)
    """Decides the initial weights, the data and its order."""
    steps: int = Field(default=0, ge=0, le=_MOST)
    """Optimiser steps. 0: as `epochs` says."""
    epochs: float = Field(default=0.0, ge=0, le=_MOST)
    """Passes over the fixed training set, in place of `steps`."""
    batch: int = Field(default=64, ge=1, le=2**20)
    """Rows in a step."""
    train_rows: int = Field(default=0, ge=0, le=_MOST)
    """Rows of a fixed training set, shuffled anew each epoch. 0: fresh rows at every step."""
    test_rows: int = Field(default=3000, ge=1, le=_MOST)
    """Held-out rows of the final measurement."""
    eval_rows: int = Field(default=512, ge=1, le=_MOST)
    """Held-out rows of each measurement during training. They are never test rows: stopping and the choice of a rate use them."""
    eval_every: int = Field(default=0, ge=0, le=_MOST)
    """Steps between measurements. 0: a fiftieth of the run."""
    optimiser: str | Optimiser | type[Optimiser] = "adamw"
    """The optimiser: its name, `module:Name` or `file.py:Name` of your own, or in Python an object such as `AdamW(beta2=0.95)`.
    The next five fields are AdamW's. Another optimiser has its own, with its own defaults; those it lacks are refused."""
    weight_decay: float = Field(default=_ADAMW.weight_decay)
    """Decoupled weight decay."""
    decay: Literal["all", "matrices"] = Field(default=_ADAMW.decay)
    """Which parameters decay: all (as PyTorch's AdamW and Zoology), or only those with two or more axes."""
    beta1: float = Field(default=_ADAMW.beta1)
    """Decay of the gradient's running mean."""
    beta2: float = Field(default=_ADAMW.beta2)
    """Decay of the squared gradient's running mean."""
    eps: float = Field(default=_ADAMW.eps)
    """AdamW's denominator offset."""
    clip: float = Field(default=0.0, ge=0)
    """Largest gradient norm. 0: no clipping."""
    warmup: float = Field(default=0.1, ge=0)
    """Linear warm-up: a share of the run where below 1, else steps."""
    schedule: str | Schedule | type[Schedule] = "cosine"
    """The learning rate after warm-up: constant, down to zero at the last step (linear, cosine; wsd at the end only), or with
    inverse_sqrt of the step; or a schedule of your own."""
    groups: Annotated[str | dict[str, Factors], BeforeValidator(as_groups)] = "none"
    """Factors of `lr` and of the optimiser's numbers for the parameters whose names match a pattern, such as
    `{"*.A_log|*.dt_proj.*": {lr: 0.1, weight_decay: 0}}`; or a preset: none, or ssm (what Mamba exempts from decay)."""
    z_loss: float = Field(default=0.0, ge=0)
    """Weight of the squared logarithm of softmax's denominator in the training loss. 0: not part of it."""
    stop_at: float = Field(default=0.0, ge=0, le=1)
    """End as solved when a measurement reaches this accuracy. 0: never."""
    stop_hopeless: float = Field(default=0.0, ge=0, lt=1)
    """End as hopeless when, after this share of the steps, the training loss is still above 98 % of what it was at the
    first measurement. 0: never."""
    stop_below: float = Field(default=0.0, ge=0, le=1)
    """End as hopeless when, from 60 % of the steps on, the run's own curve promises less than this accuracy: see
    docs/benchmarks.md for how often that is wrong. 0: never."""
    max_loss: float = Field(default=1000.0, gt=0)
    """End as diverged when the training loss, in nats and averaged between measurements, is above this or not finite."""
    slices: Literal["final", "always"] = "final"
    """Whether accuracy by tag is kept for the final measurement only, or for each."""
    snapshots: int = Field(default=0, ge=0, le=1000)
    """How many snapshots of the embeddings are kept, at equal shares of the run's own length. 0: none."""
    precision: Literal["float32", "float64", "bfloat16"] = "float32"
    """Precision of the computation; parameters and optimiser state are float32 or, with float64, float64."""
    _parts: dict[str, Part] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _with_parts(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Build the optimiser and the schedule of their fields; the fields declared here then have the optimiser's values."""
        if not isinstance(data, Mapping):
            return handler(data)
        own = {name: about.default for name, about in cls.model_fields.items() if name not in _DECLARED}
        kinds, flat = find_kinds(data, own)
        check_names(kinds, flat, own, _DECLARED)
        spec, faults = None, list[Any]()
        parts = build(kinds, flat, faults)
        values = {name: value for part in parts.values() for name, value in part.spec if name in _DECLARED}
        with collected(faults):
            spec = handler({name: value for name, value in flat.items() if name in own} | values)
            if not faults:
                check_factors(spec.groups, parts["optimiser"].spec)
        if spec is None or faults:
            raise ValidationError.from_exception_data(cls.__name__, faults)
        spec._parts = parts
        return spec

    @model_serializer(mode="wrap")
    def _flat(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        """Train's own fields, and those that the optimiser and the schedule have: their defaults are theirs, too."""
        theirs: dict[str, Any] = {}
        for role, part in self._parts.items():
            theirs |= part.spec.model_dump(mode=info.mode, exclude_defaults=info.exclude_defaults)
            theirs |= {f"{role}_source": part.source} if part.source else {}
        own = {name: value for name, value in handler(self).items() if name not in _DECLARED or name in theirs}
        return own | theirs

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        yield from self.model_dump().items()

    def changed(self, **fields: Any) -> Self:
        """The same with other values in some fields, checked again. With another optimiser or schedule by name, the fields
        given to the old one are given to the new one; an object has its own."""
        own = {name: getattr(self, name) for name in type(self).model_fields if name not in _DECLARED}
        for role, part in self._parts.items():
            if isinstance(fields.get(role, ""), str):
                own |= part.spec.model_dump(exclude_defaults=True)
        return type(self).model_validate({**own, **fields})

    @model_validator(mode="after")
    def _length_of_training(self) -> Self:
        if bool(self.steps) == bool(self.epochs):
            raise SpecError(f"give steps or epochs, one of them (got steps {self.steps}, epochs {self.epochs:g})")
        if self.epochs and not self.train_rows:
            raise SpecError(f"epochs {self.epochs:g} need a fixed training set: give train_rows, or steps")
        return self

    @property
    def built_optimiser(self) -> Optimiser:
        """The optimiser itself, with its numbers."""
        return self._parts["optimiser"].spec

    @property
    def per_member(self) -> tuple[str, ...]:
        """The fields in which the members of one cohort may differ."""
        return (*_PER_MEMBER, *self.built_optimiser.per_member())

    def rate_factor(self, step: int) -> float:
        """What multiplies the peak learning rate at a step (0 is the first)."""
        warmup = round(self.warmup * self.total_steps if self.warmup < 1 else self.warmup)
        return self._parts["schedule"].spec.factor(step, warmup, self.total_steps)

    @property
    def total_steps(self) -> int:
        """Optimiser steps of the whole run."""
        return self.steps or math.ceil(self.epochs * self.train_rows / self.batch)

    @property
    def cadence(self) -> int:
        """Steps between measurements."""
        return self.eval_every or max(1, self.total_steps // 50)


class RunSpec(Spec):
    """One run: a model trained on a task, and measured on it and on any further tests."""

    task: AnyTask
    """The task that the model is trained on."""
    model: ModelSpec
    """The model."""
    train: TrainSpec
    """How it is trained and measured."""
    tests: tuple[AnyTask, ...] = ()
    """Further tasks of the same vocabulary, measured at the end."""

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        for test in self.tests:
            if test.vocabulary != self.task.vocabulary:
                raise SpecError(
                    f"test {test.kind} has {test.vocabulary} tokens and the task {self.task.kind} has {self.task.vocabulary}"
                )
        for task in (self.task, *self.tests):
            if task.reads_at_once and self.model.head != "autoencoder":
                raise SpecError(f"{task.kind} reads all answers at one place: give the model `head: autoencoder`")
            if not task.reads_at_once and self.model.head == "autoencoder":
                raise SpecError(
                    f"head 'autoencoder' is for tasks that read all answers at one place; {task.kind} does not"
                )
        check_run(self)
        return self

    @cached_property
    def id(self) -> str:
        """The run's identity: a hash of the non-default fields and of the versions that define the defaults."""
        return digest({"semantics": SEMANTICS, **self.laws, **self.canonical()})

    @property
    def laws(self) -> dict[str, dict[str, int]]:
        """The versions of the built-in tasks, mixers and optimiser whose behaviour has changed since this version of semantics. A
        user's own code is identified by a hash of its source."""
        classes: dict[str, Any] = {task.kind: type(task) for task in (self.task, *self.tests)}
        mixers = {mixer.kind: mixer for mixer in self.model.mixers() if not mixer.source}
        classes |= {kind: mixer.cls for kind, mixer in mixers.items()}
        classes |= {str(self.train.optimiser): type(self.train.built_optimiser)}
        changed = {kind: version for kind, cls in classes.items() if (version := getattr(cls, "version", 1)) != 1}
        if self.model.parametrisation == "mup":
            changed["mup"] = 2  # 1: other rates of Muon's matrices, and a smaller initial head
        return {"laws": changed} if changed else {}

    @cached_property
    def shape(self) -> str:
        """What the members of one cohort share."""
        data, per_member = self.canonical(), self.train.per_member
        train = {name: value for name, value in data.get("train", {}).items() if name not in per_member}
        if not isinstance(self.train.groups, str):
            train["groups"] = sorted(self.train.groups)  # their factors may differ
        if self.train.z_loss:
            train["z_loss"] = True
        return json.dumps({**data, "train": train}, sort_keys=True)

    @property
    def row_length(self) -> int:
        """The longest row the model will see."""
        return max(task.row_length for task in [*self.all_tests, self.task])

    @property
    def all_tests(self) -> list[Task]:
        """The task as it is tested, then the further tests."""
        return [self.task.for_test(), *self.tests]
