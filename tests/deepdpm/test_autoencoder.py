"""The autoencoder, and its turns with the clustering."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.metrics import homogeneity_score

from clusterwise.deepdpm import autoencoder as module
from clusterwise.deepdpm import row_layout
from clusterwise.deepdpm.autoencoder import Autoencoder, FeatureLearner, alternate
from clusterwise.deepdpm.net_training import Settings
from clusterwise.deepdpm.row_layout import nearest_neighbours

Make = Callable[..., Settings]


@pytest.fixture(scope="module")
def rings() -> tuple[np.ndarray, np.ndarray]:
    """Three bent clusters in 20 dimensions, (450, 20), and their labels."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 150)
    angles = rng.uniform(0, 1.5, 450) + 2 * np.pi / 3 * labels
    plane = np.stack([np.cos(angles) * (2 + labels), np.sin(angles) * 2, 3.0 * labels], axis=1)
    return plane @ rng.normal(size=(3, 20)) + rng.normal(0, 0.4, (450, 20)), labels


@pytest.fixture(scope="module")
def trained(rings: tuple[np.ndarray, np.ndarray]) -> FeatureLearner:
    """A learner of their features, to be copied before it is changed."""
    learner = FeatureLearner(0, rings[0], None, 2)
    learner.train(250)
    return learner


def test_weights_depend_on_the_seed_alone() -> None:
    X, state = np.random.default_rng(0).normal(size=(9, 3)), torch.random.get_rng_state()
    one, same, other = (Autoencoder.draw(seed, X, None, 2, "cpu").encode(X) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_codes_follow_the_layout_and_rebuild_rows(
    rings: tuple[np.ndarray, np.ndarray], trained: FeatureLearner
) -> None:
    X, labels = rings
    codes = trained.autoencoder.encode(X)
    assert codes.shape == (450, 2)
    assert np.square(codes - trained.places).mean() < 0.05
    neighbours, _ = nearest_neighbours(codes, 5)
    assert (labels[neighbours] == labels[:, None]).mean() > 0.98
    rebuilt = trained.autoencoder.decode(codes)
    assert np.square(rebuilt - X).sum() < 0.5 * np.square(X - X.mean(axis=0)).sum()


def test_clusters_pull(rings: tuple[np.ndarray, np.ndarray], trained: FeatureLearner) -> None:
    X, labels = rings
    learner = copy.deepcopy(trained)
    codes = learner.autoencoder.encode(X)
    centres = np.stack([codes[labels == k].mean(axis=0) for k in range(3)])
    before = np.square(learner.places - centres[labels]).sum()
    learner.pull(centres, labels)
    learner.train(100)
    after = learner.autoencoder.encode(X)
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

    assert purity(FeatureLearner(0, smeared, None, 2, vary=vary)) > 0.95
    assert purity(FeatureLearner(0, smeared, None, 2)) < 0.9


def test_a_module_of_the_user_is_copied(rings: tuple[np.ndarray, np.ndarray]) -> None:
    encoder = torch.nn.Linear(20, 3)
    before = encoder.weight.detach().clone()
    learner = FeatureLearner(0, rings[0], encoder, 7)
    learner.train(5)
    assert learner.autoencoder.encode(rings[0]).shape == (450, 3)
    assert learner.autoencoder.projection is None
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
    snapshot = alternate(learner, 0, X, settings, 1, None, lambda history: None)
    codes = learner.autoencoder.encode(X)
    found = snapshot.weights.memberships(codes).argmax(axis=1)
    assert homogeneity_score(labels, found) > 0.9  # bent clusters may come in pieces
    # More turns begin with the codes that there are, so that nothing jumps.
    more = FeatureLearner(0, X, None, 2, before=learner.autoencoder)
    np.testing.assert_array_equal(more.places, codes)
    assert more.autoencoder.encoder is not learner.autoencoder.encoder
    later = alternate(more, 0, X, settings, 1, snapshot, lambda history: None)
    assert len(later.history) > len(snapshot.history)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_hardly_any_rows(make_settings: Make, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_STEPS", 20)
    monkeypatch.setattr(module, "STEPS", 10)
    monkeypatch.setattr(row_layout, "MIN_STEPS", 30)
    X = np.random.default_rng(0).normal(size=(n, 4))
    learner = FeatureLearner(0, X, None, 2)
    snapshot = alternate(
        learner, 0, X, make_settings(n_hidden=16, max_epochs=60), 1, None, lambda history: None
    )
    assert np.isfinite(learner.autoencoder.encode(X)).all()
    assert snapshot.weights.n_clusters <= n
