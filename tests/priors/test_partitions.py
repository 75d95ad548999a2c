"""Partition draws follow their laws, checked against enumeration where that is possible."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from scipy import stats

from clusterwise.exceptions import RecipeError
from clusterwise.priors.partitions import (
    binomial_k,
    categorical_labels,
    crp_labels,
    crp_labels_exact_k,
    dirichlet_weights,
    log_stirling_first,
)

N_SETS = 20_000


def all_partitions(n: int) -> list[tuple[int, ...]]:
    """Every partition of n points, as labels numbered by first appearance."""
    found: list[tuple[int, ...]] = [()]
    for _ in range(n):
        found = [(*labels, new) for labels in found for new in range(max(labels, default=-1) + 2)]
    return found


def sizes(labels: tuple[int, ...]) -> list[int]:
    return list(Counter(labels).values())


def seating_weight(labels: tuple[int, ...]) -> float:
    """The part of the partition probability that the cluster sizes decide: prod (n_j - 1)!."""
    return math.prod(math.factorial(size - 1) for size in sizes(labels))


def size_profiles(n: int, k: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    """Every way to write n as k sizes in falling order."""
    if k == 0:
        if n == 0:
            yield ()
        return
    for size in range(min(n, largest or n), 0, -1):
        for rest in size_profiles(n - size, k - 1, size):
            yield (size, *rest)


def assert_follows(drawn: list[tuple[int, ...]], law: dict[tuple[int, ...], float]) -> None:
    """Chi-square test of draws against probabilities; rare outcomes are pooled."""
    counts = Counter(drawn)
    assert counts.keys() <= law.keys()
    assert sum(law.values()) == pytest.approx(1.0)
    usual = [outcome for outcome in law if law[outcome] * len(drawn) >= 10]
    observed = [counts[outcome] for outcome in usual]
    expected = [law[outcome] * len(drawn) for outcome in usual]
    rest = len(drawn) - sum(expected)
    if rest > 5:
        observed.append(len(drawn) - sum(observed))
        expected.append(rest)
    if len(observed) > 1:
        expected_array = np.array(expected) * sum(observed) / sum(expected)
        assert stats.chisquare(observed, expected_array).pvalue > 1e-4


def test_enumeration_itself() -> None:
    assert [len(all_partitions(n)) for n in range(1, 7)] == [1, 2, 5, 15, 52, 203]  # Bell numbers


def test_binomial_k() -> None:
    k = binomial_k(np.random.default_rng(0), N_SETS, 6)
    observed = np.bincount(k, minlength=7)[1:]
    assert stats.chisquare(observed, N_SETS * stats.binom(5, 0.5).pmf(np.arange(6))).pvalue > 1e-4


def test_dirichlet_weights_stop_at_k() -> None:
    k = np.array([1, 3, 2])
    weights = dirichlet_weights(np.random.default_rng(0), k, 1.0)
    assert ((weights > 0) == (np.arange(3) < k[:, None])).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)


def test_categorical_labels_follow_the_weights() -> None:
    weights = np.array([[0.2, 0.5, 0.3, 0.0], [1.0, 0.0, 0.0, 0.0]])
    labels = categorical_labels(np.random.default_rng(0), weights, N_SETS)
    observed = np.bincount(labels[0], minlength=4)
    assert observed[3] == 0
    assert stats.chisquare(observed[:3], N_SETS * weights[0, :3]).pvalue > 1e-4
    assert not labels[1].any()


def test_stirling_numbers() -> None:
    table = log_stirling_first(400, 400)
    np.testing.assert_allclose(np.exp(table[5, :6]), [0, 24, 50, 35, 10, 1], atol=1e-12)
    exact = [1]  # the same recursion in whole numbers, as long as Python likes
    for n in range(1, 401):
        exact = [(exact[k - 1] if k else 0) + (n - 1) * (exact[k] if k < n else 0) for k in range(n + 1)]
    np.testing.assert_allclose(table[400, 1:], [math.log(value) for value in exact[1:]], rtol=1e-12)
    np.testing.assert_array_equal(table[:9, :4], log_stirling_first(8, 3))


@pytest.mark.parametrize("alpha", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_crp_partition_probabilities(n: int, alpha: float) -> None:
    labels = crp_labels(np.random.default_rng(1), np.full(N_SETS, alpha), n)
    normalizer = math.prod(alpha + i for i in range(n))
    law = {
        partition: alpha ** len(sizes(partition)) * seating_weight(partition) / normalizer
        for partition in all_partitions(n)
    }
    assert_follows([tuple(row) for row in labels.tolist()], law)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6])
def test_crp_partition_probabilities_given_k(n: int) -> None:
    for k in range(1, n + 1):
        labels = crp_labels_exact_k(np.random.default_rng(k), N_SETS, k, n)
        weights = {p: seating_weight(p) for p in all_partitions(n) if len(sizes(p)) == k}
        law = {partition: weight / sum(weights.values()) for partition, weight in weights.items()}
        assert_follows([tuple(row) for row in labels.tolist()], law)


def test_crp_sizes_given_k() -> None:
    """For more points than can be enumerated, the law of the sorted sizes is still known."""
    n, k = 14, 4
    labels = crp_labels_exact_k(np.random.default_rng(2), N_SETS, k, n)
    counted = (labels[:, :, None] == np.arange(k)).sum(axis=1)
    drawn = [tuple(row) for row in (-np.sort(-counted, axis=1)).tolist()]
    law = {}
    for profile in size_profiles(n, k):
        repeats = math.prod(math.factorial(m) for m in Counter(profile).values())
        ways = math.factorial(n) / (math.prod(profile) * repeats)
        law[profile] = ways / math.exp(log_stirling_first(n, k)[n, k])
    assert_follows(drawn, law)


@pytest.mark.parametrize("alpha", [0.5, 3.0])
def test_conditioning_by_rejection_agrees_whatever_alpha_is(alpha: float) -> None:
    n, k = 12, 3
    labels = crp_labels(np.random.default_rng(3), np.full(60_000, alpha), n)
    kept = labels[labels.max(axis=1) == k - 1]
    exact = crp_labels_exact_k(np.random.default_rng(4), len(kept), k, n)
    profiles = [
        Counter(tuple(sorted(row)) for row in (rows[:, :, None] == np.arange(k)).sum(axis=1).tolist())
        for rows in (kept, exact)
    ]
    common = [profile for profile in profiles[0] if profiles[0][profile] + profiles[1][profile] > 20]
    table = [[counts[profile] for profile in common] for counts in profiles]
    assert len(kept) > 2000
    assert stats.chi2_contingency(table).pvalue > 1e-4


@pytest.mark.parametrize("alpha", [0.2, 1.0, 10.0])
def test_crp_expected_number_of_clusters(alpha: float) -> None:
    n = 60
    k = crp_labels(np.random.default_rng(5), np.full(5000, alpha), n).max(axis=1) + 1
    opening = alpha / (alpha + np.arange(n))
    variance = (opening * (1 - opening)).sum()
    assert abs(k.mean() - opening.sum()) < 4.5 * math.sqrt(variance / 5000)
    assert k.var() == pytest.approx(variance, rel=4.5 * math.sqrt(3 / 5000))


def test_every_set_has_its_own_alpha() -> None:
    alpha = np.repeat([1e-9, 1.0, 1e9], 2000)
    k = crp_labels(np.random.default_rng(6), alpha, 30).max(axis=1) + 1
    assert (k[:2000] == 1).all()
    assert (k[4000:] == 30).all()
    assert k[2000:4000].mean() == pytest.approx((1 / np.arange(1, 31)).sum(), rel=0.05)


@pytest.mark.parametrize("k", [None, 5])
def test_order_of_the_points_does_not_matter(k: int | None) -> None:
    """Exchangeability: early and late points have clusters of the same sizes, and meet as often."""
    n, n_sets, alpha = 40, 6000, 1.5
    rng = np.random.default_rng(7)
    labels = (
        crp_labels(rng, np.full(n_sets, alpha), n) if k is None else crp_labels_exact_k(rng, n_sets, k, n)
    )
    together = labels[:, :, None] == labels[:, None, :]
    own_size = together.sum(axis=2)
    for point in (1, 20, 39):
        difference = own_size[:, point] - own_size[:, 0]
        assert abs(difference.mean()) < 4.5 * difference.std() / math.sqrt(n_sets)
        difference = together[:, 0, point].astype(float) - together[:, point, (point + 7) % n]
        assert abs(difference.mean()) < 4.5 * difference.std() / math.sqrt(n_sets)
    if k is None:
        meeting = 1 / (1 + alpha)
        error = math.sqrt(meeting * (1 - meeting) / n_sets)
        for first, second in ((0, 1), (0, 39), (17, 32)):
            assert abs(together[:, first, second].mean() - meeting) < 4.5 * error


@pytest.mark.parametrize("k", [None, 1, 4, 50])
def test_labels_are_numbered_by_first_appearance(k: int | None) -> None:
    rng = np.random.default_rng(8)
    labels = (
        crp_labels(rng, rng.exponential(1.0, 300), 50) if k is None else crp_labels_exact_k(rng, 300, k, 50)
    )
    highest_before = np.maximum.accumulate(labels, axis=1)
    assert (labels[:, 0] == 0).all()
    assert (labels[:, 1:] <= highest_before[:, :-1] + 1).all()
    if k is not None:
        assert (labels.max(axis=1) == k - 1).all()


def test_impossible_k_is_refused() -> None:
    for k in (0, 6):
        with pytest.raises(RecipeError, match=f"5 points cannot form exactly {k} clusters"):
            crp_labels_exact_k(np.random.default_rng(0), 2, k, 5)
