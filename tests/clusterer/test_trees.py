from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.metrics import adjusted_rand_score

from clusterwise.clusterer.graph import Graph, neighbour_graph
from clusterwise.clusterer.trees import LINKAGES, gini_linkage, trees_of


@pytest.fixture(scope="module")
def graph() -> Graph:
    rng = np.random.default_rng(0)
    points = rng.standard_normal((120, 3)) + 4 * rng.integers(0, 3, (120, 1))
    return neighbour_graph(points)


@pytest.mark.parametrize("kind", LINKAGES)
def test_every_tree_holds_every_row_once(graph: Graph, kind: str) -> None:
    (tree,) = trees_of(graph, (kind,))
    assert sorted(tree.order) == list(range(120))
    assert tree.sizes[-1] == 120 and tree.parents[-1] == -1
    for node in range(120, 239):
        left, right = tree.children[node]
        assert set(tree.rows(node)) == set(tree.rows(left)) | set(tree.rows(right))
        assert tree.parents[left] == tree.parents[right] == node


@pytest.mark.parametrize("f", [1, 3])
def test_trees_leave_the_rows_as_they_are(f: int) -> None:
    points = np.random.default_rng(4).standard_normal((30, f))
    graph = neighbour_graph(points.copy())
    trees_of(graph)
    np.testing.assert_array_equal(graph.points, points)


@pytest.mark.parametrize("kind", LINKAGES)
def test_trees_of_rows_that_repeat(kind: str) -> None:
    points = np.random.default_rng(6).integers(0, 9, (500, 2)).astype(float)
    merges, heights = LINKAGES[kind](neighbour_graph(points))
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


def test_a_threshold_of_one_is_single_linkage(graph: Graph) -> None:
    merges, heights = gini_linkage(graph.plain, 1.0)
    reference = linkage(graph.points, "single")
    np.testing.assert_allclose(heights, reference[:, 2])
    labels = fcluster(reference, 5, "maxclust")
    assert partition_of(merges, 120, 5) == {
        frozenset(np.flatnonzero(labels == c).tolist()) for c in np.unique(labels)
    }


def test_ward_against_scipy(graph: Graph) -> None:
    ours = LINKAGES["ward"](graph)
    reference = linkage(graph.points, "ward")
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
    edges = neighbour_graph(points).plain
    merges, _ = gini_linkage(edges, threshold)
    history = slow_gini(edges.ends, edges.lengths, threshold)
    for step in range(39):
        assert partition_of(merges, 40, 39 - step) == history[step]


@pytest.mark.parametrize("k", [1, 2, 5, 40])
def test_levels_are_those_of_scipy(graph: Graph, k: int) -> None:
    (tree,) = trees_of(graph, ("ward",))
    labels = fcluster(linkage(graph.points, "ward"), k, "maxclust")
    assert adjusted_rand_score(tree.level(k), labels) == 1
    assert sorted(set(tree.level(k))) == list(range(k))
