"""What the figures see and what they must not see."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.scores import score
from benchmarks.suite import Case
from clusterwise.metrics import davies_bouldin

AGREEMENT = ("ARI", "NMI (geometric)", "NMI (arithmetic)", "accuracy")


def case_of(*references: list[int]) -> Case:
    arrays = tuple(np.array(labels) for labels in references)
    return Case(np.zeros((len(arrays[0]), 2)), 0, arrays)


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=30),
    st.permutations(range(4)),
)
def test_names_of_clusters_do_not_matter(pairs: list[tuple[int, int]], names: list[int]) -> None:
    true, found = np.array(pairs).T
    case = case_of(list(true))
    for name in (*AGREEMENT, "k error"):
        before = score(name, case, found)
        assert score(name, case, np.array(names)[found]) == pytest.approx(before, abs=1e-12)
    for name in (*AGREEMENT, "right k"):
        assert score(name, case, np.array(names)[true]) == pytest.approx(1.0)
    assert score("k error", case, np.array(names)[true]) == 0


def test_found_noise_is_no_cluster_but_counts_against_agreement() -> None:
    case, found = case_of([0, 0, 0, 1, 1, 1]), np.array([0, 0, -1, 1, 1, -1])
    assert score("k error", case, found) == 0
    assert score("accuracy", case, found) == pytest.approx(4 / 6)
    assert score("k error", case, np.full(6, -1)) == 2


def test_noise_in_a_reference_is_left_out() -> None:
    case = case_of([0, 0, 0, 1, 1, 1, -1, -1])
    for stray in ([0, 1], [7, 8], [-1, 0]):
        found = np.array([5, 5, 5, 6, 6, 6, *stray])
        assert score("ARI", case, found) == score("accuracy", case, found) == 1.0
    assert score("true k", case, found) == 2
    assert score("k error", case, np.array([5, 5, 5, 6, 6, 6, 5, 6])) == 0


def test_the_best_of_several_true_partitions_counts() -> None:
    case = case_of([0, 0, 0, 0], [0, 0, 1, 1])
    assert score("ARI", case, np.array([5, 5, 6, 6])) == 1.0
    assert score("k error", case, np.array([0, 1, 2, 3])) == 2


def test_what_does_not_apply_is_nan() -> None:
    case, labels = case_of([0, 0, 0]), np.zeros(3, dtype=int)
    assert np.isnan(score("log-likelihood", case, labels))
    assert score("log-likelihood", case, labels, -2.5) == -2.5
    for name in ("ARI", "DBI (cosine)", "DBI (euclidean)"):
        assert np.isnan(score(name, case.blind(), labels))


def test_indices_of_clusters_look_at_the_points_and_not_at_the_truth() -> None:
    rng = np.random.default_rng(4)
    found = np.repeat([0, 1, 2], 20)
    points = rng.normal(size=(60, 2)) + np.array([[9.0, 0.0], [0.0, 9.0], [-9.0, -9.0]])[found]
    for metric in ("cosine", "euclidean"):
        name = f"DBI ({metric})"
        value = score(name, Case(points), found)
        assert value == davies_bouldin(points, found, metric=metric)
        assert score(name, Case(points, 0, (rng.permutation(found),)), found) == value
        assert value < score(name, Case(points), rng.permutation(found))
