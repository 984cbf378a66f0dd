"""What is particular to the tasks beyond the papers, and to mixtures."""

import pytest
import torch
from scipy.stats import chisquare

from recollect import rng
from recollect.tasks import AR, MQAR, Compositional, Copy, Fuzzy, Induction, Mixture, Noisy, SelectiveCopy, Updating


def even(x: torch.Tensor, n: int) -> bool:
    return chisquare(torch.bincount(x.flatten(), minlength=n).numpy()).pvalue > 0.001


def test_every_pair_is_asked_alike():
    assert even(AR().batch(0, "train", 20_000).tags["key"], 16)
    for task in (Noisy(), Compositional(pairs=8), Fuzzy(value_length=1)):
        first = task.batch(0, "train", 20_000).tags["key"][:, 0]
        assert even(first, 8)


def test_the_mark_can_be_anywhere():
    task = Induction(length=34)
    assert even(task.batch(0, "train", 20_000).source - 1, 32)


def test_selected_symbols_can_be_anywhere():
    task = SelectiveCopy(length=40, items=3)
    batch = task.batch(0, "train", 20_000)
    assert even(batch.source, 40)
    assert (batch.source.diff(dim=1) > 0).all()


def test_noise_can_be_anywhere_between_pairs():
    batch = Noisy(length=24, pairs=4).batch(0, "train", 20_000)
    gaps = (batch.source - 1).sort(dim=1).values.diff(dim=1)
    assert gaps.min() == 2  # neighbours
    assert gaps.max() == 14  # all twelve noise tokens between two pairs
    first = batch.source.min(dim=1).values - 1
    assert first.min() == 0


@pytest.mark.parametrize(("pairs", "parts"), [(16, 4), (8, 4), (7, 3), (6, 3), (4, 2), (16, 8), (30, 8)])
def test_no_part_of_a_key_determines_the_value(pairs, parts):
    """The best that a model can do which looks at one part of the key: any of the values beside it."""
    task = Compositional(pairs=pairs, parts=parts)
    batch = task.batch(0, "train", 2_000)
    keys = [batch.tokens[:, part : 3 * pairs : 3] for part in (0, 1)]
    beside = [(part[:, :, None] == part[:, None]).sum(dim=2) for part in keys]
    assert min(count.min() for count in beside) >= 2
    for count in beside:
        assert (1 / count).double().mean().item() == pytest.approx(parts / pairs)
    better = (1 / torch.minimum(*beside)).double().mean()  # of the two parts, the one that says more
    assert better <= 0.5
    assert Compositional().chance == 1 / 16


def test_any_two_parts_meet_alike():
    """Which first and second parts meet, and where in the context, is drawn evenly."""
    task = Compositional(pairs=7, parts=3, vocab=16)
    tokens = task.batch(0, "train", 30_000).tokens[:, :21]
    first, second = tokens[:, 0::3] - 1, tokens[:, 1::3] - 4
    for place in range(7):
        assert even(first[:, place] * 4 + second[:, place], 12)


def test_fuzzy_keys_share_tokens():
    batch = Fuzzy(vocab=10, pairs=4, key_length=3).batch(0, "train", 200)
    assert batch.trained.sum(dim=1).unique().numel() > 3  # the numbers of value tokens vary
    assert (batch.tokens[:, 0] == batch.tokens[:, 2]).any()


def test_the_last_write_counts():
    batch = Updating(pairs=4, updates=8).batch(0, "train", 500)
    keys, asked = batch.tokens[:, 0:24:2], batch.tokens.gather(1, batch.positions)
    writes = (keys[:, None] == asked[..., None]).sum(dim=2)
    assert torch.equal(writes, batch.tags["writes"])
    assert (writes.sum(dim=1) == 12).all()
    assert writes.min() == 1
    last = torch.where(keys[:, None] == asked[..., None], torch.arange(12), -1).max(dim=2).values
    assert torch.equal(batch.source, 2 * last + 1)
    assert (batch.tags["gap"] == batch.positions - 2 * last).all()


def test_updating_without_updates_is_mqar():
    fields = {"length": 128, "pairs": 8}
    plain, updating = MQAR(**fields).batch(0, "train", 500), Updating(**fields, updates=0).batch(0, "train", 500)
    assert (updating.tags["writes"] == 1).all()
    assert plain.tokens.shape == updating.tokens.shape


def test_a_mixture_takes_its_parts_in_turn():
    parts = [MQAR(), MQAR(length=128, pairs=8), MQAR(length=256, pairs=16)]
    task = Mixture(parts=tuple(parts))
    batch = task.batch(0, "train", 30)
    assert batch.tokens.shape == (30, 256)
    assert batch.answers.shape == (30, 16)
    assert batch.tags["part"][:, 0].tolist() == [0, 1, 2] * 10
    assert batch.trained.sum(dim=1).tolist() == [4, 8, 16] * 10
    for i, part in enumerate(parts):
        own = part.batch(0, "train", 30)
        width, answers = part.row_length, part.pairs
        assert torch.equal(batch.tokens[i::3, :width], own.tokens[i::3])
        assert torch.equal(batch.answers[i::3, :answers], own.answers[i::3])
        assert torch.equal(batch.tags["gap"][i::3, :answers], own.tags["gap"][i::3])


@pytest.mark.parametrize("weights", [(5, 1, 1, 1, 1), (1, 2), (7, 3, 4), (1000, 1)])
def test_a_weighted_mixture_has_exact_shares(weights):
    task, total = Mixture(parts=(MQAR(),) * len(weights), weights=weights), sum(weights)
    part = task.batch(3, "train", 4 * total).tags["part"][:, 0]
    for block in part.split(total):
        assert torch.bincount(block, minlength=len(weights)).tolist() == list(weights)
    share = (
        torch.nn.functional.one_hot(part).cumsum(dim=0)
        - torch.tensor(weights) * torch.arange(1, len(part) + 1)[:, None] / total
    )
    assert share.abs().max() < 1.5  # never far from its share, wherever one stops
    again = task.sample(rng.stream(9, "test", torch.arange(total, 2 * total))).tags["part"][:, 0]
    assert torch.equal(again, part[:total])  # whatever the seed and purpose


def test_rows_of_a_weighted_mixture_are_their_parts_rows():
    parts = (MQAR(), Updating(length=96, pairs=8))
    batch = Mixture(parts=parts, weights=(2, 1)).batch(0, "train", 30)
    for number, part in enumerate(batch.tags["part"][:, 0].tolist()):
        own = parts[part].batch(0, "train", 30)
        assert torch.equal(batch.tokens[number, : parts[part].row_length], own.tokens[number])
        assert not batch.tokens[number, parts[part].row_length :].any()


def test_a_mixture_is_tested_as_its_parts_are():
    task = Mixture(parts=(Copy(packed=True), Copy(length=30)))
    assert task.for_test() == Mixture(parts=(Copy(), Copy(length=30)))
    assert task.accuracy == Copy.accuracy == "rows"
    assert task.chance == pytest.approx((Copy().chance + Copy(length=30).chance) / 2)
