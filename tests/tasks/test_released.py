"""The variants that follow released code have its laws.

The numbers named `measured` were counted in rows drawn by the released generators themselves, unchanged: Zoology's
forgetting task at d88d6f5 (3 x 60,000 rows of length 64 with 8 pairs, 4 updates and 256 tokens), Retrievit's duplicate
queries at bd45ed1 (40,000 rows each), n-gram lookup of Jelassi et al. at 1188c47 (20,000 rows each).
"""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from recollect.tasks import Duplicates, NGram, Updating
from recollect.tasks.ngram import occurrences

ROWS = 40_000


@pytest.fixture(scope="module")
def forgetting() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The keys as they are written, the values, and the slot in which each key is asked, in the order of first writes."""
    batch = Updating(pairs=8, updates=4, vocab=256, variant="zoology").batch(0, "train", ROWS)
    keys, asked = batch.tokens[:, 0:24:2], batch.tokens.gather(1, batch.positions)
    order = (keys[:, None, :8] == asked[..., None]).long().argmax(dim=2)
    slot = (batch.positions - 24) // 2
    return keys, batch.tokens[:, 1:24:2], torch.empty_like(slot).scatter_(1, order, slot)


def test_keys_are_all_written_and_then_some_again(forgetting):
    keys, _, _ = forgetting
    first, again = keys[:, :8].sort(dim=1).values, keys[:, 8:]
    assert (first.diff(dim=1) > 0).all()
    which = keys[:, None, :8] == again[..., None]
    assert which.any(dim=2).all()
    which = which.long().argmax(dim=2)
    assert (which.sort(dim=1).values.diff(dim=1) > 0).all()  # each at most once more
    assert chisquare(torch.bincount(which.flatten(), minlength=8).numpy()).pvalue > 0.001


def test_keys_that_were_written_first_are_asked_first(forgetting):
    measured = [4.635, 5.148, 5.718, 6.239, 6.801, 7.315, 7.816, 8.314]
    assert forgetting[2].double().mean(dim=0).tolist() == pytest.approx(measured, abs=0.1)


def test_new_values_can_be_old_ones(forgetting):
    keys, values, _ = forgetting
    which = (keys[:, None, :8] == keys[:, 8:, None]).long().argmax(dim=2)
    unchanged = (values[:, :8].gather(1, which) == values[:, 8:]).any(dim=1).double().mean().item()
    assert unchanged == pytest.approx(0.0271, abs=0.003)  # measured
    repeated = (values.sort(dim=1).values.diff(dim=1) == 0).any(dim=1).double().mean().item()
    assert repeated == pytest.approx(0.241, abs=0.01)  # measured
    assert (values[:, 8:] != values[:, :4]).all()


@pytest.mark.parametrize(("segments", "measured"), [(2, 0.0999), (3, 0.0917), (4, 0.0932), (10, 0.0758)])
def test_duplicates_are_those_of_the_released_sampler(segments, measured):
    task = Duplicates(segments=segments, variant="released")
    batch = task.batch(0, "test", ROWS)
    query, size = batch.tokens.gather(1, batch.query), task.segment
    assert (query[:, 0] != query[:, 1]).all()
    sequence = batch.tokens[:, 1 : 1 + segments * size]
    more = occurrences(sequence, query).sum(dim=1) > segments
    assert more.double().mean().item() == pytest.approx(measured, abs=0.007)
    place = batch.source[:, 0] - 1 - 2 - (segments - 1) * size  # of the query in the last segment
    counts = torch.bincount(place, minlength=size - 5)
    assert len(counts) == size - 5  # measured: 0..44, 0..27, 0..19, 0..4
    assert chisquare(counts.numpy()).pvalue > 0.001


def test_a_query_with_its_answer_occurs_once_in_its_segment():
    task = Duplicates(symbols=4, length=100, segments=2, n=2, k=3, variant="released")
    batch = task.batch(0, "test", 2_000)
    query = batch.tokens.gather(1, batch.query)
    for segment in range(2):
        inside = batch.tokens[:, 1 + 50 * segment : 51 + 50 * segment]
        both = torch.cat([query, batch.candidates[:, segment]], dim=1)
        assert (occurrences(inside, both).sum(dim=1) == 1).all()


LOOKUPS = {  # n, k, length: share of rows with a repeated query, last place of the first occurrence, its mean
    (1, 3, 20): (0.521, 13, 5.40),
    (2, 3, 100): (0.137, 92, 44.1),
    (2, 3, 50): (0.066, 42, 20.6),
    (1, 3, 100): (0.979, 93, 18.2),
    (1, 3, 12): (0.355, 5, 2.29),
}
"""Measured. The last places at which a query starts are 13, 92, 42, 93 and 5: three before room for the answer ends."""


@pytest.mark.parametrize("setting", LOOKUPS, ids=str)
def test_lookups_are_those_of_jelassi(setting):
    n, k, length = setting
    repeated, last, mean = LOOKUPS[setting]
    batch = NGram(variant="jelassi", n=n, k=k, min_length=length, length=length).batch(0, "train", ROWS)
    query, sequence = batch.tokens.gather(1, batch.query), batch.tokens[:, 1 : 1 + length]
    found = occurrences(sequence, query)
    assert (found.sum(dim=1) > 1).double().mean().item() == pytest.approx(repeated, abs=0.012)
    place = batch.tags["place"][:, 0]
    assert torch.equal(place, found.long().argmax(dim=1))  # the first
    assert place.max() <= last
    assert place.double().mean().item() == pytest.approx(mean, abs=0.02 * length**0.75)


def test_a_sequence_for_lookup_has_a_unique_letter():
    tokens = NGram(variant="jelassi", n=1, min_length=100).batch(0, "train", 2_000).tokens[:, 1:96]
    assert ((tokens[:, None] == torch.arange(4, 30)[:, None]).sum(dim=2) == 1).any(dim=1).all()


@pytest.mark.parametrize(("query", "four"), [("suffix", 0.139), ("prefix", 0.117)])
def test_lookups_are_packed_as_jelassi_packs_them(query, four):
    """Measured: two whole examples in a context of 220, and three in `four` of them."""
    batch = NGram(variant="jelassi", packed=True, query=query).batch(0, "train", ROWS)
    assert batch.tokens.shape == (ROWS, 220)
    share = np.bincount(batch.trained.sum(dim=1).numpy()) / ROWS
    assert share.nonzero()[0].tolist() == [8, 12]
    assert share[12] == pytest.approx(four, abs=0.008)
