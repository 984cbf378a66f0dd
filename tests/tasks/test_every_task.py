"""What holds for every task: a row depends on nothing but its seed, purpose and number, and a batch is what it says."""

import pytest
import torch

from recollect import rng
from recollect.tasks import Batch, Task, as_task


def test_batches_are_what_they_say(task):
    rows = 300
    batch = task.batch(1, "test", rows)
    assert batch.tokens.shape == (rows, task.row_length)
    assert batch.answers.shape == (rows, task.row_answers)
    assert batch.tokens.dtype == batch.positions.dtype == batch.answers.dtype == torch.int64
    for tokens in (batch.tokens, batch.answers):
        assert tokens.min() >= 0
        assert tokens.max() < task.vocabulary
    assert batch.positions.shape == batch.answers.shape == batch.source.shape == batch.trained.shape
    assert batch.trained.any(dim=1).all()
    assert not (batch.scored & ~batch.trained).any()
    assert batch.positions.min() >= 0
    assert batch.positions.max() < task.row_length
    further = batch.positions[:, 1:] - batch.positions[:, :-1] >= (not task.reads_at_once)
    in_order = further | ~batch.trained[:, 1:] | ~batch.trained[:, :-1]
    assert in_order.all()
    has_source = batch.source >= 0
    assert torch.equal(batch.tokens.gather(1, batch.source.clamp(min=0))[has_source], batch.answers[has_source])
    assert (batch.source <= batch.positions)[has_source].all()  # the source comes before the position of reading
    assert batch.query.max() < task.row_length
    for tag in batch.tags.values():
        assert tag.dtype == torch.int64
        assert tag.shape in {(rows, 1), tuple(batch.answers.shape)}
    assert 0 < task.chance <= 1


def test_every_token_has_a_word_of_its_own(task):
    tokens = range(min(task.vocabulary, 500))
    words = {task.word(token) for token in (*tokens, task.vocabulary - 1)}
    assert all(words)
    assert len(words) == len({*tokens, task.vocabulary - 1})


def same(a: Batch, b: Batch) -> bool:
    pairs = [(getattr(a, f), getattr(b, f)) for f in ("tokens", "positions", "answers", "query", "source", "trained")]
    pairs += [(a.scored, b.scored), *((a.tags[name], b.tags[name]) for name in a.tags)]
    if a.candidates is not None:
        pairs.append((a.candidates, b.candidates))
    return a.tags.keys() == b.tags.keys() and all(torch.equal(x, y) for x, y in pairs)


def test_a_row_does_not_depend_on_the_others(task):
    rows = torch.tensor([5, 3, 900_000_000_000, 0, 4, 77, 1, 2])
    together = task.sample(rng.stream(42, "train", rows))
    turned = task.sample(rng.stream(42, "train", rows.flip(0)))
    assert same(together, turned.map(lambda x: x.flip(0)))
    for i, row in enumerate(rows):
        alone = task.sample(rng.stream(42, "train", row[None]))
        assert same(alone, together.map(lambda x, i=i: x[i : i + 1]))


def test_members_with_their_own_seeds_are_drawn_in_one_call(task):
    seeds, rows = torch.tensor([1, 1, 2, 2]), torch.tensor([0, 1, 0, 1])
    together = task.sample(rng.stream(seeds, "train", rows))
    assert same(task.batch(1, "train", 2), together.map(lambda x: x[:2]))
    assert same(task.batch(2, "train", 2), together.map(lambda x: x[2:]))


def test_seeds_purposes_and_rows_differ(task):
    batches = [task.batch(1, purpose, 20) for purpose in ("train", "valid", "test")] + [task.batch(2, "train", 20)]
    content = {tuple(row) for batch in batches for row in batch.tokens.tolist()}
    assert len(content) == 80 or task.seen_share(80) > 0.001  # the smallest tasks have few different rows


def test_pytorchs_own_generator_is_left_alone(task):
    before = torch.get_rng_state()
    task.batch(3, "train", 5)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_draws_the_same_rows(task):
    there = task.batch(42, "train", 500, device="cuda")
    assert there.tokens.is_cuda
    assert same(task.batch(42, "train", 500), there.map(torch.Tensor.cpu))


def test_a_specification_survives_being_written_down(task: Task):
    assert as_task(task.canonical()) == task
    assert as_task(task.model_dump(mode="json")) == task
    assert next(iter(task.canonical())) == "kind"


def test_every_field_is_documented(task):
    for field_name, field in type(task).model_fields.items():
        assert field.description or field_name == "kind"
