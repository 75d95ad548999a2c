"""The engine: what it proposes, what the tests accept, and that no cluster is moved twice."""

from __future__ import annotations

import math

import numpy as np
import pytest
from search_data import heaps, sample_of

from clusterwise.gaussian.families import PRIORS
from clusterwise.gaussian.mixture import fit_em, mixture_of_labels
from clusterwise.gaussian.moves import (
    HastingsRatio,
    choose_merges,
    choose_splits,
    disjoint,
    logistic,
    names_after,
    neighbouring_pairs,
    two_parts,
)
from clusterwise.gaussian.search import EvidenceGain, merged

PRIOR = PRIORS["full"](0.1, 5.0, np.full(2, 0.5))


def statistics_of(gap: float, n: int = 30) -> np.ndarray:
    """Statistics (2, p) of two round clusters of n points each."""
    points, labels = heaps([n, n], gap)
    return PRIOR.statistics(points - points.mean(axis=0), labels, 2)


@pytest.mark.parametrize("k", [1, 2, 4, 5, 9])
def test_each_cluster_is_paired_with_its_neighbours(k: int) -> None:
    """The three nearest, whether distances were needed for it or not."""
    centres = 1.7 ** np.arange(k)  # no two gaps are equal
    prior, labels = PRIORS["full"](0.01, 72.0, np.full(1, 0.72)), np.repeat(np.arange(k), 3)
    points = centres[labels, None] + np.tile([-0.1, 0.0, 0.1], k)[:, None]
    found = neighbouring_pairs(prior.statistics(points, labels, k), prior)
    distances = np.abs(centres[:, None] - centres) + np.where(np.eye(k), np.inf, 0.0)
    near = {
        (min(i, j), max(i, j))
        for i in range(k)
        for j in np.argsort(distances[i], kind="stable")[: min(3, k - 1)]
    }
    assert sorted(map(tuple, found.tolist())) == sorted(near)


def test_two_parts_find_each_other() -> None:
    points, labels = heaps([80, 40], 5.0)
    sides = np.random.default_rng(0).random((4, 120)) < 0.5
    sides[1] = points[:, 0] > 1.0
    odds = two_parts(PRIOR.terms(points), np.ones(120), sides, PRIOR, 12)
    probabilities = logistic(odds @ PRIOR.terms(points).T)
    assert max(((row > 0.5) == (labels == 1)).mean() for row in probabilities) > 0.97


def test_hastings_ratio_is_that_of_the_posterior() -> None:
    """H of a split is what the joint probability of partition and data grows by, by the slow formula."""
    parts, alpha = statistics_of(3.0), 2.5

    def log_joint(clusters: np.ndarray) -> float:
        sizes = clusters[:, 0].tolist()
        crp = len(sizes) * math.log(alpha) + sum(math.lgamma(size) for size in sizes)
        return crp + float(PRIOR.log_marginal(clusters).sum())

    expected = log_joint(parts) - log_joint(parts.sum(axis=0, keepdims=True))
    test = HastingsRatio(parts, PRIOR, alpha)
    assert test.of_splits(parts[None])[0] == pytest.approx(expected)
    assert test.of_merges(np.array([[0, 1]]))[0] == pytest.approx(-expected)


def test_a_larger_alpha_means_more_clusters() -> None:
    """Splits are accepted more often and merges less, in proportion to alpha while both are possible."""
    parts, rng = np.repeat(statistics_of(1.6)[None], 4000, axis=0), np.random.default_rng(0)
    ratio = math.exp(HastingsRatio(parts[0], PRIOR, 1.0).of_splits(parts[:1])[0])
    n_splits, n_merges = [], []
    for factor in (0.1, 0.5, 2.0):
        alpha = factor / ratio  # H of the split is this factor
        n_splits.append(len(choose_splits(parts, HastingsRatio(parts[0], PRIOR, alpha, rng)).moves) / 4000)
        statistics = parts.reshape(-1, parts.shape[-1])
        pairs = np.arange(8000).reshape(-1, 2)
        n_merges.append(len(choose_merges(pairs, HastingsRatio(statistics, PRIOR, alpha, rng)).moves) / 4000)
    np.testing.assert_allclose(n_splits, [0.1, 0.5, 1.0], atol=0.04)
    np.testing.assert_allclose(n_merges, [1.0, 1.0, 0.5], atol=0.04)


def test_an_empty_part_is_no_split() -> None:
    parts = np.stack([statistics_of(9.0), statistics_of(9.0)])
    parts[1, 0] = 0.0
    chosen = choose_splits(parts, HastingsRatio(parts[:, 0], PRIOR, 1.0))
    assert chosen.moves.tolist() == [0]
    assert chosen.log_ratios[1] == -np.inf


def test_nobody_merges_twice_and_the_best_pairs_win() -> None:
    pairs = np.array([[0, 1], [1, 2], [2, 3], [4, 5]])
    assert disjoint(pairs, np.array([1.0, 5.0, 2.0, 3.0])).tolist() == [[1, 2], [4, 5]]
    names, remain = names_after(np.array([[1, 2], [4, 5]]), 6)
    assert names.tolist() == [0, 1, 1, 2, 3, 3]
    assert remain.tolist() == [0, 1, 3, 4]
    alone = statistics_of(3.0)[:1]
    assert len(choose_merges(neighbouring_pairs(alone, PRIOR), HastingsRatio(alone, PRIOR, 1.0)).moves) == 0


@pytest.mark.parametrize("covariance_type", list(PRIORS))
def test_a_merge_that_loses_evidence_is_refused(covariance_type) -> None:
    """Halves of a cluster merge, clusters that are apart do not; the gain is what it turns out to be."""
    points, labels = heaps([100, 100, 100], 5.0)
    sample = sample_of(points, covariance_type)
    cut = np.where((labels == 0) & (np.arange(300) % 2 == 0), 3, labels)  # halves of one cluster, mixed
    mixture = mixture_of_labels(sample, cut)
    pairs = neighbouring_pairs(mixture.statistics, mixture.prior)
    chosen, gains = choose_merges(pairs, EvidenceGain(mixture))
    assert chosen.tolist() == [[0, 3]]
    assert (gains < 0).sum() == len(pairs) - 1
    after = merged(mixture, chosen)
    assert after.log_evidence - mixture.log_evidence == pytest.approx(gains.max(), rel=0.1)
    pairs = neighbouring_pairs(after.statistics, after.prior)
    assert len(choose_merges(pairs, EvidenceGain(after)).moves) == 0
    assert len(choose_merges(pairs, EvidenceGain(after, floor=-np.inf)).moves) == 1  # the best one


def test_entropy_and_statistics_of_a_merge() -> None:
    points, labels = heaps([100, 100, 40], 3.0)
    mixture = fit_em(mixture_of_labels(sample_of(points), labels))
    joined = merged(mixture, np.array([[0, 1]]))
    np.testing.assert_allclose(joined.statistics, joined.memberships @ mixture.sample.terms)
    expected = -sum(float((m[m > 0] * np.log(m[m > 0])).sum()) for m in joined.memberships)
    assert joined.entropy == pytest.approx(expected, abs=1e-6)
