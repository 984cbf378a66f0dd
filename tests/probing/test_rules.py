"""Planted faults are reported with name and place; what makes training meaningless stops it; bad input is one clear line."""

import re

import pytest

FAULTS = {
    "LooksAhead": ("causality", r"not causal: token 7 moves the output by .* position 5, channel"),
    "NaNGradient": ("finite", r"torch.float32, length 33: gradient of 'decay' is not finite, first at index \[0\]"),
    "NaNOutput": ("finite", r"torch.float32, length 33: output is not finite"),
    "Random": ("determinism", r"the same call twice: output moves by .*; forward draws random numbers"),
    "MixesBatch": ("batch_independence", r"batch row 0 depends on the rows beside it.* position 4, channel"),
    "Remembers": ("determinism", r"the same call twice: output moves by .*; the module keeps something from call"),
    "WrongStep": ("recurrence", r"step at position 1 is not what forward gives: off by .* batch row"),
    "WrongStateSize": ("state_size", r"state_size\(2\) says 16, the state holds \{'h': 8\}"),
    "Unused": ("finite", r"parameter 'spare' gets no gradient"),
}


@pytest.mark.parametrize("mixer", FAULTS)
def test_a_planted_fault_is_reported_with_name_and_place(recollect, mixer):
    result = recollect("probe", f"mixers.py:{mixer}", "--width", 8, "--no-train")
    rule, message = FAULTS[mixer]
    assert result.code == 1
    assert re.search(rf"^  {rule}\s+BROKEN\s+{message}", result.out, re.MULTILINE), result.out
    fatal = mixer in ("LooksAhead", "NaNGradient", "NaNOutput", "Random", "Remembers")
    assert result.out.splitlines()[-1].startswith(f"not trained: with {rule} broken" if fatal else "broken rules: ")
    only_cause = fatal and rule in ("finite", "determinism")
    assert ("causality          note    not checked" in result.out) == only_cause


def test_a_sound_mixer_keeps_every_rule(recollect, tmp_path):
    result = recollect("probe", "mixers.py:Sound", "decay=0.3", "--width", 8, "--no-train")
    assert result.code == 0, result.out
    assert len(re.findall(r"^  \w+ +ok ", result.out, re.MULTILINE)) == 12
    assert re.search(r"flops +note +has no flops", result.out)
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == ["mixers.py"]


def test_an_error_that_no_line_of_ones_own_raised_names_no_other_line(recollect):
    result = recollect("probe", "mixers.py:WritesInPlace", "--width", 8, "--no-train")
    assert re.search(r"finite +BROKEN .* modified by an inplace operation", result.out)
    assert ".py:" not in result.out.partition("inplace")[2].partition("\n")[0]


def test_fatal_faults_are_not_trained(recollect, tmp_path):
    assert recollect("probe", "mixers.py:LooksAhead", "--width", 8, "--steps", 1).code == 1
    assert not (tmp_path / "results").exists()


def test_rounding_ahead_is_noted_and_not_a_fault(recollect):
    result = recollect("probe", "mixers.py:RoundsAhead", "--width", 8, "--no-train")
    assert re.search(r"causality +note +only to rounding, as where FFTs convolve \(not causal: token 1", result.out)
    assert "not trained" not in result.out


BAD = {
    ("absent.py:MyMixer",): r"mixer: no file 'absent.py'",
    ("mixers.py",): r"mixer 'mixers.py': name the class in it as well, as mixers.py:Name",
    ("mixers.py:Sond",): r"mixers.py has no 'Sond'; did you mean 'Sound'\? choose from: Branches, LooksAhead,",
    ("mixers.py:Table",): r"mixer 'mixers.py:Table' is the class Table, not a class derived from torch.nn.Module",
    ("mixers.py:Shorter", "--width", "8"): r"Shorter: input \(1, 33, 8\) gives output \(1, 32, 8\): the shapes must be",
    ("mixers.py:Raises", "--width", "8"): r"Raises: a row of 33 tokens raised KeyError: 'no such table' \(mixers",
    ("mixers.py:NeedsEven", "--width", "8"): r"NeedsEven: a row of 33 tokens raised AssertionError: \(mixers.py:\d+\)",
    ("mixers.py:SinglePrecision", "--width", "8"): r"in float64, and not in float32: give new tensors the type of",
    ("mixers.py:Sound", "decya=1"): r"unknown option 'decya': did you mean 'decay'\? choose from: decay",
    ("mixers.py:Sound", "decay=high"): r"option decay = 'high': Input should be a valid number",
    ("mixers.py:Sound", "decay"): r"expected name=value, got 'decay'",
    (
        "mixers.py:NoWidth",
    ): r"mixers.py:NoWidth: its constructor takes no width: begin it as `def __init__\(self, width`",
    ("mixers.py:NoConstructor",): r"mixers.py:NoConstructor: its constructor takes no width",
    ("mixers.py:NeedsHeads", "scale=2"): r"its constructor needs heads; give heads=..",
    ("mixers.py:NeedsTwo",): r"NeedsTwo: its constructor needs hidden and ratio; give hidden=.. ratio=..",
    ("mixers.py:NeedsHeads", "heads=5", "--width", "8"): r"building it with width 8 raised ValueError: 5 heads do not",
    ("broken.py:MyMixer",): r"broken.py: importing it raised ZeroDivisionError: division by zero",
    ("neighbour.py:MyMixer",): r"neighbour.py: importing it raised ZeroDivisionError: division by zero \(broken.py:1\)",
    ("mixers.py:Sound", "--task", "mqra"): r"unknown task 'mqra': did you mean 'mqar'",
    ("mixers.py:Sound", "--task", "copy", "--pairs", "3"): r"unknown key 'pairs'",
    ("mixers.py:Sound", "--pairs", "9"): r"pairs 9 do not fit length 32",
    ("mixers.py:Sound", "--with", "atention"): r"unknown mixer 'atention': did you mean 'attention'",
    ("mixers.py:Sound", "--against", "kda,deltane"): r"unknown mixer 'deltane': did you mean 'deltanet'",
    ("mixers.py:Sound", "--require", "window=1"): r"require 'window=1': write a measure, >=, <=, > or <, and a number",
    ("mixers.py:Sound", "--require", "widow>=1"): r"unknown measure 'widow': did you mean 'window'",
    ("mixers.py:Sound", "--require", "window>=1", "--no-train"): r"the probe does not train",
    ("mixers.py:Sound", "--positions", "rotary"): r"positions 'rotary' act inside attention",
    ("mixers.py:Sound", "--layers", "0"): r"--layers.*greater than or equal to 1",
}


@pytest.mark.parametrize("words", BAD, ids=" ".join)
def test_bad_input_is_one_clear_line_exit_code_2_and_nothing_written(recollect, tmp_path, words):
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "neighbour.py").write_text("import broken\n")
    result = recollect("probe", *words)
    assert result.code == 2, result.out
    assert re.search(BAD[words], result.err), result.err
    assert len(result.err.strip().splitlines()) == 1, result.err
    assert not (tmp_path / "results").exists()
