"""DAC with its shipped weights: what the options do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from clusterwise import DAC
from clusterwise.exceptions import ClusterwiseError
from clusterwise.pretrained import get_weights


@pytest.fixture(scope="module")
def close_pair() -> tuple[np.ndarray, np.ndarray]:
    """Two clusters close to each other and two far away from them: hard to tell apart at one scale."""
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [1.3, 0.0], [60.0, 0.0], [0.0, 60.0]])
    truth = np.repeat(np.arange(4), 80)
    return centres[truth] + rng.normal(0, 0.2, (320, 2)), truth


@pytest.mark.parametrize("filtering", ["minimum-loss", "anchored"])
def test_alone_the_labels_are_the_networks_own(filtering: str, close_pair: tuple) -> None:
    X, _ = close_pair
    estimator = DAC(filtering, random_state=0, refine=None, max_network_points=320).fit(X)
    rows = np.lexsort(X.T[::-1])
    scale = np.sqrt(np.square(X - X.mean(axis=0)).mean())
    seen = torch.tensor((X[rows] - X.mean(axis=0)) / scale, dtype=torch.float32)[None]
    model = get_weights(f"dac-{filtering}-2d").model
    (inference,) = model.infer(seen, torch.ones(1, 320, dtype=torch.bool), [estimator._seed])
    assert adjusted_rand_score(inference.labels.numpy(), estimator.labels_[rows]) == 1


@pytest.mark.parametrize("filtering", ["minimum-loss", "anchored"])
def test_the_search_tells_close_clusters_apart(filtering: str, close_pair: tuple) -> None:
    """At the scale of the whole data set the network cannot."""
    X, truth = close_pair
    assert adjusted_rand_score(truth, DAC(filtering, random_state=0).fit_predict(X)) > 0.99
    assert adjusted_rand_score(truth, DAC(filtering, random_state=0, refine=None).fit_predict(X)) < 0.9


def test_em_steps_raise_the_likelihood() -> None:
    """Where clusters overlap, hard labels describe them too narrow, or too wide."""
    gains = []
    for seed in range(4):
        noise = np.random.default_rng(seed).normal(size=(300, 2))
        X = noise + 3.5 * np.repeat([[0, 0], [1, 0], [0, 4]], 100, axis=0)
        alone, em = (DAC(random_state=0, refine=refine).fit(X) for refine in (None, "em"))
        assert alone.n_clusters_ == em.n_clusters_ > 1
        gains.append(em.score(X) - alone.score(X))
    # EM maximizes the posterior density, so that a single likelihood may fall by a little.
    assert min(gains) > -5e-4
    assert np.mean(gains) > 2e-4


def test_revision_is_for_gaussians(close_pair: tuple) -> None:
    with pytest.raises(ClusterwiseError, match="leave it out"):
        DAC(weights="dac-warped-2d", revise=True).fit(close_pair[0])


@pytest.mark.parametrize("filtering", ["minimum-loss", "anchored"])
def test_revision_is_the_default_without_a_search(filtering: str) -> None:
    """On some of five data sets of overlapping clusters the labels of the passes alone are others."""
    agreement = []
    for seed in range(5):
        noise = np.random.default_rng(seed).normal(size=(400, 2))
        X = noise + 2.5 * np.repeat([[0, 0], [1, 0], [0, 4], [3, 3]], 100, axis=0)
        usual, revised, printed = (
            DAC(filtering, refine=None, revise=revise, random_state=0).fit_predict(X)
            for revise in (None, True, False)
        )
        np.testing.assert_array_equal(usual, revised)
        agreement.append(adjusted_rand_score(usual, printed))
    assert min(agreement) < 1


def test_scaling_by_feature(close_pair: tuple) -> None:
    """Columns in different units: one scale would leave the second column nothing to say."""
    X, truth = close_pair
    X = np.column_stack([X[:, 1], X[:, 0] * 1e-6])
    assert adjusted_rand_score(truth, DAC(random_state=0, scaling="feature").fit_predict(X)) > 0.99
    assert adjusted_rand_score(truth, DAC(random_state=0, refine=None).fit_predict(X)) < 0.9


@pytest.mark.parametrize("n_features", [1, 6])
def test_projection(n_features: int) -> None:
    rng = np.random.default_rng(1)
    truth = np.repeat([0, 1, 2], 60)
    X = (rng.normal(0, 10, (3, n_features)) if n_features > 1 else np.array([[-9.0], [0.0], [12.0]]))[truth]
    X = X + rng.normal(0, 0.5, X.shape)
    estimator = DAC(projection="pca", random_state=0).fit(X)
    assert adjusted_rand_score(truth, estimator.labels_) > 0.99
    means = np.stack([X[truth == j].mean(axis=0) for j in range(3)])
    np.testing.assert_allclose(np.sort(estimator.means_[:, 0]), np.sort(means[:, 0]), atol=1.0)


def test_default_weights_by_filtering() -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    assert DAC().fit(X).weights_name_ == "dac-minimum-loss-2d"
    assert DAC("anchored").fit(X).weights_name_ == "dac-anchored-2d"


def test_a_subsample_is_enough(close_pair: tuple) -> None:
    X, truth = close_pair
    rng = np.random.default_rng(0)
    means = np.stack([X[truth == j].mean(axis=0) for j in range(4)])
    many = means[rng.integers(4, size=5000)] + rng.normal(0, 0.2, (5000, 2))
    labels = DAC(random_state=0, max_network_points=500).fit(many).predict(X)
    assert adjusted_rand_score(truth, labels) > 0.99
