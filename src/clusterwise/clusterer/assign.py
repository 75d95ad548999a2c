"""Who belongs to clusters of any shape: by the nearest judged rows, or by the clusters' Gaussians."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from clusterwise.clusterer.graph import Graph
from clusterwise.fitting.protocol import AssignedRows, Assigner, exchange_largest
from clusterwise.gaussian.clusters import Clusters
from clusterwise.gaussian.mixture import choose_covariance_type, clusters_of_labels
from clusterwise.neighbours import CORE_NEIGHBOUR, Projection, nearest

__all__ = ["ByGaussians", "ByNeighbours", "WithJudgedRows", "assigner_of", "average_memberships"]

# A neighbour counts by the inverse square of its distance, and none is nearer than this share of the core
# distance around it: a judged row is assigned by itself, with a little weight of the others.
MIN_DISTANCE = 0.1
ROWS_AT_ONCE = 20_000
# Distances between copies of a row count as this: squares of it are still numbers.
MIN_CORE = 1e-100
# Rows with this many times more room around them than is typical are left out of the Gaussians.
MAX_RATIO_OF_CORES = 3.0
# Single precision rounds probabilities to one from a little below this.
CERTAIN = 1e-6


def assigner_of(
    features: np.ndarray,
    graph: Graph | None,
    projection: Projection,
    labels: np.ndarray,
    memberships: np.ndarray,
) -> Assigner:
    """The assigner to the clusters of judged rows that tells their labels (m,) best, by rows or by Gaussians.

    ``features`` (m, f) are those of the rows of the graph, ``memberships`` (m, K) what is known of them. The
    judged rows themselves are assigned as they are labelled.
    """
    found = _best_assigner(features, graph, projection, labels, memberships)
    wrong = np.flatnonzero(found.memberships(features).argmax(axis=1) != labels)
    return found if len(wrong) == 0 else WithJudgedRows.of(found, features[wrong], labels[wrong])


def _best_assigner(
    features: np.ndarray,
    graph: Graph | None,
    projection: Projection,
    labels: np.ndarray,
    memberships: np.ndarray,
) -> Assigner:
    covariance_type = choose_covariance_type("auto", *features.shape)
    if graph is None:
        return ByGaussians.of(clusters_of_labels(features, labels, covariance_type), memberships, labels)
    by_neighbours = ByNeighbours.of(projection, graph, memberships)
    typical = by_neighbours.core <= MAX_RATIO_OF_CORES * by_neighbours.typical_core
    typical |= ~np.isin(labels, labels[typical])  # of a cluster without any all rows count
    required = by_neighbours.agreement(graph, labels)
    for rows in (typical, np.ones_like(typical)):  # without rows far out, if that does not harm
        clusters = clusters_of_labels(features[rows], labels[rows], covariance_type)
        if (clusters.log_joint(features).argmax(axis=1) == labels).mean() >= required:
            return ByGaussians.of(clusters, memberships, labels)
    return by_neighbours


@dataclass(frozen=True)
class ByNeighbours(Assigner):
    """Assigns rows to K clusters by the nearest of m judged rows."""

    outlying: ClassVar[float] = 0.75  # twice as much room around a row as is typical

    projection: Projection
    points: np.ndarray  # (m, q) projected rows
    of_points: np.ndarray  # (m, K) memberships of these rows, they sum to one
    core: np.ndarray  # (m,) distance to the CORE_NEIGHBOUR-th neighbour
    typical_core: np.ndarray  # (m,) the typical one of the row's cluster

    @classmethod
    def of(cls, projection: Projection, graph: Graph, memberships: np.ndarray) -> ByNeighbours:
        """The assigner by the rows of a graph with memberships (m, K)."""
        labels = memberships.argmax(axis=1)
        typical = np.empty(len(labels))
        for label in np.unique(labels):
            typical[labels == label] = _typical_core(graph.core[labels == label], graph.core)
        return cls(projection, graph.points, memberships, graph.core, typical)

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""
        return self.of_points.shape[1]

    def select(self, clusters: np.ndarray) -> ByNeighbours:
        """The clusters with these indices, in this order; the others' rows go to the second-best."""
        kept = _renormalized(self.of_points[:, clusters], len(clusters) < self.n_clusters)
        return replace(self, of_points=kept)

    def agreement(self, graph: Graph, labels: np.ndarray) -> float:
        """Share of the m rows whose neighbours, without the row itself, give the label (m,) that it has."""
        n_neighbours = min(CORE_NEIGHBOUR, len(self.points) - 1)
        distances = np.exp(graph.log_distances[:, :n_neighbours])
        membership = self._averaged(graph.neighbours[:, :n_neighbours], distances)
        return float((membership.argmax(axis=1) == labels).mean())

    def memberships(self, points: np.ndarray) -> np.ndarray:
        """Probability of each cluster for rows of features (n, f), (n, K), each row on its own."""
        return self._assigned(points)[0]

    def outlier_scores(self, points: np.ndarray, n_rows: int) -> np.ndarray:
        """How much emptier it is around rows of features (n, f) than is typical, (n,)."""
        return self._assigned(points)[1]

    def assign(self, points: np.ndarray, n_rows: int) -> AssignedRows:
        """Labels, their probabilities and outlier scores."""
        membership, scores = self._assigned(points)
        labels = membership.argmax(axis=1).astype(np.int32)
        return AssignedRows(labels, membership.max(axis=1).astype(np.float32), scores)

    def _assigned(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Memberships (n, K) and outlier scores (n,)."""
        membership = np.empty((len(features), self.n_clusters))
        scores = np.empty(len(features))
        for start in range(0, len(features), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            points = self.projection.apply(features[part])
            indices, distances = nearest(points, self.points, min(CORE_NEIGHBOUR, len(self.points)))
            membership[part] = self._averaged(indices, distances)
            typical = self.typical_core[indices].mean(axis=1)
            around = np.maximum(distances[:, -1], typical)  # rows in the thick of their cluster are ordinary
            scores[part] = 1 - (typical / around) ** 2
        return membership, scores

    def _averaged(self, indices: np.ndarray, distances: np.ndarray) -> np.ndarray:
        """Mean memberships (n, K) of neighbours (n, j), the near ones count most."""
        least = MIN_DISTANCE * np.maximum(self.core[indices], MIN_CORE)
        weights = (least / np.maximum(distances, least)) ** 2
        weights /= weights.sum(axis=1, keepdims=True)
        return np.einsum("nj,njk->nk", weights, self.of_points[indices])


def _typical_core(core: np.ndarray, of_all: np.ndarray) -> float:
    """The typical one of core distances (m,) in a cluster, among those of all rows; never zero.

    Where most rows are copies, as in rounded data, it is the room around those that are not: the step of the
    rounding. Otherwise every row beside them would be an outlier.
    """
    for distances in (core, core[core > 0], of_all[of_all > 0]):
        if len(distances) and (median := float(np.median(distances))) > 0:
            return median
    return MIN_CORE


@dataclass(frozen=True)
class ByGaussians(Assigner):
    """Assigns rows to K clusters by their Gaussians."""

    clusters: Clusters
    mixing: np.ndarray  # (K, K) mean membership of the rows of each cluster, by all candidates

    @classmethod
    def of(cls, clusters: Clusters, memberships: np.ndarray, labels: np.ndarray) -> ByGaussians:
        """The clusters of a partition with labels (m,), and memberships (m, K)."""
        sums = np.zeros((clusters.n_clusters, memberships.shape[1]))
        np.add.at(sums, labels, memberships)
        return cls(clusters, sums / np.bincount(labels)[:, None])

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""
        return self.clusters.n_clusters

    def select(self, clusters: np.ndarray) -> ByGaussians:
        """The clusters with these indices, in this order."""
        mixing = _renormalized(self.mixing[np.ix_(clusters, clusters)], len(clusters) < self.n_clusters)
        return ByGaussians(self.clusters.select(clusters), mixing)

    def memberships(self, points: np.ndarray) -> np.ndarray:
        """Probability of each cluster for rows of features (n, f), (n, K), each row on its own."""
        return self.clusters.memberships(points) @ self.mixing

    def outlier_scores(self, points: np.ndarray, n_rows: int) -> np.ndarray:
        """How far rows of features (n, f) are from the nearest Gaussian, (n,)."""
        return self.clusters.outlier_scores(points, n_rows)

    def assign(self, points: np.ndarray, n_rows: int) -> AssignedRows:
        """Labels, their probabilities and outlier scores; where one Gaussian is certain, by it alone."""
        labels, probabilities, scores = self.clusters.assign(points, n_rows)
        own = np.diagonal(self.mixing)
        of_others = np.where(np.eye(len(own), dtype=bool), 0.0, self.mixing).max(axis=1)
        certain = probabilities >= 1.0
        certain &= (own > of_others + CERTAIN)[labels]
        result = np.where(certain, own[labels], 0.0)
        others = np.flatnonzero(~certain)
        if len(others) > 0:
            membership = self.memberships(points[others])
            labels[others], result[others] = membership.argmax(axis=1), membership.max(axis=1)
        return AssignedRows(labels, result.astype(np.float32), scores)

    def with_mixing_weights(self, points: np.ndarray, weights: np.ndarray) -> ByGaussians:
        """The same clusters with the mixing weights that points (n, f) give them, by ``weights`` (n,)."""
        return replace(self, clusters=self.clusters.with_mixing_weights(points, weights))


@dataclass(frozen=True)
class WithJudgedRows(Assigner):
    """Another assigner, but for some rows whose cluster is settled; whoever is equal to one goes with it."""

    others: Assigner
    keys: np.ndarray  # (e,) a number for each of these rows, ascending
    rows: np.ndarray  # (e, f) features
    labels: np.ndarray  # (e,)

    @classmethod
    def of(cls, others: Assigner, rows: np.ndarray, labels: np.ndarray) -> WithJudgedRows:
        """An assigner that gives rows of features (e, f) their labels (e,)."""
        rows, first = np.unique(rows, axis=0, return_index=True)
        keys = _keys(rows)
        order = np.argsort(keys)
        return cls(others, keys[order], rows[order], labels[first][order])

    @property
    def outlying(self) -> float:  # type: ignore[override]
        """Outlier score above which a row is not an ordinary one."""
        return self.others.outlying

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""
        return self.others.n_clusters

    def select(self, clusters: np.ndarray) -> WithJudgedRows:
        """The clusters with these indices, in this order; rows of the others go where they belong else."""
        names = np.full(self.n_clusters, -1)
        names[clusters] = np.arange(len(clusters))
        kept = names[self.labels] >= 0
        return WithJudgedRows(
            self.others.select(clusters), self.keys[kept], self.rows[kept], names[self.labels[kept]]
        )

    def memberships(self, points: np.ndarray) -> np.ndarray:
        """Probability of each cluster for rows of features (n, f), (n, K)."""
        membership = self.others.memberships(points)
        known, labels = self._known(points)
        exchange_largest(membership, known, labels)
        return membership

    def outlier_scores(self, points: np.ndarray, n_rows: int) -> np.ndarray:
        """Those of the other assigner, (n,)."""
        return self.others.outlier_scores(points, n_rows)

    def assign(self, points: np.ndarray, n_rows: int) -> AssignedRows:
        """Labels, their probabilities and outlier scores."""
        found = self.others.assign(points, n_rows)
        known, labels = self._known(points)
        if len(known) > 0:
            membership = self.memberships(points[known])
            found.labels[known], found.probabilities[known] = labels, membership.max(axis=1)
        return found

    def with_mixing_weights(self, points: np.ndarray, weights: np.ndarray) -> WithJudgedRows:
        """See ``Assigner``; the settled rows stay where they are."""
        return replace(self, others=self.others.with_mixing_weights(points, weights))

    def _known(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of points (n, f) are settled, as indices, and their labels."""
        keys = _keys(points)
        first = np.searchsorted(self.keys, keys)
        found = np.full(len(points), -1)
        for shift in range(int(np.unique(self.keys, return_counts=True)[1].max(initial=0))):
            place = np.minimum(first + shift, len(self.keys) - 1)
            same = np.flatnonzero(self.keys[place] == keys)
            same = same[(self.rows[place[same]] == points[same]).all(axis=1)]
            found[same] = place[same]
        known = np.flatnonzero(found >= 0)
        return known, self.labels[found[known]]


def _keys(points: np.ndarray) -> np.ndarray:
    """A number (n,) for each of points (n, f), which equal points share; each row on its own."""
    direction = np.random.default_rng(0).standard_normal(points.shape[1])
    return np.asarray((points * direction).sum(axis=1))


def _renormalized(memberships: np.ndarray, some_are_gone: bool) -> np.ndarray:
    """Memberships (., K) that sum to one again after some clusters have gone."""
    if not some_are_gone:
        return memberships
    memberships = memberships + 1e-12  # a row may have belonged to these alone
    return np.asarray(memberships / memberships.sum(axis=1, keepdims=True))


def average_memberships(
    answer: np.ndarray, candidates: Sequence[np.ndarray], probabilities: np.ndarray
) -> np.ndarray:
    """Memberships (m, K) in the clusters of the answer, averaged over candidates; its own label is largest.

    What a candidate gives to one of its clusters is divided as the rows of that are among the answer's.
    """
    memberships = np.zeros((len(answer), int(answer.max()) + 1))
    for labels, probability in zip(candidates, probabilities, strict=True):
        counts = np.zeros((labels.max() + 1, answer.max() + 1))
        np.add.at(counts, (labels, answer), 1)
        memberships += probability * (counts / counts.sum(axis=1, keepdims=True))[labels]
    rows = np.arange(len(answer))
    rivals = memberships.copy()
    rivals[rows, answer] = -np.inf
    most = rivals.max(axis=1) if memberships.shape[1] > 1 else np.zeros(len(answer))
    lost = memberships[rows, answer] <= most
    memberships[rows[lost], answer[lost]] = 1.02 * most[lost] + 1e-12
    return memberships / memberships.sum(axis=1, keepdims=True)
