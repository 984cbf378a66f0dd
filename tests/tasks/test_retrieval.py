"""The laws of n-gram retrieval, duplicate queries, position retrieval and copying."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from recollect.tasks import Copy, Duplicates, NGram, Position, base, ngram


def repeats(task, rows: int) -> float:
    """The share of rows in whose sequence the query occurs more often than it should."""
    batch = task.batch(0, "train", rows)
    start = 1 if task.query == "suffix" else task.n + 2
    query = batch.tokens.gather(1, batch.query)
    sequence = batch.tokens[:, start : start + task.length]
    count = ngram.occurrences(sequence, query).sum(dim=1)
    return (count > getattr(task, "segments", 1)).double().mean().item()


def test_one_sequence_in_fourteen_is_drawn_again(monkeypatch):
    drawn = []

    def counting(stream, draw):
        def counted(stream, rows):
            drawn.append(len(rows))
            return draw(stream, rows)

        return base.redrawn(stream, counted)

    monkeypatch.setattr(ngram, "redrawn", counting)
    NGram().batch(0, "train", 20_000)
    assert 0.065 < 1 - 20_000 / sum(drawn) < 0.085


@pytest.mark.parametrize("query", ["suffix", "prefix"])
def test_queries_are_unique_but_in_jelassis_variant(query):
    long = {"min_length": 100, "query": query}
    assert repeats(NGram(**long), 5_000) == 0
    assert repeats(NGram(**long, variant="jelassi"), 40_000) == pytest.approx(0.138, abs=0.006)


@pytest.mark.parametrize("segments", [2, 4, 10])
def test_clean_duplicates_hold_no_chance_occurrences(segments):
    assert repeats(Duplicates(segments=segments), 5_000) == 0


def test_lengths_and_places_are_uniform():
    batch = NGram().batch(0, "train", 40_000)
    length, place = batch.tags["length"][:, 0], batch.tags["place"][:, 0]
    assert chisquare(torch.bincount(length)[50:].numpy()).pvalue > 0.001
    assert length.max() == 100
    place = place[length == 100]
    counts = torch.bincount(place, minlength=96).numpy()
    assert len(counts) == 96  # the last place leaves room for query and answer
    assert chisquare(counts).pvalue > 0.001


def test_symbols_are_uniform():
    sequence = Duplicates().batch(0, "train", 5_000).tokens[:, 1:101]
    assert chisquare(torch.bincount(sequence.flatten(), minlength=33)[3:].numpy()).pvalue > 0.001


def test_ngram_is_tested_at_its_full_length_and_beyond():
    task = NGram()
    assert set(task.for_test().batch(0, "test", 50).tags["length"].flatten().tolist()) == {100}
    longer = task.changed(length=400, min_length=400)
    assert longer.vocabulary == task.vocabulary == 33
    assert longer.row_length == 408
    assert set(longer.batch(0, "test", 50).tags["length"].flatten().tolist()) == {400}


def test_duplicates_are_asked_of_a_model_that_learned_ngrams():
    task = Duplicates(segments=3)
    assert task.vocabulary == NGram().vocabulary
    assert task.row_length == NGram().row_length - 1  # 99 symbols
    batch = task.batch(0, "test", 1_000)
    assert batch.candidates.shape == (1_000, 3, 3)
    assert torch.equal(batch.candidates[:, -1], batch.answers)
    for row in range(50):  # candidate j is what follows the query in segment j
        query = batch.tokens[row, batch.query[row]].tolist()
        for j in range(3):
            segment = batch.tokens[row, 1 + 33 * j : 34 + 33 * j].tolist()
            (start,) = (i for i in range(32) if segment[i : i + 2] == query)
            assert segment[start + 2 : start + 5] == batch.candidates[row, j].tolist()


@pytest.mark.parametrize("variant", ["permutation", "sampled"])
def test_targets_are_uniform_over_positions(variant):
    task = Position(variant=variant)
    batch = task.batch(0, "train", 20_000)
    assert chisquare(torch.bincount(batch.tags["position"][:, 0], minlength=200).numpy()).pvalue > 0.001
    assert torch.equal(batch.answers[:, 0] - (task.vocabulary - 200), batch.tags["position"][:, 0])
    asked = batch.tokens.gather(1, batch.query)[:, 0] - 3
    assert chisquare(torch.bincount(asked, minlength=task.alphabet).numpy()).pvalue > 0.001
    assert batch.scored[0].tolist() == [True, False]


@pytest.mark.parametrize("variant", ["permutation", "sampled"])
def test_position_has_403_tokens(variant):
    task = Position(variant=variant)
    assert task.vocabulary == 403
    assert task.word(203) == "p0"
    sequence = task.batch(0, "train", 200).tokens[:, 1:201]
    assert sequence.max() == (202 if variant == "permutation" else 32)


def test_copy_is_trained_packed_and_tested_one_by_one():
    task = Copy(packed=True)
    batch = task.batch(0, "train", 2_000)
    assert batch.tokens.shape[1] == task.row_length == 220
    assert ((batch.tokens == 1).sum(dim=1) > 1).all()
    test = task.for_test()
    assert not test.packed
    rows = test.batch(0, "test", 20_000)
    assert ((rows.tokens == 1).sum(dim=1) == 1).all()
    lengths = rows.tags["length"][:, 0]
    assert chisquare(torch.bincount(lengths)[5:].numpy()).pvalue > 0.001
    assert lengths.max() == 20


def test_the_end_token_is_learned_but_not_scored():
    batch = Copy(packed=True).batch(0, "train", 200)
    end = batch.answers == 3
    assert batch.trained[end].all()
    assert not batch.scored[end].any()
    assert torch.equal(batch.scored, batch.trained & ~end)


def test_a_packed_example_that_is_cut_off_is_not_learned():
    task = Copy(packed=True)
    batch = task.batch(0, "train", 500)
    for row in range(500):
        last_end = (batch.tokens[row] == 3).nonzero().max().item()
        assert batch.positions[row][batch.trained[row]].max().item() == last_end - 1


def test_letters_are_uniform():
    letters = Copy(min_length=20).batch(0, "train", 5_000).tokens[:, 1:21] - 4
    counts = np.bincount(letters.flatten().numpy(), minlength=26)
    assert chisquare(counts).pvalue > 0.001
