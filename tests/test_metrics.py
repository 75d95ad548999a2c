"""Metrics against brute force, scikit-learn and cases that can be worked out by hand."""

from __future__ import annotations

import tracemalloc
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import davies_bouldin_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from clusterwise.exceptions import ClusterwiseError
from clusterwise.metrics import davies_bouldin, k_error, matched_accuracy, matched_points, nmi

PAIR_METRICS = [matched_accuracy, k_error, nmi]


def pairs_of_labels(largest):
    labels = st.integers(0, largest)
    lengths = st.integers(1, 30)
    return lengths.flatmap(lambda n: st.tuples(*(hnp.arrays(np.int64, n, elements=labels) for _ in range(2))))


def brute_force_accuracy(y, labels):
    """Try every one-to-one matching of the clusters to 5 names, of which y uses some."""
    return max(np.mean(np.array(names)[labels] == y) for names in permutations(range(5)))


@given(pairs_of_labels(4))
def test_matched_accuracy_agrees_with_all_permutations(pair):
    assert matched_accuracy(*pair) == pytest.approx(brute_force_accuracy(*pair))


@given(pairs_of_labels(6))
def test_matched_points_are_right_one_class_to_one_cluster(pair):
    y, labels = pair
    right = matched_points(y, labels)
    assert right.mean() == pytest.approx(matched_accuracy(y, labels))
    couples = set(zip(y[right].tolist(), labels[right].tolist(), strict=True))
    assert len({c for c, _ in couples}) == len({j for _, j in couples}) == len(couples)
    for c, j in couples:  # all points of a matched couple, not some of them
        assert right[(y == c) & (labels == j)].all()


@given(pairs_of_labels(20))
def test_matched_accuracy_agrees_with_the_dense_solver(pair):
    table = contingency_matrix(*pair)
    assert matched_accuracy(*pair) == pytest.approx(table[linear_sum_assignment(-table)].sum() / len(pair[0]))


@given(pairs_of_labels(6), st.permutations(range(7)))
def test_names_do_not_matter_and_sides_are_equal(pair, names):
    y, labels = pair
    renamed = np.array(names)[labels]
    for metric in PAIR_METRICS:
        assert metric(y, renamed) == pytest.approx(metric(y, labels))
        assert metric(labels, y) == pytest.approx(metric(y, labels))
        assert metric(y, y) == (0 if metric is k_error else pytest.approx(1))


def test_matched_accuracy_of_many_clusters_needs_linear_memory():
    n = 10_000
    tracemalloc.start()
    try:
        assert matched_accuracy(np.arange(n), np.arange(n)[::-1]) == 1
        assert matched_accuracy(np.zeros(n), np.arange(n)) == 1 / n
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000 * n  # bytes; a dense table would take 8 * n * n


@given(pairs_of_labels(6))
def test_k_error(pair):
    assert k_error(*pair) == abs(len(set(pair[0].tolist())) - len(set(pair[1].tolist())))


@given(pairs_of_labels(6), st.sampled_from(["geometric", "arithmetic"]))
def test_nmi_is_that_of_scikit_learn(pair, average):
    expected = normalized_mutual_info_score(*pair, average_method=average)
    assert nmi(*pair, average=average) == pytest.approx(expected)


@pytest.mark.parametrize("metric", PAIR_METRICS)
def test_pair_metrics_refuse(metric):
    with pytest.raises(ClusterwiseError, match="3 and 2"):
        metric([0, 1, 1], [0, 1])
    with pytest.raises(ClusterwiseError, match="empty"):
        metric([], [])


def test_unknown_options_are_refused():
    with pytest.raises(ClusterwiseError, match="average"):
        nmi([0], [0], average="max")
    with pytest.raises(ClusterwiseError, match="metric"):
        davies_bouldin(np.eye(3), [0, 0, 1], metric="manhattan")


def blobs(seed, n=60, d=3, k=4):
    rng = np.random.default_rng(seed)
    labels = np.r_[np.arange(k), rng.integers(0, k, n - k)]
    return rng.normal(0, 4, (k, d))[labels] + rng.normal(size=(n, d)), labels


def slow_cosine_index(X, labels):
    def distance(a, b):
        return 1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    centres = [X[labels == k].mean(axis=0) for k in np.unique(labels)]
    spread = [np.mean([distance(x, c) for x in X[labels == k]]) for k, c in enumerate(centres)]
    worst = [
        max((spread[k] + spread[j]) / distance(centres[k], centres[j]) for j in range(len(centres)) if j != k)
        for k in range(len(centres))
    ]
    return np.mean(worst)


@pytest.mark.parametrize("seed", range(5))
def test_davies_bouldin_agrees_with_scikit_learn_and_with_loops(seed):
    X, labels = blobs(seed)
    assert davies_bouldin(X, labels, "euclidean") == pytest.approx(davies_bouldin_score(X, labels))
    assert davies_bouldin(X, labels, "cosine") == pytest.approx(slow_cosine_index(X, labels))


@pytest.mark.parametrize("scale", [1e-150, 1e-3, 1e150])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_davies_bouldin_does_not_depend_on_units(metric, scale):
    X, labels = blobs(0)
    assert davies_bouldin(X * scale, labels, metric) == pytest.approx(davies_bouldin(X, labels, metric))


def test_davies_bouldin_of_the_same_spot_is_infinite():
    X = np.array([[1.0, -1.0], [1.0, 1.0], [1.0, -2.0], [1.0, 2.0]])
    labels = [0, 0, 1, 1]
    assert davies_bouldin(X, labels, "euclidean") == np.inf
    assert davies_bouldin(X, labels, "cosine") == np.inf
    assert davies_bouldin(np.ones((4, 2)), labels, "euclidean") == np.inf


@pytest.mark.parametrize(
    ("X", "labels", "words"),
    [
        (np.eye(3), [0, 1], "2 labels"),
        (np.ones(3), [0, 1, 1], "shape"),
        (np.eye(3), [0, 0, 0], "from 2"),
        (np.eye(3), [0, 1, 2], "from 2"),
        (np.empty((0, 2)), [], "from 2"),
        (np.array([[np.nan, 0], [1, 0], [2, 0]]), [0, 0, 1], "NaN"),
        (np.array([[0.0, 0], [1, 0], [2, 0]]), [0, 0, 1], "origin"),
    ],
)
def test_davies_bouldin_refuses(X, labels, words):
    with pytest.raises(ClusterwiseError, match=words):
        davies_bouldin(X, labels)
