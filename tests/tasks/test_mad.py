"""MAD's rows follow the laws of its released code: shares and frequencies, each computed by hand from the description."""

import pytest
import torch

from recollect.tasks import as_task
from recollect.train.spec import RunSpec

ROWS = 4000


def batch(kind: str, rows: int = ROWS, **fields):
    return as_task({"kind": kind, **fields}).batch(5, "train", rows)


def test_every_next_token_is_trained_and_values_of_known_keys_are_scored():
    for kind in ("mad_recall", "mad_noisy", "mad_fuzzy"):
        rows = batch(kind, 50)
        assert rows.trained.all()
        assert torch.equal(rows.tokens[:, 1:], rows.answers[:, :-1])
        assert rows.scored[:, -1].all(), "the last pair is asked"


def test_recall_draws_keys_uniformly_and_queries_any_that_occurred_before():
    rows = batch("mad_recall")
    keys, values = rows.tokens[:, ::2], rows.tokens[:, 1::2]
    assert keys.shape[1] == values.shape[1] + 1 == 64
    assert (keys < 8).all()
    assert ((values >= 8) & (values < 16)).all()
    shares = torch.bincount(keys[:, :-1].flatten(), minlength=8) / keys[:, :-1].numel()
    assert shares.sub(1 / 8).abs().max() < 0.005
    # a pair i is known with probability 1 - (7/8)^i; the last always is
    known = rows.scored[:, ::2].double().mean(dim=0)
    expected = torch.tensor([1 - (7 / 8) ** i for i in range(63)] + [1.0], dtype=torch.float64)
    assert (known - expected).abs().max() < 0.03
    short = batch(
        "mad_recall", length=8, vocab=64
    )  # of three draws two are often the same; each known key is asked alike
    distinct = short.tokens[:, 0:6:2].sort(dim=1).values.diff(dim=1).ne(0).sum(dim=1) + 1
    twice = short.tokens[distinct == 2]
    often = twice[:, 0:6:2].mode(dim=1).values
    assert (twice[:, 6] == often).double().mean().item() == pytest.approx(0.5, abs=0.15)


def test_noise_comes_in_pairs_with_its_probability_but_in_one_place():
    rows = batch("mad_noisy", noise=0.4)
    noisy = rows.tokens[:, :-1].unflatten(1, (-1, 2)) >= 16
    assert torch.equal(noisy[..., 0], noisy[..., 1])
    assert noisy[..., 0].double().mean().item() == pytest.approx(0.4 * 62 / 63, abs=0.01)
    assert (~noisy[..., 0]).any(dim=1).all()
    assert (rows.tokens[:, -1] < 8).all()


@pytest.mark.parametrize("tested", [False, True])
def test_fuzzy_motifs_have_their_sizes(tested):
    rows = batch("mad_fuzzy", 1500, largest_keys=tested)
    tokens = torch.cat([rows.tokens, rows.answers[:, -1:]], dim=1)
    pads = (tokens == 15).sum(dim=1)
    is_key, is_value = tokens < 7, (tokens >= 7) & (tokens < 15)
    assert torch.equal(pads + is_key.sum(1) + is_value.sum(1), torch.full_like(pads, 129))
    starts = is_key[:, 1:] & ~is_key[:, :-1]
    keys = is_key[:, 1:].sum() / starts.sum()
    values = is_value.sum() / starts.sum()
    assert keys.item() == pytest.approx(3 if tested else 2, abs=0.05)
    assert values.item() == pytest.approx(2, abs=0.05)
    assert pads.min() >= 1  # MAD stops adding pairs where the largest might not fit
    assert pads.max() <= 12


def test_the_map_of_memorization_is_shared_by_training_and_test_and_differs_between_maps():
    task = as_task("mad_memorization")

    def pairs(batch):
        return set(zip(batch.tokens[:, ::2].flatten().tolist(), batch.answers.flatten().tolist(), strict=True))

    train, test = pairs(task.batch(0, "train", 256)), pairs(task.batch(1, "test", 500))
    assert len(train | test) == len({key for key, _ in train | test}) == task.keys == 127
    other = batch("mad_memorization", 50, map=1)
    assert any(
        pair not in train for pair in zip(other.tokens[:, 0].tolist(), other.answers[:, 0].tolist(), strict=True)
    )


def test_compression_reads_the_whole_row_at_its_mark():
    rows = batch("mad_compression", 50)
    assert torch.equal(rows.answers, rows.tokens)
    assert (rows.positions == 31).all()
    assert (rows.tokens[:, :-1] < 15).all()
    assert (rows.tokens[:, -1] == 15).all()


def test_a_blank_is_uniformly_before_any_item_and_never_after_the_last():
    rows = batch("mad_selective_copy")
    items = rows.source
    assert (items[:, -1] == 256 - 16 - 2).all()
    gaps = items.diff(dim=1, prepend=torch.full_like(items[:, :1], -1)) - 1
    assert (gaps.double().mean(dim=0) - 223 / 16).abs().max() < 0.3
    variance = 223 / 16 * (1 - 1 / 16)
    assert gaps.double().var(dim=0).mean().item() == pytest.approx(variance, rel=0.05)


def test_compression_and_the_autoencoder_head_belong_together():
    train = {"steps": 1}
    with pytest.raises(ValueError, match="give the model `head: autoencoder`"):
        RunSpec(task="mad_compression", model={}, train=train)
    with pytest.raises(ValueError, match="mqar does not"):
        RunSpec(task="mqar", model={"head": "autoencoder"}, train=train)
    with pytest.raises(ValueError, match="cannot be a part"):
        as_task({"kind": "mixture", "parts": ["mad_compression"]})
