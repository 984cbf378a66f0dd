"""Compilation beside training: the code comes when it is ready, from a folder with a bound."""

import os
import sys
import time
import warnings
from pathlib import Path

import pytest
import torch

from recollect.train.cohort import Cohort
from recollect.train.spec import RunSpec
from recollect.train.speed import compile as speed
from recollect.train.speed.ahead import Ahead, Compilation
from recollect.train.speed.cache import cache_folder, claim, claimed, known, release, remember, trim_cache, use_cache
from recollect.train.speed.process import silence


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    for variable in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    return tmp_path / "cache"


def cohort(members: int = 4) -> Cohort:
    task = {"kind": "mqar", "length": 8, "pairs": 1, "vocab": 16}
    run = {"task": task, "model": {"width": 8, "layers": 1}, "train": {"steps": 100, "batch": 4}}
    return Cohort([RunSpec.model_validate(run)] * members, torch.device("cpu"))


class AtOnce:
    """Compiling pays from the first step on."""

    open = True

    def __init__(self, device):
        pass

    def pays(self, left, compiled):
        return True


def ahead_of(training: Cohort, members: int) -> Ahead:
    return Ahead(training.runs[0], members, training.device, 0.0)


def until_ready(ahead: Ahead) -> None:
    began = time.monotonic()
    while not ahead.ready():
        assert time.monotonic() - began < 120
        time.sleep(0.05)


def test_another_process_compiles_the_step_and_it_is_known_from_then_on(folder, monkeypatch):
    monkeypatch.setattr(speed, "BACKEND", "eager")
    training = cohort()
    ahead = ahead_of(training, 4)
    assert ahead.process is not None
    training.advance(0)  # meanwhile it trains
    until_ready(ahead)
    assert known(ahead.mark)
    ahead.close()
    again = ahead_of(cohort(), 4)
    assert again.process is None, "nothing is compiled twice"
    assert again.ready()
    other = ahead_of(cohort(), 2)
    assert other.process is not None, "code for four members does not serve two"
    other.close()


def test_the_other_process_gives_way_to_those_that_train(folder, monkeypatch):
    monkeypatch.setattr(speed, "BACKEND", "eager")
    ahead = ahead_of(cohort(), 4)
    assert ahead.process is not None
    began, own = time.monotonic(), os.getpriority(os.PRIO_PROCESS, 0)
    while os.getpriority(os.PRIO_PROCESS, ahead.process.pid) == own < 19:
        assert time.monotonic() - began < 60
        time.sleep(0.05)
    ahead.close()


def test_who_waits_for_code_has_it_before_the_one_that_asked_for_it_looks(folder, monkeypatch):
    monkeypatch.setattr(speed, "BACKEND", "eager")
    upcoming, waiting = ahead_of(cohort(), 4), ahead_of(cohort(), 4)
    assert waiting.waits
    until_ready(waiting)
    assert upcoming.process is not None, "nobody has asked it"
    upcoming.close()


def test_what_is_not_compiled_for_lack_of_memory_is_not_known(folder, monkeypatch):
    monkeypatch.setattr("recollect.train.speed.ahead._room", lambda device, held: False)
    ahead = ahead_of(cohort(), 4)
    assert ahead.ready(), "the cohort will compile it itself"
    assert not known(ahead.mark)


def test_what_one_process_compiles_others_wait_for(folder, monkeypatch):
    monkeypatch.setattr("recollect.train.speed.ahead.COMMAND", [sys.executable, "-c", "import time; time.sleep(60)"])
    first, second = ahead_of(cohort(), 4), ahead_of(cohort(), 4)
    assert first.process is not None
    assert second.process is None, "it is not compiled twice at once"
    assert not first.ready()
    assert not second.ready()
    first.close()
    assert second.ready(), "it goes on by itself where the other gave up"
    assert not known(first.mark), "what was not compiled is not known"


def test_a_claim_ends_with_its_process(folder):
    assert claim("a")
    assert not claim("a")
    (folder / "known" / "b.claim").write_text("999999999")
    assert not claimed("b")
    assert claim("b"), "its process has died"
    release("a")
    assert claim("a")


def test_a_cohort_trains_as_it_is_until_its_code_is_ready(folder, monkeypatch):
    monkeypatch.setattr(speed, "Pace", AtOnce)
    monkeypatch.setattr("recollect.train.cohort.torch.compile", lambda function, **options: function)
    monkeypatch.setattr("recollect.train.speed.ahead.COMMAND", [sys.executable, "-c", "import time; time.sleep(60)"])
    training = cohort()
    compilation = Compilation(training)
    for step in range(3):
        compilation.before_step(100)
        training.advance(step)
        assert not compilation.full_speed
    assert training.compiled is None
    assert compilation.ahead is not None
    assert compilation.ahead.process is not None
    waiting = compilation.ahead.process
    training.keep([0, 1])  # the code would be for four
    waiting.kill()
    waiting.wait()
    compilation.before_step(100)
    assert training.compiled is None
    assert compilation.ahead.members == 2
    compilation.ahead.process.kill()  # one that fails is done without
    compilation.ahead.process.wait()
    compilation.before_step(100)
    assert training.compiled is not None
    assert compilation.ahead is None
    assert compilation.full_speed
    compilation.close()


def test_what_is_compiled_ends_with_the_training_that_needs_it(folder, monkeypatch):
    monkeypatch.setattr(speed, "BACKEND", "eager")
    ahead = ahead_of(cohort(), 4)
    assert ahead.process is not None
    process = ahead.process
    assert process.stdin is not None
    process.stdin.close()  # as when this process dies
    assert process.wait(60) == 1
    process.stdin = None
    ahead.close()


def test_the_folder_is_where_the_user_or_the_platform_says(folder, monkeypatch):
    use_cache()
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(folder / "inductor")
    assert os.environ["TRITON_CACHE_DIR"] == str(folder / "triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", "/elsewhere")
    use_cache()
    assert os.environ["TRITON_CACHE_DIR"] == "/elsewhere"
    monkeypatch.delenv("RECOLLECT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_folder() == Path("/caches/recollect")


def test_what_was_used_longest_ago_is_deleted_first_and_whole(folder, monkeypatch):
    for age, name in enumerate(["inductor/fxgraph/a", "triton/b", "triton/c"]):
        (folder / name).mkdir(parents=True)
        for part in ("one", "two"):
            (folder / name / part).write_bytes(bytes(500_000))
            os.utime(folder / name / part, (1000 + age, 1000 + age))
    remember("old")
    os.utime(folder / "known" / "old", (1000, 1000))
    remember("new")
    trim_cache()
    assert len(list(folder.rglob("one"))) == 3, "within the bound"
    monkeypatch.setenv("RECOLLECT_CACHE_GB", "0.0021")
    trim_cache()
    assert {path.parent.name for path in folder.rglob("two")} == {"b", "c"}
    assert known("new")
    monkeypatch.setenv("RECOLLECT_CACHE_GB", "0.0011")
    trim_cache()
    assert {path.parent.name for path in folder.rglob("one")} == {"c"}
    assert not known("old"), "its code is gone"
    assert known("new")


def test_only_warnings_of_no_use_are_kept_from_the_screen():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        silence.__wrapped__()
        warnings.warn("TensorFloat32 tensor cores for float32 matrix multiplication available", stacklevel=1)
        warnings.warn_explicit("autotune", UserWarning, "x.py", 1, module="torch._inductor.select_algorithm")
        with pytest.raises(UserWarning, match="the user's own"):
            warnings.warn("the user's own", stacklevel=1)
