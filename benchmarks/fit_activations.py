"""Fits the polynomials of the kernels: gelu in ops/triton/mlp.py, softplus in ops/triton/activations.py.

    python benchmarks/fit_activations.py

softplus: log(1 + e) / e for e from 0 to 1 by a polynomial of degree 6 with the least largest relative error.
gelu: h sigmoid(q(h)) with an odd polynomial q of degree 9, with the least largest error of gelu (times VALUE) and of its slope.
Both are minimax fits by Lawson's algorithm: least squares whose weights grow where the error is large.
"""

import math
from collections.abc import Callable

import numpy as np

ROUNDS = 4000
VALUE = 3.4
"""How many times as much an error of gelu counts as one of its slope."""


def minimax(fitted: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]], start: np.ndarray) -> np.ndarray:
    """Coefficients with the least largest error. `fitted` gives the errors (points) at coefficients, and their derivatives
    (points, coefficients)."""
    coefficients, best, least = start, start, np.inf
    weights = None
    for _ in range(ROUNDS):
        errors, slopes = fitted(coefficients)
        largest = np.abs(errors).max()
        if largest < least:
            best, least = coefficients, largest
        weights = np.ones(len(errors)) if weights is None else weights * np.abs(errors) / largest
        weights = np.maximum(weights / weights.sum(), 1e-30)
        root = np.sqrt(weights)
        coefficients = coefficients - np.linalg.lstsq(slopes * root[:, None], errors * root, rcond=None)[0]
    return best


def softplus() -> np.ndarray:
    """Coefficients of e^0 to e^6."""
    e = (1 - np.cos(np.linspace(0, np.pi, 1001))) / 2
    target = np.where(e > 0, np.log1p(e) / np.where(e > 0, e, 1.0), 1.0)
    powers = np.vander(e, 7, increasing=True) / target[:, None]
    return minimax(lambda c: (powers @ c - 1, powers), np.linalg.lstsq(powers, np.ones(len(e)), rcond=None)[0])


def gelu() -> np.ndarray:
    """Coefficients of h, h^3, .., h^9 in q."""
    h = np.linspace(0, 6, 1201)  # gelu(-h) = gelu(h) - h: errors are even
    normal = np.array([0.5 * (1 + math.erf(x / math.sqrt(2))) for x in h])
    slope = normal + h * np.exp(-h * h / 2) / math.sqrt(2 * math.pi)
    odd = 2 * np.arange(5) + 1
    powers, rates = h[:, None] ** odd, odd * h[:, None] ** (odd - 1)  # q and its derivative

    def fitted(c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        share, rate = 1 / (1 + np.exp(-powers @ c)), rates @ c
        bell = share * (1 - share)  # d share / d q
        errors = share + h * bell * rate - slope
        change = bell * (1 + h * (1 - 2 * share) * rate)
        derivatives = change[:, None] * powers + (h * bell)[:, None] * rates
        values = VALUE * h * (share - normal)
        return np.concatenate((errors, values)), np.concatenate((derivatives, VALUE * (h * bell)[:, None] * powers))

    return minimax(fitted, np.array([1.5957, 0.0729, -0.00023, -0.000065, 2.4e-6]))


def constants() -> dict[str, list[float]]:
    """The numbers as the kernels have them, by function: `_share` takes q times -log2(e), `_slope` the derivative of q."""
    q = gelu()
    found = {"softplus": softplus(), "_share": -q / math.log(2), "_slope": q * (2 * np.arange(5) + 1)}
    return {name: [float(f"{x:.9g}") for x in values] for name, values in found.items()}


def main() -> None:
    """Print the constants."""
    for name, values in constants().items():
        print(name, *values)


if __name__ == "__main__":
    main()
