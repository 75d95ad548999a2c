"""A fitted estimator whose clusters are known, and no window."""

from __future__ import annotations

from types import SimpleNamespace

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture
def make_fitted():
    """Return a maker of (estimator, X) with K clusters of 40 points around random centres."""

    def make(
        n_clusters: int = 3, n_features: int = 2, scale: float = 1.0
    ) -> tuple[SimpleNamespace, np.ndarray]:
        rng = np.random.default_rng(n_clusters)
        labels = np.repeat(np.arange(n_clusters), 40)
        centres = rng.normal(0, 5, (n_clusters, n_features))
        X = scale * (centres[labels] + rng.normal(size=(len(labels), n_features)))
        steps = tuple(
            SimpleNamespace(members=labels == label, probabilities=None, anchor=40 * label if label else None)
            for label in reversed(range(n_clusters))
        )
        estimator = SimpleNamespace(
            labels_=labels,
            n_clusters_=n_clusters,
            probabilities_=rng.uniform(0.5, 1, len(labels)),
            means_=scale * centres,
            covariances_=np.tile(scale**2 * np.eye(n_features), (n_clusters, 1, 1)),
            pioneers_=np.empty(0, dtype=np.int64),
            gaussian_=True,
            per_feature_=False,
            steps_=steps,
            k_posterior_={2: 0.25, 3: 0.7, 5: 0.05},
        )
        return estimator, X

    return make
