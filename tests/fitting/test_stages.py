"""The stages of ``fit``, each by itself: what is shown, what becomes of candidates, what is reported."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from clusterwise.affine import fit_column_map
from clusterwise.fitting.describe import describe, describe_proposal, network_labels
from clusterwise.fitting.fitting import Pipeline
from clusterwise.fitting.posterior import (
    Beliefs,
    beliefs_of_proposal,
    beliefs_of_refined,
    k_posterior,
    sample_partitions,
)
from clusterwise.fitting.prepare import MOST_CONTEXT, Prepared, prepare
from clusterwise.fitting.propose import Proposal, ProposedStep, steps_in_input_order
from clusterwise.fitting.refine import clusters_of_labels, refine
from clusterwise.partition import canonical_labels


def three(n: int = 90) -> tuple[np.ndarray, np.ndarray]:
    """Three clear clusters (n, 2) in mixed order, and their labels by first appearance."""
    rng = np.random.default_rng(0)
    labels = canonical_labels(rng.integers(3, size=n))
    return np.array([[0.0, 0.0], [9.0, 1.0], [1.0, 8.0]])[labels] + rng.normal(size=(n, 2)), labels


def prepared_of(points: np.ndarray, max_shown: int | None = None, seed: int = 0) -> Prepared:
    return prepare(points, lambda ordered: fit_column_map(ordered, joint=True), max_shown, seed)


class Fixed:
    """Proposes what it is given, by the rows that it is shown."""

    def __init__(self, *candidates: np.ndarray) -> None:
        self.candidates = candidates
        self.asked: list[int] = []

    def propose(self, sets: Sequence[np.ndarray], seeds: Sequence[int], n_draws: int) -> list[Proposal]:
        self.asked.append(n_draws)
        candidates = self.candidates[: 1 + n_draws]
        return [Proposal(candidates, np.full(len(candidates), 1 / len(candidates))) for _ in sets]


# -- prepare -------------------------------------------------------------------------------------


def test_rows_are_sorted_and_scaled() -> None:
    points, _ = three()
    prepared = prepared_of(points)
    np.testing.assert_allclose(prepared.space.inverse(prepared.features), points[prepared.order])
    assert (np.diff(prepared.features[:, 0]) >= 0).all()
    np.testing.assert_array_equal(prepared.context, np.arange(90))
    np.testing.assert_array_equal(prepared.shown, np.arange(90))


@pytest.mark.parametrize(("n", "max_shown"), [(500, 60), (15_000, 256), (15_000, None), (15_000, 12_000)])
def test_rows_that_are_shown_are_part_of_the_context(n: int, max_shown: int | None) -> None:
    points = np.random.default_rng(0).normal(size=(n, 2))
    prepared = prepared_of(points, max_shown)
    assert len(prepared.context) == min(n, max(MOST_CONTEXT, max_shown or 0))
    assert len(prepared.shown) == min(max_shown or n, len(prepared.context))
    assert set(prepared.shown) <= set(prepared.context)
    assert (np.diff(prepared.shown) > 0).all()
    assert np.median(prepared.shown) == pytest.approx(n / 2, rel=0.05)  # spread over the data


# -- propose -------------------------------------------------------------------------------------


def test_steps_go_back_to_the_rows_of_the_input() -> None:
    step = ProposedStep(np.array([True, False, True]), np.array([0.9, 0.2, 0.8]), anchor=2)
    proposal = Proposal((np.zeros(3, dtype=np.int64),), np.ones(1), (step,))
    (found,) = steps_in_input_order(proposal, np.array([4, 1, 3]), 6)
    np.testing.assert_array_equal(found.members, [False, False, False, True, True, False])
    np.testing.assert_array_equal(found.probabilities, [0, 0.2, 0, 0.8, 0.9, 0])
    assert found.anchor == 3


def test_nobody_asks_for_draws_that_nobody_judges() -> None:
    points, _ = three()
    for how, expected in (("em", 3), (None, 0)):
        proposer = Fixed(np.zeros(90, dtype=np.int64))
        pipeline = Pipeline(lambda p: fit_column_map(p, joint=True), proposer, how=how, n_draws=3)
        pipeline.propose([pipeline.prepare(points, 0)], 0)
        assert proposer.asked == [expected]


# -- refine --------------------------------------------------------------------------------------


def test_labels_of_a_few_rows_are_enough_to_start_from() -> None:
    points, labels = three(600)
    prepared = prepared_of(points, max_shown=50)
    of_shown = labels[prepared.order[prepared.shown]]
    refined = refine(prepared.features, [of_shown], "em", rows=prepared.shown)
    assert adjusted_rand_score(refined.scored[0].labels, labels[prepared.order]) > 0.95


def test_em_keeps_the_number_of_clusters_and_search_finds_it() -> None:
    points, labels = three()
    own = (labels > 0).astype(np.int64)
    for how, k in (("em", 2), ("search", 3), (None, 2)):
        proposer = Fixed(own)
        pipeline = Pipeline(lambda p: fit_column_map(p, joint=True), proposer, how=how)
        prepared = pipeline.prepare(points, 0)
        proposer.candidates = (own[prepared.order],)
        (proposal,) = pipeline.propose([prepared], 0)
        description = pipeline.describe(prepared, proposal, pipeline.refine(prepared, proposal))
        assert description.clusters.n_clusters == k


# -- describe ------------------------------------------------------------------------------------


def test_clusters_come_in_the_order_of_the_input() -> None:
    points, labels = three()
    prepared = prepared_of(points)
    clusters = clusters_of_labels(prepared.features, labels[prepared.order])
    for order in ([0, 1, 2], [2, 0, 1]):
        inverse = np.argsort(order)
        description = describe(prepared, clusters.select(np.array(order)), inverse[labels[prepared.order]])
        np.testing.assert_array_equal(description.labels, labels)
        np.testing.assert_array_equal(
            description.assigner.memberships(prepared.space.apply(points)), description.membership
        )


def test_clusters_that_no_row_prefers_are_dropped() -> None:
    points, labels = three()
    prepared = prepared_of(points)
    clusters = clusters_of_labels(prepared.features, labels[prepared.order])
    faint = np.vstack([clusters.statistics, 1e-6 * clusters.statistics[:1]])
    wrong = np.arange(len(labels)) % 4  # the rows themselves have the last word
    description = describe(prepared, type(clusters)(clusters.prior, faint), wrong)
    assert description.clusters.n_clusters == 3
    np.testing.assert_array_equal(description.labels, labels)


@pytest.mark.parametrize("max_shown", [None, 40])
def test_a_proposal_is_reported_as_it_is(max_shown: int | None) -> None:
    """Whatever its Gaussians think: half of the labels here are nonsense."""
    points, labels = three()
    prepared = prepared_of(points, max_shown)
    own = labels[prepared.order[prepared.shown]].copy()
    own[::2] = np.random.default_rng(1).integers(3, size=len(own[::2]))
    proposal = Proposal((own,), np.ones(1))
    description = describe_proposal(prepared, proposal, "full")
    rows = prepared.order[prepared.shown]
    np.testing.assert_array_equal(canonical_labels(description.labels[rows]), canonical_labels(own))
    np.testing.assert_array_equal(description.labels, canonical_labels(description.labels))
    np.testing.assert_allclose(description.membership.sum(axis=1), 1)
    unseen = np.setdiff1d(np.arange(90), rows)
    by_clusters = description.assigner.memberships(prepared.space.apply(points)).argmax(axis=1)
    np.testing.assert_array_equal(description.labels[unseen], by_clusters[unseen])
    assert (by_clusters != description.labels).any()
    network = network_labels(prepared, proposal)
    np.testing.assert_array_equal(np.flatnonzero(network >= 0), np.sort(rows))
    np.testing.assert_array_equal(network[network >= 0], canonical_labels(description.labels[network >= 0]))


def test_a_proposal_may_divide_equal_points() -> None:
    """Two clusters of the same Gaussian: each row keeps its label all the same."""
    prepared = prepared_of(np.ones((6, 2)))
    own = np.array([0, 1, 0, 1, 0, 1])
    description = describe_proposal(prepared, Proposal((own,), np.ones(1)), "full")
    np.testing.assert_array_equal(
        canonical_labels(description.labels), canonical_labels(own[prepared.order.argsort()])
    )
    np.testing.assert_allclose(description.membership, 0.5)


# -- posterior -----------------------------------------------------------------------------------


def test_beliefs_by_evidence() -> None:
    points, labels = three()
    prepared = prepared_of(points)
    own = labels[prepared.order]
    refined = refine(prepared.features, [own, (own > 0).astype(np.int64)], "em")
    beliefs = beliefs_of_refined(prepared, refined, prepared.order)
    assert beliefs.weights.sum() == pytest.approx(1)
    assert k_posterior(beliefs)[3] > 0.99


def test_beliefs_of_a_proposer_are_its_own() -> None:
    points, labels = three()
    prepared = prepared_of(points)
    own = labels[prepared.order]
    candidates = (own, (own > 0).astype(np.int64), own, np.zeros(90, dtype=np.int64))
    beliefs = beliefs_of_proposal(prepared, Proposal(candidates, np.array([0.0, 0.5, 0.3, 0.2])), "full")
    assert k_posterior(beliefs) == pytest.approx({1: 0.2, 2: 0.5, 3: 0.3})
    samples = sample_partitions(prepared, beliefs, 10, seed=0)
    assert samples.k_posterior == pytest.approx({1: 0.2, 2: 0.5, 3: 0.3})
    assert (samples.labels == labels).all(axis=1).sum() == 3


def test_rows_are_drawn_by_their_memberships() -> None:
    points = np.random.default_rng(0).normal(size=(400, 1))
    prepared = prepared_of(points)
    clusters = clusters_of_labels(prepared.features, np.repeat([0, 1], 200))
    samples = sample_partitions(prepared, Beliefs((clusters,), np.ones(1)), 300, seed=0)
    expected = clusters.memberships(prepared.space.apply(points))
    together = samples.coclustering(np.array([0, 1]))[0, 1]
    assert together == pytest.approx((expected[0] * expected[1]).sum(), abs=5 * 0.5 / np.sqrt(300))
