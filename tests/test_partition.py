"""Partitions: canonical names, rows that sum to 1, labels that are the argmax; many as slow versions say."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import mutual_info_score

from clusterwise import partition as module
from clusterwise.exceptions import ClusterwiseError
from clusterwise.partition import Partition, PartitionPosterior, canonical_labels, variation_of_information

label_arrays = hnp.arrays(np.int64, st.integers(1, 40), elements=st.integers(-3, 6))
# A coarse grid of values, so that ties, zeros and empty columns are common.
weights = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 12), st.integers(1, 6)), elements=st.integers(0, 4).map(float)
).filter(lambda w: bool((w.sum(axis=1) > 0).all()))


def by_a_loop(labels):
    names: dict[object, int] = {}
    return [names.setdefault(label, len(names)) for label in labels]


@given(label_arrays)
def test_canonical_labels_agree_with_a_loop(labels):
    assert canonical_labels(labels).tolist() == by_a_loop(labels.tolist())


@given(label_arrays, st.permutations(range(10)))
def test_canonical_labels_do_not_depend_on_names(labels, names):
    renamed = np.array(names)[labels + 3]
    np.testing.assert_array_equal(canonical_labels(renamed), canonical_labels(labels))


def test_canonical_labels_take_strings_and_nothing():
    assert canonical_labels(np.array(["z", "a", "z"])).tolist() == [0, 1, 0]
    empty = canonical_labels([])
    assert empty.shape == (0,) and empty.dtype == np.int64


@pytest.mark.parametrize("bad", [[[0, 1]], 3, np.array([1, "a", None], dtype=object)])
def test_canonical_labels_refuse(bad):
    with pytest.raises(ClusterwiseError):
        canonical_labels(bad)


@given(label_arrays)
def test_sizes_and_number_of_clusters(labels):
    partition = Partition(canonical_labels(labels))
    assert partition.n_clusters == len(set(labels.tolist()))
    assert sorted(partition.sizes) == sorted(np.unique(labels, return_counts=True)[1])
    assert partition.labels.dtype == np.int64


@pytest.mark.parametrize(
    ("labels", "memberships", "words"),
    [
        ([], None, "at least one point"),
        ([1, 0], None, "canonical_labels"),
        ([0, 2], None, "canonical_labels"),
        ([0.0, 1.0], None, "canonical_labels"),
        ([[0, 1]], None, "1-D"),
        ([0, 1], [[1.0], [1.0]], "shape"),
        ([0, 1], [[0.6, 0.4], [0.7, 0.3]], "number the columns"),
        ([0, 1], [[0.6, 0.4], [0.3, 0.6]], "sum to 1"),
        ([0, 1], [[1.1, -0.1], [0.3, 0.7]], "negative"),
        ([0, 1], [[np.nan, 0.4], [0.3, 0.7]], "NaN"),
    ],
)
def test_partition_refuses(labels, memberships, words):
    with pytest.raises(ClusterwiseError, match=words):
        Partition(np.array(labels), None if memberships is None else np.array(memberships))


# -- many sampled partitions ------------------------------------------------------------------------

samples = hnp.arrays(np.int64, st.tuples(st.integers(1, 8), st.integers(1, 12)), elements=st.integers(-2, 5))
weighted_samples = samples.flatmap(
    lambda labels: st.tuples(
        st.just(labels),
        st.none() | hnp.arrays(np.float64, len(labels), elements=st.floats(0.01, 10)),
    )
)


def entropy(labels):
    return mutual_info_score(labels, labels)


def slow_vi(first, second):
    return entropy(first) + entropy(second) - 2 * mutual_info_score(first, second)


def normalized(weights, n_samples):
    return np.full(n_samples, 1 / n_samples) if weights is None else weights / weights.sum()


@given(weighted_samples)
def test_k_posterior(drawn):
    labels, weights = drawn
    posterior = PartitionPosterior(labels, weights)
    expected: dict[int, float] = {}
    for row, probability in zip(labels, normalized(weights, len(labels)), strict=True):
        k = len(set(row.tolist()))
        expected[k] = expected.get(k, 0.0) + probability
    assert posterior.k_posterior == pytest.approx(expected)
    assert list(posterior.k_posterior) == sorted(expected)


@given(weighted_samples)
def test_coclustering_agrees_with_a_loop(drawn):
    labels, weights = drawn
    probabilities = normalized(weights, len(labels))
    n = labels.shape[1]
    expected = [
        [float(probabilities[labels[:, i] == labels[:, j]].sum()) for j in range(n)] for i in range(n)
    ]
    np.testing.assert_allclose(PartitionPosterior(labels, weights).coclustering(), expected, atol=1e-12)


def test_coclustering_of_more_rows_than_one_block():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, (7, 600))
    posterior = PartitionPosterior(labels, rng.random(7))
    full = posterior.coclustering()
    np.testing.assert_array_equal(full, full.T)
    assert np.all(full.diagonal() == 1) and full.max() <= 1
    rows = rng.permutation(600)[:300]
    np.testing.assert_array_equal(posterior.coclustering(rows), full[np.ix_(rows, rows)])
    mask = np.arange(600) % 3 == 0
    np.testing.assert_array_equal(posterior.coclustering(mask), full[np.ix_(mask, mask)])


def test_coclustering_is_never_larger_than_asked_for():
    posterior = PartitionPosterior(np.zeros((2, 20_001), dtype=int))
    with pytest.raises(ClusterwiseError, match="rows="):
        posterior.coclustering()
    with pytest.raises(ClusterwiseError, match="rows="):
        posterior.coclustering(np.arange(20_001))
    assert posterior.coclustering([0, 20_000]).shape == (2, 2)


@pytest.mark.parametrize("rows", [[-1], [3], [0.5], [[0]], [True, False]])
def test_coclustering_refuses_rows(rows):
    with pytest.raises(ClusterwiseError, match="rows"):
        PartitionPosterior(np.zeros((2, 3), dtype=int)).coclustering(rows)


@given(weighted_samples)
@settings(max_examples=25)  # each draws up to 64 pairs through a slow reference
def test_consensus_has_the_least_expected_loss(drawn):
    labels, weights = drawn
    probabilities = normalized(weights, len(labels))
    losses = np.array([[slow_vi(a, b) for b in labels] for a in labels]) @ probabilities
    consensus = PartitionPosterior(labels, weights).consensus()
    rows = [canonical_labels(row).tolist() for row in labels]
    assert consensus.labels.tolist() in rows
    assert losses[rows.index(consensus.labels.tolist())] <= losses.min() + 1e-9


@given(samples, st.permutations(range(8)))
def test_consensus_ignores_names(labels, names):
    renamed = np.array(names)[labels + 2]
    np.testing.assert_array_equal(
        PartitionPosterior(renamed).consensus().labels, PartitionPosterior(labels).consensus().labels
    )


@given(samples, st.data())
def test_integer_weights_are_multiplicities(labels, data):
    counts = data.draw(hnp.arrays(np.int64, len(labels), elements=st.integers(1, 3)))
    weighted = PartitionPosterior(labels, counts.astype(float))
    repeated = PartitionPosterior(np.repeat(labels, counts, axis=0))
    assert weighted.k_posterior == pytest.approx(repeated.k_posterior)
    np.testing.assert_allclose(weighted.coclustering(), repeated.coclustering(), atol=1e-12)


def test_consensus_finds_the_centre_of_noisy_copies():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 6, 400)
    noisy = np.stack([np.where(rng.random(400) < 0.1, rng.integers(0, 6, 400), truth) for _ in range(20)])
    labels = np.vstack([noisy[:10], truth, noisy[10:]])
    np.testing.assert_array_equal(PartitionPosterior(labels).consensus().labels, canonical_labels(truth))


def test_consensus_of_many_draws_compares_each_with_a_few(monkeypatch):
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 6, 200)
    compared = []

    def counted(first, second, own):
        compared.append(1)
        return information_distance(first, second, own)

    information_distance = module._information_distance
    monkeypatch.setattr(module, "_information_distance", counted)
    for n_draws in (200, 400):
        moved = rng.random((n_draws, 200)) < rng.uniform(0.05, 0.3, (n_draws, 1))
        labels = np.where(moved, rng.integers(0, 6, (n_draws, 200)), truth)
        labels[n_draws // 3] = truth
        compared.clear()
        found = PartitionPosterior(labels).consensus()
        np.testing.assert_array_equal(found.labels, canonical_labels(truth))
        assert len(compared) <= 80 * n_draws


@pytest.mark.parametrize("n_names", [10, 100_000])
def test_consensus_of_many_points_needs_linear_memory(n_names):
    rng = np.random.default_rng(2)
    posterior = PartitionPosterior(rng.integers(0, n_names, (6, 100_000)))
    tracemalloc.start()
    try:
        posterior.consensus()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200 * 100_000  # bytes; one row of a matrix of all pairs would be 8 * 100_000


@given(samples)
def test_variation_of_information_agrees_with_entropies(labels):
    first, second = labels[0], labels[-1]
    value = variation_of_information(first, second)
    assert value == pytest.approx(slow_vi(first, second), abs=1e-9)
    assert value == pytest.approx(variation_of_information(second, first), abs=1e-12)
    assert 0 <= value <= np.log(len(first)) + 1e-9


def test_variation_of_information_refuses_other_lengths():
    with pytest.raises(ClusterwiseError, match="same points"):
        variation_of_information([0, 1], [0, 1, 2])


@given(samples)
def test_iteration_and_sizes(labels):
    posterior = PartitionPosterior(labels)
    partitions = list(posterior)
    assert len(partitions) == posterior.n_samples == len(posterior) == len(labels)
    assert posterior.n_points == labels.shape[1]
    for row, partition in zip(labels, partitions, strict=True):
        np.testing.assert_array_equal(partition.labels, canonical_labels(row))


@pytest.mark.parametrize("weights", [[1, np.nan], [1, -1], [0, 0], [1], [[1, 1]]])
def test_weights_are_checked(weights):
    with pytest.raises(ClusterwiseError, match="weights"):
        PartitionPosterior(np.zeros((2, 3), dtype=int), np.array(weights, dtype=float))


@pytest.mark.parametrize(
    "labels", [np.zeros(3, int), np.zeros((0, 3), int), np.zeros((2, 0), int), np.zeros((2, 3))]
)
def test_labels_are_checked(labels):
    with pytest.raises(ClusterwiseError, match="samples, points"):
        PartitionPosterior(labels)
