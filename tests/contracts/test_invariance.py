"""Order, units, seeds and company do not change a partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusterwise.partition import canonical_labels

from .conftest import Make, rows_seen

SUBSAMPLED = {"max_network_points": 60}
# The fixtures only build estimators; nothing carries over from example to example.
several_examples = settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])


# -- order ---------------------------------------------------------------------------------------


def test_order_of_the_rows(make: Make, heaps: np.ndarray) -> None:
    assert_any_order(make, heaps, rtol=1e-9)


@pytest.mark.parametrize("options", [{}, SUBSAMPLED, {"projection": "pca"}, {"scaling": "feature"}])
def test_order_of_the_rows_to_the_last_digit(
    make_network: Make, heaps: np.ndarray, options: dict[str, Any]
) -> None:
    """Exactly, rounding included: the rows are sorted before anything is computed from them."""
    X = heaps
    if "projection" in options:
        X = np.column_stack([heaps, heaps @ [1.0, 0.5], np.sin(heaps[:, 0])])
    assert_any_order(lambda: make_network(**options), X, rtol=0)
    one, other = (make_network(**options).fit(X[:: 1 - 2 * backwards]) for backwards in (0, 1))
    np.testing.assert_array_equal(rows_seen(one), rows_seen(other)[::-1])


def assert_any_order(make: Make, X: np.ndarray, rtol: float) -> None:
    estimator = make().fit(X)
    for order in (np.random.default_rng(0).permutation(140), np.arange(140)[::-1]):
        shuffled = make().fit(X[order])
        np.testing.assert_array_equal(shuffled.labels_, canonical_labels(estimator.labels_[order]))
        # The same clusters under other names.
        means, expected = sorted(map(tuple, shuffled.means_)), sorted(map(tuple, estimator.means_))
        np.testing.assert_allclose(means, expected, rtol=rtol)
        scores = estimator.outlier_scores_[order]
        np.testing.assert_allclose(shuffled.outlier_scores_, scores, rtol=1000 * rtol, atol=rtol)


def test_order_of_few_rows_on_a_grid(make_faithful: Make) -> None:
    """Duplicates and rows half-way between two clusters."""
    make, rng = make_faithful, np.random.default_rng(0)
    for _ in range(5):
        X = rng.integers(4, size=(rng.integers(2, 20), 2))
        order = rng.permutation(len(X))
        labels = make().fit_predict(X)
        np.testing.assert_array_equal(make().fit_predict(X[order]), canonical_labels(labels[order]))
        assert all(len(set(labels[(row == X).all(axis=1)])) == 1 for row in X)


# -- units ---------------------------------------------------------------------------------------


@several_examples
@given(
    exponent=st.floats(-140, 140),
    shift=st.tuples(st.floats(-100, 100), st.floats(-100, 100)),
)
def test_shift_and_scale(
    make_without_chains: Make, heaps: np.ndarray, exponent: float, shift: tuple[float, float]
) -> None:
    """``shift`` counts in spreads of the data: far larger ones would round the data away."""
    moved = (heaps / 500 + shift) * 10.0**exponent
    np.testing.assert_array_equal(
        make_without_chains().fit_predict(moved), make_without_chains().fit_predict(heaps)
    )


@pytest.mark.parametrize("scale", [1e-150, 3.0, 1e150])
def test_all_that_is_reported_is_in_the_units_of_the_data(
    make_without_chains: Make, heaps: np.ndarray, scale: float
) -> None:
    plain, scaled = make_without_chains.fitted(), make_without_chains().fit(heaps * scale)
    np.testing.assert_array_equal(scaled.labels_, plain.labels_)
    np.testing.assert_array_equal(scaled.predict(heaps[::3] * scale), plain.predict(heaps[::3]))
    np.testing.assert_allclose(scaled.membership_, plain.membership_, atol=1e-4)
    np.testing.assert_allclose(scaled.outlier_scores_, plain.outlier_scores_, atol=1e-4)
    np.testing.assert_allclose(scaled.means_ / scale, plain.means_, rtol=1e-5)
    np.testing.assert_allclose(scaled.covariances_ / scale / scale, plain.covariances_, rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(scaled.proportions_, plain.proportions_, rtol=1e-4)
    log_jacobian = 2 * np.log(scale)
    np.testing.assert_allclose(
        scaled.score_samples(heaps * scale) + log_jacobian, plain.score_samples(heaps), atol=1e-3
    )
    np.testing.assert_allclose(scaled.sample(20)[0] / scale, plain.sample(20)[0], rtol=1e-4)


def test_a_shift_moves_means_and_samples(make_without_chains: Make, heaps: np.ndarray) -> None:
    shift = np.array([1e5, -2e4])
    plain, moved = make_without_chains.fitted(), make_without_chains().fit(heaps + shift)
    np.testing.assert_array_equal(moved.labels_, plain.labels_)
    np.testing.assert_allclose(moved.means_ - shift, plain.means_, rtol=1e-5)
    np.testing.assert_allclose(moved.score_samples(heaps + shift), plain.score_samples(heaps), atol=1e-3)
    np.testing.assert_allclose(moved.sample(20)[0] - shift, plain.sample(20)[0], rtol=1e-4)


def test_units_of_each_feature(make_network: Make, heaps: np.ndarray) -> None:
    """With one scale per feature, kilograms beside millimetres do not matter."""
    labels = make_network(scaling="feature").fit_predict(heaps)
    mixed = make_network(scaling="feature").fit(heaps * [1e-6, 1e6])
    np.testing.assert_array_equal(mixed.labels_, labels)
    assert mixed.means_[:, 0].max() < 1


# -- seeds ---------------------------------------------------------------------------------------


def test_same_seed_same_labels(make: Make, heaps: np.ndarray) -> None:
    for seed in (0, 1):
        one, other = (make(random_state=seed).fit(heaps) for _ in range(2))
        np.testing.assert_array_equal(one.labels_, other.labels_)
    generators = [np.random.RandomState(7) for _ in range(2)]
    one, other = (make(random_state=generator).fit(heaps) for generator in generators)
    np.testing.assert_array_equal(one.labels_, other.labels_)


def test_every_seed_shows_the_same_rows(make_network: Make, heaps: np.ndarray) -> None:
    """Fit needs no luck: a few rows of many are spread over the data."""
    one, other = (make_network(random_state=seed, **SUBSAMPLED).fit(heaps) for seed in (0, 1))
    np.testing.assert_array_equal(rows_seen(one), rows_seen(other))


def test_another_seed_has_other_anchors(make_variant: Callable[..., Any], heaps: np.ndarray) -> None:
    anchors = {make_variant("DAC, anchored", random_state=s).fit(heaps).steps_[0].anchor for s in range(8)}
    assert len(anchors) > 3


def test_the_global_generators_are_left_alone(make: Make, heaps: np.ndarray) -> None:
    from clusterwise.pretrained import lookup

    lookup._load.cache_clear()  # building a network draws random numbers too
    np.random.seed(5)  # noqa: NPY002 (the state that is under test)
    torch.manual_seed(5)
    numpy_before, torch_before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    estimator = make().fit(heaps)
    estimator.predict(heaps)
    estimator.fit_predict_many([heaps, heaps[:50]])
    estimator.sample(5)
    if hasattr(estimator, "sample_partitions") and hasattr(estimator, "k_posterior_"):
        estimator.sample_partitions(3)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), torch_before)


# -- company -------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, SUBSAMPLED])
def test_many_data_sets_come_out_as_each_alone(
    make_amortized: Make, heaps: np.ndarray, options: dict[str, Any]
) -> None:
    """Data sets of different sizes, numbers of clusters and units, a single row among them."""
    rng = np.random.default_rng(3)
    sets = [heaps, heaps[:1], rng.normal(size=(35, 2)), heaps[:70] * 1e-6, rng.normal(size=(9, 2)), heaps]
    make = make_amortized
    labels = make(**options).fit_predict_many(sets)
    assert len({len(np.unique(of_set)) for of_set in labels}) > 1
    for X, of_set in zip(sets, labels, strict=True):
        np.testing.assert_array_equal(of_set, make(**options).fit_predict(X))


def test_many_data_sets_of_different_widths(make_network: Make, heaps: np.ndarray) -> None:
    sets = [heaps, heaps[:, :1], np.column_stack([heaps, heaps[:, 0]])]
    for X, labels in zip(sets, make_network(projection="pca").fit_predict_many(sets), strict=True):
        np.testing.assert_array_equal(labels, make_network(projection="pca").fit_predict(X))


def test_many_leaves_a_fitted_estimator_as_it_is(make_each: Make, heaps: np.ndarray) -> None:
    estimator = make_each().fit(heaps)
    before = set(vars(estimator))
    estimator.fit_predict_many([heaps[:20], heaps[:30]])
    assert estimator.n_features_in_ == 2
    assert set(vars(estimator)) == before
    np.testing.assert_array_equal(estimator.predict(heaps), estimator.labels_)
    unfitted = make_each()
    unfitted.fit_predict_many([heaps])
    assert not hasattr(unfitted, "n_features_in_")


def test_data_sets_that_come_one_by_one_and_none_at_all(make_each: Make, heaps: np.ndarray) -> None:
    sets = [heaps, heaps[:70]]
    partitions = make_each().fit_partition_many(iter(sets))
    labels = make_each().fit_predict_many(one for one in sets)
    for X, partition, of_set in zip(sets, partitions, labels, strict=True):
        one = make_each().fit(X)
        np.testing.assert_array_equal(partition.labels, of_set)
        np.testing.assert_array_equal(partition.labels, one.labels_)
        np.testing.assert_allclose(partition.memberships, one.membership_, atol=1e-9)
        assert partition.n_clusters == one.n_clusters_
    assert make_each().fit_predict_many([]) == []
