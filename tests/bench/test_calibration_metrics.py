"""Calibration metrics against loops, properties and cases that can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from clusterwise.bench.calibration_metrics import (
    brier_score,
    expected_calibration_error,
    k_brier_score,
    membership_brier_score,
    reliability_curve,
    top_k_hit_rate,
)
from clusterwise.exceptions import ClusterwiseError
from clusterwise.metrics import matched_points

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
