"""What is wrong with a specification that is built in Python: a line with the name, the value, and what it takes."""

import pickle
import re

import pytest

from recollect import ModelSpec, RunSpec, Study, TrainSpec
from recollect.spec import SpecError
from recollect.tasks.mqar import MQAR
from recollect.train.optimisers.adamw import AdamW

WRONG = {
    "lr: input should be greater than 0 (got -1)": lambda: TrainSpec(steps=9, lr=-1),
    "beta1: input should be less than 1 (got 1.0)": lambda: AdamW(beta1=1.0),
    "beta2: input should be less than 1 (got 1)": lambda: Study(train={"steps": 9, "optimiser": AdamW(beta2=1)}),
    "length: input should be greater than or equal to 4 (got -3)": lambda: MQAR(length=-3),
    "unknown key 'nme': did you mean 'name'?": lambda: Study(nme="a"),
    "search: threshold: input should be less than or equal to 1 (got 7)": lambda: Study(search={"threshold": 7}),
    "blocks.M.mlp: input should be 'gelu', 'swiglu', 'none' or 'identity' (got 'no')": lambda: ModelSpec(
        pattern="M", blocks={"M": {"mixer": "mamba", "mlp": "no"}}
    ),
    "model.width: input should be greater than or equal to 1 (got 0); train: field required": lambda: RunSpec(
        task="mqar", model={"width": 0}
    ),
    "clip: input should be greater than or equal to 0 (got -2)": lambda: TrainSpec(steps=9).changed(clip=-2),
    "pairs: input should be a valid integer": lambda: MQAR().changed(pairs="x"),
    "warmup: input should be a finite number (got nan)": lambda: TrainSpec.model_validate(
        {"steps": 9, "warmup": float("nan")}
    ),
    "batch: input should be greater than or equal to 1 (got 0)": lambda: TrainSpec.model_validate_json(
        '{"steps": 9, "batch": 0}'
    ),
}


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_is_one_plain_line_wherever_a_specification_is_made(line):
    with pytest.raises(SpecError, match=re.escape(line)) as caught:
        WRONG[line]()
    assert not re.search(r"\n|https:|input_value|validation error", str(caught.value))


def test_a_specification_is_still_what_pydantic_makes_of_it():
    run = RunSpec(task=MQAR(), model={"width": 16}, train=TrainSpec(steps=9))
    assert type(run.model) is ModelSpec
    assert pickle.loads(pickle.dumps(run)) == run == RunSpec.model_validate(run.model_dump())
