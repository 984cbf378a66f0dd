"""A cohort that was stopped goes on from its snapshot as if nothing had happened: on the CPU to the bit."""

import json

import pytest
import torch
from safetensors import safe_open
from torch import nn

from recollect.store.checkpoints import Checkpoints
from recollect.store.files import StoreError
from recollect.train.checkpoint import CheckpointError
from recollect.train.cohort import Cohort
from recollect.train.events import Ended, Measured, Saved
from recollect.train.loop import train
from recollect.train.spec import RunSpec

CONV = {"kind": "attention", "conv": "k"}
DROPOUT = {"kind": "attention", "dropout": 0.1}


def run(lr=3e-3, seed=1, mixer=CONV, **train):
    train = {"steps": 30, "batch": 8, "eval_every": 10, "eval_rows": 16, "test_rows": 32} | train
    task = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
    model = {"mixer": mixer, "width": 16, "layers": 1}
    return RunSpec(task=task, model=model, train={"lr": lr, "seed": seed, **train})


def results(events) -> dict[str, Ended]:
    return {event.run.id: event for event in events if isinstance(event, Ended)}


def snapshots(runs) -> dict[int, bytes]:
    """A snapshot after every step."""
    return {event.step: event.data for event in train(runs, every=0) if isinstance(event, Saved)}


def facts(ended: Ended) -> tuple:
    return ended.curve, ended.final, ended.slices, ended.status, ended.step, ended.parameters, ended.notes


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("mixer", [CONV, "mamba", DROPOUT], ids=["conv", "mamba", "dropout"])
def test_stopped_at_any_step_the_results_are_the_same_to_the_bit(precision, mixer):
    runs = [run(lr, seed, mixer, precision=precision, clip=1.0) for lr in (1e-3, 1e-2) for seed in (1, 2)]
    whole = results(train(runs))
    saved = snapshots(runs)
    for step in (1, 10, 17, 29):  # the first, at a measurement, between two, before the last
        events = list(train(runs, saved=saved[step]))
        assert next(event.step for event in events if isinstance(event, Measured)) == step // 10 * 10 + 10
        for id, ended in results(events).items():
            assert facts(ended) == facts(whole[id])
    assert all(ended.seconds > 0 for ended in whole.values())


def test_one_of_its_members_goes_on_alone_or_with_some_of_the_others():
    runs = [run(lr) for lr in (1e-3, 3e-3, 1e-2)]
    whole, saved = results(train(runs)), snapshots(runs)[15]
    for some in (runs[1:2], runs[::-2]):
        found = results(train(some, saved=saved))
        assert list(found) == [member.id for member in some]
        assert all(facts(found[id]) == facts(whole[id]) for id in found)
    alone = snapshots(runs[:1])[15]
    assert facts(results(train(runs[:1], saved=alone))[runs[0].id]) == facts(whole[runs[0].id])


def test_a_member_that_ended_before_is_not_in_the_snapshot():
    calm, wild = run(1e-3), run(1e3)
    saved = snapshots([calm, wild])
    found = results(train([calm], saved=saved[20]))
    assert facts(found[calm.id]) == facts(results(train([calm]))[calm.id])
    with pytest.raises(CheckpointError, match="not in list"):
        list(train([calm, wild], saved=saved[20]))
    assert wild.id in results(train([calm, wild], saved=saved[5])), "it was still there before it diverged"


class Branching(nn.Module):
    """A mixer that vmap cannot batch: it looks at a value."""

    def __init__(self, width: int):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return self.linear(x) if x.abs().sum() > 0 else x


def test_what_was_learnt_about_the_model_is_remembered():
    runs = [run(lr, mixer=f"{__name__}:Branching") for lr in (1e-3, 1e-2)]
    with pytest.warns(UserWarning, match="one after another"):
        saved = snapshots(runs)[5]
    again = results(train(runs, saved=saved))  # warnings are errors: it does not try again
    assert all(len(ended.notes) == 1 for ended in again.values())


def test_a_short_cohort_is_not_interrupted_for_snapshots():
    assert not any(isinstance(event, Saved) for event in train([run()]))


def test_snapshots_are_tensors_and_json_and_know_nothing_of_the_device(tmp_path):
    runs = [run(1e-3), run(1e-2)]
    path = tmp_path / "snapshot.safetensors"
    path.write_bytes(snapshots(runs)[12])
    with safe_open(path, "pt") as file:
        header = json.loads(file.metadata()["recollect"])
        names = set(file.keys())
        assert all(file.get_tensor(name).shape[0] == 2 for name in names)
    assert header["runs"] == [member.id for member in runs]
    assert (header["step"], len(header["curves"][0])) == (12, 1)
    assert {"params.embedding.weight", "mean.embedding.weight", "square.embedding.weight", "sums"} <= names
    assert not any(word in json.dumps(header) for word in ("cpu", "cuda", "device"))


@pytest.mark.parametrize("data", [b"", b"\x08", b"no safetensors at all", None], ids=["empty", "short", "text", "cut"])
def test_a_snapshot_that_cannot_be_read_is_refused(data):
    data = snapshots([run()])[3][:-5] if data is None else data
    with pytest.raises(CheckpointError):
        list(train([run()], saved=data or b" "))


def test_a_snapshot_of_another_shape_is_refused(monkeypatch):
    saved = snapshots([run()])[3]
    wider = run().changed(model=run().model.changed(width=32))
    monkeypatch.setitem(wider.__dict__, "id", run().id)
    with pytest.raises(CheckpointError, match=r"should be torch\.float32"):
        list(train([wider], saved=saved))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "store.sqlite.checkpoints"


def test_a_file_lasts_as_long_as_one_of_its_runs_needs_it(folder):
    runs = [run(1e-3), run(1e-2), run(3e-2)]
    ids = [member.id for member in runs]
    together = snapshots(runs)
    kept = Checkpoints(folder)
    kept.save(ids, together[5])
    kept.save(ids, together[6])
    assert len(list(folder.iterdir())) == 1
    first = snapshots(runs[:1])
    kept.save(ids[:1], first[8])
    assert (kept.load(ids[0]), kept.load(ids[1])) == (first[8], together[6])

    found = Checkpoints(folder)
    found.find(done=[])
    assert found.of == kept.of, "of two with a run in it, the newer counts"
    found.forget([ids[1]])
    assert found.load(ids[2]) == together[6]
    found.forget([ids[2]])
    assert len(list(folder.iterdir())) == 1
    found.forget([ids[0]])
    assert not folder.exists()


def test_what_an_earlier_process_left_is_sorted_out(folder):
    member, other = run(), run(1e-2)
    kept = Checkpoints(folder)
    kept.save([member.id], snapshots([member])[5])
    kept.save([other.id], snapshots([other])[5])
    (folder / "0123456789abcdef.draft").write_bytes(b"written when the power went")
    (folder / "bad0bad0bad0bad0.safetensors").write_bytes(b"not a snapshot")
    others = {folder / "notes.txt", folder / "my.safetensors", folder / "own"}
    (folder / "own").mkdir()
    for path in (folder / "notes.txt", folder / "my.safetensors"):
        path.write_text("somebody else's")
    found = Checkpoints(folder)
    with pytest.warns(UserWarning, match=r"bad0bad0bad0bad0\.safetensors cannot be read.*start anew"):
        found.find(done=[member.id])
    assert list(found.of) == [other.id]
    assert set(folder.iterdir()) == {found.of[other.id], *others}, "files that are not ours stay"


@pytest.mark.parametrize(
    "damage", ["a flipped bit in a tensor", "a flipped bit in the header", "cut", "without checksum"]
)
def test_a_damaged_snapshot_is_not_believed(folder, damage):
    member = run()
    kept = Checkpoints(folder)
    kept.save([member.id], snapshots([member])[5])
    path = kept.of[member.id]
    data = bytearray(path.read_bytes())
    if damage.startswith("a flipped"):
        data[-100 if "tensor" in damage else data.index(b"step") + 8] ^= 1
    path.write_bytes(data[:-1] if damage == "cut" else data[:-32] if damage == "without checksum" else data)
    found = Checkpoints(folder)
    found.find(done=[])
    with pytest.warns(UserWarning, match="damaged .*start anew"):
        loaded = found.load(member.id)
    assert (loaded, found.of) == (None, {})
    assert not folder.exists()


def with_header(data: bytes, **changes) -> bytes:
    """A snapshot that says something else about itself."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    inner = json.loads(header["__metadata__"]["recollect"]) | changes
    header["__metadata__"]["recollect"] = json.dumps(inner)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


@pytest.mark.parametrize("step", [0, 10**6, -1])
def test_a_step_outside_the_run_is_refused(step):
    member = run()
    with pytest.raises(CheckpointError, match="is not one of a run of"):
        list(train([member], saved=with_header(snapshots([member])[5], step=step)))


@pytest.mark.parametrize(
    "changes",
    [{"runs": 5}, {"runs": [[1]]}, {"step": "5"}, {"step": None}, {"curves": "x"}, {"seconds": ["x"]}, {"notes": 5}],
    ids=str,
)  # fmt: skip
def test_a_header_that_cannot_be_is_refused_and_its_file_removed(folder, changes):
    member = run()
    data = with_header(snapshots([member])[5], **changes)
    with pytest.raises(CheckpointError, match="ValueError"):
        list(train([member], saved=data))
    Checkpoints(folder).save([member.id], data)
    found = Checkpoints(folder)
    with pytest.warns(UserWarning, match="cannot be read .*start anew"):
        found.find(done=[])
    assert not found.of
    assert not folder.exists()


def test_a_snapshot_that_cannot_be_written_leaves_the_older_one(folder, monkeypatch):
    member = run()
    saved = snapshots([member])
    kept = Checkpoints(folder)
    kept.save([member.id], saved[5])

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("recollect.store.files.os.fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        kept.save([member.id], saved[6])
    monkeypatch.undo()
    found = Checkpoints(folder)
    found.find(done=[])
    assert found.load(member.id) == saved[5]
    assert len(list(folder.iterdir())) == 1


def with_threads(n: int, make):
    threads = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        return make()
    finally:
        torch.set_num_threads(threads)


def test_results_do_not_depend_on_the_number_of_threads():
    runs = [run(lr, batch=64, steps=3, eval_every=3) for lr in (1e-3, 1e-2)]
    runs = [member.changed(model=member.model.changed(width=128)) for member in runs]
    one, two = (with_threads(n, lambda: [facts(x) for x in results(train(runs)).values()]) for n in (1, 2))
    assert one == two


def test_initial_weights_do_not_depend_on_the_number_of_threads():
    member = run(mixer="rwkv7")  # begins with orthogonal matrices, which come from a factorisation
    member = member.changed(model=member.model.changed(width=128))
    one, two = (with_threads(n, lambda: Cohort([member], torch.device("cpu")).members.params) for n in (1, 2))
    assert all(torch.equal(one[name], two[name]) for name in one)
