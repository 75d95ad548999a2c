"""What is learned on classes that were held out: where a tree is cut, which beginning is best."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from clusterwise.papers.cut import n_clusters_at, smoothed, ward_tree
from clusterwise.training.calibration import CutsOfSet, Encoded, agreement, divisibility, fit_cut, simplest


def test_agreement_is_nmi_and_ari_and_the_number_of_clusters() -> None:
    rng = np.random.default_rng(0)
    for k in (1, 2, 5, 40):
        truth, labels = rng.integers(4, size=60), np.unique(rng.integers(k, size=60), return_inverse=True)[1]
        expected = normalized_mutual_info_score(truth, labels) + adjusted_rand_score(truth, labels)
        expected -= abs(np.log((labels.max() + 1) / 4))
        assert agreement(truth, labels) == pytest.approx(expected)
    assert agreement(np.zeros(5, dtype=int), np.zeros(5, dtype=int)) == 2.0
    assert agreement(np.arange(5), np.arange(5)) == pytest.approx(2.0)


def drawn(rng: np.random.Generator, k: int, n: int = 120) -> Encoded:
    truth = np.sort(np.r_[np.arange(k), rng.integers(k, size=n - k)])
    return Encoded(3.0 * rng.normal(size=(k, 6))[truth] + rng.normal(size=(n, 6)), truth)


def test_all_cuts_are_compared_with_the_classes() -> None:
    one = drawn(np.random.default_rng(1), 6, 150)
    cuts, tree = CutsOfSet.of(one), ward_tree(smoothed(one.points))
    thresholds = np.linspace(0.0, 8.0, 30)
    numbers = [min(n_clusters_at(tree, t), len(cuts.scores)) for t in thresholds]
    expected = [agreement(one.truth, tree.level(k)) for k in numbers]
    assert cuts.at(thresholds) == pytest.approx(np.array(expected))


def test_a_miss_is_how_far_the_threshold_is_from_the_number_of_classes() -> None:
    one = drawn(np.random.default_rng(2), 4, 60)
    cuts, tree = CutsOfSet.of(one), ward_tree(smoothed(one.points))
    for threshold in (-3.0, 0.0, 2.0, 4.0, 9.0):
        miss = cuts.miss(threshold)
        assert 4 in [n_clusters_at(tree, threshold + sign * (miss + 1e-9)) for sign in (-1, 1)]
        if miss > 0:
            assert 4 not in [n_clusters_at(tree, threshold + sign * 0.99 * miss) for sign in (-1, 0, 1)]


def test_a_cut_of_some_data_sets_suits_others() -> None:
    rng = np.random.default_rng(0)
    cut = fit_cut([drawn(rng, k) for k in (1, 2, 3, 5, 8, 12)])
    for k in (1, 4, 10):
        new = drawn(rng, k)
        tree = ward_tree(smoothed(new.points))
        assert agreement(new.truth, tree.level(n_clusters_at(tree, cut.threshold))) > 1.6
    assert cut.spread >= 0


def test_data_sets_of_other_scales_leave_more_open() -> None:
    rng = np.random.default_rng(3)
    sets = [drawn(rng, k) for k in (2, 3, 4, 5)]
    other = [one._replace(points=one.points * 10 ** (i % 2)) for i, one in enumerate(sets)]
    assert fit_cut(other).spread > fit_cut(sets).spread


def test_intervals_of_the_number_hold_it_as_often_as_they_say() -> None:
    rng = np.random.default_rng(4)

    def hard() -> Encoded:
        k = int(rng.integers(2, 9))
        truth = np.r_[np.arange(k), rng.integers(k, size=80 - k)]
        points = np.exp(0.3 * rng.normal()) * 1.2 * rng.normal(size=(k, 5))[truth] + rng.normal(size=(80, 5))
        return Encoded(points, truth)

    cut = fit_cut([hard() for _ in range(40)])
    held = 0
    for one in (hard() for _ in range(60)):
        tree = ward_tree(smoothed(one.points))
        ends = (n_clusters_at(tree, cut.threshold + sign * 1.2816 * cut.spread) for sign in (1, -1))
        low, high = ends
        held += low <= len(np.unique(one.truth)) <= high
    assert held >= 0.7 * 60


def test_divisibility_is_that_of_the_partition_into_as_many_as_there_are_classes() -> None:
    rng = np.random.default_rng(3)
    one = drawn(rng, 5, 80)
    expected = fcluster(linkage(smoothed(one.points), "ward"), 5, "maxclust") - 1
    assert divisibility([one]) == pytest.approx([agreement(one.truth, expected)])


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
