"""The search without a network: any number of features, constant columns, few rows, correlations."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from clusterwise import GaussianSearch


def heaps(n_features: int, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Four clear clusters (n, d) with covariances of their own, and their labels."""
    rng = np.random.default_rng(n_features)
    k, labels = 4, rng.integers(4, size=n)
    centres = rng.permutation(np.stack(np.meshgrid([0.0, 14.0], [0.0, 14.0]), axis=-1).reshape(-1, 2))
    roots = rng.normal(size=(k, n_features, n_features)) / np.sqrt(n_features) + np.eye(n_features)
    noise = np.einsum("nde,ne->nd", roots[labels], rng.normal(size=(n, n_features)))
    return np.pad(centres, ((0, 0), (0, n_features - 2)))[labels] + noise, labels


@pytest.mark.parametrize("n_features", [1, 2, 8, 20])
def test_any_number_of_features(n_features: int) -> None:
    X, labels = heaps(n_features) if n_features > 1 else (heaps(2)[0][:, :1], None)
    estimator = GaussianSearch(random_state=0).fit(X)
    assert estimator.covariances_.shape == (estimator.n_clusters_, n_features, n_features)
    if labels is not None and n_features <= 8:
        assert adjusted_rand_score(labels, estimator.labels_) > 0.95
    np.testing.assert_array_equal(estimator.predict(X), estimator.labels_)


def test_many_features_and_few_rows() -> None:
    """More features than rows: diagonal covariances, no error."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 20)
    X = 3.0 * labels[:, None] + rng.normal(size=(40, 100))
    estimator = GaussianSearch(random_state=0).fit(X)
    assert adjusted_rand_score(labels, estimator.labels_) == 1
    off_diagonal = estimator.covariances_[:, ~np.eye(100, dtype=bool)]
    np.testing.assert_array_equal(off_diagonal, 0)


def test_constant_columns_do_not_count() -> None:
    X, _ = heaps(3)
    with_constant = np.insert(X, 1, 7.0, axis=1)
    one, other = (GaussianSearch(random_state=0).fit(points) for points in (X, with_constant))
    np.testing.assert_array_equal(other.labels_, one.labels_)
    np.testing.assert_array_equal(other.means_[:, 1], 7.0)
    np.testing.assert_array_equal(other.covariances_[:, 1], 0)
    np.testing.assert_array_equal(other.score_samples(with_constant), one.score_samples(X))


@pytest.mark.parametrize("rho", [0.0, 0.7, 0.9])
def test_a_tilted_gaussian_is_one_cluster(rho: float) -> None:
    rng = np.random.default_rng(3)
    X = rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], 1000)
    estimator = GaussianSearch(random_state=0).fit(X)
    assert estimator.n_clusters_ == 1
    correlation = estimator.covariances_[0, 0, 1] / np.sqrt(np.diag(estimator.covariances_[0]).prod())
    assert correlation == pytest.approx(rho, abs=0.05)


def test_no_row_is_left_out_of_large_data() -> None:
    X, labels = heaps(2, n=25_000)
    estimator = GaussianSearch(random_state=0).fit(X)
    assert adjusted_rand_score(labels, estimator.labels_) > 0.95
