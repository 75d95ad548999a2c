"""The fourth stage of ``fit``: clusters in use, who belongs to them and how surely, in the input's order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from clusterwise.fitting.averaging import averaged
from clusterwise.fitting.posterior import Beliefs
from clusterwise.fitting.prepare import Prepared
from clusterwise.fitting.propose import Proposal
from clusterwise.fitting.refine import clusters_of_labels
from clusterwise.gaussian.clusters import Clusters, Described, clusters_in_use, outlier_scores
from clusterwise.gaussian.niw import CovarianceType
from clusterwise.gaussian.sorted_rows import Rows, by_first_appearance, in_input_order
from clusterwise.partition import canonical_labels

__all__ = [
    "Assigner",
    "Description",
    "describe",
    "describe_average",
    "describe_proposal",
    "describe_settled",
    "network_labels",
]


class Assigner(Protocol):
    """Whatever says who belongs to which of K clusters."""

    def memberships(self, points: np.ndarray) -> np.ndarray:
        """Probability of each cluster for each point, (n, K); rows sum to one, each on its own."""


@dataclass(frozen=True)
class Description:
    """What a user wants to know about the clusters of a data set; rows in the order of the input."""

    clusters: Described  # all in use, in the order of first appearance
    assigner: Assigner  # of new rows to these clusters
    membership: np.ndarray  # (n, K), the largest entry of a row is its label
    score_outliers: Callable[[], np.ndarray]  # outlier scores (n,), which not every caller wants
    beyond_cap: bool = False  # whether more clusters than allowed would have been better

    @cached_property
    def outlier_scores(self) -> np.ndarray:
        """How far out each row lies, (n,)."""
        return self.score_outliers()

    @cached_property
    def labels(self) -> np.ndarray:
        """Cluster of each row, (n,)."""
        return self.membership.argmax(axis=1)


def describe(prepared: Prepared, clusters: Clusters, labels: np.ndarray) -> Description:
    """Label all rows by fitted clusters; ``labels`` (s,) are those of the context while they were fitted."""
    # Nearly always these tell the order of the clusters, and all rows are compared with them once only.
    order = prepared.order[prepared.context]
    clusters = clusters.select(by_first_appearance(labels, clusters.n_clusters, order))
    clusters, membership = clusters_in_use(Rows(prepared.features), prepared.order, clusters)
    return _description(prepared, clusters, clusters, membership)


def describe_average(prepared: Prepared, answer: Clusters, beliefs: Beliefs) -> Description:
    """Label all rows by the answer's clusters, with memberships that are averages over the beliefs."""
    # Clusters in the order of the sorted rows: averages of shuffled rows are the same, rounding included.
    answer, _ = clusters_in_use(Rows(prepared.features), None, answer)
    assigner = averaged(answer, beliefs, prepared.features)
    while True:
        membership = assigner.memberships(prepared.features)
        in_use = by_first_appearance(membership.argmax(axis=1), assigner.n_clusters, prepared.order)
        if np.array_equal(in_use, np.arange(assigner.n_clusters)):
            return _description(prepared, assigner.clusters, assigner, membership)
        assigner = assigner.select(in_use)


def describe_proposal(prepared: Prepared, proposal: Proposal, covariance_type: CovarianceType) -> Description:
    """Report a proposer's own answer as it is.

    The densities of its clusters, its own or Gaussians without further ado, label the rows that it did not
    see and say how sure a membership is; where they prefer another cluster for a row, both change places.
    """
    own = proposal.candidates[0]
    if proposal.clusters:
        return describe_settled(prepared, proposal.clusters[0], own)
    shown = prepared.features[prepared.shown]
    return describe_settled(prepared, clusters_of_labels(shown, own, covariance_type), own)


def describe_settled(prepared: Prepared, clusters: Described, own: np.ndarray) -> Description:
    """Label the rows that the proposer saw by ``own`` (m,), and all others by the clusters."""
    labels = clusters.log_joint(prepared.features).argmax(axis=1)
    labels[prepared.shown] = own
    in_use = by_first_appearance(labels, clusters.n_clusters, prepared.order)
    clusters, labels = clusters.select(in_use), np.argsort(in_use)[labels]
    membership = _with_winners(clusters.memberships(prepared.features), labels)
    return _description(prepared, clusters, clusters, membership)


def _with_winners(membership: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Exchange the entry of each row's label with the largest one, so that it is the largest."""
    rows = np.flatnonzero(membership.argmax(axis=1) != labels)
    largest = membership[rows].argmax(axis=1)
    entries = membership[rows, largest]
    membership[rows, largest] = membership[rows, labels[rows]]
    # A little more where both are equal: the first of equals would count as the largest.
    tied = membership[rows, largest] == entries
    membership[rows, labels[rows]] = np.where(tied, np.nextafter(entries, np.inf), entries)
    return membership


def _description(
    prepared: Prepared, clusters: Described, assigner: Assigner, membership: np.ndarray
) -> Description:
    def score_outliers() -> np.ndarray:
        distances = clusters.nearest_distances(prepared.features)
        scores = outlier_scores(distances, prepared.features.shape[1], prepared.n_rows)
        return in_input_order(scores, prepared.order)

    return Description(clusters, assigner, in_input_order(membership, prepared.order), score_outliers)


def network_labels(prepared: Prepared, proposal: Proposal) -> np.ndarray:
    """The proposer's own labels (n,) by first appearance in the input; -1 for rows that it did not see."""
    labels = np.full(prepared.n_rows, -1)
    labels[prepared.order[prepared.shown]] = proposal.candidates[0]
    labels[labels >= 0] = canonical_labels(labels[labels >= 0])
    return labels
