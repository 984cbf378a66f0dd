"""From a file to a table and a picture: what is trained, what is reused, and what stands beside it."""

import json
import re
from typing import Any

import pytest

from recollect.probing.atlas import PROBE, atlas_study, study_name
from recollect.probing.reference import KEPT, about, read_table, setting_key, shipped
from recollect.probing.setting import ProbeSetting, baseline, probe_study, small_task
from recollect.store.store import Store
from recollect.train.events import Ended
from recollect.train.loop import train
from recollect.train.spec import RunSpec

TINY = ("--length", 8, "--pairs", 1, "--vocab", 16, "--width", 8, "--steps", 2, "--seeds", 1)


def trained(out: str) -> int:
    """How many runs a command says that it trained."""
    return sum(
        int(n) for line in re.findall(r"^trained: (.*)$", out, re.MULTILINE) for n in re.findall(r"(\d+) ", line)
    )


def test_an_edited_file_is_probed_anew_and_an_unedited_one_is_not(recollect, tmp_path):
    first = recollect("probe", "mixers.py:Sound", *TINY)
    assert first.code == 0, first.out
    assert trained(first.out) == 17
    again = recollect("probe", "mixers.py:Sound", *TINY)
    assert trained(again.out) == 0
    assert again.out.splitlines()[-4:] == first.out.splitlines()[-4:]
    other = recollect("probe", "mixers.py:Sound", "decay=0.9", *TINY)
    assert trained(other.out) == 17, "other options are another mixer"
    with (tmp_path / "mixers.py").open("a") as file:
        file.write("\n# edited\n")
    edited = recollect("probe", "mixers.py:Sound", *TINY)
    assert trained(edited.out) == 17
    assert len(Store(tmp_path / "results" / "store.sqlite").done()) == 51


def test_the_table_and_the_picture_hold_the_mixer_and_those_trained_with_it(recollect, tmp_path):
    result = recollect(
        "probe", "mixers.py:Sound", *TINY, "--layers", 1, "--layers", 2, "--with", "linear_attention",
        "--store", "elsewhere/runs.sqlite",
    )  # fmt: skip
    assert result.code == 0, result.out
    rows = re.findall(r"^│ (\w+) +│ +(\d) │.*│ +now │$", result.out, re.MULTILINE)
    assert rows == [("Sound", "1"), ("linear_attention", "1"), ("Sound", "2"), ("linear_attention", "2")]
    assert "There are no shipped windows for this setting: --against attention,deltanet" in result.out
    assert re.search(
        r"^Sound on mqar, 2 layers: recalls 0\.\d+ at its best rate \(guessing among what a row offers: 1\); no rate",
        result.out,
        re.MULTILINE,
    )
    drawn = sorted(path.name for path in (tmp_path / "elsewhere" / "probe-Sound").iterdir())
    assert drawn == [f"window-{n}-layers.{ending}" for n in (1, 2) for ending in ("png", "svg")]
    assert str(tmp_path / "elsewhere") not in result.err


@pytest.mark.long
def test_several_tasks_are_compared_and_what_is_required_decides_the_exit_code(recollect):
    small = ("--width", 8, "--steps", 2, "--seeds", 1)
    words = ("probe", "mixers.py:Sound", "--task", "mqar,{kind: copy, length: 8}", *small)
    met = recollect(*words, "--against", "lru", "--require", "window>=0, accuracy<=1", "--json")
    assert met.code == 0, met.err
    about = json.loads(met.out)
    assert about["passed"]
    assert {rule["outcome"] for rule in about["rules"]} == {"holds", "note"}
    assert [one["setting"]["task"]["kind"] for one in about["tasks"]] == ["mqar", "copy"]
    for one in about["tasks"]:
        assert one["models"][0]["model"] == "Sound"
        assert {row["model"] for row in one["models"] if row["origin"] == "now"} == {"Sound", "lru"}
    missed = recollect(*words, "--require", "window>=1,steps<100")
    assert missed.code == 1
    assert "required and missed:\n  Sound on mqar, 1 layer: window 0 is not >= 1\n  Sound on mqar" in missed.out
    assert "Sound on copy, 1 layer: steps nan is not < 100" in missed.out


@pytest.mark.filterwarnings("ignore:Branches cannot be batched")
def test_what_cannot_be_vmapped_is_reported_and_trained_one_by_one(recollect):
    result = recollect("probe", "mixers.py:Branches", *TINY)
    assert result.code == 0, result.out
    assert re.search(r"cohort +note +cannot be vmapped \(.*\): members are trained one after another", result.out)
    assert re.search(r"recurrence +note +has no step", result.out)
    assert trained(result.out) == 17


def test_a_milder_fault_is_reported_and_training_goes_on(recollect):
    result = recollect("probe", "mixers.py:WrongStep", *TINY)
    assert trained(result.out) == 17
    assert result.out.splitlines()[-1] == "broken rules: recurrence (see above)"
    assert result.code == 1


def test_mqar_is_small_by_default():
    assert small_task("mqar", {}) == {"kind": "mqar", "length": 32, "pairs": 4, "vocab": 64}
    given = small_task({"kind": "mqar", "filler": "blank"}, {"length": 64, "pairs": None, "vocab": None})
    assert given == {"kind": "mqar", "length": 64, "pairs": 4, "vocab": 128, "filler": "blank"}
    assert small_task("copy", {"pairs": None}) == {"kind": "copy"}


def probed(layers: int, mixer: Any = "mamba2", **other: Any) -> list[RunSpec]:
    """The runs of a probe in its own setting, except for the given fields."""
    return probe_study(
        "x", [baseline(mixer)], ProbeSetting(**{"task": small_task("mqar", {}), "layers": (layers,), **other})
    ).runs()


def test_shipped_windows_are_those_of_the_setting_and_no_other():
    table = read_table()
    assert list(table.columns) == list(KEPT)
    for name, layers in PROBE.items():
        known, here = shipped(probed(layers)), table.loc[table["study"] == study_name(name, "tiny")]
        assert len(known) == len(here) > 0, "the table is not of these settings: recollect atlas makes it"
        assert set(known["model"]) <= {run.model.title for run in atlas_study(name).runs()}
    others = ({"task": small_task("mqar", {"length": 64})}, {"width": 48}, {"steps": 401})
    assert not any(len(shipped(probed(1, **other))) for other in others)
    assert not len(shipped(probed(3)))
    assert about().keys() == set(table["study"])
    assert all({"made", "hardware", "versions", "runs"} <= one.keys() for one in about().values())


def test_a_shipped_run_can_be_repeated():
    table = read_table().loc[lambda table: table["study"] == "atlas.probe"]
    quick = table[(table["status"] == "solved")].sort_values("step").iloc[0]
    wanted = (quick["train.lr"], quick["train.seed"])
    runs = atlas_study("probe").runs()
    (run,) = [r for r in runs if r.model.title == quick["model"] and (r.train.lr, r.train.seed) == wanted]
    assert setting_key(run) == quick["setting"]
    (ended,) = [event for event in train([run]) if isinstance(event, Ended)]
    assert ended.parameters == quick["parameters"]
    assert ended.status == "solved"
    assert abs(ended.step - quick["step"]) <= run.train.cadence
    assert ended.final["accuracy"] == pytest.approx(quick["accuracy"], abs=0.03)
