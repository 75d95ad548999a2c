"""Averages over mixtures: what equal, split, joined and renamed beliefs do to the answer's memberships."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from clusterwise.fitting.averaging import AveragedClusters, averaged, links_between
from clusterwise.fitting.posterior import Beliefs
from clusterwise.gaussian.clusters import Clusters
from clusterwise.gaussian.families import Diagonal


def clusters_of(proportions: np.ndarray, means: np.ndarray, variances: np.ndarray) -> Clusters:
    """Clusters of many points with these moments."""
    counts = 5000 * np.asarray(proportions)[:, None]
    statistics = np.hstack([counts, counts * means, counts * (variances + np.square(means))])
    return Clusters(Diagonal(1e-3, 2.0, np.full(2, 0.1)), statistics)


def variances(clusters: Clusters) -> np.ndarray:
    return np.diagonal(clusters.covariances, axis1=1, axis2=2)


MEANS = np.array([[0.0, 0.0], [2.0, 0.5], [1.0, 2.0], [9.0, 9.0]])
ANSWER = clusters_of(np.array([0.4, 0.3, 0.2, 0.1]), MEANS, np.full((4, 2), 0.8))
POINTS = np.vstack([ANSWER.sample(np.random.default_rng(0), 300)[0], MEANS])


def moved(seed: int) -> Clusters:
    """The answer with other parameters, its clusters at about their places."""
    rng = np.random.default_rng(seed)
    means = MEANS + rng.normal(0, 0.2, MEANS.shape)
    return clusters_of(rng.dirichlet(np.full(4, 20.0)), means, rng.uniform(0.6, 1.2, (4, 2)))


def split(clusters: Clusters, cluster: int) -> Clusters:
    """Cut a cluster in two halves beside each other; the second is the last cluster."""
    others = np.r_[np.arange(clusters.n_clusters), cluster]
    proportions, means = clusters.proportions[others], clusters.means[others].copy()
    proportions[[cluster, -1]] /= 2
    means[[cluster, -1], 0] += [-0.4, 0.4]
    return clusters_of(proportions, means, variances(clusters)[others])


def joined(clusters: Clusters) -> Clusters:
    """Put the first two clusters together."""
    statistics = np.vstack([clusters.statistics[:2].sum(axis=0), clusters.statistics[2:]])
    return Clusters(clusters.prior, statistics)


def average_of(*beliefs: Clusters, answer: Clusters = ANSWER) -> AveragedClusters:
    weights = np.arange(1.0, len(beliefs) + 1)
    return averaged(answer, Beliefs(beliefs, weights / weights.sum()), POINTS)


def test_the_formula_word_by_word() -> None:
    beliefs = [ANSWER, moved(1), split(moved(2), 0), joined(moved(3))]
    mixture = average_of(*beliefs)
    answer = ANSWER.memberships(POINTS)
    expected = np.zeros_like(answer)
    for belief, weight, links in zip(beliefs, mixture.beliefs.weights, mixture.links, strict=True):
        for i, row in enumerate(belief.memberships(POINTS)):
            for j, linked in enumerate(links):
                for k in linked:
                    expected[i, k] += (
                        weight * row[j] * answer[i, k] / sum(answer[i, other] for other in linked)
                    )
    np.testing.assert_allclose(mixture.memberships(POINTS), expected, rtol=1e-9)


def test_equal_beliefs_say_what_the_answer_says() -> None:
    found = average_of(ANSWER, ANSWER).memberships(POINTS)
    np.testing.assert_allclose(found, ANSWER.memberships(POINTS), rtol=1e-12)


def test_a_faint_cluster_is_itself() -> None:
    """Even if another one has the larger share in most of its points."""
    faint = clusters_of(np.array([0.75, 0.25]), np.zeros((2, 2)), np.array([[1.0, 1.0], [0.25, 0.25]]))
    points = faint.sample(np.random.default_rng(0), 400)[0]
    membership = faint.memberships(points)
    overlap = membership.T @ membership
    assert overlap[1, 0] > overlap[1, 1]
    assert (membership.argmax(axis=1) == 1).any()
    found = averaged(faint, Beliefs((faint,), np.ones(1)), points).memberships(points)
    np.testing.assert_allclose(found, membership, rtol=1e-12)


def test_rows_sum_to_one_also_far_out() -> None:
    far = np.array([[1e4, -1e3], [-1e9, 0.0], [1e140, 1e140], [-1e140, 1e140]])
    mixture = average_of(
        ANSWER, moved(1), split(moved(2), 1), joined(moved(3)), moved(4).select(np.arange(3))
    )
    for kept in (np.arange(4), np.array([2, 0]), np.array([3])):
        found = mixture.select(kept).memberships(np.vstack([POINTS, far]))
        assert found.min() >= 0
        np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)


def test_what_a_belief_splits_is_joined_again() -> None:
    belief = split(ANSWER, 1)
    found = average_of(belief).memberships(POINTS)
    parts = belief.memberships(POINTS)
    np.testing.assert_allclose(found[:, 1], parts[:, 1] + parts[:, 4], rtol=1e-12)
    np.testing.assert_allclose(found[:, [0, 2, 3]], parts[:, [0, 2, 3]], rtol=1e-9)


def test_what_a_belief_joins_is_divided_as_the_answer_divides_it() -> None:
    belief = joined(ANSWER)
    found = average_of(belief).memberships(POINTS)
    answer = ANSWER.memberships(POINTS)
    np.testing.assert_allclose(found[:, :2].sum(axis=1), belief.memberships(POINTS)[:, 0], rtol=1e-9)
    np.testing.assert_allclose(found[:, 0] * answer[:, 1], found[:, 1] * answer[:, 0], atol=1e-14)
    np.testing.assert_allclose(found[:, 2:], belief.memberships(POINTS)[:, 1:], rtol=1e-9)


def test_a_belief_in_one_cluster_leaves_all_to_the_answer() -> None:
    single = clusters_of(np.ones(1), np.zeros((1, 2)), np.full((1, 2), 9.0))
    np.testing.assert_allclose(
        average_of(single).memberships(POINTS), ANSWER.memberships(POINTS), rtol=1e-9, atol=1e-300
    )


def test_names_of_a_beliefs_clusters_do_not_matter() -> None:
    beliefs = [moved(1), split(moved(2), 0), joined(moved(3))]
    rng = np.random.default_rng(4)
    renamed = [belief.select(rng.permutation(belief.n_clusters)) for belief in beliefs]
    found, expected = (average_of(*of_all).memberships(POINTS) for of_all in (renamed, beliefs))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_beliefs_count_by_their_weights() -> None:
    one, other = moved(1), moved(2)
    expected = one.memberships(POINTS) / 3 + other.memberships(POINTS) * 2 / 3
    np.testing.assert_allclose(average_of(one, other).memberships(POINTS), expected, rtol=1e-9)


def test_links() -> None:
    answer = np.array([0, 0, 0, 1, 1, 2, 2, 2])
    assert links_between(answer, answer) == [(0,), (1,), (2,)]
    assert links_between(np.array([1, 1, 0, 2, 2, 3, 3, 3]), answer) == [(0,), (0,), (1,), (2,)]
    assert links_between(np.array([0, 0, 0, 0, 0, 1, 1, 1]), answer) == [(0, 1), (2,)]
    assert links_between(np.array([0, 0, 0, 1, 2, 2, 2, 2]), answer) == [(0,), (1,), (1, 2)]  # halves


def test_selected_clusters_share_what_the_others_had() -> None:
    whole, clusters = average_of(ANSWER, joined(moved(3))), np.array([2, 1, 0])
    kept = whole.select(clusters)
    expected = whole.memberships(POINTS)[:300][:, clusters]
    near = expected.sum(axis=1) > 1e-9
    expected = expected[near] / expected[near].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(kept.memberships(POINTS)[:300][near], expected, rtol=1e-9)
    np.testing.assert_array_equal(kept.select(np.array([1])).clusters.means, ANSWER.means[[1]])
    np.testing.assert_array_equal(kept.select(np.array([1])).memberships(POINTS), np.ones((304, 1)))


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 0, 2]])
def test_each_row_by_itself_and_in_any_order_of_clusters(order: list[int]) -> None:
    """To the last digit: a tie must not depend on the order that clusters are kept in."""
    whole = average_of(ANSWER, moved(1), joined(moved(3)))
    mixture = whole.select(np.array(order))
    found = mixture.memberships(POINTS)
    np.testing.assert_array_equal(mixture.memberships(POINTS[7:8]), found[7:8])
    np.testing.assert_array_equal(mixture.memberships(POINTS[::-3]), found[::-3])
    np.testing.assert_array_equal(
        found.argmax(axis=1), np.argsort(order)[whole.memberships(POINTS).argmax(axis=1)]
    )


def test_pickles() -> None:
    mixture = average_of(moved(1), split(moved(2), 0)).select(np.array([1, 0, 2]))
    arrived = pickle.loads(pickle.dumps(mixture))
    np.testing.assert_array_equal(arrived.memberships(POINTS), mixture.memberships(POINTS))
