"""Splits in many parts: hidden clusters come out, shapes without valleys stay whole."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from clusterwise.polish import polish
from clusterwise.polish.evidence import Data, judge
from clusterwise.polish.shatter import has_valley, shattered


def scaled(points: np.ndarray) -> np.ndarray:
    centred = points - points.mean(axis=0)
    return np.asarray(centred / np.sqrt(np.square(centred).mean()))


def one_cluster(points: np.ndarray) -> tuple[Data, object]:
    data = Data(scaled(points))
    return data, judge(data, np.ones((1, len(points))), 0.0)


def scattered(k: int, per_cluster: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw k clusters of unit spread at scattered places at least 8 apart."""
    rng = np.random.default_rng(seed)
    side = int(np.ceil(np.sqrt(2 * k)))
    cells = rng.permutation(side * side)[:k]
    means = 12.0 * np.column_stack([cells % side, cells // side]) + rng.uniform(-2, 2, (k, 2))
    labels = np.repeat(np.arange(k), per_cluster)
    return means[labels] + rng.standard_normal((len(labels), 2)), labels


@pytest.mark.parametrize("k", [3, 12, 30])
def test_clusters_that_no_line_separates(k: int) -> None:
    points, labels = scattered(k, 60)
    data, state = one_cluster(points)
    split = shattered(data, state, 0)  # type: ignore[arg-type]
    assert split is not None
    assert split.gain > 0
    np.testing.assert_allclose(split.parts.sum(axis=0), 1.0)
    assert adjusted_rand_score(labels, split.parts.argmax(axis=0)) > 0.8
    found = polish(data.points, [np.zeros(len(points), dtype=np.int64)], 10).mixture
    assert found.n_clusters == k


def test_shapes_without_valleys_stay_whole() -> None:
    rng = np.random.default_rng(1)
    angle = rng.uniform(0, np.pi, 800)
    shapes = {
        "gaussian": rng.standard_normal((800, 2)),
        "uniform": rng.uniform(size=(800, 2)),
        "banana": np.column_stack([np.cos(angle), np.sin(angle)]) + 0.1 * rng.standard_normal((800, 2)),
        "heavy tails": rng.standard_t(3, (800, 2)),
    }
    for name, points in shapes.items():
        data, state = one_cluster(points)
        assert shattered(data, state, 0) is None, name  # type: ignore[arg-type]


def test_valleys() -> None:
    rng = np.random.default_rng(2)
    first, second = rng.normal(0, 1, (100, 2)), rng.normal(8, 1, (80, 2))
    assert has_valley(first, second)
    assert has_valley(second, first)
    cloud = rng.normal(0, 1, (200, 2))
    left = cloud[:, 0] < 0
    assert not has_valley(cloud[left], cloud[~left])  # the halves of one cluster
    assert not has_valley(first[:3], second[:3])  # too few to tell
    assert not has_valley(first, first)
