"""What is learned on classes that were held out: the rule of the cut, ways to refine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clusterwise.papers.cut import branches_of
from clusterwise.training import calibration
from clusterwise.training.all_cuts import agreement
from clusterwise.training.calibration import Encoded, divisibility, fit_rule, scores_of_refining, simplest


def drawn(rng: np.random.Generator, k: int, n: int = 120) -> Encoded:
    truth = np.sort(np.r_[np.arange(k), rng.integers(k, size=n - k)])
    points = 3.0 * rng.normal(size=(k, 6))[truth] + rng.normal(size=(n, 6))
    return Encoded(points, truth, rng.integers(3, size=n))


def test_a_rule_of_some_data_sets_suits_others() -> None:
    rng = np.random.default_rng(0)
    fitted = fit_rule([drawn(rng, k) for k in (1, 2, 3, 5, 8, 12)])
    rule = fitted.rule
    assert fitted.score > 1.8
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
    fitted = fit_rule(sets)
    assert fitted.rule.rows_exponent > 0
    monkeypatch.setattr(calibration, "GRID", replace(calibration.GRID, rows_exponents=(0.0,)))
    assert fitted.score > fit_rule(sets).score


def test_ways_to_refine_are_compared() -> None:
    rng = np.random.default_rng(1)
    sets = [drawn(rng, k) for k in (2, 4, 6)]
    scores = scores_of_refining(sets, fit_rule(sets).rule)
    assert scores["cut"] > scores["none"]
    assert set(scores) == {"none", "search", "cut"}


def test_a_fold_is_judged_by_the_rule_of_the_others() -> None:
    # The second fold is ten times as large: the rule of one is no use for the other.
    rng = np.random.default_rng(3)
    sets = [drawn(rng, k) for k in (2, 3, 4, 5)]
    same = [replace(one, fold=i % 2) for i, one in enumerate(sets)]
    other = [replace(one, points=one.points * 10**one.fold) for one in same]
    assert fit_rule(same).score > 1.8
    assert len(fit_rule(same).scores) == 2
    assert fit_rule(other).score < 1.0
    assert fit_rule(other).rule.spread > fit_rule(same).rule.spread


def test_intervals_of_the_number_hold_it_as_often_as_they_say() -> None:
    rng = np.random.default_rng(4)

    def hard(fold: int) -> Encoded:
        k = int(rng.integers(2, 9))
        truth = np.r_[np.arange(k), rng.integers(k, size=80 - k)]
        points = np.exp(0.3 * rng.normal()) * 1.2 * rng.normal(size=(k, 5))[truth] + rng.normal(size=(80, 5))
        return Encoded(points, truth, None, fold)

    rule = fit_rule([hard(i % 5) for i in range(40)]).rule
    held = 0
    for one in (hard(0) for _ in range(60)):
        branches = branches_of(one.points, rule.smoothing)
        numbers = [len(np.unique(other.labels(branches)[0])) for other in rule.others(50)]
        low, high = np.quantile(numbers, [0.1, 0.9], method="nearest")
        held += low <= len(np.unique(one.truth)) <= high
    assert held >= 0.7 * 60


def test_the_simplest_way_is_taken_unless_another_is_better_beyond_chance() -> None:
    noisy = np.array([[1.0, 1.2, 0.8, 1.1], [1.3, 0.9, 1.2, 0.9]])
    assert simplest(noisy) == 0  # 0.05 behind, with a standard error of 0.2
    assert simplest(noisy[::-1]) == 0
    assert simplest(np.array([[1.0, 1.2, 0.8, 1.1], [1.1, 1.3, 0.92, 1.2]])) == 1
    assert simplest(np.array([[1.0], [1.1]])) == 1  # nothing to tell chance by
    assert simplest(np.array([[1.0, 1.1], [1.001, 1.101]])) == 0  # no matter how sure


def test_encodings_in_which_classes_overlap_less_can_be_divided_better() -> None:
    rng = np.random.default_rng(5)
    sets = [replace(drawn(rng, k), fold=i % 3) for i, k in enumerate((2, 4, 6, 3, 5, 8))]
    noisy = [replace(one, points=one.points + 2 * rng.normal(size=one.points.shape)) for one in sets]
    found, worse = divisibility(sets), divisibility(noisy)
    assert found.shape == (3,)
    assert found.mean() > 1.9
    assert (worse < found).all()
