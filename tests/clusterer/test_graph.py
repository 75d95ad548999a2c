from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist

from clusterwise.clusterer.graph import neighbour_graph
from clusterwise.neighbours import CORE_NEIGHBOUR


def test_spanning_trees_are_the_shortest() -> None:
    points = np.random.default_rng(1).standard_normal((60, 3))
    graph = neighbour_graph(points)
    square = cdist(points, points)
    core = np.sort(square, axis=1)[:, CORE_NEIGHBOUR]
    np.testing.assert_allclose(graph.core, core)
    reach = np.maximum(square, np.maximum(core[:, None], core))
    np.fill_diagonal(reach, 0)
    assert graph.plain.lengths.sum() == pytest.approx(minimum_spanning_tree(square).sum())
    assert graph.reachability.lengths.sum() == pytest.approx(minimum_spanning_tree(reach).sum())


def test_copies_of_a_row_are_no_infinite_density() -> None:
    rng = np.random.default_rng(2)
    points = np.repeat(rng.standard_normal((30, 2)), 10, axis=0)
    graph = neighbour_graph(points)
    assert np.isfinite(graph.log_core).all() and np.isfinite(graph.log_distances).all()


@pytest.mark.parametrize("m", [2, 5, 15])
def test_few_rows(m: int) -> None:
    graph = neighbour_graph(np.random.default_rng(3).standard_normal((m, 2)))
    assert (graph.neighbours[:, : min(20, m - 1)] >= 0).all()
    assert (graph.neighbours[:, min(20, m - 1) :] == -1).all()


@pytest.mark.parametrize("f", [2, 9])
def test_the_adjacency_of_more_rows_is_that_of_these(f: int) -> None:
    points = np.random.default_rng(4).standard_normal((90, f))
    graph = neighbour_graph(points, points, np.arange(90))
    assert (graph.adjacency_of_more != graph.adjacency).nnz == 0
    few = neighbour_graph(points[:6]).adjacency
    assert few.shape == (6, 6) and few.nnz == 30  # all of the others


def test_no_row_is_a_neighbour_of_itself() -> None:
    points = np.repeat(np.random.default_rng(5).standard_normal((3, 2)), 40, axis=0)
    for adjacency in (neighbour_graph(points, points).adjacency_of_more, neighbour_graph(points).adjacency):
        assert adjacency.diagonal().sum() == 0
        assert (np.asarray(adjacency.sum(axis=1)).ravel() >= 15).all()
        assert (adjacency != adjacency.T).nnz == 0
