"""Neighbours by plain and by tangent distance."""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import NearestNeighbors

from clusterwise.deepdpm import neighbours as module
from clusterwise.deepdpm.neighbours import (
    graph_weights,
    nearest_neighbours,
    principal_axes,
    tangent_neighbours,
    tangents,
)


def test_neighbours_against_scikit_learn() -> None:
    points = np.random.default_rng(1).normal(size=(1203, 4))
    neighbours, distances = nearest_neighbours(points, 6)
    expected, index = NearestNeighbors(n_neighbors=7).fit(points).kneighbors(points)
    np.testing.assert_array_equal(np.sort(neighbours, axis=1), np.sort(index[:, 1:], axis=1))
    np.testing.assert_allclose(np.sort(distances, axis=1), expected[:, 1:], atol=1e-3)
    assert nearest_neighbours(points[:3], 6)[0].shape == (3, 2)


def test_principal_axes() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 20)) + rng.normal(0, 0.1, (400, 20))
    axes = principal_axes(X, 5)
    np.testing.assert_allclose(axes.T @ axes, np.eye(5), atol=1e-9)
    variances = (X @ axes).var(axis=0)
    assert (np.diff(variances) <= 0).all()
    assert variances[:3].sum() / X.var(axis=0).sum() > 0.98


def test_tangents_are_the_directions_of_the_variants() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, 6))
    plane = np.linalg.qr(rng.normal(size=(6, 2)))[0]
    found = tangents(
        rng, X, np.eye(6), lambda rows, draws: rows + draws.normal(size=(len(rows), 2)) @ plane.T
    )
    assert found.shape == (30, 6, 5)
    spanned = np.einsum("nmt,nlt->nml", found, found)
    np.testing.assert_allclose(spanned, np.broadcast_to(plane @ plane.T, spanned.shape), atol=1e-4)
    nothing = tangents(rng, X, np.eye(6), lambda rows, draws: rows)
    np.testing.assert_array_equal(nothing, 0)


def test_tangent_distance_against_an_obvious_version(monkeypatch) -> None:
    monkeypatch.setattr(module, "CANDIDATES", 59)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 5))
    directions = np.linalg.qr(rng.normal(size=(60, 5, 2)))[0]
    neighbours, distances = tangent_neighbours(X, directions, 4)

    def without(offset: np.ndarray, along: np.ndarray) -> float:
        return float(np.square(offset - along @ (along.T @ offset)).sum())

    for row in range(60):
        squares = np.array(
            [
                (without(X[row] - x, directions[row]) + without(X[row] - x, t)) / 2
                for x, t in zip(X, directions, strict=True)
            ]
        )
        squares[row] = np.inf
        nearest = np.argsort(squares)[:4]
        assert set(neighbours[row]) == set(nearest)
        np.testing.assert_allclose(np.sort(distances[row]), np.sqrt(squares[nearest]), rtol=1e-4)


def test_graph_weights() -> None:
    distances = np.abs(np.random.default_rng(2).normal(1, 0.3, (50, 8)))
    weights = graph_weights(distances)
    np.testing.assert_allclose(weights.max(axis=1), 1)
    np.testing.assert_allclose(weights.sum(axis=1), np.log2(9), rtol=1e-3)
    assert np.isfinite(graph_weights(np.zeros((5, 3)))).all()
