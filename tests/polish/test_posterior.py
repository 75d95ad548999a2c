"""P(K): a distribution, softer than the evidences, that allows for clusters nobody could see."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.mixture import DiagonalMixture
from clusterwise.polish import k_posterior, probabilities
from clusterwise.polish.evidence import log_partition, log_restaurant_odds, log_sizes
from clusterwise.polish.posterior import TEMPERATURE


def mixture(*shares: float) -> DiagonalMixture:
    k = len(shares)
    return DiagonalMixture(np.array(shares) / sum(shares), np.zeros((k, 2)), np.ones((k, 2)))


def test_probabilities_are_softened_evidences() -> None:
    found = probabilities([-10.0, -12.0, -1000.0])
    assert found.sum() == pytest.approx(1.0)
    assert found[0] / found[1] == pytest.approx(np.exp(2.0 / TEMPERATURE))
    np.testing.assert_allclose(probabilities([5.0, 3.0]), probabilities([1005.0, 1003.0]))


def test_a_distribution_over_k() -> None:
    posterior = k_posterior([mixture(1, 1), mixture(1, 1, 1), mixture(1)], np.array([0.5, 0.3, 0.2]), 100)
    assert sum(posterior.values()) == pytest.approx(1.0)
    assert list(posterior) == sorted(posterior)
    assert max(posterior, key=lambda k: posterior[k]) == 2


def test_one_cluster_hides_none_and_many_hide_more() -> None:
    assert k_posterior([mixture(1)], np.ones(1), 100) == {1: 1.0}
    doubts = [1 - k_posterior([mixture(*[1] * k)], np.ones(1), 1000)[k] for k in (2, 4, 8)]
    assert doubts == sorted(doubts)
    even = k_posterior([mixture(1, 1, 1, 1)], np.ones(1), 200)[4]
    uneven = k_posterior([mixture(180, 17, 2, 1)], np.ones(1), 200)[4]
    assert uneven < even


def test_odds_are_those_of_the_evidence() -> None:
    counts = np.array([50.0, 30.0, 1.0, 3.0])
    # log_partition averages the two priors, so the odds follow from what each adds to it.
    sums, k, n = log_sizes(counts).sum(axis=1), 4, counts.sum()
    restaurant = log_partition(np.array([-np.inf, sums[1]]), k, n)
    uniform = log_partition(np.array([sums[0], -np.inf]), k, n)
    assert log_restaurant_odds(counts) == pytest.approx(restaurant - uniform)
