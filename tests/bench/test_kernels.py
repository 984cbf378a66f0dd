"""`recollect kernels`: every op's forms against its definition, and how wrong ones and missing ones are reported."""

import math
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import typer

from recollect.bench import kernels
from recollect.bench.kernels import CASES, Size, check
from recollect.cli.kernels import kernels as command
from recollect.ops import external
from recollect.ops.delta_rule import delta_rule_definition
from recollect.ops.selective_scan import selective_scan_definition
from recollect.ops.ssd import ssd_definition
from recollect.spec import SpecError

CPU, SMALL = torch.device("cpu"), Size(rows=2, length=9, heads=2, dim=4)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(kernels, "seconds_per_call", lambda run, device: 0.002)


@pytest.mark.parametrize("op", CASES)
def test_our_own_forms_are_right_and_the_others_say_why_they_are_not_tried(op):
    first, *others = check(op, CPU, SMALL)
    assert (first.form, first.verdict, first.ms) == ("recollect, PyTorch", "right", 2)
    assert max(first.output, first.gradients) < 1e-5
    assert all(other.verdict == "not here" and other.note for other in others)
    assert others, "an op is listed because it has a kernel"


def test_all_that_is_offered_elsewhere_is_listed():
    assert set(external.OFFERS) <= set(CASES)
    assert {op for op, case in CASES.items() if case.mamba} == {"mamba2_scan", "selective_scan"}


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        (lambda q, k, v: CASES["attention"].definition(q, k, v) * 1.01, "wrong"),
        (lambda q, k, v: CASES["attention"].definition(q, k, v.detach()) + 0 * v, "wrong"),  # its gradient alone
        (lambda q, k, v: CASES["attention"].definition(q, k, v) * math.nan, "wrong"),
        (
            lambda q, k, v: CASES["attention"].definition(q, k, v) + 0 * (v - v.detach()).sqrt(),
            "wrong",
        ),  # NaN, in one gradient
        (lambda q, k, v: q @ k, "fails"),
    ],
)
def test_a_wrong_kernel_is_found(ours, verdict, monkeypatch):
    monkeypatch.setitem(CASES, "attention", replace(CASES["attention"], ours=ours))
    assert next(check("attention", CPU, SMALL)).verdict == verdict


def inputs(op: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return CASES[op].inputs(SMALL)


def test_flash_linear_attention_gets_time_before_heads(monkeypatch):
    def chunk_delta_rule(q, k, v, beta, scale):
        assert scale == 1.0
        return delta_rule_definition(*(t.transpose(1, 2) for t in (q, k, v, beta))).transpose(1, 2), None

    monkeypatch.setitem(sys.modules, "fla.ops.delta_rule", SimpleNamespace(chunk_delta_rule=chunk_delta_rule))
    tensors = inputs("delta_rule")
    direction = torch.randn_like(tensors[2])
    got = kernels._fla("delta_rule", CASES["delta_rule"], tensors, direction)
    expected = kernels._results(delta_rule_definition, tensors, direction)
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_mamba_ssm_gets_its_own_layouts(monkeypatch):
    """Stand-ins with the published signatures, made of our definitions."""

    def selective_scan_fn(u, delta, A, B, C, D, z=None, delta_bias=None, delta_softplus=False):
        assert delta_softplus
        return selective_scan_definition(u.mT, delta.mT, delta_bias, A, B.mT, C.mT, D).mT

    def mamba_chunk_scan_combined(x, dt, A, B, C, chunk_size):
        return ssd_definition(x * dt[..., None], A * dt, B, C)

    names = {"selective_scan_interface": selective_scan_fn, "triton.ssd_combined": mamba_chunk_scan_combined}
    for module, function in names.items():
        monkeypatch.setitem(sys.modules, f"mamba_ssm.ops.{module}", SimpleNamespace(**{function.__name__: function}))
    for op in ("selective_scan", "mamba2_scan"):
        case, tensors = CASES[op], inputs(op)
        assert case.mamba is not None
        torch.testing.assert_close(case.mamba(*tensors), case.definition(*tensors))


def test_the_environment_is_left_as_it_was(monkeypatch):
    monkeypatch.setenv("RECOLLECT_TRITON", "1")
    monkeypatch.delenv("RECOLLECT_EXTERNAL", raising=False)
    list(check("short_conv", CPU, SMALL))
    assert kernels.os.environ["RECOLLECT_TRITON"] == "1"
    assert "RECOLLECT_EXTERNAL" not in kernels.os.environ


def test_the_command_prints_a_table(tmp_path, capsys):
    command(["short_conv"], "cpu", 1, 8, 2, 4, tmp_path / "found.csv")
    printed = capsys.readouterr().out
    assert "without a GPU in use" in printed
    assert "needs a CUDA GPU" in printed
    assert (
        (tmp_path / "found.csv").read_text().startswith("op,form,version,verdict,output,gradients,ms,note\nshort_conv")
    )


def test_the_command_refuses_unknown_ops_and_ends_with_1_where_a_kernel_is_wrong(monkeypatch):
    with pytest.raises(SpecError, match="unknown op 'atention': did you mean 'attention'"):
        command(["atention"], "cpu", 1, 8, 2, 4, None)
    monkeypatch.setitem(CASES, "attention", replace(CASES["attention"], ours=lambda q, k, v: 2 * v))
    with pytest.raises(typer.Exit) as ended:
        command(["attention"], "cpu", 1, 8, 2, 4, None)
    assert ended.value.exit_code == 1
