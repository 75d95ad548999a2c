"""The cut of an encoder network: what divides a branch, the cap, smoothing, other cuts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from clusterwise.papers.cut import WardCut, log_costs, n_clusters_at, nearest_means, smoothed, ward_tree
from clusterwise.papers.model import Inference


def blobs(k: int = 4, each: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(k), each)
    return 6.0 * np.eye(max(k, 3))[truth] + rng.normal(size=(len(truth), max(k, 3))), truth


def inferred(cut: WardCut, points: np.ndarray, **options: int) -> Inference:
    mask = torch.ones(1, len(points), dtype=torch.bool)
    return cut.infer(torch.from_numpy(points)[None], mask, **options)[0]


def test_costs_are_what_a_merger_adds_to_the_squared_deviations() -> None:
    tree = ward_tree(np.array([[0.0], [2.0], [11.0]]))
    assert np.exp(log_costs(tree)) == pytest.approx([2.0, 100 * 2 / 3])
    assert [n_clusters_at(tree, t) for t in (0.0, 2.0, 5.0)] == [3, 2, 1]


def test_a_threshold_between_the_scales_finds_the_clusters() -> None:
    points, truth = blobs()
    found = inferred(WardCut(4.0, 0.0), points)
    assert adjusted_rand_score(truth, found.labels.numpy()) > 0.95
    assert not found.cap_reached
    assert int(inferred(WardCut(100.0, 0.0), points).labels.max()) == 0
    assert len(inferred(WardCut(-100.0, 0.0), points[:9]).labels.unique()) == 9


def test_the_cap_divides_what_is_farthest_apart_first() -> None:
    points, truth = blobs()
    found = inferred(WardCut(-100.0, 0.0), points, max_clusters=4)
    assert adjusted_rand_score(truth, found.labels.numpy()) > 0.95
    assert found.cap_reached


def test_rows_that_are_absent_count_for_nothing() -> None:
    points, _ = blobs()
    present = torch.arange(len(points) + 20) < len(points)
    padded = torch.cat([torch.from_numpy(points), torch.full((20, 4), 1e3, dtype=torch.float64)])
    (found,) = WardCut(4.0, 0.0).infer(padded[None], present[None])
    assert torch.equal(found.labels[present], inferred(WardCut(4.0, 0.0), points).labels)


def test_draws_are_cuts_at_other_thresholds_with_their_shares() -> None:
    points, _ = blobs()
    (sure, unsure) = (inferred(WardCut(4.0, spread), points, n_draws=50) for spread in (1e-6, 2.0))
    assert len(sure.draws) == 0
    assert len(unsure.draws) > 1
    assert sum(unsure.draw_probabilities) == pytest.approx(1)
    assert len(unsure.draw_probabilities) == 1 + len(unsure.draws)
    numbers = {len(labels.unique()) for labels in unsure.draws}
    assert 4 not in numbers and len(numbers) == len(unsure.draws)


def test_smoothing_brings_rows_of_a_cluster_together() -> None:
    points, truth = blobs()

    def ratio(z: np.ndarray) -> float:
        means = np.array([z[truth == k].mean(axis=0) for k in range(4)])
        return float(np.square(z - means[truth]).sum() / np.square(means[truth] - z.mean(axis=0)).sum())

    assert ratio(smoothed(points)) < 0.5 * ratio(points)
    assert smoothed(points[:2]).shape == (2, 4)
    assert np.allclose(smoothed(np.ones((20, 3))), 1.0)


def test_rows_go_to_the_nearest_mean() -> None:
    points, truth = blobs()
    start = truth.copy()
    start[::10] = 0
    labels = nearest_means(points, start)
    assert adjusted_rand_score(truth, labels) > adjusted_rand_score(truth, start)
    assert np.array_equal(nearest_means(points, labels), labels)
