"""What the embeddings of position tokens look like (Pantazopoulos et al., figures 9 to 11 and 20 to 22).

`x` (positions, width) holds one embedding per position, in order. The paper calls a curve around a centre a spiral. Here it is
measured by the angle of a point in the plane of the first two principal components, taken around the mean, and

    monotone = |sum of the angle's changes from position to position| / sum of their sizes

which is 1 where the angle never turns back and about 1/sqrt(positions) where points lie in no order. Each change is taken the
short way round.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from recollect.spec import SpecError

ORDERS = 200
"""How many random orders of the positions chance is estimated from."""


@dataclass(frozen=True)
class Spiral:
    """How much the embeddings circle around their mean as the position grows."""

    monotone: float
    """The net angle over the angle travelled, in [0, 1]."""
    turns: float
    """The net angle in full turns."""
    chance: float
    """What 95 % of random orders of the same points stay below in `monotone`."""

    @property
    def found(self) -> bool:
        """Whether there is a spiral: the angle mostly grows, more than by chance, and through three quarters of a turn
        (points on a line go half round as they pass their mean)."""
        return self.monotone > max(self.chance, 0.5) and self.turns >= 0.75


def pca(x: ArrayLike, components: int) -> tuple[np.ndarray, np.ndarray]:
    """Projections on the first principal components (positions, components), and each one's share of the variance."""
    centred = _points(x) - _points(x).mean(axis=0)
    most = min(centred.shape)
    if not 1 <= components <= most:
        raise SpecError(f"pca: components {components} of {centred.shape[0]} points; choose from 1 to {most}")
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    variance = s**2 / max(float((s**2).sum()), np.finfo(float).tiny)
    return u[:, :components] * s[:components], variance[:components]


def spiral(x: ArrayLike) -> Spiral:
    """The spiral measure of embeddings; what chance gives is from random orders of them, always the same ones."""
    plane, _ = pca(x, 2)
    angle = np.arctan2(plane[:, 1], plane[:, 0])
    net, monotone = _winding(angle)
    rng = np.random.default_rng(0)
    chance = np.quantile([_winding(rng.permutation(angle))[1] for _ in range(ORDERS)], 0.95)
    return Spiral(monotone, abs(net) / (2 * np.pi), float(chance))


def cosine(x: ArrayLike, components: int | None = None) -> np.ndarray:
    """Cosine similarity of every two positions, after projection on so many principal components, or of x as it is."""
    points = _points(x) if components is None else pca(x, components)[0]
    size = np.linalg.norm(points, axis=1, keepdims=True)
    unit = points / np.maximum(size, np.finfo(float).tiny)
    return unit @ unit.T


def neighbour_distance(x: ArrayLike, neighbours: Sequence[int]) -> np.ndarray:
    """The mean |i - j| between a position i and its K nearest neighbours j in the embedding, for each K.

    The paper does not state the distance: cosine here, as in its heatmaps.
    """
    points = _points(x)
    n = len(points)
    if not all(1 <= k < n for k in neighbours):
        raise SpecError(f"neighbour_distance: neighbours {list(neighbours)} of {n} positions; choose from 1 to {n - 1}")
    apart = -cosine(points)
    np.fill_diagonal(apart, np.inf)  # a position is not its own neighbour
    order = np.argsort(apart, axis=1, kind="stable")[:, : n - 1]
    distance = np.abs(order - np.arange(n)[:, None])  # (positions, rank of the neighbour)
    return np.array([distance[:, :k].mean() for k in neighbours])


def chance_distance(positions: int) -> float:
    """The mean |i - j| where neighbours are drawn at random: (n + 1) / 3."""
    return (positions + 1) / 3


def _points(x: ArrayLike) -> np.ndarray:
    points = np.asarray(x, float)
    if points.ndim != 2 or not np.isfinite(points).all():
        raise SpecError(f"embeddings must be finite and of shape (positions, width); got shape {points.shape}")
    return points


def _winding(angle: np.ndarray) -> tuple[float, float]:
    """The net change of an angle, each step the short way round, and its size over the sum of the steps' sizes."""
    change = (np.diff(angle) + np.pi) % (2 * np.pi) - np.pi
    travelled = np.abs(change).sum()
    return float(change.sum()), float(abs(change.sum()) / travelled) if travelled > 0 else 0.0
