"""A fitted estimator whose clusters are known."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClusterMixin


class Known(ClusterMixin, BaseEstimator):
    """Puts each row into the cluster whose centre is nearest; the centres are given."""

    def __init__(self, centres=None, seed=0):
        self.centres = centres
        self.seed = seed

    def fit(self, X, y=None):
        closeness = np.exp(-np.square(X[:, None] - np.asarray(self.centres)).sum(axis=2))
        self.membership_ = closeness / closeness.sum(axis=1, keepdims=True)
        self.labels_ = self.membership_.argmax(axis=1)
        self.probabilities_ = self.membership_.max(axis=1)
        self.outlier_scores_ = 1 - closeness.max(axis=1) ** 0.001
        self.n_clusters_ = len(self.centres)
        self.means_ = np.asarray(self.centres)
        self.covariances_ = np.tile(np.eye(X.shape[1]), (self.n_clusters_, 1, 1))
        self.pioneers_ = np.empty(0, dtype=np.int64)
        self.gaussian_ = True
        self.per_feature_ = False
        self.weights_name_ = None
        self.steps_ = tuple(
            SimpleNamespace(members=self.labels_ == label, anchor=None) for label in range(self.n_clusters_)
        )
        return self


@pytest.fixture
def make_fitted():
    """Return a maker of (estimator, X): K clusters of 30 points on a grid, (K * 30, d)."""

    def make(n_clusters: int = 3, n_features: int = 2) -> tuple[Known, np.ndarray]:
        rng = np.random.default_rng(0)
        grid = itertools.islice(itertools.product(range(9), repeat=2), n_clusters)
        centres = np.array([[4.0 * a, 4.0 * b] + [0.0] * (n_features - 2) for a, b in grid])
        X = np.repeat(centres, 30, axis=0) + rng.normal(0, 0.8, (30 * n_clusters, n_features))
        return Known(centres).fit(X), X

    return make
