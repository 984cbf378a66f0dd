"""The one source of randomness: its law never changes, and it is as random as it says."""

from itertools import permutations

import numpy as np
import pytest
import torch
from scipy.stats import chisquare, kstest
from torch.func import vmap

from recollect import rng


def draw(seed: int = 1, rows: int = 20_000, purpose: str = "test") -> rng.Stream:
    return rng.stream(seed, purpose, torch.arange(rows))


def even(x: torch.Tensor, n: int) -> bool:
    """Whether every one of range(n) is as frequent, by chi-square."""
    return chisquare(torch.bincount(x.flatten(), minlength=n).numpy()).pvalue > 0.001


GOLDEN: dict[str, list] = {
    "integers": [[879, 961, 570, 64], [821, 810, 648, 113], [711, 844, 210, 211]],
    "uniform": [
        [0.39884334115777165, 0.8749055928783491],
        [0.8485649108188227, 0.7113557934062555],
        [0.4416896124603227, 0.6385493032867089],
    ],
    "order": [[2, 4, 0, 1, 3], [4, 3, 1, 2, 0], [1, 2, 0, 3, 4]],
    "bijection": [[3563, 3643, 1672, 2989], [1151, 2322, 227, 3606], [2236, 2280, 352, 2804]],
    "race": [[1, 0, 2], [2, 0, 1], [0, 1, 2]],
    "dropout": [2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 2.0, 0.0, 0.0, 2.0, 2.0],
    "seeded": [597, 937, 172, 620],
}


def test_golden_values():
    """If this fails, every batch of every past run has changed: raise the semantics version, or undo the change."""
    stream = rng.stream(42, "train", torch.tensor([0, 1, 2**40]))
    assert stream.integers(4, 0, 1000).tolist() == GOLDEN["integers"]
    assert stream.uniform(2).tolist() == GOLDEN["uniform"]
    assert stream.order(5).tolist() == GOLDEN["order"]
    assert stream.bijection(4095)(torch.arange(4)).tolist() == GOLDEN["bijection"]
    assert stream.race(torch.tensor([4.0, 3.0, 2.0, 1.0]), 3).tolist() == GOLDEN["race"]
    with rng.dropping(torch.tensor(7)):
        assert rng.dropout(torch.ones(12), 0.5).tolist() == GOLDEN["dropout"]
    with rng.seeded(1, "weights"):
        assert torch.randint(1000, (4,)).tolist() == GOLDEN["seeded"]


def test_the_same_row_draws_the_same_alone_and_among_others():
    rows = torch.tensor([7, 0, 3, 2**50])
    together = rng.stream(5, "a", rows).integers(6, 0, 100)
    for i, row in enumerate(rows):
        assert torch.equal(rng.stream(5, "a", row[None]).integers(6, 0, 100)[0], together[i])
    seeds = torch.tensor([5, 6, 5, 9])
    mixed = rng.stream(seeds, "a", rows).integers(6, 0, 100)
    assert torch.equal(mixed[0], together[0])
    assert not torch.equal(mixed[1], together[1])


def test_selected_streams_go_on_where_they_were():
    stream = draw(rows=10)
    stream.integers(3, 0, 9)
    picked = stream.select(torch.tensor([4, 2]))
    assert torch.equal(picked.numbers, torch.tensor([4, 2]))
    assert torch.equal(picked.integers(5, 0, 99), stream.integers(5, 0, 99)[[4, 2]])


@pytest.mark.parametrize("what", ["seed", "purpose", "row", "draw", "column"])
def test_neighbours_are_unrelated(what):
    n = 8
    if what == "seed":
        seeds = torch.arange(40_000)
        x, y = (rng.stream(s, "p", torch.zeros_like(s)).integers(1, 0, n) for s in (seeds, seeds + 1))
    elif what == "purpose":
        x, y = draw(purpose="train").integers(1, 0, n), draw(purpose="test").integers(1, 0, n)
    elif what == "row":
        x, y = (draw(rows=40_001).integers(1, 0, n)[part] for part in (slice(1, None), slice(-1)))
    elif what == "draw":
        stream = draw(rows=40_000)
        x, y = stream.integers(1, 0, n), stream.integers(1, 0, n)
    else:
        x, y = draw(rows=40_000).integers(2, 0, n).split(1, dim=1)
    assert even(x * n + y, n * n)


@pytest.mark.parametrize(("low", "high"), [(0, 2), (0, 7), (3, 33), (0, 1000), (64, 8191)])
def test_integers_are_uniform(low, high):
    x = draw(rows=5_000).integers(40, low, high)
    assert x.dtype == torch.int64
    assert x.min() >= low
    assert even(x - low, high - low)


def test_an_empty_range_of_one_and_no_columns():
    assert (draw(rows=5).integers(3, 4, 5) == 4).all()
    assert draw(rows=5).integers(0, 0, 5).shape == (5, 0)


def test_uniform_numbers_are_uniform_and_never_zero_or_one():
    x = draw(rows=2_000).uniform(50)
    assert kstest(x.flatten().numpy(), "uniform").pvalue > 0.001
    low = rng.Stream(torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32), torch.zeros(1))
    low._bits = lambda n: torch.tensor([[-(2**31), 2**31 - 1]], dtype=torch.int32)
    assert 0 < low.uniform(2)[0, 0] < low.uniform(2)[0, 1] < 1


def test_orders_are_all_permutations_alike():
    order = draw(rows=24_000).order(4)
    code = (order * torch.tensor([64, 16, 4, 1])).sum(dim=1)
    seen = torch.bincount(code)
    seen = seen[seen > 0]
    assert len(seen) == 24
    assert chisquare(seen.numpy()).pvalue > 0.001


@pytest.mark.parametrize("n", [1, 2, 3, 64, 255, 256, 257, 300, 511, 512, 513, 1000, 4095, 4096, 4097, 8191])
def test_a_bijection_is_one_to_one(n):
    image = draw(rows=20).bijection(n)(torch.arange(n))
    assert torch.equal(image.sort(dim=1).values, torch.arange(n).expand(20, -1))


def test_a_large_bijection_is_one_to_one_where_asked():
    image = draw(rows=3).bijection(10**6 + 3)(torch.arange(100_000))
    assert image.min() >= 0
    assert image.max() < 10**6 + 3
    assert all(len(row.unique()) == 100_000 for row in image)


@pytest.mark.parametrize("n", [256, 257, 300, 512, 4095, 4096])
def test_a_bijection_sends_each_label_everywhere_alike(n):
    image = draw(rows=60_000).bijection(n)(torch.tensor([0, 1, n // 2, n - 1]))
    assert all(even(image[:, i], n) for i in range(4))


@pytest.mark.parametrize("n", [300, 512, 1000, 1024, 4095, 4096])
def test_a_bijection_sends_pairs_everywhere_alike(n):
    """Labels that differ in one bit once the first shift is done are the hard case for a map made of multiplications."""
    width = (n - 1).bit_length()
    half, rows = (width + 1) // 2, 500_000
    for one in (0, n // 3):
        shifted = [(one ^ one >> half) ^ 1 << bit for bit in range(width)]
        others = [label for x in shifted if (label := x ^ x >> half) < n]  # the shift is its own inverse
        assert len(others) >= width - 2
        images = draw(rows=rows).bijection(n)(torch.tensor([one, *others]))
        for image in images[:, 1:].T:
            counts = [torch.bincount((images[:, 0] - image) % n - 1, minlength=n - 1)]
            if n == 1 << width:
                counts.append(torch.bincount((images[:, 0] ^ image) - 1, minlength=n - 1))
            assert all(chisquare(count.numpy()).pvalue > 1e-5 for count in counts)


def test_a_bijection_of_too_many_is_refused():
    draw(rows=2).bijection(2**31)(torch.tensor([0, 2**31 - 1]))
    with pytest.raises(ValueError, match=r"at most 2\^31 = 2147483648 items, not 2147483649"):
        draw(rows=2).bijection(2**31 + 1)


def test_a_bijection_treats_all_pairs_of_images_alike():
    n, rows = 300, 900_000
    x, y = draw(rows=rows).bijection(n)(torch.tensor([3, 259])).unbind(dim=1)
    counts = torch.bincount(x * n + y, minlength=n * n).view(n, n)
    assert (counts.diagonal() == 0).all()
    assert chisquare(counts[~torch.eye(n, dtype=torch.bool)].numpy()).pvalue > 0.001


@pytest.mark.parametrize("ordered", [True, False])
def test_a_race_draws_without_replacement(ordered):
    rates, rows = np.array([5.0, 2.0, 1.0, 0.5]), 60_000
    drawn = draw(rows=rows).race(torch.from_numpy(rates), 2, ordered=ordered)
    if not ordered:
        drawn = drawn.sort(dim=1).values
    law = {}  # numpy's choice(4, 2, replace=False, p=rates / rates.sum()) draws one after another
    for i, j in permutations(range(4), 2):
        pair = (i, j) if ordered else tuple(sorted((i, j)))
        law[pair] = law.get(pair, 0) + rates[i] / rates.sum() * rates[j] / (rates.sum() - rates[i])
    counts = [((drawn[:, 0] == i) & (drawn[:, 1] == j)).sum().item() for i, j in law]
    assert chisquare(counts, rows * np.array(list(law.values()))).pvalue > 0.001
    generator = np.random.default_rng(0)
    theirs = [tuple(generator.choice(4, 2, replace=False, p=rates / rates.sum())) for _ in range(4_000)]
    theirs = [pair if ordered else tuple(sorted(pair)) for pair in theirs]
    assert chisquare([theirs.count(pair) for pair in law], 4_000 * np.array(list(law.values()))).pvalue > 0.001


def test_seeded_leaves_the_generator_as_it_was():
    before = torch.get_rng_state()
    with rng.seeded(3, "weights"):
        first = torch.randn(5)
    assert torch.equal(before, torch.get_rng_state())
    with rng.seeded(3, "weights"):
        assert torch.equal(first, torch.randn(5))
    with rng.seeded(3, "other"):
        assert not torch.equal(first, torch.randn(5))


def mask(key: int, shape: tuple[int, ...] = (100, 100), p: float = 0.3) -> torch.Tensor:
    with rng.dropping(torch.tensor(key)):
        return rng.dropout(torch.ones(shape), p)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_zeroes_a_share_and_scales_the_rest(p):
    x = mask(1, (500, 500), p)
    assert (x == 0).double().mean().item() == pytest.approx(p, abs=0.005)
    assert x[x != 0].unique().tolist() == pytest.approx([1 / (1 - p)])
    assert x.mean().item() == pytest.approx(1, abs=0.02)


def test_without_dropping_nothing_is_dropped():
    x = torch.randn(5, generator=torch.Generator().manual_seed(0))
    assert rng.dropout(x, 0.5) is x
    with rng.dropping(torch.tensor(1)):
        assert rng.dropout(x, 0.0) is x
    assert rng.dropout(x, 0.5) is x


def test_dropout_masks_differ_between_keys_and_sites_and_repeat_otherwise():
    with rng.dropping(torch.tensor(1)):
        first, second = (rng.dropout(torch.ones(100, 100), 0.3) for _ in range(2))
    assert torch.equal(first, mask(1))
    for other in (second, mask(2), mask(2**40)):
        both = ((first == 0) & (other == 0)).double().mean().item()
        assert both == pytest.approx(0.09, abs=0.01)  # as often together as independent masks are


def test_dropout_under_vmap_is_each_members_own():
    def member(key: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        with rng.dropping(key):
            return rng.dropout(rng.dropout(x, 0.3) + 1, 0.5)

    keys, x = torch.tensor([5, -6, 2**45 + 7]), torch.randn(3, 8, 9, generator=torch.Generator().manual_seed(0))
    together = vmap(member)(keys, x)
    assert all(torch.equal(together[i], member(keys[i], x[i])) for i in range(3))
    shared = vmap(member, in_dims=(0, None))(keys, x[0])
    assert all(torch.equal(shared[i], member(keys[i], x[0])) for i in range(3))


def test_dropout_lets_the_gradient_through_where_it_keeps():
    x = torch.ones(50, requires_grad=True)
    with rng.dropping(torch.tensor(3)):
        y = rng.dropout(x, 0.5)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_draws_the_same():
    for what in ("integers", "uniform", "order", "bijection", "race"):
        here, there = (rng.stream(1, "p", torch.arange(5_000, device=device)) for device in ("cpu", "cuda"))
        draws = [
            {
                "integers": lambda s: s.integers(30, 0, 1000),
                "uniform": lambda s: s.uniform(30),
                "order": lambda s: s.order(64),
                "bijection": lambda s: s.bijection(4095)(torch.arange(100, device=s.device)),
                "race": lambda s: s.race(torch.arange(1, 57) ** -0.99, 8),
            }[what](stream)
            for stream in (here, there)
        ]
        assert torch.equal(draws[0], draws[1].cpu())
