"""The laws of MQAR: where keys are asked, what fills the rest, and what the released generator does otherwise."""

import numpy as np
import pytest
import torch
from scipy.stats import chi2_contingency, chisquare

from recollect.tasks import MQAR


def slots(task: MQAR, rows: int, seed: int = 0) -> torch.Tensor:
    """The slot in which each key is asked: (rows, K), in key order."""
    batch = task.batch(seed, "train", rows)
    slot = (batch.positions - 2 * task.pairs) // 2
    return torch.empty_like(slot).scatter_(1, batch.tags["key"], slot)


def histogram(x: torch.Tensor, n: int) -> np.ndarray:
    return torch.bincount(x.flatten(), minlength=n).numpy()


def test_in_the_released_generator_early_keys_are_asked_earlier():
    mean = slots(MQAR(length=128, pairs=8, variant="zoology"), 40_000).double().mean(dim=0)
    assert mean[0] == pytest.approx(11.3, abs=0.25)
    assert mean[-1] == pytest.approx(16.7, abs=0.25)
    assert (mean.diff() > 0.3).all()


def test_clean_keys_are_all_asked_alike():
    slot = slots(MQAR(length=128, pairs=8), 40_000)
    mean = slot.double().mean(dim=0)
    assert (mean - mean.mean()).abs().max() < 0.25
    table = np.stack([histogram(slot[:, key], 56) for key in range(8)])
    assert chi2_contingency(table).pvalue > 0.001


@pytest.mark.parametrize("power_a", [0.01, 1.0])
def test_the_first_slot_drawn_follows_the_gap_law(power_a):
    slot = slots(MQAR(length=128, pairs=8, variant="zoology", power_a=power_a), 40_000)[:, 0]
    law = np.arange(1, 57) ** (power_a - 1)
    assert chisquare(histogram(slot, 56), 40_000 * law / law.sum()).pvalue > 0.001


def test_clean_rows_use_the_same_slots_as_the_released_generator():
    clean, released = (slots(MQAR(length=128, pairs=8, variant=v), 20_000) for v in ("clean", "zoology"))
    assert chi2_contingency(np.stack([histogram(clean, 56), histogram(released, 56)])).pvalue > 0.001


def false_copies(task: MQAR, rows: int) -> tuple[float, float]:
    """The share of rows with a filler that equals a key, and of queries that come after such a copy of their key."""
    batch = task.batch(0, "train", rows)
    holds, after, context = 0, 0, 2 * task.pairs
    for row, queries in zip(batch.tokens.tolist(), batch.positions.tolist(), strict=True):
        asked, first = set(queries), {}
        for place in range(context, task.length):
            if place not in asked:
                first.setdefault(row[place], place)
        holds += any(key in first for key in row[0:context:2])
        after += sum(first.get(row[place], task.length) < place for place in queries)
    return holds / rows, after / rows / task.pairs


def test_filler_of_the_released_generator_equals_keys():
    rows, queries = false_copies(MQAR(length=512, pairs=64, variant="zoology"), 1500)
    assert rows == pytest.approx(0.91, abs=0.02)
    assert queries == pytest.approx(0.010, abs=0.0015)


@pytest.mark.parametrize("roles", ["split", "shared"])
def test_clean_filler_never_equals_a_key(roles):
    assert false_copies(MQAR(length=512, pairs=64, roles=roles), 100) == (0, 0)


@pytest.mark.parametrize("roles", ["split", "shared"])
def test_clean_filler_is_every_other_token_alike(roles):
    task = MQAR(length=16, pairs=2, vocab=18, roles=roles)
    batch = task.batch(0, "train", 20_000)
    filler = torch.ones_like(batch.tokens, dtype=torch.bool).scatter_(1, batch.positions, False)
    filler[:, : 2 * task.pairs] = False
    counts = histogram(batch.tokens[filler], 18)
    # split: 6 of the 8 possible keys and all 9 values, so a value is 8/6 times as likely as a key
    expected = np.array([6 / 8] * 8 + [1] * 9 if roles == "split" else [1] * 17)
    assert counts[0] == 0
    assert chisquare(counts[1:], expected * counts.sum() / expected.sum()).pvalue > 0.001


def test_keys_and_values_are_drawn_evenly_from_their_halves():
    batch = MQAR(vocab=66).batch(0, "train", 20_000)
    keys, values = batch.tokens[:, 0:8:2], batch.tokens[:, 1:8:2]
    assert chisquare(histogram(keys, 33)[1:]).pvalue > 0.001
    assert chisquare(histogram(values - 33, 33)).pvalue > 0.001
    assert keys.max() == 32
    assert values.min() == 33


def test_shared_roles_let_a_token_be_a_key_here_and_a_value_there():
    batch = MQAR(vocab=66, roles="shared").batch(0, "train", 2_000)
    keys, values = batch.tokens[:, 0:8:2], batch.tokens[:, 1:8:2]
    assert set(keys.flatten().tolist()) == set(values.flatten().tolist()) == set(range(1, 66))
    assert not (keys[:, :, None] == values[:, None]).any()


def test_tags_say_how_far_and_which():
    task = MQAR(length=128, pairs=8)
    batch = task.batch(0, "train", 50)
    key_place = 2 * batch.tags["key"]
    assert torch.equal(batch.tokens.gather(1, key_place), batch.tokens.gather(1, batch.positions))
    assert torch.equal(batch.tags["gap"], batch.positions - key_place)
    assert (batch.tags["pairs"] == 8).all()
