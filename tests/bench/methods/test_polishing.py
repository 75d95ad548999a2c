"""Polishing without AMCP's network: labels of all points, and a log-likelihood in the data's own units."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from clusterwise.bench.methods.polishing import dac_polished, polished_alone
from clusterwise.bench.registry import Case, Outcome


@pytest.mark.parametrize("build", [polished_alone, dac_polished])
def test_clear_clusters(build: Callable[[], Callable[[Case], Outcome]]) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 80)
    points = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])[labels] + 0.3 * rng.standard_normal((240, 2))
    outcome, larger = build()(Case(points, 0, None)), build()(Case(1000 * points, 0, None))
    assert adjusted_rand_score(labels, outcome.labels) == 1.0
    np.testing.assert_array_equal(outcome.labels, larger.labels)
    assert outcome.log_likelihood is not None
    assert larger.log_likelihood is not None
    assert outcome.log_likelihood() - larger.log_likelihood() == pytest.approx(2 * np.log(1000))
