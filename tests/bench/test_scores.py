"""The judge's eye: what the metrics see and what they must not see."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterwise.bench import Case, Truth
from clusterwise.bench.registry import METRICS
from clusterwise.bench.scores import error_in_k, score
from clusterwise.metrics import davies_bouldin

AGREEMENT = ("ARI", "NMI (geometric)", "NMI (arithmetic)", "accuracy")


def case_of(*references: list[int]) -> Case:
    arrays = tuple(np.array(labels) for labels in references)
    return Case(np.zeros((len(arrays[0]), 2)), 0, Truth(arrays))


@given(st.lists(st.integers(0, 4), min_size=2, max_size=30), st.permutations(range(5)))
def test_the_true_partition_scores_one_under_any_names(labels: list[int], names: list[int]) -> None:
    case = case_of(labels)
    found = np.array(names)[labels]
    for name in AGREEMENT:
        assert score(METRICS[name], case, found, None) == pytest.approx(1.0)
    assert score(METRICS["k error"], case, found, None) == 0


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=30),
    st.permutations(range(4)),
)
def test_renaming_found_clusters_changes_nothing(pairs: list[tuple[int, int]], names: list[int]) -> None:
    true, found = np.array(pairs).T
    case = case_of(list(true))
    for name in (*AGREEMENT, "k error"):
        before = score(METRICS[name], case, found, None)
        assert score(METRICS[name], case, np.array(names)[found], None) == pytest.approx(before, abs=1e-12)


def test_random_labels_score_about_zero() -> None:
    rng = np.random.default_rng(0)
    true = np.repeat(np.arange(4), 50)
    draws = [score(METRICS["ARI"], case_of(list(true)), rng.integers(4, size=200), None) for _ in range(200)]
    assert abs(np.mean(draws)) < 5 * np.std(draws, ddof=1) / np.sqrt(len(draws))


def test_noise_is_no_cluster_but_counts_against_agreement() -> None:
    true, found = [0, 0, 0, 1, 1, 1], np.array([0, 0, -1, 1, 1, -1])
    assert error_in_k(np.array(true), found) == 0
    assert score(METRICS["accuracy"], case_of(true), found, None) == pytest.approx(4 / 6)
    assert error_in_k(np.array(true), np.full(6, -1)) == 2


def test_the_best_of_several_true_partitions_counts() -> None:
    case = case_of([0, 0, 0, 0], [0, 0, 1, 1])
    assert score(METRICS["ARI"], case, np.array([5, 5, 6, 6]), None) == 1.0
    assert score(METRICS["k error"], case, np.array([0, 1, 2, 3]), None) == 2


def test_what_does_not_apply_is_nan() -> None:
    labels = np.zeros(3, dtype=int)
    assert np.isnan(score(METRICS["log-likelihood"], case_of([0, 0, 0]), labels, None))
    assert score(METRICS["log-likelihood"], case_of([0, 0, 0]), labels, -2.5) == -2.5
    assert np.isnan(score(METRICS["ARI"], case_of([0, 0, 0]).blind(), labels, None))


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_indices_of_clusters_look_at_the_points_and_not_at_the_truth(metric: str) -> None:
    rng = np.random.default_rng(4)
    found = np.repeat([0, 1, 2], 20)
    points = rng.normal(size=(60, 2)) + np.array([[9.0, 0.0], [0.0, 9.0], [-9.0, -9.0]])[found]
    entry = METRICS[f"DBI ({metric})"]
    value = score(entry, Case(points, 0, None), found, None)
    assert value == davies_bouldin(points, found, metric=metric)
    assert score(entry, Case(points, 0, Truth((rng.permutation(found),))), found, None) == value
    assert value < score(entry, Case(points, 0, None), rng.permutation(found), None)
    assert np.isnan(score(entry, Case(points, 0, None), np.zeros(60, dtype=int), None))
    assert np.isnan(score(entry, Case(points, 0, None), np.arange(60), None))
    assert not entry.everywhere
