"""What is learned on classes that were held out: the rule of the cut, ways to refine."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.training import calibration
from clusterwise.training.all_cuts import agreement
from clusterwise.training.calibration import Encoded, fit_rule, scores_of_refining
from clusterwise.trees.learned_cut import branches_of


def drawn(rng: np.random.Generator, k: int, n: int = 120) -> Encoded:
    truth = np.sort(np.r_[np.arange(k), rng.integers(k, size=n - k)])
    points = 3.0 * rng.normal(size=(k, 6))[truth] + rng.normal(size=(n, 6))
    return Encoded(points, truth, rng.integers(3, size=n))


def test_a_rule_of_some_data_sets_suits_others() -> None:
    rng = np.random.default_rng(0)
    rule, score = fit_rule([drawn(rng, k) for k in (1, 2, 3, 5, 8, 12)])
    assert score > 1.8
    assert rule.network_weight == 0  # what was proposed are random labels
    for k in (1, 4, 10):
        new = drawn(rng, k)
        labels = rule.labels(branches_of(new.points, rule.smoothing, new.proposed))[0]
        assert agreement(new.truth, labels) > 1.6
    assert rule.spread >= 0


def test_a_rule_learns_that_larger_data_sets_need_larger_branches(monkeypatch: pytest.MonkeyPatch) -> None:
    # Distances grow with the number of rows: no common threshold suits all.
    rng = np.random.default_rng(2)
    sets = []
    for n in (30, 1000):
        for k in (2, 3, 4, 5):
            one = drawn(rng, k, n)
            sets.append(Encoded(one.points * n**0.5, one.truth))
    rule, score = fit_rule(sets)
    assert rule.rows_exponent > 0
    monkeypatch.setattr(calibration, "ROWS_EXPONENTS", (0.0,))
    assert score > fit_rule(sets)[1]


def test_ways_to_refine_are_compared() -> None:
    rng = np.random.default_rng(1)
    sets = [drawn(rng, k) for k in (2, 4, 6)]
    scores = scores_of_refining(sets, fit_rule(sets)[0])
    assert scores["cut"] > scores["none"]
    assert set(scores) == {"none", "em", "search", "cut"}
