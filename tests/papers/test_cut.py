"""Cuts by a rule: what divides a branch, the cap, smoothing, and rows that have nearest_means."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from clusterwise.papers.cut import CutRule, branches_of, nearest_means, smoothed


def blobs(k: int = 4, each: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(k), each)
    return 6.0 * np.eye(max(k, 3))[truth] + rng.normal(size=(len(truth), max(k, 3))), truth


def test_statistic_is_the_distance_of_means_and_the_sizes() -> None:
    points = np.array([[0.0], [2.0], [11.0]])
    branches = branches_of(points)
    assert np.exp(branches.log_distances) == pytest.approx([4.0, 100.0])
    assert np.exp(branches.log_sizes) == pytest.approx([1 / 2, 2 / 3])
    rule = CutRule(size_exponent=1.0, threshold=np.log(3.0))
    # As Ward's linkage has it: half the squared height is what a merger adds to the squared deviations.
    assert np.exp(rule.statistic(branches) + np.log(3.0)) == pytest.approx(branches.tree.heights[3:] ** 2 / 2)


def test_a_threshold_between_the_scales_finds_the_clusters() -> None:
    points, truth = blobs()
    branches = branches_of(points)
    labels, beyond = CutRule(size_exponent=0.0, threshold=np.log(30.0)).labels(branches)
    assert adjusted_rand_score(truth, labels) > 0.95
    assert not beyond
    assert CutRule(threshold=100.0).labels(branches)[0].max() == 0
    assert len(np.unique(CutRule(threshold=-100.0).labels(branches)[0])) == len(points)


def test_the_cap_divides_what_is_farthest_apart_first() -> None:
    points, truth = blobs()
    labels, beyond = CutRule(threshold=-100.0).labels(branches_of(points), max_clusters=4)
    assert adjusted_rand_score(truth, labels) > 0.95
    assert beyond


def test_larger_data_sets_need_larger_branches() -> None:
    points, _ = blobs(k=2)
    far = np.r_[points, points + 1000.0]
    rule = CutRule(size_exponent=0.0, threshold=np.log(30.0))
    one, two = branches_of(points), branches_of(far)
    both = CutRule(size_exponent=0.0, rows_exponent=0.5, threshold=np.log(30.0) - 0.5 * np.log(len(points)))
    assert both.statistic(one) == pytest.approx(rule.statistic(one))
    assert both.statistic(two) == pytest.approx(rule.statistic(two) - 0.5 * np.log(2))


def test_other_thresholds_lie_about_the_rule() -> None:
    others = CutRule(threshold=1.0, spread=0.5).others(101)
    thresholds = [one.threshold for one in others]
    assert thresholds == sorted(thresholds)
    assert np.mean(thresholds) == pytest.approx(1.0)
    assert np.std(thresholds) == pytest.approx(0.5, rel=0.05)


def test_smoothing_brings_rows_of_a_cluster_together() -> None:
    points, truth = blobs()

    def ratio(z: np.ndarray) -> float:
        means = np.array([z[truth == k].mean(axis=0) for k in range(4)])
        return float(np.square(z - means[truth]).sum() / np.square(means[truth] - z.mean(axis=0)).sum())

    assert ratio(smoothed(points, 0.5)) < 0.5 * ratio(points)
    assert smoothed(points, 0.0) is points
    assert smoothed(points[:2], 0.5).shape == (2, 4)
    assert np.allclose(smoothed(np.ones((20, 3)), 0.8), 1.0)


def test_settled_rows_are_nearest_to_their_own_mean() -> None:
    points, truth = blobs()
    start = truth.copy()
    start[::10] = 0
    labels = nearest_means(points, start)
    assert adjusted_rand_score(truth, labels) > adjusted_rand_score(truth, start)
    assert np.array_equal(nearest_means(points, labels), labels)
