"""Rows with clear clusters, and fits of them that are under way."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from clusterwise.deepdpm.method import Fit, Settings, Snapshot
from clusterwise.deepdpm.nets import ClusteringNet
from clusterwise.exceptions import MisfitWarning, OtherKWarning
from clusterwise.gaussian.niw import Full
from clusterwise.rows.sorted_rows import Rows

CENTRES = np.array([[-1.5, -1.0], [1.5, -1.0], [0.0, 1.5]])


@pytest.fixture
def three() -> tuple[Rows, np.ndarray]:
    """Three clear clusters of 300, 200 and 100 rows, in mixed order, and their labels."""
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat([0, 1, 2], [300, 200, 100]))
    return Rows(CENTRES[labels] + rng.normal(0, 0.2, (600, 2))), labels


@pytest.fixture
def make_settings() -> Callable[..., Settings]:
    def make(d: int = 2, **options: Any) -> Settings:
        return Settings(Full(1e-4, d + 2.0, np.full(d, 0.005 * (d + 2))), 10.0, **options)

    return make


@pytest.fixture
def make_fit(make_settings: Callable[..., Settings]) -> Callable[..., Fit]:
    """A maker of fits whose mixture is that of the labels (n,), and whose net has learned nothing yet."""

    def make(rows: Rows, labels: np.ndarray, **options: Any) -> Fit:
        settings, k = make_settings(rows.n_features, **options), int(labels.max()) + 1
        net = ClusteringNet.draw(np.random.default_rng(0), rows.n_features, 50, 5e-3, "cpu")
        net.take(torch.zeros(k, dtype=torch.long))
        first = Snapshot.of(net.to_weights(), settings.prior.statistics(rows.points, labels, k))
        return Fit(np.random.default_rng(0), rows, settings, lambda history: None, first)

    return make


@pytest.fixture(autouse=True)
def _poor_fits() -> None:
    """Some tests ask for poor fits on purpose."""
    for category in (MisfitWarning, OtherKWarning):
        warnings.simplefilter("ignore", category)
