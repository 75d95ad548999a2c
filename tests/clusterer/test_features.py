from __future__ import annotations

import numpy as np
import pytest

from clusterwise.clusterer.features import (
    N_RANGE_FEATURES,
    features_of_clusters,
    measure,
    nodes_of,
)
from clusterwise.clusterer.graph import neighbourhood_of
from clusterwise.clusterer.linkages import LINKAGES, trees_of
from clusterwise.clusterer.points import standardized

ROOM = 39


def heaps(seed: int = 0, f: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((150, f)) + 8 * rng.integers(0, 3, 150)[:, None]


@pytest.mark.parametrize("kind", LINKAGES)
@pytest.mark.parametrize("f", [1, 2, 12])
def test_finite_whatever_the_features(kind: str, f: int) -> None:
    near = neighbourhood_of(heaps(f=f))
    nodes = nodes_of(measure(near), trees_of(near, (kind,))[0])
    assert np.isfinite(nodes.features).all()
    assert nodes.sizes[0] == 150
    for i, parent in enumerate(nodes.parents[1:], start=1):
        assert parent < i and i in nodes.children[parent]


@pytest.mark.parametrize("change", ["scale", "shift", "turn"])
def test_neither_units_nor_rotations_matter(change: str) -> None:
    points = heaps()
    turned = np.linalg.qr(np.random.default_rng(5).standard_normal((3, 3)))[0]
    other = {"scale": 37 * points, "shift": points + 5, "turn": points @ turned}[change]
    if change == "scale":
        points, other = standardized(points), standardized(other)
    found = []
    for one in (points, other):
        near = neighbourhood_of(one)
        found.append(nodes_of(measure(near), trees_of(near, ("ward",))[0]).features)
    if change == "turn":  # the spread that ROOM is told in is that of the widest column
        found = [np.delete(features, ROOM, axis=1) for features in found]
    np.testing.assert_allclose(found[0], found[1], atol=1e-3)


def test_the_order_of_the_rows_does_not_matter() -> None:
    points = heaps()
    shuffled = np.random.default_rng(6).permutation(150)
    by_size = []
    for rows in (np.arange(150), shuffled):
        near = neighbourhood_of(points[rows])
        nodes = nodes_of(measure(near), trees_of(near, ("ward",))[0])
        by_size.append(nodes.features[np.lexsort(nodes.features.T[:4])])
    # The halves of a node may change sides, which no feature tells; only rounding is left.
    np.testing.assert_allclose(by_size[0][:, :8], by_size[1][:, :8], atol=1e-8)


def test_ranges_against_the_obvious() -> None:
    points = heaps()
    near = neighbourhood_of(points)
    labels = (points[:, 0] > points[:, 0].mean()).astype(int)
    order = np.argsort(labels, kind="stable")
    middle = int((labels == 0).sum())
    features, _ = features_of_clusters(measure(near), order, np.array([0, middle, 150]), np.array([[0, 1]]))
    assert features.shape == (2, N_RANGE_FEATURES)
    for c in (0, 1):
        mine = labels == c
        inside = labels[near.indices[mine]] == c
        assert features[c, 1] == pytest.approx(mine.mean())
        assert features[c, 4] == pytest.approx(inside.mean())
        assert features[c, 8] == pytest.approx(near.log_core[mine].mean() - near.log_core.mean())


def test_pairs_are_the_split_of_their_union() -> None:
    points = heaps()
    near = neighbourhood_of(points)
    measured = measure(near)
    (tree,) = trees_of(near, ("ward",))
    nodes = nodes_of(measured, tree)
    left = tree.children[nodes.nodes[0], 0]
    bounds = np.array([0, tree.sizes[left], 150])
    _, found = features_of_clusters(measured, tree.order, bounds, np.array([[0, 1]]))
    own = nodes.features[0, N_RANGE_FEATURES:].copy()
    own[20] = 0  # the ratio of heights, which two clusters do not have
    np.testing.assert_allclose(found[0], own, atol=1e-9)


def test_pairs_need_not_stand_side_by_side() -> None:
    near = neighbourhood_of(heaps())
    measured = measure(near)
    rows = np.array_split(np.random.default_rng(7).permutation(150), 3)
    bounds = np.array([0, 50, 100, 150])
    _, apart = features_of_clusters(measured, np.concatenate(rows), bounds, np.array([[0, 2]]))
    other = np.concatenate([rows[0], rows[2], rows[1]])
    _, together = features_of_clusters(measured, other, bounds, np.array([[0, 1]]))
    np.testing.assert_allclose(apart, together, atol=1e-9)
