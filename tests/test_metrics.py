"""Metrics against brute force, scikit-learn and cases that can be worked out by hand."""

from __future__ import annotations

import tracemalloc
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import davies_bouldin_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from clusterwise.exceptions import ClusterwiseError
from clusterwise.metrics import (
    brier_score,
    davies_bouldin,
    expected_calibration_error,
    k_error,
    matched_accuracy,
    nmi,
    reliability_curve,
)

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


@pytest.mark.parametrize(
    ("y", "labels", "expected"),
    [
        ([0, 0, 1, 1], [0, 0, 0, 0], 0.5),  # fewer clusters than classes
        ([0, 0, 0, 0], [0, 0, 1, 2], 0.5),  # more clusters than classes
        (["a", "a", "b"], [-1, -1, 4], 1.0),
    ],
)
def test_matched_accuracy_by_hand(y, labels, expected):
    assert matched_accuracy(y, labels) == expected


@given(pairs_of_labels(6))
def test_k_error(pair):
    assert k_error(*pair) == abs(len(set(pair[0].tolist())) - len(set(pair[1].tolist())))


@given(pairs_of_labels(6), st.sampled_from(["geometric", "arithmetic"]))
def test_nmi_is_that_of_scikit_learn(pair, average):
    expected = normalized_mutual_info_score(*pair, average_method=average)
    assert nmi(*pair, average=average) == pytest.approx(expected)


def test_nmi_averages_differ():
    y, labels = [0, 0, 1, 1], [0, 1, 2, 3]
    assert nmi(y, labels) == pytest.approx(np.sqrt(0.5))
    assert nmi(y, labels, average="arithmetic") == pytest.approx(2 / 3)


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


decisions = st.integers(1, 60).flatmap(
    lambda m: st.tuples(
        hnp.arrays(np.float64, m, elements=st.floats(0, 1)), hnp.arrays(np.bool_, m), st.integers(1, 20)
    )
)


@given(decisions)
def test_reliability_curve_agrees_with_a_loop(drawn):
    confidence, correct, n_bins = drawn
    curve = reliability_curve(confidence, correct, n_bins)
    bins = [min(int(c * n_bins), n_bins - 1) for c in confidence]
    used = sorted(set(bins))
    inside = [np.array(bins) == b for b in used]
    np.testing.assert_array_equal(curve.counts, [i.sum() for i in inside])
    np.testing.assert_allclose(curve.confidence, [confidence[i].mean() for i in inside])
    np.testing.assert_allclose(curve.accuracy, [correct[i].mean() for i in inside])
    gap = sum(i.mean() * abs(correct[i].mean() - confidence[i].mean()) for i in inside)
    assert expected_calibration_error(confidence, correct, n_bins) == pytest.approx(gap)


def test_calibrated_decisions_have_a_small_error_and_overconfident_ones_have_not():
    rng = np.random.default_rng(0)
    m = 40_000
    confidence = rng.uniform(0.5, 1, m)
    calibrated = rng.random(m) < confidence
    overconfident = rng.random(m) < confidence - 0.2
    # The gap of a bin of m / 8 decisions has standard error 0.5 / sqrt(m / 8) or less.
    assert expected_calibration_error(confidence, calibrated) < 4 * 0.5 / np.sqrt(m / 8)
    assert expected_calibration_error(confidence, overconfident) == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize(
    ("confidence", "correct", "n_bins", "words"),
    [
        ([0.5], [1, 0], 15, "equally long"),
        ([[0.5]], [[1]], 15, "1-D"),
        ([], [], 15, "empty"),
        ([1.5], [1], 15, "between 0 and 1"),
        ([np.nan], [1], 15, "between 0 and 1"),
        ([0.5], [0.5], 15, "booleans"),
        ([0.5], [1], 0, "n_bins"),
    ],
)
@pytest.mark.parametrize("function", [reliability_curve, expected_calibration_error])
def test_calibration_refuses(function, confidence, correct, n_bins, words):
    with pytest.raises(ClusterwiseError, match=words):
        function(confidence, correct, n_bins)


forecasts = hnp.arrays(np.float64, st.tuples(st.integers(1, 20), st.integers(1, 5)), elements=st.floats(0, 1))


@given(forecasts, st.randoms(use_true_random=False))
def test_brier_score_agrees_with_a_loop(values, random):
    sums = values.sum(axis=1)
    assume((sums > 1e-3).all())
    probabilities = values / sums[:, None]
    m, n_classes = probabilities.shape
    outcomes = np.array([random.randrange(n_classes) for _ in range(m)])
    total = sum((probabilities[i, c] - (c == outcomes[i])) ** 2 for i in range(m) for c in range(n_classes))
    assert brier_score(probabilities, outcomes) == pytest.approx(total / m)
    assert 0 <= brier_score(probabilities, outcomes) <= 2


def test_brier_score_is_proper():
    truth = np.array([0.6, 0.3, 0.1])
    outcomes = np.repeat(np.arange(3), (truth * 10).round().astype(int))
    honest = brier_score(np.tile(truth, (10, 1)), outcomes)
    for other in ([0.7, 0.2, 0.1], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]):
        assert brier_score(np.tile(other, (10, 1)), outcomes) > honest


@pytest.mark.parametrize(
    ("probabilities", "outcomes", "words"),
    [
        ([0.5, 0.5], [0], "shape|\\(m, C\\)"),
        ([[0.5, 0.5]], [0, 1], "\\(m, C\\)"),
        (np.empty((0, 2)), np.empty(0, int), "empty"),
        ([[0.5, 0.6]], [0], "sum to 1"),
        ([[np.nan, 1.0]], [0], "sum to 1"),
        ([[0.5, 0.5]], [2], "between 0 and 1"),
        ([[0.5, 0.5]], [0.0], "integers"),
    ],
)
def test_brier_score_refuses(probabilities, outcomes, words):
    with pytest.raises(ClusterwiseError, match=words):
        brier_score(probabilities, outcomes)
