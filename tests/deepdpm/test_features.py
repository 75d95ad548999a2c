"""Neighbours, the autoencoder, and its turns with the clustering."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.metrics import homogeneity_score
from sklearn.neighbors import NearestNeighbors

from clusterwise.deepdpm import alternation, features
from clusterwise.deepdpm.features import Autoencoder, FeatureLearner, mlp, nearest_neighbours, principal_axes
from clusterwise.deepdpm.settings import Settings

Make = Callable[..., Settings]


@pytest.fixture(scope="module")
def rings() -> tuple[np.ndarray, np.ndarray]:
    """Three curved clusters in 20 dimensions, (450, 20), and their labels."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 150)
    angles = rng.uniform(0, np.pi, 450) + 2 * np.pi / 3 * labels
    plane = np.stack([np.cos(angles) * (2 + labels), np.sin(angles) * 2, 3.0 * labels], axis=1)
    return plane @ rng.normal(size=(3, 20)) + rng.normal(0, 0.1, (450, 20)), labels


def test_neighbours_against_scikit_learn() -> None:
    points = np.random.default_rng(1).normal(size=(1203, 4))
    neighbours, distances = nearest_neighbours(points, 6)
    expected, index = NearestNeighbors(n_neighbors=7).fit(points).kneighbors(points)
    np.testing.assert_array_equal(np.sort(neighbours, axis=1), np.sort(index[:, 1:], axis=1))
    np.testing.assert_allclose(np.sort(distances, axis=1), expected[:, 1:], atol=1e-3)
    assert nearest_neighbours(points[:3], 6)[0].shape == (3, 2)


def test_graph_weights() -> None:
    distances = np.abs(np.random.default_rng(2).normal(1, 0.3, (50, 8)))
    weights = features._graph_weights(distances)
    np.testing.assert_allclose(weights.max(axis=1), 1)
    np.testing.assert_allclose(weights.sum(axis=1), np.log2(9), rtol=1e-3)
    assert np.isfinite(features._graph_weights(np.zeros((5, 3)))).all()


def test_principal_axes(rings: tuple[np.ndarray, np.ndarray]) -> None:
    axes = principal_axes(rings[0], 5)
    np.testing.assert_allclose(axes.T @ axes, np.eye(5), atol=1e-9)
    variances = (rings[0] @ axes).var(axis=0)
    assert (np.diff(variances) <= 0).all()
    assert variances[:3].sum() / rings[0].var(axis=0).sum() > 0.99


def test_weights_of_an_mlp_depend_on_the_seed_alone() -> None:
    state = torch.random.get_rng_state()
    one, same, other = mlp(3, 2, 5, 0), mlp(3, 2, 5, 0), mlp(3, 2, 5, 1)
    torch.testing.assert_close(one[0].weight, same[0].weight)
    assert not torch.equal(one[0].weight, other[0].weight)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_codes_keep_neighbours_and_rebuild_rows(rings: tuple[np.ndarray, np.ndarray]) -> None:
    X, labels = rings
    learner = FeatureLearner(0, X, None, 2)
    learner.train(300)
    codes = learner.autoencoder.encode(X)
    assert codes.shape == (450, 2)
    neighbours, _ = nearest_neighbours(codes, 5)
    assert (labels[neighbours] == labels[:, None]).mean() > 0.98
    rebuilt = learner.autoencoder.decode(codes)
    assert np.square(rebuilt - X).sum() < 0.5 * np.square(X - X.mean(axis=0)).sum()


def test_clusters_pull(rings: tuple[np.ndarray, np.ndarray]) -> None:
    X, labels = rings
    widths = []
    for with_clusters in (False, True):
        learner = FeatureLearner(0, X, None, 2)
        learner.train(150)
        codes = learner.autoencoder.encode(X)
        centres = np.stack([codes[labels == k].mean(axis=0) for k in range(3)])
        learner.train(150, *((centres, labels) if with_clusters else ()))
        codes = learner.autoencoder.encode(X)
        widths.append(np.mean([codes[labels == k].var(axis=0).sum() for k in range(3)]))
    assert widths[1] < widths[0]


def test_a_module_of_the_user_is_copied(rings: tuple[np.ndarray, np.ndarray]) -> None:
    encoder = torch.nn.Linear(20, 3)
    before = encoder.weight.detach().clone()
    learner = FeatureLearner(0, rings[0], encoder, 7)
    learner.train(5)
    assert learner.autoencoder.encode(rings[0]).shape == (450, 3)
    torch.testing.assert_close(encoder.weight, before)
    assert isinstance(learner.autoencoder, Autoencoder)
    assert learner.autoencoder.projection is None


def test_turns(
    rings: tuple[np.ndarray, np.ndarray], make_settings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, labels = rings
    monkeypatch.setattr(alternation, "FIRST_STEPS", 300)
    monkeypatch.setattr(alternation, "STEPS", 50)
    code, snapshot = alternation.alternate(0, X, None, 2, 1, make_settings, None, lambda _: None)
    found = snapshot.weights.memberships(code.encode(X)).argmax(axis=1)
    assert homogeneity_score(labels, found) > 0.9  # bent clusters may come in pieces
    assert code.decode(code.encode(X[:5])).shape == (5, 20)
    again, later = alternation.alternate(0, X, None, 2, 1, make_settings, (code, snapshot), lambda _: None)
    assert len(later.history) > len(snapshot.history)
    assert again.autoencoder is not code.autoencoder


@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_hardly_any_rows(make_settings: Make, n: int) -> None:
    X = np.random.default_rng(0).normal(size=(n, 4))
    code, snapshot = alternation.alternate(0, X, None, 2, 1, make_settings, None, lambda _: None)
    assert np.isfinite(code.encode(X)).all()
    assert snapshot.weights.n_clusters <= n
