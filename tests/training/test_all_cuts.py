"""Agreement of all cuts of a tree at once, against one cut after the other, and against scikit-learn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from clusterwise.papers.cut import CutRule, branches_of
from clusterwise.training.all_cuts import AllCuts, agreement


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
    branches = branches_of(points, smoothing, rng.integers(3, size=150))
    cuts = AllCuts.of(branches, truth)
    offsets = np.linspace(-8.0, 6.0, 40)
    for size, rows, weight in ((0.0, 0.0, 0.0), (0.5, 0.25, 1.0), (1.0, 0.5, 3.0)):
        rule = CutRule(smoothing, size, rows, weight, threshold=0.7)
        one_by_one = [
            agreement(truth, replace(rule, threshold=0.7 + offset).labels(branches)[0]) for offset in offsets
        ]
        assert cuts.scores(rule, offsets) == pytest.approx(np.array(one_by_one))


def test_mergers_across_classes_are_known() -> None:
    truth = np.repeat([0, 1], 10)
    cuts = AllCuts.of(
        branches_of(10.0 * truth[:, None] + np.random.default_rng(0).normal(size=(20, 1))), truth
    )
    assert cuts.apart.tolist() == [False] * 18 + [True]


def test_a_miss_is_how_far_the_threshold_is_from_the_number_of_classes() -> None:
    rng = np.random.default_rng(2)
    truth = np.repeat(np.arange(4), 15)
    branches = branches_of(3.0 * rng.normal(size=(4, 3))[truth] + rng.normal(size=(60, 3)))
    cuts = AllCuts.of(branches, truth)
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
    found = AllCuts.of(branches_of(points), truth).given_number()
    assert found == pytest.approx(agreement(truth, expected))
