"""What is learned on classes that were held out: agreement, the rule of the cut, ways to refine."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from clusterwise.training.calibration import Encoded, agreement, fit_rule, scores_of_refining
from clusterwise.trees.learned_cut import branches_of


def test_agreement_is_nmi_and_ari_and_the_number_of_clusters() -> None:
    rng = np.random.default_rng(0)
    for k in (1, 2, 5, 40):
        truth, labels = rng.integers(4, size=60), np.unique(rng.integers(k, size=60), return_inverse=True)[1]
        expected = normalized_mutual_info_score(truth, labels) + adjusted_rand_score(truth, labels)
        expected -= abs(np.log((labels.max() + 1) / 4))
        assert agreement(truth, labels) == pytest.approx(expected)
    assert agreement(np.zeros(5, dtype=int), np.zeros(5, dtype=int)) == 2.0


def drawn(rng: np.random.Generator, k: int, n: int = 120) -> Encoded:
    truth = np.sort(np.r_[np.arange(k), rng.integers(k, size=n - k)])
    points = 3.0 * rng.normal(size=(k, 6))[truth] + rng.normal(size=(n, 6))
    return Encoded(points, truth, rng.integers(3, size=n))


def test_a_rule_of_some_data_sets_suits_others() -> None:
    rng = np.random.default_rng(0)
    rule, nmi = fit_rule([drawn(rng, k) for k in (1, 2, 3, 5, 8, 12)])
    assert nmi > 0.9
    assert rule.network_weight == 0  # what was proposed are random labels
    for k in (1, 4, 10):
        new = drawn(rng, k)
        labels = rule.labels(branches_of(new.points, rule.smoothing, new.proposed))[0]
        assert agreement(new.truth, labels) > 1.6
    assert rule.spread >= 0


def test_ways_to_refine_are_compared() -> None:
    rng = np.random.default_rng(1)
    sets = [drawn(rng, k) for k in (2, 4, 6)]
    scores = scores_of_refining(sets, fit_rule(sets)[0])
    assert scores["cut"] > scores["none"]
    assert set(scores) == {"none", "em", "search", "cut"}
