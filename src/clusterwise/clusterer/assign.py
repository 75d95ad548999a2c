"""Who belongs to clusters of any shape: by the nearest rows of the context, or by the clusters' Gaussians."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from clusterwise.assigner import AssignedRows, Assigner
from clusterwise.clusterer.graph import CORE_NEIGHBOUR, Neighbourhood, nearest
from clusterwise.clusterer.points import Projection
from clusterwise.gaussian.clusters import Clusters

__all__ = ["MixtureAssigner", "NeighbourAssigner", "links_of", "votes_of"]

# A neighbour counts by the inverse square of its distance, and none is nearer than this share of the distance
# that is usual around it: a row of the context is labelled by itself, with a little say of the others.
NEAREST = 0.1
ROWS_AT_ONCE = 20_000
# Distances between copies of a row count as this: squares of it are still numbers.
LEAST_CORE = 1e-100
# Rows with this many times more room around them than is usual are left out of the Gaussians.
OUTLYING = 3.0
# Single precision rounds probabilities to one from a little below this.
SURE = 1e-6


@dataclass(frozen=True)
class NeighbourAssigner(Assigner):
    """Says who belongs to which of K clusters by the nearest of m rows."""

    outlying: ClassVar[float] = 0.75  # twice as much room around a row as is usual

    projection: Projection
    points: np.ndarray  # (m, q) projected rows
    votes: np.ndarray  # (m, K) memberships of these rows, they sum to one
    core: np.ndarray  # (m,) distance to the CORE_NEIGHBOUR-th neighbour
    usual: np.ndarray  # (m,) what is usual of that in the row's cluster

    @classmethod
    def of(cls, projection: Projection, near: Neighbourhood, votes: np.ndarray) -> NeighbourAssigner:
        """Take m rows with their votes (m, K)."""
        labels = votes.argmax(axis=1)
        usual = np.empty(len(votes))
        for label in np.unique(labels):
            usual[labels == label] = _usual(near.core[labels == label], near.core)
        return cls(projection, near.points, votes, near.core, usual)

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""
        return self.votes.shape[1]

    @property
    def ordinary(self) -> np.ndarray:
        """Which of the m rows lie among others of their cluster, (m,) bool; at least half of each."""
        return self.core <= OUTLYING * self.usual

    def select(self, clusters: np.ndarray) -> NeighbourAssigner:
        """Keep the clusters with these indices, in this order; the others' rows go to the second-best."""
        return replace(self, votes=_renormalized(self.votes[:, clusters], len(clusters) < self.n_clusters))

    def agreement(self, near: Neighbourhood, labels: np.ndarray) -> float:
        """Share of the m rows whose neighbours, without the row itself, give the label (m,) that it has."""
        n_neighbours = min(CORE_NEIGHBOUR, len(self.points) - 1)
        distances = np.exp(near.log_distances[:, :n_neighbours])
        membership = self._averaged(near.indices[:, :n_neighbours], distances)
        return float((membership.argmax(axis=1) == labels).mean())

    def memberships(self, points: np.ndarray) -> np.ndarray:
        """Probability of each cluster for rows of features (n, f), (n, K), each row on its own."""
        return self.describe(points)[0]

    def outlier_scores(self, points: np.ndarray, n_rows: int) -> np.ndarray:
        """How much emptier it is around rows of features (n, f) than is usual, (n,)."""
        return self.describe(points)[1]

    def assign(self, points: np.ndarray, n_rows: int) -> AssignedRows:
        """Labels, their probabilities and outlier scores."""
        membership, scores = self.describe(points)
        labels = membership.argmax(axis=1).astype(np.int32)
        return AssignedRows(labels, membership.max(axis=1).astype(np.float32), scores)

    def describe(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Memberships (n, K) and outlier scores (n,): how much emptier it is around a row than is usual."""
        membership = np.empty((len(features), self.n_clusters))
        scores = np.empty(len(features))
        for start in range(0, len(features), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            membership[part], scores[part] = self._describe(self.projection.apply(features[part]))
        return membership, scores

    def _describe(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        indices, distances = nearest(points, self.points, min(CORE_NEIGHBOUR, len(self.points)))
        usual = self.usual[indices].mean(axis=1)
        around = np.maximum(distances[:, -1], usual)  # rows in the thick of their cluster are ordinary
        return self._averaged(indices, distances), 1 - (usual / around) ** 2

    def _averaged(self, indices: np.ndarray, distances: np.ndarray) -> np.ndarray:
        """Mean votes (n, K) of neighbours (n, j), the near ones count most."""
        least = NEAREST * np.maximum(self.core[indices], LEAST_CORE)
        weights = (least / np.maximum(distances, least)) ** 2
        weights /= weights.sum(axis=1, keepdims=True)
        return np.einsum("nj,njk->nk", weights, self.votes[indices])


def _usual(core: np.ndarray, of_all: np.ndarray) -> float:
    """What is usual of core distances (m,) in a cluster, among those of all rows; never zero.

    Where most rows are copies, as in rounded data, it is the room around those that are not: the step of the
    rounding. Otherwise every row beside them would be an outlier.
    """
    for distances in (core, core[core > 0], of_all[of_all > 0]):
        if len(distances) and (usual := float(np.median(distances))) > 0:
            return usual
    return LEAST_CORE


@dataclass(frozen=True)
class MixtureAssigner(Assigner):
    """Says who belongs to which of K clusters by their Gaussians."""

    clusters: Clusters
    votes: np.ndarray  # (K, K) mean membership of the rows of each cluster, by all candidates

    @classmethod
    def of(cls, clusters: Clusters, votes: np.ndarray, labels: np.ndarray) -> MixtureAssigner:
        """Take the clusters of a partition with labels (m,), and votes (m, K)."""
        sums = np.zeros((clusters.n_clusters, votes.shape[1]))
        np.add.at(sums, labels, votes)
        return cls(clusters, sums / np.bincount(labels)[:, None])

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""
        return self.clusters.n_clusters

    def select(self, clusters: np.ndarray) -> MixtureAssigner:
        """Keep the clusters with these indices, in this order."""
        votes = _renormalized(self.votes[np.ix_(clusters, clusters)], len(clusters) < self.n_clusters)
        return MixtureAssigner(self.clusters.select(clusters), votes)

    def agreement(self, features: np.ndarray, labels: np.ndarray) -> float:
        """Share of rows of features (m, f) that get the label (m,) that they have."""
        return float((self.clusters.log_joint(features).argmax(axis=1) == labels).mean())

    def memberships(self, points: np.ndarray) -> np.ndarray:
        """Probability of each cluster for rows of features (n, f), (n, K), each row on its own."""
        return self.clusters.memberships(points) @ self.votes

    def outlier_scores(self, points: np.ndarray, n_rows: int) -> np.ndarray:
        """How far rows of features (n, f) are from the nearest Gaussian, (n,)."""
        return self.clusters.outlier_scores(points, n_rows)

    def assign(self, points: np.ndarray, n_rows: int) -> AssignedRows:
        """Labels, their probabilities and outlier scores; where one Gaussian is certain, by it alone."""
        labels, probabilities, scores = self.clusters.assign(points, n_rows)
        own = np.diagonal(self.votes)
        most = np.where(np.eye(len(own), dtype=bool), 0.0, self.votes).max(axis=1)
        certain = probabilities >= 1.0
        certain &= (own > most + SURE)[labels]
        result = np.where(certain, own[labels], 0.0)
        others = np.flatnonzero(~certain)
        if len(others) > 0:
            membership = self.memberships(points[others])
            labels[others], result[others] = membership.argmax(axis=1), membership.max(axis=1)
        return AssignedRows(labels, result.astype(np.float32), scores)

    def with_mixing_weights(self, points: np.ndarray, weights: np.ndarray) -> MixtureAssigner:
        """The same clusters with the mixing weights that points (n, f) give them, by ``weights`` (n,)."""
        return replace(self, clusters=self.clusters.with_mixing_weights(points, weights))


def _renormalized(votes: np.ndarray, some_are_gone: bool) -> np.ndarray:
    """Votes (., K) that sum to one again after some clusters have gone."""
    if not some_are_gone:
        return votes
    votes = votes + 1e-12  # a row may have voted for these alone
    return np.asarray(votes / votes.sum(axis=1, keepdims=True))


def links_of(candidate: np.ndarray, answer: np.ndarray) -> np.ndarray:
    """Where the rows of each of a candidate's clusters are in the answer, (L, K), rows sum to one."""
    counts = np.zeros((candidate.max() + 1, answer.max() + 1))
    np.add.at(counts, (candidate, answer), 1)
    return counts / counts.sum(axis=1, keepdims=True)


def votes_of(answer: np.ndarray, candidates: Sequence[np.ndarray], weights: np.ndarray) -> np.ndarray:
    """Memberships (m, K) of the answer's clusters, averaged over candidates; the answer's label wins."""
    votes = np.zeros((len(answer), int(answer.max()) + 1))
    for labels, weight in zip(candidates, weights, strict=True):
        votes += weight * links_of(labels, answer)[labels]
    rows = np.arange(len(answer))
    rivals = votes.copy()
    rivals[rows, answer] = -np.inf
    most = rivals.max(axis=1) if votes.shape[1] > 1 else np.zeros(len(answer))
    lost = votes[rows, answer] <= most
    votes[rows[lost], answer[lost]] = 1.02 * most[lost] + 1e-12
    return votes / votes.sum(axis=1, keepdims=True)
