"""What is learned on classes that were held out: the rule of the cut, ways to refine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from clusterwise.papers.cut import CutRule, branches_of
from clusterwise.training import calibration
from clusterwise.training.calibration import (
    AllCuts,
    Encoded,
    agreement,
    divisibility,
    fit_rule,
    scores_of_refining,
    simplest,
)


def test_agreement_is_nmi_and_ari_and_the_number_of_clusters() -> None:
    rng = np.random.default_rng(0)
    for k in (1, 2, 5, 40):
        truth, labels = rng.integers(4, size=60), np.unique(rng.integers(k, size=60), return_inverse=True)[1]
        expected = normalized_mutual_info_score(truth, labels) + adjusted_rand_score(truth, labels)
        expected -= abs(np.log((labels.max() + 1) / 4))
        assert agreement(truth, labels) == pytest.approx(expected)
    assert agreement(np.zeros(5, dtype=int), np.zeros(5, dtype=int)) == 2.0
    assert agreement(np.arange(5), np.arange(5)) == pytest.approx(2.0)


@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_all_cuts_are_those_of_the_rule_one_after_the_other(smoothing: float) -> None:
    rng = np.random.default_rng(1)
    truth = rng.integers(6, size=150)
    points = 2.0 * rng.normal(size=(6, 5))[truth] + rng.normal(size=(150, 5))
    branches = branches_of(points, smoothing)
    cuts = AllCuts(branches, truth)
    offsets = np.linspace(-8.0, 6.0, 40)
    for size, rows in ((0.0, 0.0), (0.5, 0.25), (1.0, 0.5)):
        rule = CutRule(smoothing, size, rows, threshold=0.7)
        one_by_one = [
            agreement(truth, replace(rule, threshold=0.7 + offset).labels(branches)[0]) for offset in offsets
        ]
        assert cuts.scores(rule, offsets) == pytest.approx(np.array(one_by_one))


def test_mergers_across_classes_are_known() -> None:
    truth = np.repeat([0, 1], 10)
    cuts = AllCuts(branches_of(10.0 * truth[:, None] + np.random.default_rng(0).normal(size=(20, 1))), truth)
    assert cuts.apart.tolist() == [False] * 18 + [True]


def test_a_miss_is_how_far_the_threshold_is_from_the_number_of_classes() -> None:
    rng = np.random.default_rng(2)
    truth = np.repeat(np.arange(4), 15)
    branches = branches_of(3.0 * rng.normal(size=(4, 3))[truth] + rng.normal(size=(60, 3)))
    cuts = AllCuts(branches, truth)
    for threshold in (-3.0, 0.0, 2.0, 4.0, 9.0):
        rule = CutRule(threshold=threshold)
        miss = cuts.miss(rule)
        numbers = [
            len(np.unique(replace(rule, threshold=threshold + sign * (miss + 1e-9)).labels(branches)[0]))
            for sign in (-1, 1)
        ]
        assert 4 in numbers
        if miss > 0:
            assert len(np.unique(rule.labels(branches)[0])) != 4
            closer = [
                len(np.unique(replace(rule, threshold=threshold + sign * 0.99 * miss).labels(branches)[0]))
                for sign in (-1, 1)
            ]
            assert 4 not in closer


def test_the_partition_into_as_many_as_there_are_classes() -> None:
    rng = np.random.default_rng(3)
    truth = rng.integers(5, size=80)
    points = 1.5 * rng.normal(size=(5, 3))[truth] + rng.normal(size=(80, 3))
    expected = fcluster(linkage(points, "ward"), 5, "maxclust") - 1
    found = AllCuts(branches_of(points), truth).given_number()
    assert found == pytest.approx(agreement(truth, expected))


def drawn(rng: np.random.Generator, k: int, n: int = 120) -> Encoded:
    truth = np.sort(np.r_[np.arange(k), rng.integers(k, size=n - k)])
    points = 3.0 * rng.normal(size=(k, 6))[truth] + rng.normal(size=(n, 6))
    return Encoded(points, truth, rng.integers(3, size=n))


def test_a_rule_of_some_data_sets_suits_others() -> None:
    rng = np.random.default_rng(0)
    rule, scores = fit_rule([drawn(rng, k) for k in (1, 2, 3, 5, 8, 12)])
    assert scores.mean() > 1.8
    for k in (1, 4, 10):
        new = drawn(rng, k)
        labels = rule.labels(branches_of(new.points, rule.smoothing))[0]
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
    rule, scores = fit_rule(sets)
    assert rule.rows_exponent > 0
    monkeypatch.setattr(calibration, "ROWS_EXPONENTS", (0.0,))
    assert scores.mean() > fit_rule(sets)[1].mean()


def test_ways_to_refine_are_compared() -> None:
    rng = np.random.default_rng(1)
    sets = [drawn(rng, k) for k in (2, 4, 6)]
    scores = scores_of_refining(sets, fit_rule(sets)[0])
    assert scores["cut"] > scores["none"]
    assert set(scores) == {"none", "search", "cut"}


def test_a_fold_is_judged_by_the_rule_of_the_others() -> None:
    # The second fold is ten times as large: the rule of one is no use for the other.
    rng = np.random.default_rng(3)
    sets = [drawn(rng, k) for k in (2, 3, 4, 5)]
    same = [one._replace(fold=i % 2) for i, one in enumerate(sets)]
    other = [one._replace(points=one.points * 10**one.fold) for one in same]
    (rule, scores), (narrow, poor) = fit_rule(same), fit_rule(other)
    assert scores.shape == (2,)
    assert scores.mean() > 1.8
    assert poor.mean() < 1.0
    assert narrow.spread > rule.spread


def test_intervals_of_the_number_hold_it_as_often_as_they_say() -> None:
    rng = np.random.default_rng(4)

    def hard(fold: int) -> Encoded:
        k = int(rng.integers(2, 9))
        truth = np.r_[np.arange(k), rng.integers(k, size=80 - k)]
        points = np.exp(0.3 * rng.normal()) * 1.2 * rng.normal(size=(k, 5))[truth] + rng.normal(size=(80, 5))
        return Encoded(points, truth, None, fold)

    rule = fit_rule([hard(i % 5) for i in range(40)])[0]
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
    sets = [drawn(rng, k)._replace(fold=i % 3) for i, k in enumerate((2, 4, 6, 3, 5, 8))]
    noisy = [one._replace(points=one.points + 2 * rng.normal(size=one.points.shape)) for one in sets]
    found, worse = divisibility(sets), divisibility(noisy)
    assert found.shape == (3,)
    assert found.mean() > 1.9
    assert (worse < found).all()
