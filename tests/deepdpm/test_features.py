"""The autoencoder, and its turns with the clustering."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.metrics import homogeneity_score

from clusterwise.deepdpm import alternation
from clusterwise.deepdpm.features import Autoencoder, FeatureLearner, mlp
from clusterwise.deepdpm.neighbours import nearest_neighbours
from clusterwise.deepdpm.settings import Settings

Make = Callable[..., Settings]
HASTY = {"n_hidden": 16, "max_epochs": 60, "settle_epochs": 2, "final_epochs": 3, "patience": 1}


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


def test_weights_of_an_mlp_depend_on_the_seed_alone() -> None:
    state = torch.random.get_rng_state()
    one, same, other = mlp(3, 2, 5, 0), mlp(3, 2, 5, 0), mlp(3, 2, 5, 1)
    torch.testing.assert_close(one[0].weight, same[0].weight)
    assert not torch.equal(one[0].weight, other[0].weight)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_codes_keep_neighbours_and_rebuild_rows(
    rings: tuple[np.ndarray, np.ndarray], trained: FeatureLearner
) -> None:
    X, labels = rings
    codes = trained.autoencoder.encode(X)
    assert codes.shape == (450, 2)
    assert np.square(codes - trained.targets).mean() < 0.05
    neighbours, _ = nearest_neighbours(codes, 5)
    assert (labels[neighbours] == labels[:, None]).mean() > 0.98
    rebuilt = trained.autoencoder.decode(codes)
    assert np.square(rebuilt - X).sum() < 0.5 * np.square(X - X.mean(axis=0)).sum()


def test_clusters_pull(rings: tuple[np.ndarray, np.ndarray], trained: FeatureLearner) -> None:
    X, labels = rings
    learner = copy.deepcopy(trained)
    codes = learner.autoencoder.encode(X)
    centres = np.stack([codes[labels == k].mean(axis=0) for k in range(3)])
    before = np.square(learner.targets - centres[labels]).sum()
    learner.pull(centres, labels)
    learner.train(100)
    after = learner.autoencoder.encode(X)
    assert np.square(learner.targets - centres[labels]).sum() < 0.5 * before
    assert np.square(after - centres[labels]).sum() < np.square(codes - centres[labels]).sum()


def test_a_learner_goes_on_from_an_autoencoder(
    rings: tuple[np.ndarray, np.ndarray], trained: FeatureLearner
) -> None:
    """It aims at the codes that there are, so nothing jumps."""
    later = FeatureLearner(0, rings[0], None, 2, before=trained.autoencoder)
    np.testing.assert_array_equal(later.targets, trained.autoencoder.encode(rings[0]))
    assert later.autoencoder is not trained.autoencoder


def test_variants_make_neighbours(rings: tuple[np.ndarray, np.ndarray]) -> None:
    """A direction that does not matter may be as wide as it likes."""
    X, labels = rings
    rng = np.random.default_rng(3)
    direction = rng.normal(size=20)
    smeared = X + rng.normal(0, 100, (450, 1)) * direction

    def vary(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rows + rng.normal(0, 1, (len(rows), 1)) * direction

    def purity(learner: FeatureLearner) -> float:
        neighbours, _ = nearest_neighbours(learner.targets, 5)
        return float((labels[neighbours] == labels[:, None]).mean())

    assert purity(FeatureLearner(0, smeared, None, 2, vary=vary)) > 0.95
    assert purity(FeatureLearner(0, smeared, None, 2)) < 0.9


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
    monkeypatch.setattr(alternation, "FIRST_STEPS", 200)
    monkeypatch.setattr(alternation, "STEPS", 30)
    hasty = partial(make_settings, **HASTY)

    code, snapshot = alternation.alternate(0, X, None, 2, 1, hasty, None, lambda _: None)
    found = snapshot.weights.memberships(code.encode(X)).argmax(axis=1)
    assert homogeneity_score(labels, found) > 0.9  # bent clusters may come in pieces
    assert code.decode(code.encode(X[:5])).shape == (5, 20)
    again, later = alternation.alternate(0, X, None, 2, 1, hasty, (code, snapshot), lambda _: None)
    assert len(later.history) > len(snapshot.history)
    assert again.autoencoder is not code.autoencoder


@pytest.mark.parametrize("n", [1, 2, 3])
def test_hardly_any_rows(make_settings: Make, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alternation, "FIRST_STEPS", 20)
    monkeypatch.setattr(alternation, "STEPS", 10)
    X = np.random.default_rng(0).normal(size=(n, 4))
    hasty = partial(make_settings, **HASTY)
    code, snapshot = alternation.alternate(0, X, None, 2, 1, hasty, None, lambda _: None)
    assert np.isfinite(code.encode(X)).all()
    assert snapshot.weights.n_clusters <= n
