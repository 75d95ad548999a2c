from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse import csr_matrix

from clusterwise.clusterer.graph import Neighbourhood, neighbourhood_of
from clusterwise.clusterer.linkages import LINKAGES, gini_linkage, trees_of
from clusterwise.clusterer.paris import paris_linkage


@pytest.fixture(scope="module")
def near() -> Neighbourhood:
    rng = np.random.default_rng(0)
    points = rng.standard_normal((120, 3)) + 4 * rng.integers(0, 3, (120, 1))
    return neighbourhood_of(points)


@pytest.mark.parametrize("kind", LINKAGES)
def test_every_tree_holds_every_row_once(near: Neighbourhood, kind: str) -> None:
    (tree,) = trees_of(near, (kind,))
    assert sorted(tree.order) == list(range(120))
    assert tree.sizes[-1] == 120 and tree.parents[-1] == -1
    for node in range(120, 239):
        left, right = tree.children[node]
        assert set(tree.rows(node)) == set(tree.rows(left)) | set(tree.rows(right))
        assert tree.parents[left] == tree.parents[right] == node


@pytest.mark.parametrize("f", [1, 3])
def test_trees_leave_the_rows_as_they_are(f: int) -> None:
    points = np.random.default_rng(4).standard_normal((30, f))
    near = neighbourhood_of(points.copy())
    trees_of(near)
    np.testing.assert_array_equal(near.points, points)


@pytest.mark.parametrize("kind", LINKAGES)
def test_trees_of_rows_that_repeat(kind: str) -> None:
    points = np.random.default_rng(6).integers(0, 9, (500, 2)).astype(float)
    merges, heights = LINKAGES[kind](neighbourhood_of(points))
    assert sorted(merges.ravel()) == list(range(2 * 500 - 2))  # every node but the root has a parent
    assert np.isfinite(heights).all()
    if kind == "ward":
        np.testing.assert_allclose(heights[: 500 - 81], 0, atol=1e-6)  # copies first


def partition_of(merges: np.ndarray, m: int, k: int) -> set[frozenset[int]]:
    """Clusters after all but the last k - 1 merges."""
    members = {i: frozenset([i]) for i in range(m)}
    for i, (a, b) in enumerate(merges[: m - k]):
        members[m + i] = members.pop(int(a)) | members.pop(int(b))
    return set(members.values())


def test_a_threshold_of_one_is_single_linkage(near: Neighbourhood) -> None:
    merges, heights = gini_linkage(near.plain, 1.0)
    reference = linkage(near.points, "single")
    np.testing.assert_allclose(heights, reference[:, 2])
    labels = fcluster(reference, 5, "maxclust")
    assert partition_of(merges, 120, 5) == {
        frozenset(np.flatnonzero(labels == c).tolist()) for c in np.unique(labels)
    }


def test_ward_against_scipy(near: Neighbourhood) -> None:
    ours = LINKAGES["ward"](near)
    reference = linkage(near.points, "ward")
    np.testing.assert_array_equal(ours[0], reference[:, :2])
    np.testing.assert_allclose(ours[1], reference[:, 2])


def slow_gini(ends: np.ndarray, lengths: np.ndarray, threshold: float) -> list[set[frozenset[int]]]:
    """The same linkage, by sets and sums over all pairs."""
    m = len(ends) + 1
    clusters = [frozenset([i]) for i in range(m)]
    edges = list(zip(lengths, map(tuple, ends), strict=True))
    history = []
    while len(clusters) > 1:
        sizes = np.array([len(c) for c in clusters])
        gini = np.abs(sizes[:, None] - sizes).sum() / 2 / ((len(sizes) - 1) * sizes.sum())
        allowed = edges
        if gini > threshold:
            smallest = {row for c in clusters if len(c) == sizes.min() for row in c}
            allowed = [e for e in edges if smallest & set(e[1])]
        edge = allowed[0]  # they are sorted by length
        edges.remove(edge)
        joined = [c for c in clusters if set(edge[1]) & c]
        clusters = [c for c in clusters if c not in joined] + [frozenset.union(*joined)]
        history.append(set(clusters))
    return history


@pytest.mark.parametrize("threshold", [0.1, 0.3, 0.5])
def test_gini_linkage_against_a_slow_one(threshold: float) -> None:
    points = np.random.default_rng(1).standard_normal((40, 2))
    edges = neighbourhood_of(points).plain
    merges, _ = gini_linkage(edges, threshold)
    history = slow_gini(edges.ends, edges.lengths, threshold)
    for step in range(39):
        assert partition_of(merges, 40, 39 - step) == history[step]


def test_paris_against_scikit_network() -> None:
    from sknetwork.hierarchy import Paris

    # Weights without ties: equals may be joined in any order.
    weights = np.random.default_rng(2).random((30, 30))
    weights = np.where(weights > 0.6, weights, 0.0)
    weights += weights.T
    np.fill_diagonal(weights, 0)
    reference = np.asarray(Paris().fit_transform(csr_matrix(weights)))
    merges, heights = paris_linkage(csr_matrix(weights))
    np.testing.assert_allclose(heights, reference[:, 2], rtol=1e-5)
    for k in range(1, 30):
        assert partition_of(merges, 30, k) == partition_of(reference[:, :2].astype(int), 30, k)


def test_parts_without_an_edge_are_joined_last() -> None:
    adjacency = np.zeros((6, 6))
    for a, b in ((0, 1), (1, 2), (3, 4), (4, 5)):
        adjacency[a, b] = adjacency[b, a] = 1.0
    merges, heights = paris_linkage(csr_matrix(adjacency))
    assert partition_of(merges, 6, 2) == {frozenset({0, 1, 2}), frozenset({3, 4, 5})}
    assert heights[-1] > heights[-2]
