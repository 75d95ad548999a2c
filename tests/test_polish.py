"""Polishing: evidence against integration, search against planted clusters, odd data."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from clusterwise.polish import polish


def scaled(points: np.ndarray) -> np.ndarray:
    """Centre the points and bring them to unit spread."""
    centred = points - points.mean(axis=0)
    spread = np.sqrt(np.square(centred).mean())
    return centred / (spread if spread > 0 else 1.0)


def planted(seed: int, sizes: tuple[int, ...], d: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian clusters of standard deviation one, ten apart or more."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    means = 10.0 * np.array([[(j * (i + 1)) % 5 for i in range(d)] for j in range(len(sizes))])
    return scaled(means[labels] + rng.standard_normal((len(labels), d))), labels


@pytest.mark.parametrize("start", ["truth", "one cluster", "fragments", "mixed up"])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_finds_planted_clusters_from_any_start(start: str, d: int) -> None:
    points, labels = planted(3, (80, 40, 120, 20), d)
    rng = np.random.default_rng(0)
    candidate = {
        "truth": labels,
        "one cluster": np.zeros_like(labels),
        "fragments": 3 * labels + rng.integers(3, size=len(labels)),
        "mixed up": np.where(labels == 3, 2, labels),
    }[start]
    found = polish(points, [candidate], 10).mixture
    assert adjusted_rand_score(labels, found.memberships(points).argmax(axis=1)) == 1.0
