"""The search ends at the clusters that are there, from wherever it starts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from search_data import heaps, sample_of
from sklearn.metrics import adjusted_rand_score

from clusterwise.gaussian.mixture import Sample
from clusterwise.gaussian.search import cells, first_partition, merged_cells, search
from clusterwise.priors.mixtures import CorrelatedGaussians


def test_cells_are_small_and_near(three: tuple[Sample, np.ndarray]) -> None:
    sample, labels = three
    found = cells(sample.points, 20)
    assert set(found) == set(range(found.max() + 1))
    assert 10 <= found.max() + 1 <= 20
    # No cell has points of two clusters that lie apart.
    assert all(len(set(labels[found == cell])) == 1 for cell in range(found.max() + 1))


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_points(n: int) -> None:
    sample = Sample(np.linspace(-1, 1, 2 * n).reshape(n, 2), "full")
    labels = first_partition(sample)
    assert labels.shape == (n,)
    assert set(labels) == set(range(labels.max() + 1))
    assert search(sample.points, [labels])[0].n_clusters <= n


def test_cells_merge_in_rounds(three: tuple[Sample, np.ndarray]) -> None:
    """Every round merges cells of the one before, and the best has the clusters."""
    sample, labels = three
    path = merged_cells(sample, cells(sample.points, 18))
    for (_, before), (_, after) in itertools.pairwise(path):
        assert after.max() < before.max()
        assert all(len(set(after[before == cell])) == 1 for cell in range(before.max() + 1))
    best = max(path, key=lambda step: step[0])[1]
    assert adjusted_rand_score(labels, best) == 1.0


def starts_for(sample: Sample, labels: np.ndarray) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "truth": labels,
        "cells": first_partition(sample),
        "one cluster": np.zeros_like(labels),
        "fragments": labels * 4 + rng.integers(4, size=len(labels)),
    }


@pytest.mark.parametrize("start", ["truth", "cells", "one cluster", "fragments"])
def test_all_ways_lead_to_the_clusters(start: str) -> None:
    points, labels = heaps([120, 60, 200, 15], 6.0)
    sample = sample_of(points)
    states = search(sample.points, [np.unique(starts_for(sample, labels)[start], return_inverse=True)[1]])
    assert adjusted_rand_score(labels, states[0].labels) > 0.98
    evidences = [state.log_evidence for state in states]
    assert evidences == sorted(evidences, reverse=True)


def test_without_moves_there_is_one_state_per_candidate(three: tuple[Sample, np.ndarray]) -> None:
    sample, labels = three
    states = search(sample.points, [labels, np.zeros_like(labels)], max_rounds=0)
    assert sorted(state.n_clusters for state in states) == [1, 3]


@pytest.mark.parametrize("correlation", [0.0, 0.7, 0.95])
def test_one_correlated_gaussian_is_one_cluster(correlation: float) -> None:
    """Whatever the correlation is, and however it is cut at first."""
    covariance = [[1.0, correlation], [correlation, 1.0]]
    for seed in range(5):
        rng = np.random.default_rng([7, seed])
        sample = sample_of(rng.multivariate_normal([0, 0], covariance, 500))
        four = np.digitize(sample.points[:, 0], np.quantile(sample.points[:, 0], [0.25, 0.5, 0.75]))
        assert search(sample.points, [four])[0].n_clusters == 1


def test_many_features_and_tilted_clusters() -> None:
    drawn = CorrelatedGaussians(n_features=6, k_exact=5, sd_median=0.7).draw_set(
        np.random.default_rng(3), 600
    )
    order = np.lexsort(drawn.points.T[::-1])
    sample = sample_of(drawn.points[order])
    best = search(sample.points, [first_partition(sample)])[0]
    found = adjusted_rand_score(drawn.labels[order], best.labels)
    assert found > adjusted_rand_score(drawn.labels, drawn.oracle_labels()) - 0.03


@pytest.mark.parametrize("how", ["rounded", "repeated"])
def test_copies_of_rows_are_no_clusters(how: str) -> None:
    """Four clusters whose rows are rounded to half a standard deviation, or are drawn several times."""
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])
    points = np.repeat(centres, 100, axis=0) + rng.standard_normal((400, 2))
    points = np.round(2 * points) / 2 if how == "rounded" else points[rng.integers(400, size=1200)]
    sample = sample_of(points[np.lexsort(points.T[::-1])])
    assert sample.noise > 0
    assert search(sample.points, [first_partition(sample)])[0].n_clusters == 4


def test_rows_without_copies_are_where_they_are(three: tuple[Sample, np.ndarray]) -> None:
    assert three[0].noise == 0.0
