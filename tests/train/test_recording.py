"""What training records besides loss and accuracy: which of several right answers a model gives, and its embeddings."""

import pytest
import safetensors.torch
import torch

from recollect.models.model import build
from recollect.tasks.duplicates import Duplicates
from recollect.tasks.position import Position
from recollect.train.cohort import Cohort
from recollect.train.embeddings import Album
from recollect.train.events import Ended, Saved
from recollect.train.loop import train
from recollect.train.measure import EvaluationRows, measure
from recollect.train.spec import RunSpec, TrainSpec

TASK = Duplicates(length=40, segments=4, symbols=20)
ROWS = 24


def oracle(choose):
    """A forward pass that answers with the k-gram of the segment that `choose(candidates that fit what was fed)` names."""

    def forward(tokens, positions):
        logits = torch.zeros(*positions.shape, TASK.vocabulary)
        for index in torch.cartesian_prod(torch.arange(tokens.shape[0]), torch.arange(tokens.shape[1])).tolist():
            row, at = tokens[tuple(index)], positions[tuple(index)].tolist()
            query = row[at[0] - 2 : at[0]]
            starts = [i for i in range(1, 40) if torch.equal(row[i : i + 2], query)]
            for i, place in enumerate(at):
                fed = row[at[0] + 1 : place + 1]
                fitting = [s for s in starts if torch.equal(row[s + 2 : s + 2 + i], fed)]
                answer = row[choose(fitting) + 2 + i] if fitting else 0
                logits[(*index, i, answer)] = 1
        return logits

    return forward


def measured(forward):
    rows = EvaluationRows(TASK, torch.tensor([5]), "test", ROWS)
    return measure(forward, rows, torch.tensor([0, 0]), sliced=True)


@pytest.mark.parametrize(
    ("choose", "segment"), [(min, 0), (max, 3), (lambda fitting: sorted(fitting)[len(fitting) // 3], 1)]
)
def test_the_segment_whose_answer_is_decoded_is_counted(choose, segment):
    found = measured(oracle(choose))
    counted, right = found.slices["chosen.4"]
    expected = [ROWS if j == segment else 0 for j in range(segment + 1)]
    assert counted.tolist() == right.tolist() == [expected] * 2
    assert found.rows.tolist() == [1, 1], "any of the segments' answers is right"


def test_what_matches_no_segment_is_an_error():
    found = measured(lambda tokens, positions: torch.eye(TASK.vocabulary)[0].expand(*positions.shape, -1))
    counted, right = found.slices["chosen.4"]
    assert counted.tolist() == [[0, 0, 0, 0, ROWS]] * 2
    assert right.sum() == 0
    assert found.rows.tolist() == [0, 0]


def test_choices_are_those_of_decoding_token_by_token():
    run = RunSpec(
        task={"kind": "ngram", "min_length": 10, "length": 12, "symbols": 6},
        model={"mixer": "mamba2", "width": 16, "layers": 1, "mlp": "none"},
        train={"steps": 30, "batch": 16, "lr": 0.01, "test_rows": 64, "eval_rows": 16, "precision": "float64"},
        tests=[{"kind": "duplicates", "length": 12, "segments": 2, "symbols": 6}],
    )
    cohort = Cohort([run, run.changed(train=run.train.changed(lr=0.02))], torch.device("cpu"))
    found = cohort.measures(EvaluationRows(run.tests[0], cohort.members.seeds, "test", 64), [0, 1], sliced=True)
    model = build(run.model, run.task.vocabulary, run.row_length, run.train.seed).double()
    batch = run.tests[0].batch(run.train.seed, "test", 64)
    first = int(batch.positions[0, 0])
    decoded = model.decode(batch.tokens[:, : first + 1], 3)
    match = (decoded[:, None] == batch.candidates).all(-1)
    assert found.rows[0] == match.any(1).double().mean()
    counted, _ = found.slices["chosen.2"]
    assert counted[0].tolist() == [*match.sum(0).tolist(), int((~match.any(1)).sum())]


def position(lr=1e-3, tie=False, **train) -> RunSpec:
    train = {"steps": 80, "batch": 4, "eval_every": 20, "eval_rows": 8, "test_rows": 8, "snapshots": 4} | train
    model = {"mixer": "attention", "width": 8, "layers": 1, "tie": tie}
    return RunSpec(task={"kind": "position", "length": 6}, model=model, train={"lr": lr, **train})


def results(events) -> dict[str, Ended]:
    return {event.run.id: event for event in events if isinstance(event, Ended)}


def tables(ended: Ended) -> list[tuple[float, int, dict[str, torch.Tensor]]]:
    return [(share, step, safetensors.torch.load(data)) for share, step, data in ended.snapshots]


def test_embeddings_are_kept_at_the_quarters_of_a_run():
    run = position()
    (ended,) = results(train([run], weights=True)).values()
    kept = tables(ended)
    assert [(share, step) for share, step, _ in kept] == [(0.25, 20), (0.5, 40), (0.75, 60), (1.0, 80)]
    assert all(table["input"].shape == table["output"].shape == (6, 8) for _, _, table in kept)
    weights = safetensors.torch.load(ended.weights)
    assert torch.equal(kept[-1][2]["input"], weights["embedding.weight"][-6:]), "the rows of the position tokens"
    assert torch.equal(kept[-1][2]["output"], weights["head.weight"][-6:])
    assert not torch.equal(kept[0][2]["input"], kept[1][2]["input"])
    short = results(train([run.changed(train=run.train.changed(steps=20, schedule="constant", warmup=0.0))]))
    long = results(train([run.changed(train=run.train.changed(schedule="constant", warmup=0.0))]))
    (early,), (late,) = short.values(), long.values()
    assert torch.equal(tables(early)[-1][2]["input"], tables(late)[0][2]["input"]), "what a run of 20 steps ends with"


def test_a_tied_head_has_no_table_and_nobody_asked_keeps_nothing():
    (ended,) = results(train([position(tie=True)])).values()
    assert set(tables(ended)[0][2]) == {"input"}
    (ended,) = results(train([position(snapshots=0)])).values()
    assert ended.snapshots == []
    assert Position(length=6).remembered == range(9, 15)
    assert TASK.remembered == range(TASK.vocabulary)


def test_a_run_in_company_and_after_a_stop_keeps_the_same_embeddings():
    runs = [position(lr) for lr in (1e-3, 3e-3, 1e5)]  # the last leaves early
    runs = [run.changed(train=run.train.changed(max_loss=20.0)) for run in runs]
    whole = results(train(runs))
    assert whole[runs[2].id].status == "diverged"
    assert whole[runs[2].id].snapshots[-1][1] == whole[runs[2].id].step
    saved = {event.step: event.data for event in train(runs[:2], every=0) if isinstance(event, Saved)}
    for step in (1, 33, 60, 79):
        again = results(train(runs[1:2], saved=saved[step]))
        assert again[runs[1].id].snapshots == whole[runs[1].id].snapshots


@pytest.mark.parametrize("total", [3, 10, 100, 1000, 5000])
def test_whenever_a_run_ends_its_quarters_are_within_a_sixteenth(total):
    params = {"embedding.weight": torch.zeros(1, 15, 2)}
    for end in sorted({total, *torch.linspace(1, total, 60).long().tolist()}):
        album = Album(TrainSpec(steps=total, snapshots=4), Position(length=6))
        for step in range(1, end + 1):
            album.take(lambda: params, step)
            assert len(album.held) <= 16
        finest = max(1, total / 256)
        for share, step, _ in album.kept(params, end, 0):
            assert abs(step - share * end) <= max(end / 16, finest) + 1
        assert [step for share, step, _ in album.kept(params, end, 0) if share == 1] == [end]
        if end == total and total >= 100:
            assert [step for _, step, _ in album.kept(params, end, 0)] == [
                total // 4,
                total // 2,
                total * 3 // 4,
                total,
            ]


def test_asking_for_embeddings_changes_no_number():
    (with_them,), (without,) = (results(train([position(snapshots=n)])).values() for n in (4, 0))
    assert with_them.curve == without.curve
    assert with_them.final == without.final
