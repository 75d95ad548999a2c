"""Leiden's communities: as good as another implementation's, connected, and the same every time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sknetwork.clustering import Leiden, get_modularity

from clusterwise.clusterer.communities import (
    RESOLUTIONS,
    RESOLUTIONS_OF_SHARED,
    leiden,
    leiden_partitions,
    weighted_by_shared_neighbours,
)
from clusterwise.clusterer.graph import neighbour_graph


def graph_of(seed: int, spread: float = 1.0) -> tuple[csr_matrix, np.ndarray]:
    points, truth = make_blobs(300, centers=6, cluster_std=spread, random_state=seed)
    return neighbour_graph(points).adjacency, truth


@pytest.mark.parametrize("resolution", RESOLUTIONS)
@pytest.mark.parametrize("seed", range(3))
def test_the_modularity_is_that_of_another_implementation(resolution: float, seed: int) -> None:
    graph, _ = graph_of(seed, 3.0)
    other = Leiden(resolution=resolution, random_state=0).fit_predict(graph)
    ours = get_modularity(graph, leiden(graph, resolution), resolution=resolution)
    assert ours > get_modularity(graph, other, resolution=resolution) - 0.01


@pytest.mark.parametrize("resolution", [0.3, 2.0])
def test_no_single_move_gains(resolution: float) -> None:
    """The slow version: every node, every community, the modularity computed anew."""
    graph, _ = graph_of(1, 4.0)
    graph = graph[:60][:, :60]
    labels = leiden(graph, resolution)
    found = get_modularity(graph, labels, resolution=resolution)
    for node in range(graph.shape[0]):
        for label in range(labels.max() + 2):
            moved = labels.copy()
            moved[node] = label
            assert get_modularity(graph, moved, resolution=resolution) < found + 1e-9


@pytest.mark.parametrize("resolution", RESOLUTIONS)
def test_communities_are_connected(resolution: float) -> None:
    graph, _ = graph_of(2, 3.0)
    labels = leiden(graph, resolution)
    for label in np.unique(labels):
        own = labels == label
        assert connected_components(graph[own][:, own])[0] == 1


def test_clear_clusters_are_found() -> None:
    graph, truth = graph_of(0, 0.3)
    assert adjusted_rand_score(truth, leiden(graph, 0.3)) == 1.0


def test_higher_resolutions_have_more_communities() -> None:
    points, _ = make_blobs(300, centers=6, cluster_std=3.0, random_state=3)
    found = [labels.max() + 1 for labels in leiden_partitions(neighbour_graph(points).adjacency)]
    assert found[0] < found[-1]
    assert found == sorted(found)


def test_a_graph_without_edges() -> None:
    np.testing.assert_array_equal(leiden(csr_matrix((4, 4)), 1.0), np.arange(4))


def test_weights_are_the_share_of_common_neighbours() -> None:
    """The slow version: sets of neighbours, each row among its own."""
    graph, _ = graph_of(4, 3.0)
    weighted = weighted_by_shared_neighbours(graph).toarray()
    near = [{row, *graph[row].indices} for row in range(graph.shape[0])]
    for i, j in zip(*graph.nonzero(), strict=True):
        assert weighted[i, j] == pytest.approx(len(near[i] & near[j]) / len(near[i] | near[j]))
    np.testing.assert_array_equal(weighted > 0, graph.toarray() > 0)
    np.testing.assert_array_equal(weighted, weighted.T)


def test_a_bridge_of_neighbours_by_chance_weighs_little() -> None:
    clique = 1 - np.eye(5)
    graph = np.zeros((10, 10))
    graph[:5, :5] = graph[5:, 5:] = clique
    graph[0, 5] = graph[5, 0] = 1.0
    weighted = weighted_by_shared_neighbours(csr_matrix(graph))
    assert weighted[0, 5] == pytest.approx(2 / 10)
    assert weighted[1, 2] == 1.0


def test_communities_of_the_weighted_graph() -> None:
    graph, truth = graph_of(0, 0.3)
    found = leiden_partitions(graph, by_shared=True)
    assert len(found) == len(RESOLUTIONS_OF_SHARED)
    assert max(adjusted_rand_score(truth, labels) for labels in found) == 1.0
