"""Neighbours by plain and tangent distance, layouts, the autoencoder, and its turns with the clustering."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import homogeneity_score

import clusterwise as cw
from clusterwise.affine import AffineMap
from clusterwise.deepdpm import feature_learning as module
from clusterwise.deepdpm.feature_learning import (
    FeatureLearner,
    LearnedSpace,
    alternate,
    graph_of_neighbours,
    layout,
    nearest_neighbours,
    tangent_neighbours,
    tangents,
)
from clusterwise.deepdpm.method import Settings

Make = Callable[..., Settings]


def learner_of(X: np.ndarray, encoder: torch.nn.Module | None = None, **options: Any) -> FeatureLearner:
    columns = AffineMap(np.zeros(X.shape[1]), np.ones(X.shape[1]))
    return FeatureLearner(0, X, LearnedSpace.draw(0, columns, X, encoder, 2, "cpu"), **options)


@pytest.fixture(scope="module")
def rings() -> tuple[np.ndarray, np.ndarray]:
    """Three bent clusters in 20 dimensions, (450, 20), and their labels."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 150)
    angles = rng.uniform(0, 1.5, 450) + 2 * np.pi / 3 * labels
    plane = np.stack([np.cos(angles) * (2 + labels), np.sin(angles) * 2, 3.0 * labels], axis=1)
    X = plane @ rng.normal(size=(3, 20)) + rng.normal(0, 0.4, (450, 20))
    return X, labels


@pytest.fixture(scope="module")
def trained(rings: tuple[np.ndarray, np.ndarray]) -> FeatureLearner:
    """A learner of their features, to be copied before it is changed."""
    learner = learner_of(rings[0])
    learner.train(250)
    return learner


# -- neighbours and layouts ----------------------------------------------------------------------


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
    monkeypatch.setattr(module, "CANDIDATES", 59)
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


def test_the_graph_is_symmetric_and_its_weights_are_those_of_umap() -> None:
    points = np.random.default_rng(0).normal(size=(40, 3))
    neighbours, distances = nearest_neighbours(points, 5)
    graph = graph_of_neighbours(neighbours, distances).toarray()
    weights = module._edge_weights(distances)
    np.testing.assert_allclose(weights.max(axis=1), 1)
    np.testing.assert_allclose(weights.sum(axis=1), np.log2(6), rtol=1e-3)
    one_way = np.zeros((40, 40))
    np.put_along_axis(one_way, neighbours, weights, axis=1)
    np.testing.assert_allclose(graph, 1 - (1 - one_way) * (1 - one_way.T), atol=1e-9)
    assert (np.diag(graph) == 0).all()


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
    assert (own < np.linalg.norm(places - means[1 - labels], axis=1)).all()


def test_rows_at_one_place_and_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_STEPS", 30)
    points = np.zeros((12, 3))
    graph = graph_of_neighbours(*nearest_neighbours(points, 4))
    one, same = (layout(np.random.default_rng(0), graph, points, "cpu") for _ in range(2))
    assert np.isfinite(one).all()
    np.testing.assert_array_equal(one, same)


# -- the autoencoder -----------------------------------------------------------------------------


def test_codes_follow_the_layout_and_rebuild_rows(
    rings: tuple[np.ndarray, np.ndarray], trained: FeatureLearner
) -> None:
    X, labels = rings
    codes = trained.space.encode(X)
    assert codes.shape == (450, 2)
    assert np.square(codes - trained.places).mean() < 0.05
    neighbours, _ = nearest_neighbours(codes, 5)
    assert (labels[neighbours] == labels[:, None]).mean() > 0.98
    assert np.square(trained.space.decode(codes) - X).sum() < 0.5 * np.square(X - X.mean(axis=0)).sum()


def test_clusters_pull(rings: tuple[np.ndarray, np.ndarray], trained: FeatureLearner) -> None:
    X, labels = rings
    learner = copy.deepcopy(trained)
    codes = learner.space.encode(X)
    centres = np.stack([codes[labels == k].mean(axis=0) for k in range(3)])
    before = np.square(learner.places - centres[labels]).sum()
    learner.pull(centres, labels)
    learner.train(100)
    after = learner.space.encode(X)
    assert np.square(learner.places - centres[labels]).sum() < 0.5 * before
    assert np.square(after - centres[labels]).sum() < np.square(codes - centres[labels]).sum()


def test_variants_make_neighbours(rings: tuple[np.ndarray, np.ndarray]) -> None:
    """A direction that does not matter may be as wide as it likes."""
    X, labels = rings
    rng = np.random.default_rng(3)
    direction = rng.normal(size=20)
    smeared = X + rng.normal(0, 100, (450, 1)) * direction

    def vary(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rows + rng.normal(0, 1, (len(rows), 1)) * direction

    def purity(learner: FeatureLearner) -> float:
        neighbours, _ = nearest_neighbours(learner.places, 5)
        return float((labels[neighbours] == labels[:, None]).mean())

    assert purity(learner_of(smeared, variants=vary)) > 0.95
    assert purity(learner_of(smeared)) < 0.9


def test_a_module_of_the_user_is_copied(
    rings: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MIN_STEPS", 30)
    encoder = torch.nn.Linear(20, 3)
    before, state = encoder.weight.detach().clone(), torch.random.get_rng_state()
    learner = learner_of(rings[0], encoder)
    assert torch.equal(torch.random.get_rng_state(), state)  # weights depend on the seed alone
    learner.train(5)
    assert learner.space.encode(rings[0]).shape == (450, 3)
    assert learner.space.projection is None
    torch.testing.assert_close(encoder.weight, before)


def test_turns(
    rings: tuple[np.ndarray, np.ndarray],
    trained: FeatureLearner,
    make_settings: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, labels = rings
    monkeypatch.setattr(module, "FIRST_STEPS", 100)
    monkeypatch.setattr(module, "STEPS", 30)
    learner, settings = copy.deepcopy(trained), make_settings(n_hidden=16, max_epochs=30)
    snapshot = alternate(learner, 0, X, settings, 1)
    codes = learner.space.encode(X)
    found = snapshot.weights.memberships(codes).argmax(axis=1)
    assert homogeneity_score(labels, found) > 0.9  # bent clusters may come in pieces
    # More turns begin with the codes that there are, so that nothing jumps.
    more = FeatureLearner(0, X, learner.space, is_trained=True)
    np.testing.assert_array_equal(more.places, codes)
    assert more.space.encoder is not learner.space.encoder
    assert len(alternate(more, 0, X, settings, 1, snapshot).history) > len(snapshot.history)


@pytest.mark.parametrize("n", [1, 3])
def test_hardly_any_rows(make_settings: Make, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, n_steps in {"FIRST_STEPS": 20, "STEPS": 10, "MIN_STEPS": 30}.items():
        monkeypatch.setattr(module, name, n_steps)
    X = np.random.default_rng(0).normal(size=(n, 4))
    learner = learner_of(X)
    snapshot = alternate(learner, 0, X, make_settings(n_hidden=16, max_epochs=60), 1)
    assert np.isfinite(learner.space.encode(X)).all()
    assert snapshot.weights.n_clusters <= n


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
    vary = pickle.loads(pickle.dumps(cw.ImageVariants(10, 12, amount=0.5)))
    one, same, other = (vary(images, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    mass = one.sum(axis=1)
    centres = (one.reshape(-1, 10, 12).sum(axis=1) * np.arange(12)).sum(axis=1) / mass
    assert centres.std() > 0.1
    assert np.abs(centres - 6).max() < 1.5
    np.testing.assert_allclose(mass, blob.sum(), rtol=0.2)
