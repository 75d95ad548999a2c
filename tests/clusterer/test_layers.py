from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import cdist
from sklearn.metrics import adjusted_rand_score

from clusterwise.clusterer import layers
from clusterwise.clusterer.layers import merged_to, split_to


@pytest.fixture
def points() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((60, 3))


def refines(fine: np.ndarray, coarse: np.ndarray) -> bool:
    return all(len(set(coarse[fine == label])) == 1 for label in set(fine))


@pytest.mark.parametrize("k", [1, 2, 7, 30, 60])
def test_merged_rows_against_average_linkage(points: np.ndarray, k: int) -> None:
    labels = merged_to(points, np.arange(60), k)
    np.testing.assert_array_equal(np.unique(labels), np.arange(k))
    assert adjusted_rand_score(fcluster(linkage(points, "average"), k, "maxclust"), labels) == 1


@pytest.mark.parametrize("k", [1, 2, 7, 30, 60])
def test_one_split_cluster_against_ward(points: np.ndarray, k: int) -> None:
    labels = split_to(points, np.zeros(60, dtype=np.int64), k)
    np.testing.assert_array_equal(np.unique(labels), np.arange(k))
    assert adjusted_rand_score(fcluster(linkage(points, "ward"), k, "maxclust"), labels) == 1


def test_results_are_nested(points: np.ndarray) -> None:
    start = np.arange(60) % 5
    layers = [merged_to(points, start, k) for k in range(1, 5)] + [start]
    layers += [split_to(points, start, k) for k in range(6, 20)]
    for coarse, fine in pairwise(layers):
        assert refines(fine, coarse)


def test_the_nearest_clusters_are_merged(points: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "CHUNK", 7)  # rows are taken in parts, and the last part is smaller
    start = np.arange(60) % 4
    distances = cdist(points, points)
    pairs = [(a, b) for a in range(4) for b in range(a)]
    a, b = min(pairs, key=lambda ab: distances[np.ix_(start == ab[0], start == ab[1])].mean())
    labels = merged_to(points, start, 3)
    assert len(set(labels[(start == a) | (start == b)])) == 1


def test_the_widest_cluster_is_split(points: np.ndarray) -> None:
    start = np.arange(60) // 20
    points = points * np.array([1.0, 5.0, 1.0])[start, None] + 100 * start[:, None]
    labels = split_to(points, start, 4)
    assert [len(set(labels[start == label])) for label in range(3)] == [1, 2, 1]


def test_equal_rows_are_not_split(points: np.ndarray) -> None:
    copies = np.repeat(points[:3] + 1e3, 9, axis=0)
    assert len(set(split_to(copies, np.zeros(27, dtype=np.int64), 10))) == 3
