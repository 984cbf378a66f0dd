"""The fitted constants in src are those of the scripts in benchmarks/ that fit them."""

import ast
import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import recollect
from recollect.study import cost
from recollect.train import hopeless

SOURCE = Path(recollect.__file__).parent
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def numbers(path: Path, function: str) -> list[float]:
    """The floating-point numbers in the source of a function, signs included."""
    node = next(n for n in ast.parse(path.read_text()).body if isinstance(n, ast.FunctionDef) and n.name == function)
    found, negative = [], set()
    for part in ast.walk(node):
        if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub) and isinstance(part.operand, ast.Constant):
            found.append(-part.operand.value)
            negative.add(part.operand)
        elif isinstance(part, ast.Constant) and isinstance(part.value, float) and part not in negative:
            found.append(part.value)
    return sorted(found)


@pytest.fixture(scope="module")
def fitted() -> dict[str, list[float]]:
    return script("fit_activations").constants()


@pytest.mark.parametrize(("file", "function"), [("mlp", "_share"), ("mlp", "_slope"), ("activations", "softplus")])
def test_polynomials_of_kernels_are_those_of_the_fit(fitted, file, function):
    found = numbers(SOURCE / "ops" / "triton" / f"{file}.py", function)
    np.testing.assert_allclose(found, sorted(fitted[function]), rtol=1e-6)


@pytest.mark.long
def test_the_constants_that_end_hopeless_runs_are_those_of_the_fit_and_stop_no_whole_run_wrongly():
    fit = script("fit_hopeless")
    runs = fit.curves()
    own = {name: getattr(hopeless, name) for name in fit.GRID}
    assert fit.choose(runs) == own
    whole, cut = ([run for run in runs if run.whole is is_whole] for is_whole in (True, False))
    assert fit.rates(whole, own).wrong == 0
    assert fit.rates(cut, own).wrong <= 0.015
    for run in whole[::9]:  # the script's rule is the one that training follows
        steps, target = run.points[-1]["step"], 0.95
        late = (i for i, point in enumerate(run.points[:-1], 1) if point["step"] >= hopeless.FROM * steps)
        ends = next((i for i in late if hopeless.unpromising(run.points[:i], target)), None)
        assert run.stopped_at(own, target) == (1.0 if ends is None else run.points[ends - 1]["step"] / steps)


def test_the_cost_model_is_that_of_the_fit():
    fit = script("fit_cost").fit()
    assert (fit.step, fit.products, fit.rest) == (cost.STEP, cost.PRODUCTS, cost.REST)
    assert fit.mixers == cost.BYTES
    assert fit.error < 0.1
