"""What becomes of a clustering: rows assigned, names by the input, own labels kept; other partitions."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.affine import fit_column_map
from clusterwise.fitting.protocol import Assigner, Clustering, ClusteringPosterior, assign_rows
from clusterwise.gaussian.clusters import Clusters
from clusterwise.gaussian.mixture import clusters_of_labels
from clusterwise.partition import canonical_labels
from clusterwise.rows.sorted_rows import SortedRows, sample_rows, sort_rows, spread_rows


def three(n: int = 90) -> tuple[SortedRows, np.ndarray]:
    """Three clear clusters in mixed order, and their labels (n,) by first appearance in the input."""
    rng = np.random.default_rng(0)
    labels = canonical_labels(rng.integers(3, size=n))
    points = np.array([[0.0, 0.0], [9.0, 1.0], [1.0, 8.0]])[labels] + rng.normal(size=(n, 2))
    return sort_rows(points, lambda ordered: fit_column_map(ordered, joint=True)), labels


def found_in(rows: SortedRows, labels: np.ndarray) -> Clusters:
    """Clusters of labels (n,) in the order of the input."""
    return clusters_of_labels(rows.features, labels[rows.order])


def test_rows_are_sorted_and_scaled() -> None:
    rows, _ = three()
    assert (np.diff(rows.features[:, 0]) >= 0).all()
    points = rows.in_input_order(rows.space.inverse(rows.features))
    np.testing.assert_array_equal(rows.space.apply(points)[rows.order], rows.features)


@pytest.mark.parametrize(("n", "max_rows"), [(500, 60), (500, 500), (15_000, 256)])
def test_rows_are_chosen_all_over_the_data(n: int, max_rows: int) -> None:
    for chosen in (sample_rows(n, max_rows, 0), spread_rows(n, max_rows)):
        assert len(chosen) == max_rows
        assert (np.diff(chosen) > 0).all()
        assert np.median(chosen) == pytest.approx(n / 2, rel=0.15)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_clusters_come_in_the_order_of_the_input(order: list[int]) -> None:
    rows, labels = three()
    density = found_in(rows, labels).select(np.array(order))
    _, found, membership = assign_rows(rows, Clustering(density, density))
    np.testing.assert_array_equal(rows.in_input_order(membership).argmax(axis=1), labels)
    np.testing.assert_array_equal(found.assigner.memberships(rows.features), membership)


def test_clusters_that_no_row_prefers_are_dropped() -> None:
    rows, labels = three()
    clusters = found_in(rows, labels)
    faint = Clusters(clusters.prior, np.vstack([1e-6 * clusters.statistics[:1], clusters.statistics]))
    _, found, membership = assign_rows(rows, Clustering(faint, faint))
    assert found.n_clusters == 3
    np.testing.assert_array_equal(rows.in_input_order(membership).argmax(axis=1), labels)


@pytest.mark.parametrize("n_seen", [90, 40])
def test_own_labels_of_a_method_are_kept(n_seen: int) -> None:
    """Whatever its Gaussians make of them: half of the labels are nonsense. Others go by the Gaussians."""
    rows, labels = three()
    rng = np.random.default_rng(1)
    seen = np.sort(rng.choice(90, n_seen, replace=False))
    own = labels[rows.order][seen].copy()
    own[::2] = rng.integers(3, size=len(own[::2]))
    settled = np.full(90, -1)
    settled[seen] = own
    density = clusters_of_labels(rows.features[seen], own)
    _, found, membership = assign_rows(rows, Clustering(density, density, settled))
    given = membership.argmax(axis=1)
    np.testing.assert_array_equal(canonical_labels(given[seen]), canonical_labels(own))
    by_first = rows.in_input_order(given)
    np.testing.assert_array_equal(by_first, canonical_labels(by_first))
    np.testing.assert_allclose(membership.sum(axis=1), 1)
    unseen = np.setdiff1d(np.arange(90), seen)
    by_density = found.assigner.memberships(rows.features).argmax(axis=1)
    np.testing.assert_array_equal(given[unseen], by_density[unseen])
    assert (by_density != given).any()


def test_own_labels_may_divide_equal_points() -> None:
    rows = sort_rows(np.ones((6, 2)), lambda ordered: fit_column_map(ordered, joint=True))
    own = np.array([0, 1, 0, 1, 0, 1])
    density = clusters_of_labels(rows.features, own)
    _, _, membership = assign_rows(rows, Clustering(density, density, own))
    np.testing.assert_array_equal(canonical_labels(membership.argmax(axis=1)), own)
    np.testing.assert_allclose(membership, 0.5)


# -- other partitions ----------------------------------------------------------------------------


def test_labelled_clusterings_are_drawn_by_their_probabilities() -> None:
    rows, labels = three()
    own = labels[rows.order]
    every = [(own > 0).astype(np.int64), own, np.zeros(90, dtype=np.int64)]
    assigners: list[Assigner] = [clusters_of_labels(rows.features, one) for one in every]
    posterior = ClusteringPosterior(assigners, np.array([0.5, 0.3, 0.2]), every)
    assert posterior.k_posterior == pytest.approx({1: 0.2, 2: 0.5, 3: 0.3})
    samples = posterior.sample(rows, 10, seed=0)
    assert samples.k_posterior == pytest.approx({1: 0.2, 2: 0.5, 3: 0.3})
    assert (samples.labels == labels).all(axis=1).sum() == 3


def test_rows_are_drawn_by_their_memberships() -> None:
    points = np.random.default_rng(0).normal(size=(400, 1))
    rows = sort_rows(points, lambda ordered: fit_column_map(ordered, joint=True))
    clusters = clusters_of_labels(rows.features, np.repeat([0, 1], 200))
    samples = ClusteringPosterior([clusters], np.ones(1)).sample(rows, 300, seed=0)
    expected = clusters.memberships(rows.space.apply(points))
    together = samples.coclustering(np.array([0, 1]))[0, 1]
    assert together == pytest.approx((expected[0] * expected[1]).sum(), abs=5 * 0.5 / np.sqrt(300))


def test_unlikely_clusterings_are_left_out() -> None:
    rows, labels = three()
    clusters = found_in(rows, labels)
    posterior = ClusteringPosterior.of(rows, [clusters, clusters], np.array([0.0, -50.0]))
    np.testing.assert_allclose(posterior.probabilities, [1.0])
