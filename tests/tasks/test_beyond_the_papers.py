"""What is particular to the tasks beyond the papers, and to mixtures."""

import pytest
import torch
from scipy.stats import chisquare

from recollect.tasks import AR, MQAR, Compositional, Copy, Fuzzy, Induction, Mixture, Noisy, SelectiveCopy, Updating


def even(x: torch.Tensor, n: int) -> bool:
    return chisquare(torch.bincount(x.flatten(), minlength=n).numpy()).pvalue > 0.001


def test_every_pair_is_asked_alike():
    assert even(AR().batch(0, "train", 20_000).tags["key"], 16)
    for task in (Noisy(), Compositional(), Fuzzy(value_length=1)):
        first = task.batch(0, "train", 20_000).tags["key"][:, 0]
        assert even(first, 8)


def test_the_mark_stands_anywhere():
    task = Induction(length=34)
    assert even(task.batch(0, "train", 20_000).source - 1, 32)


def test_selected_symbols_stand_anywhere():
    task = SelectiveCopy(length=40, items=3)
    batch = task.batch(0, "train", 20_000)
    assert even(batch.source, 40)
    assert (batch.source.diff(dim=1) > 0).all()


def test_noise_stands_anywhere_between_pairs():
    batch = Noisy(length=24, pairs=4).batch(0, "train", 20_000)
    gaps = (batch.source - 1).sort(dim=1).values.diff(dim=1)
    assert gaps.min() == 2  # neighbours
    assert gaps.max() == 14  # all twelve noise tokens between two pairs
    first = batch.source.min(dim=1).values - 1
    assert first.min() == 0


def test_no_part_of_a_key_tells_the_value():
    batch = Compositional(pairs=16, parts=4).batch(0, "train", 50)
    first, second = batch.tokens[:, 0:48:3], batch.tokens[:, 1:48:3]
    for part in (first, second):
        assert ((part[:, :, None] == part[:, None]).sum(dim=2) == 4).all()


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


def test_a_mixture_is_tested_as_its_parts_are():
    task = Mixture(parts=(Copy(packed=True), Copy(length=30)))
    assert task.for_test() == Mixture(parts=(Copy(), Copy(length=30)))
    assert task.accuracy == Copy.accuracy == "rows"
    assert task.chance == pytest.approx((Copy().chance + Copy(length=30).chance) / 2)
