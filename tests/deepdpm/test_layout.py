"""Layouts of neighbour graphs."""

from __future__ import annotations

import numpy as np

from clusterwise.deepdpm.layout import layout, neighbour_graph
from clusterwise.deepdpm.neighbours import nearest_neighbours


def test_the_graph_is_symmetric() -> None:
    points = np.random.default_rng(0).normal(size=(40, 3))
    graph = neighbour_graph(*nearest_neighbours(points, 5)).toarray()
    np.testing.assert_allclose(graph, graph.T)
    assert graph.min() >= 0
    assert graph.max() <= 1 + 1e-12
    assert (np.diag(graph) == 0).all()


def test_groups_come_apart() -> None:
    """Two groups that hardly differ in most of their features end far apart, each close together."""
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1], 100)
    points = rng.normal(size=(200, 10))
    points[:, 0] += 9 * labels
    places = layout(rng, neighbour_graph(*nearest_neighbours(points, 10)), points[:, :2], "cpu")
    np.testing.assert_allclose(places.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(places.var(axis=0).mean(), 1)
    means = np.stack([places[labels == k].mean(axis=0) for k in (0, 1)])
    own = np.linalg.norm(places - means[labels], axis=1)
    other = np.linalg.norm(places - means[1 - labels], axis=1)
    assert (own < other).all()


def test_the_same_seed_gives_the_same_layout() -> None:
    points = np.random.default_rng(2).normal(size=(60, 4))
    graph = neighbour_graph(*nearest_neighbours(points, 5))
    one, same = (layout(np.random.default_rng(7), graph, points[:, :3], "cpu") for _ in range(2))
    np.testing.assert_array_equal(one, same)


def test_rows_at_one_place() -> None:
    points = np.zeros((12, 3))
    places = layout(np.random.default_rng(0), neighbour_graph(*nearest_neighbours(points, 4)), points, "cpu")
    assert np.isfinite(places).all()
