"""Neighbours by plain and by tangent distance, the layout of their graph, and variants of images."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import clusterwise as cw
from clusterwise.deepdpm import row_layout
from clusterwise.deepdpm.row_layout import (
    graph_of_neighbours,
    layout,
    nearest_neighbours,
    principal_axes,
    tangent_neighbours,
    tangents,
)

# -- neighbours ----------------------------------------------------------------------------------


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
    spanned = np.einsum("nmt,nlt->nml", found, found)
    np.testing.assert_allclose(spanned, np.broadcast_to(plane @ plane.T, spanned.shape), atol=1e-4)
    nothing = tangents(rng, X, np.eye(6), lambda rows, draws: rows)
    np.testing.assert_array_equal(nothing, 0)


def test_tangent_distance_against_an_obvious_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_layout, "CANDIDATES", 59)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 5))
    directions = np.linalg.qr(rng.normal(size=(60, 5, 2)))[0]
    neighbours, distances = tangent_neighbours(X, directions, 4)

    def without(offset: np.ndarray, along: np.ndarray) -> float:
        return float(np.square(offset - along @ (along.T @ offset)).sum())

    for row in range(60):
        pairs = zip(X, directions, strict=True)
        squares = np.array(
            [(without(X[row] - x, directions[row]) + without(X[row] - x, t)) / 2 for x, t in pairs]
        )
        squares[row] = np.inf
        nearest = np.argsort(squares)[:4]
        assert set(neighbours[row]) == set(nearest)
        np.testing.assert_allclose(np.sort(distances[row]), np.sqrt(squares[nearest]), rtol=1e-4)


# -- layouts -------------------------------------------------------------------------------------


def test_the_graph_is_symmetric_and_its_weights_are_those_of_umap() -> None:
    points = np.random.default_rng(0).normal(size=(40, 3))
    neighbours, distances = nearest_neighbours(points, 5)
    graph = graph_of_neighbours(neighbours, distances).toarray()
    np.testing.assert_allclose(graph, graph.T)
    assert (np.diag(graph) == 0).all()
    weights = row_layout._edge_weights(distances)
    np.testing.assert_allclose(weights.max(axis=1), 1)
    np.testing.assert_allclose(weights.sum(axis=1), np.log2(6), rtol=1e-3)
    one_way = np.zeros((40, 40))
    np.put_along_axis(one_way, neighbours, weights, axis=1)
    np.testing.assert_allclose(graph, 1 - (1 - one_way) * (1 - one_way.T), atol=1e-9)


def test_groups_come_apart() -> None:
    """Two groups that hardly differ in most of their features end far apart, each close together."""
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1], 100)
    points = rng.normal(size=(200, 10))
    points[:, 0] += 9 * labels
    places = layout(rng, graph_of_neighbours(*nearest_neighbours(points, 10)), points[:, :2], "cpu")
    np.testing.assert_allclose(places.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(places.var(axis=0).mean(), 1)
    means = np.stack([places[labels == k].mean(axis=0) for k in (0, 1)])
    own = np.linalg.norm(places - means[labels], axis=1)
    other = np.linalg.norm(places - means[1 - labels], axis=1)
    assert (own < other).all()


def test_rows_at_one_place_and_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_layout, "MIN_STEPS", 30)
    points = np.zeros((12, 3))
    graph = graph_of_neighbours(*nearest_neighbours(points, 4))
    one, same = (layout(np.random.default_rng(0), graph, points, "cpu") for _ in range(2))
    assert np.isfinite(one).all()
    np.testing.assert_array_equal(one, same)


# -- variants of images --------------------------------------------------------------------------


def test_no_amount_changes_nothing() -> None:
    images = np.random.default_rng(0).random((7, 120))
    same = cw.ImageVariants(10, 12, amount=0)(images, np.random.default_rng(1))
    np.testing.assert_allclose(same, images, atol=1e-5)
    with pytest.raises(ValueError, match="takes rows of 120 pixels, got 7"):
        cw.ImageVariants(10, 12)(np.zeros((3, 7)), np.random.default_rng(0))


def test_a_blob_moves_a_little_and_keeps_its_mass() -> None:
    rows, columns = np.mgrid[:10, :12]
    blob = np.exp(-((rows - 5) ** 2 + (columns - 6) ** 2) / 4).reshape(1, -1)
    images = np.repeat(blob, 200, axis=0)
    variants = cw.ImageVariants(10, 12, amount=0.5)(images, np.random.default_rng(1)).reshape(-1, 10, 12)
    mass = variants.sum(axis=(1, 2))
    centres = (variants.sum(axis=1) * np.arange(12)).sum(axis=1) / mass
    assert centres.std() > 0.1
    assert np.abs(centres - 6).max() < 1.5
    np.testing.assert_allclose(mass, blob.sum(), rtol=0.2)


def test_variants_depend_on_the_generator_alone() -> None:
    images = np.random.default_rng(0).random((5, 120))
    variants = pickle.loads(pickle.dumps(cw.ImageVariants(10, 12)))
    one, same, other = (variants(images, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
