"""Embeddings whose geometry is known: a spiral, a cloud, a line."""

import numpy as np
import pytest

from recollect.analysis.embeddings import chance_distance, cosine, neighbour_distance, pca, spiral
from recollect.spec import SpecError

N = 100


def in_space(plane: np.ndarray, noise: float = 0.0) -> np.ndarray:
    """Points of a plane, turned and shifted into 16 dimensions."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((16, 16)))[0][: plane.shape[1]]
    return plane @ turn + 5 + noise * rng.standard_normal((len(plane), 16))


def wound(turns: float) -> np.ndarray:
    angle = np.linspace(0, 2 * np.pi * turns, N)
    radius = np.linspace(1, 1.5, N)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


CLOUD = np.random.default_rng(1).standard_normal((N, 16))


def test_components_are_found_again():
    flat = in_space(np.stack([3 * np.sin(np.arange(N)), np.cos(np.arange(N))], axis=1))
    scores, explained = pca(flat, 3)
    assert explained == pytest.approx([0.9, 0.1, 0], abs=0.02)
    assert scores.mean(axis=0) == pytest.approx(0, abs=1e-9)
    centred = flat - flat.mean(axis=0)
    assert np.linalg.norm(scores, axis=1) == pytest.approx(np.linalg.norm(centred, axis=1))


def test_a_spiral_is_found_and_a_cloud_is_none():
    found = spiral(in_space(wound(2), noise=0.02))
    assert found.monotone > 0.95
    assert found.turns == pytest.approx(2, abs=0.1)
    assert found.found
    cloud = spiral(CLOUD)
    assert cloud.monotone < 0.3
    assert not cloud.found
    mixed = spiral(in_space(wound(2))[np.random.default_rng(2).permutation(N)])
    assert not mixed.found, "the same points in another order are none"
    assert mixed.chance < 0.3


def test_a_line_turns_half_round_at_once():
    line = spiral(in_space(np.stack([np.arange(N, dtype=float), np.zeros(N)], axis=1), noise=1e-3))
    assert line.turns < 1
    assert not line.found


def test_cosine_similarity_with_and_without_components():
    x = np.array([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0]])
    assert cosine(x) == pytest.approx(np.array([[1, 0, -1], [0, 1, 0], [-1, 0, 1]]))
    around = cosine(in_space(wound(1)), components=2)
    assert around[0, N // 2] == pytest.approx(-1, abs=0.1), "opposite sides of a circle, once its centre is taken off"
    assert cosine(in_space(wound(1)))[0, N // 2] > 0.5


def test_neighbours_on_a_path_are_near_and_in_a_cloud_anywhere():
    path = in_space(wound(0.5))
    near = neighbour_distance(path, (2, 10))
    assert near[0] == pytest.approx(1, abs=0.05)
    assert near[1] == pytest.approx(3, abs=0.6)
    far = neighbour_distance(CLOUD, (10, N - 1))
    assert far[0] == pytest.approx(chance_distance(N), rel=0.1)
    assert far[1] == pytest.approx(chance_distance(N)), "all others are neighbours"


def test_what_cannot_be():
    with pytest.raises(SpecError, match="choose from 1 to 16"):
        pca(CLOUD, 32)
    with pytest.raises(SpecError, match="choose from 1 to 99"):
        neighbour_distance(CLOUD, (100,))
    with pytest.raises(SpecError, match="finite"):
        spiral(np.full((5, 4), np.nan))
