from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist

from clusterwise.clusterer.graph import CORE_NEIGHBOUR, nearest, neighbour_graph, neighbourhood_of


@pytest.mark.parametrize("f", [2, 9])
def test_nearest_against_all_distances(f: int) -> None:
    rng = np.random.default_rng(0)
    points, among = rng.standard_normal((50, f)), rng.standard_normal((70, f))
    indices, distances = nearest(points, among, 4)
    every = np.sort(cdist(points, among), axis=1)[:, :4]
    np.testing.assert_allclose(distances, every, atol=1e-7)
    np.testing.assert_allclose(np.take_along_axis(cdist(points, among), indices, 1), every, atol=1e-7)


def test_spanning_trees_are_the_shortest() -> None:
    points = np.random.default_rng(1).standard_normal((60, 3))
    near = neighbourhood_of(points)
    square = cdist(points, points)
    core = np.sort(square, axis=1)[:, CORE_NEIGHBOUR]
    np.testing.assert_allclose(near.core, core)
    reach = np.maximum(square, np.maximum(core[:, None], core))
    np.fill_diagonal(reach, 0)
    assert near.plain.lengths.sum() == pytest.approx(minimum_spanning_tree(square).sum())
    assert near.reachability.lengths.sum() == pytest.approx(minimum_spanning_tree(reach).sum())


def test_copies_of_a_row_are_no_infinite_density() -> None:
    rng = np.random.default_rng(2)
    points = np.repeat(rng.standard_normal((30, 2)), 10, axis=0)
    near = neighbourhood_of(points)
    assert np.isfinite(near.log_core).all() and np.isfinite(near.log_distances).all()


@pytest.mark.parametrize("m", [2, 5, 15])
def test_few_rows(m: int) -> None:
    near = neighbourhood_of(np.random.default_rng(3).standard_normal((m, 2)))
    assert (near.indices[:, : min(20, m - 1)] >= 0).all()
    assert (near.indices[:, min(20, m - 1) :] == -1).all()


@pytest.mark.parametrize("f", [2, 9])
def test_the_graph_of_many_rows_is_that_of_few(f: int) -> None:
    points = np.random.default_rng(4).standard_normal((90, f))
    assert (neighbour_graph(points) != neighbourhood_of(points).graph).nnz == 0
    few = neighbour_graph(points[:6])
    assert few.shape == (6, 6) and few.nnz == 30  # all of the others


def test_no_row_is_a_neighbour_of_itself_in_the_graph() -> None:
    points = np.repeat(np.random.default_rng(5).standard_normal((3, 2)), 40, axis=0)
    graph = neighbour_graph(points)
    assert graph.diagonal().sum() == 0
    assert (np.asarray(graph.sum(axis=1)).ravel() >= 15).all()
    assert (graph != graph.T).nnz == 0
