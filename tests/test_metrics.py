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
    k_brier_score,
    k_error,
    matched_accuracy,
    matched_points,
    membership_brier_score,
    nmi,
    reliability_curve,
    top_k_hit_rate,
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


@given(decisions, st.randoms(use_true_random=False))
def test_bins_of_equal_count(drawn, random):
    confidence, correct, n_bins = drawn
    curve = reliability_curve(confidence, correct, n_bins, bins="count")
    assert curve.counts.sum() == len(confidence)
    assert (np.diff(curve.confidence) > 0).all()
    assert curve.counts @ curve.confidence == pytest.approx(confidence.sum())
    assert curve.counts @ curve.accuracy == pytest.approx(correct.sum())
    if len(set(confidence.tolist())) == len(confidence) >= n_bins:
        assert len(curve.counts) == n_bins
        assert np.ptp(curve.counts) <= 1
    order = random.sample(range(len(confidence)), len(confidence))
    shuffled = reliability_curve(confidence[order], correct[order], n_bins, bins="count")
    np.testing.assert_array_equal(shuffled.counts, curve.counts)
    np.testing.assert_allclose(shuffled.accuracy, curve.accuracy)


@pytest.mark.parametrize("bins", ["width", "count"])
@pytest.mark.parametrize("seed", range(3))
def test_a_calibrated_forecaster_errs_by_its_monte_carlo_error(bins, seed):
    """The gap of a bin is nearly normal with mean zero: E|gap| = sqrt(2 / pi) times its standard error."""
    rng = np.random.default_rng(seed)
    m, n_bins = 20_000, 10
    confidence = rng.uniform(0, 1, m)
    errors = np.sqrt(confidence * (1 - confidence)).reshape(n_bins, -1).mean() * np.sqrt(n_bins / m)
    expected = np.sqrt(2 / np.pi) * errors
    spread = np.sqrt(1 - 2 / np.pi) * errors / np.sqrt(n_bins)  # of a mean of 10 half-normal gaps
    honest = expected_calibration_error(confidence, rng.random(m) < confidence, n_bins, bins)
    assert abs(honest - expected) < 5 * spread
    sharpened = confidence**3 / (confidence**3 + (1 - confidence) ** 3)  # too sure on both sides
    right = rng.random(m) < confidence
    assert expected_calibration_error(sharpened, right, n_bins, bins) > expected + 50 * spread


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


def test_unknown_bins_are_refused():
    with pytest.raises(ClusterwiseError, match="'width' or 'count'"):
        reliability_curve([0.5], [1], 2, bins="quantile")


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


memberships = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 12), st.integers(1, 4)), elements=st.floats(0, 1)
)


@given(memberships, st.randoms(use_true_random=False))
def test_membership_brier_score_agrees_with_a_loop(values, random):
    """A point's loss is that of a forecast over the clusters and "none of them"."""
    values = values + 1e-3
    membership = values / values.sum(axis=1, keepdims=True)
    n, k = membership.shape
    y = np.array([random.randrange(3) for _ in range(n)])
    labels = membership.argmax(axis=1)
    right = matched_points(y, labels)
    partner = {c: int(labels[right & (y == c)][0]) for c in set(y[right].tolist())}
    outcomes = np.array([partner.get(c, k) for c in y.tolist()])
    expected = brier_score(np.column_stack([membership, np.zeros(n)]), outcomes)
    assert membership_brier_score(y, membership) == pytest.approx(expected)
    if (membership == membership.max(axis=1, keepdims=True)).sum() == n:  # no ties
        columns = random.sample(range(k), k)
        assert membership_brier_score(y, membership[:, columns]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("y", "membership", "expected"),
    [
        (["a", "a", "b"], np.eye(2)[[1, 1, 0]], 0.0),
        ([0, 0, 0, 1], np.eye(3)[[0, 0, 1, 2]], 0.5),  # one sure point in a cluster without a partner
        ([0, 0, 0, 1], np.ones((4, 1)), 0.5),  # one class without a partner
        ([0, 1], [[0.5, 0.5], [0.0, 1.0]], 0.25),
    ],
)
def test_membership_brier_score_by_hand(y, membership, expected):
    assert membership_brier_score(y, membership) == pytest.approx(expected)


def test_membership_brier_score_is_best_for_honest_memberships():
    """Of points between two clusters 7 of 10 belong to the first; the sure points fix the matching."""
    y = np.r_[np.zeros(100, int), np.ones(100, int), np.zeros(70, int), np.ones(30, int)]

    def score(p):
        unsure = np.tile([p, 1 - p], (100, 1))
        return membership_brier_score(y, np.concatenate([np.eye(2)[y[:200]], unsure]))

    assert all(score(0.7) < score(p) for p in (0.0, 0.3, 0.6, 0.69, 0.71, 0.8, 1.0))


posteriors = st.dictionaries(st.integers(1, 9), st.floats(0.01, 1), min_size=1).map(
    lambda d: {k: p / sum(d.values()) for k, p in d.items()}
)


@given(posteriors, st.integers(1, 12))
def test_k_brier_score_is_the_brier_score_of_a_row(posterior, k):
    row = [posterior.get(number, 0.0) for number in range(13)]
    assert k_brier_score(posterior, k) == pytest.approx(brier_score([row], [k]))


@given(posteriors, posteriors)
def test_k_brier_score_is_proper(truth, other):
    """Nobody expects a better score than who states the distribution that k is drawn from."""

    def expected(stated):
        return sum(p * k_brier_score(stated, k) for k, p in truth.items())

    gap = sum((truth.get(k, 0.0) - other.get(k, 0.0)) ** 2 for k in {*truth, *other})
    assert expected(other) - expected(truth) == pytest.approx(gap, abs=1e-12)


@given(st.lists(st.tuples(posteriors, st.integers(1, 9)), min_size=1, max_size=8))
def test_hit_rates_grow_to_the_share_of_numbers_thought_of(drawn):
    stated, numbers = zip(*drawn, strict=True)
    rates = [top_k_hit_rate(stated, numbers, top) for top in range(1, 10)]
    assert rates == sorted(rates)
    best = [min(k for k, p in posterior.items() if p == max(posterior.values())) for posterior in stated]
    assert rates[0] == pytest.approx(np.mean([b == k for b, k in zip(best, numbers, strict=True)]))
    assert rates[-1] == pytest.approx(np.mean([k in p for p, k in drawn]))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: membership_brier_score([0, 1], [[1.0]]), "2 labels"),
        (lambda: membership_brier_score([0, 1], [0.5, 0.5]), "\\(n, K\\)"),
        (lambda: membership_brier_score([0], [[0.5, 0.6]]), "sum to 1"),
        (lambda: membership_brier_score([], np.empty((0, 2))), "empty"),
        (lambda: k_brier_score({}, 1), "empty"),
        (lambda: k_brier_score({1: 0.4}, 1), "sum to 1"),
        (lambda: top_k_hit_rate([{1: 1.0}], [1, 2]), "1 and 2"),
        (lambda: top_k_hit_rate([], []), "not empty"),
        (lambda: top_k_hit_rate([{1: 1.0}], [1], top=0), "top must"),
        (lambda: matched_points([0], [0, 1]), "1 and 2"),
    ],
)
def test_calibration_of_clusterings_refuses(call, words):
    with pytest.raises(ClusterwiseError, match=words):
        call()
