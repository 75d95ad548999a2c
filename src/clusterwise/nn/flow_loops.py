"""The loops of a flow over rows: each row on its own, so that no rounding leaks from one to another."""

from __future__ import annotations

import math

import numpy as np

from clusterwise._compiled import compiled

__all__ = ["to_noise", "to_points"]


@compiled
def _add_product(result: np.ndarray, values: np.ndarray, weights: np.ndarray) -> None:
    """Add values (m,) times weights (m, q) to ``result`` (q,)."""
    for i in range(len(values)):
        if values[i] != 0.0:  # half of the hidden units are silent
            for j in range(len(result)):
                result[j] += values[i] * weights[i, j]


@compiled
def _outputs(
    point: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    last: np.ndarray,
    context: np.ndarray,
    hidden: np.ndarray,
    raw: np.ndarray,
) -> None:
    """Write what a block says of a point (d,) to ``raw`` (2 d,); ``hidden`` (2, h) is room for its layers."""
    h = len(second)
    hidden[0] = context[:h]
    _add_product(hidden[0], point, first)
    for j in range(h):
        hidden[0, j] = max(hidden[0, j], 0.0)
    hidden[1] = context[h : 2 * h]
    _add_product(hidden[1], hidden[0], second)
    for j in range(h):
        hidden[1, j] = max(hidden[1, j], 0.0)
    raw[:] = context[2 * h :]
    _add_product(raw, hidden[1], last)


@compiled
def to_noise(
    points: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    last: np.ndarray,
    context: np.ndarray,
    largest: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Noise (n, d) of points (n, d) and log determinants (n,), by B blocks one after the other.

    Weights are (B, d, h), (B, h, h) and (B, h, 2 d), ``context`` (B, 2 h + 2 d) is that of one cluster, and
    ``largest`` bounds the logarithm of a scale.
    """
    n, d = points.shape
    noise, log_determinants = points.copy(), np.zeros(n)
    hidden, raw = np.empty((2, second.shape[1])), np.empty(2 * d)
    for i in range(n):
        for b in range(len(first)):
            _outputs(noise[i], first[b], second[b], last[b], context[b], hidden, raw)
            for a in range(d):
                log_scale = largest * math.tanh(raw[d + a] / largest)
                noise[i, a] = (noise[i, a] - raw[a]) * math.exp(-log_scale)
                log_determinants[i] -= log_scale
    return noise, log_determinants


@compiled
def to_points(
    noise: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    last: np.ndarray,
    context: np.ndarray,
    largest: float,
    features: np.ndarray,
) -> np.ndarray:
    """The points (n, d) of this noise (n, d); ``features`` (B, d) lists the features of a block in order."""
    n, d = noise.shape
    points, given = noise.copy(), np.empty(d)
    hidden, raw = np.empty((2, second.shape[1])), np.empty(2 * d)
    for i in range(n):
        for b in range(len(first) - 1, -1, -1):
            given[:] = points[i]
            points[i] = 0.0
            for a in features[b]:
                _outputs(points[i], first[b], second[b], last[b], context[b], hidden, raw)
                log_scale = largest * math.tanh(raw[d + a] / largest)
                points[i, a] = given[a] * math.exp(log_scale) + raw[a]
    return points
