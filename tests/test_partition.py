"""A partition's promises: canonical names, rows that sum to 1, labels that are the argmax."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from clusterwise.exceptions import ClusterwiseError
from clusterwise.partition import Partition, canonical_labels

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


@given(weights)
def test_from_memberships_keeps_its_promises(values):
    partition = Partition.from_memberships(values, log_probability=-1.5)
    memberships = partition.memberships
    assert memberships is not None
    np.testing.assert_array_equal(partition.labels, canonical_labels(values.argmax(axis=1)))
    np.testing.assert_array_equal(memberships.argmax(axis=1), partition.labels)
    np.testing.assert_allclose(memberships.sum(axis=1), 1, rtol=1e-12)
    assert (partition.sizes > 0).all()
    assert partition.log_probability == -1.5


@given(weights)
def test_from_memberships_keeps_the_ratios_of_a_row(values):
    partition = Partition.from_memberships(values)
    original = [int(values[row].argmax()) for row in np.unique(partition.labels, return_index=True)[1]]
    kept = values[:, original]
    expected = kept / kept.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(partition.memberships, expected, rtol=1e-12, atol=1e-12)


@given(weights, st.sampled_from([1e-300, 1e-3, 1e300]))
def test_from_memberships_does_not_depend_on_scale(values, scale):
    once = Partition.from_memberships(values)
    scaled = Partition.from_memberships(values * scale)
    np.testing.assert_array_equal(once.labels, scaled.labels)
    np.testing.assert_allclose(once.memberships, scaled.memberships, rtol=1e-12)


@given(weights)
def test_from_memberships_twice_is_once(values):
    once = Partition.from_memberships(values)
    twice = Partition.from_memberships(once.memberships)
    np.testing.assert_array_equal(once.labels, twice.labels)
    np.testing.assert_allclose(once.memberships, twice.memberships, rtol=1e-12)


def test_single_precision_rows_are_accepted():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(500, 40)).astype(np.float32)
    values = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    first = Partition.from_memberships(values)
    again = Partition(first.labels, first.memberships.astype(np.float32))
    assert again.memberships.dtype == np.float64


@pytest.mark.parametrize(
    ("labels", "memberships", "words"),
    [
        ([], None, "at least one point"),
        ([1, 0], None, "canonical_labels"),
        ([0, 2], None, "canonical_labels"),
        ([0.0, 1.0], None, "canonical_labels"),
        ([[0, 1]], None, "1-D"),
        ([0, 1], [[1.0], [1.0]], "shape"),
        ([0, 1], [[0.6, 0.4], [0.7, 0.3]], "from_memberships"),
        ([0, 1], [[0.6, 0.4], [0.3, 0.6]], "sum to 1"),
        ([0, 1], [[1.1, -0.1], [0.3, 0.7]], "negative"),
        ([0, 1], [[np.nan, 0.4], [0.3, 0.7]], "NaN"),
    ],
)
def test_partition_refuses(labels, memberships, words):
    with pytest.raises(ClusterwiseError, match=words):
        Partition(np.array(labels), None if memberships is None else np.array(memberships))


@pytest.mark.parametrize(
    ("memberships", "words"),
    [
        ([0.5, 0.5], "shape"),
        (np.empty((0, 2)), "non-empty"),
        ([[0.5, np.inf]], "finite"),
        ([[0.5, -0.5]], "negative"),
        ([[0.5, 0.5], [0.0, 0.0]], "row 1"),
    ],
)
def test_from_memberships_refuses(memberships, words):
    with pytest.raises(ClusterwiseError, match=words):
        Partition.from_memberships(memberships)
