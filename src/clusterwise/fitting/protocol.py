"""Who belongs where: assigners of rows to clusters, what a method returns of them, and what a method is.

``BaseClusterer.fit`` checks X, maps its rows to features, calls the method, and stores what it returned::

    X -> array or source -> SortedRows -> method.cluster -> Clustering -> assign_rows -> attributes

A method is a frozen dataclass of settings that knows nothing of its estimator. It gets rows that are sorted
and scaled, sees as many of them as it likes, and returns clusters that anyone can be assigned to; the rows of
``fit`` are assigned here, as all others are, unless it labelled them itself. Nothing has to be in the order
of the input: clusters without a row are dropped and the others named by first appearance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from scipy.special import chdtr, chdtrc, gammaincinv, logsumexp, softmax

from clusterwise._threads import Progress, in_threads
from clusterwise.affine import FeatureSpace
from clusterwise.exceptions import ClusterwiseWarning
from clusterwise.partition import PartitionPosterior
from clusterwise.rows.sorted_rows import SortedRows

__all__ = [
    "MAX_ROWS",
    "MIN_PROBABILITY",
    "AssignedRows",
    "Assigner",
    "ClusterDensity",
    "Clustering",
    "ClusteringPosterior",
    "Method",
    "Progress",
    "assign_rows",
    "by_first_appearance",
    "exchange_largest",
    "log_sampling_correction",
    "max_ordinary_distance",
    "outlier_scores",
    "score_rows",
]

# Rows that clusters are fitted to where nothing else is said; of more a random part, and all are assigned.
MAX_ROWS = 10_000
# Clusterings less probable than this, relative to the others, are left out.
MIN_PROBABILITY = 1e-4

# The exponential of anything below is zero.
LOG_OF_ZERO = -760.0
# Steps of EM for the mixing weights alone.
MIXING_STEPS = 20


# -- who belongs to which cluster ----------------------------------------------------------------------


class AssignedRows(NamedTuple):
    """What is written down of n rows."""

    labels: np.ndarray  # (n,) int32
    probabilities: np.ndarray  # (n,) of the label, float32
    outlier_scores: np.ndarray  # (n,) float64: how small scores differ matters


class Assigner(ABC):
    """Says who belongs to which of K clusters; points (n, f) are features, and each row counts on its own."""

    # Outlier score above which a row is not an ordinary one.
    outlying: ClassVar[float] = 0.0

    @property
    @abstractmethod
    def n_clusters(self) -> int:
        """Number of clusters K."""

    @abstractmethod
    def memberships(self, points: np.ndarray) -> np.ndarray:
        """Probability of each cluster for each point, (n, K); rows sum to one."""

    @abstractmethod
    def outlier_scores(self, points: np.ndarray, n_rows: int) -> np.ndarray:
        """How far out each point lies, (n,) in [0, 1], as one of a data set of ``n_rows``."""

    @abstractmethod
    def select(self, clusters: np.ndarray) -> Self:
        """The clusters with these indices, in this order; what others had is divided among them."""

    def assign(self, points: np.ndarray, n_rows: int) -> AssignedRows:
        """Labels, their probabilities and outlier scores: what is kept of very many rows."""
        membership = self.memberships(points)
        probabilities = membership.max(axis=1).astype(np.float32)
        scores = self.outlier_scores(points, n_rows)
        return AssignedRows(membership.argmax(axis=1).astype(np.int32), probabilities, scores)

    def with_mixing_weights(self, points: np.ndarray, weights: np.ndarray) -> Self:
        """The same clusters with the mixing weights that points (n, f) give them, by ``weights`` (n,).

        Only densities have mixing weights, so that nothing changes for others.
        """
        return self


class ClusterDensity(Assigner):
    """K clusters as densities with mixing weights, whatever their shape."""

    @property
    @abstractmethod
    def covariance_type(self) -> Literal["full", "diag", "spherical"] | None:
        """That of Gaussian clusters; None for others."""

    @property
    @abstractmethod
    def proportions(self) -> np.ndarray:
        """Mixing weight of each cluster, (K,)."""

    @property
    @abstractmethod
    def means(self) -> np.ndarray:
        """Centres of the clusters, (K, f)."""

    @property
    @abstractmethod
    def covariances(self) -> np.ndarray:
        """Covariances of the clusters, (K, f, f)."""

    @abstractmethod
    def with_proportions(self, proportions: np.ndarray) -> Self:
        """The same clusters with other mixing weights (K,)."""

    @abstractmethod
    def log_joint(self, points: np.ndarray) -> np.ndarray:
        """Log of mixing weight times density, (n, K), each row on its own."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, n_samples: int) -> tuple[np.ndarray, np.ndarray]:
        """Points (n_samples, f) drawn from the mixture and their clusters (n_samples,), sorted by cluster."""

    def memberships(self, points: np.ndarray) -> np.ndarray:
        """See ``Assigner``; by Bayes' rule."""
        return np.asarray(softmax(self.log_joint(points), axis=1))

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Log density of each point, (n,)."""
        return np.asarray(logsumexp(self.log_joint(points), axis=1))

    def with_mixing_weights(self, points: np.ndarray, weights: np.ndarray) -> Self:
        """See ``Assigner``; by EM for the mixing weights alone."""
        proportions = self.proportions
        log_densities = self.log_joint(points) - np.log(proportions)
        for _ in range(MIXING_STEPS):
            membership = softmax(log_densities + np.log(proportions), axis=1)
            proportions = np.maximum(weights @ membership / weights.sum(), np.finfo(np.float64).tiny)
        return self.with_proportions(proportions)


def outlier_scores(nearest: np.ndarray, d: int, n_points: int) -> np.ndarray:
    """P(none of ``n_points`` is as far out) for squared distances (n,) in standard deviations, d features.

    Under the mixture the distance to the nearest cluster is at most chi-squared with d degrees of freedom.
    Ordinary points score near zero, a point farther out than the farthest of n should be scores near one.
    """
    scores = np.zeros(len(nearest))  # what nearly all of many points have
    far = np.flatnonzero(nearest >= max_ordinary_distance(d, n_points))
    if len(far) > 0:
        x = nearest[far]
        with np.errstate(divide="ignore"):  # log P(chi-squared < x), a millisecond less than by scipy.stats
            log_p = np.where(x < d, np.log(chdtr(d, x)), np.log1p(-chdtrc(d, x)))
        scores[far] = np.exp(n_points * log_p)
    return scores


def max_ordinary_distance(d: int, n_points: int) -> float:
    """Squared distance below which the outlier score of one of ``n_points`` with d features is zero."""
    return float(2 * gammaincinv(d / 2, np.exp(LOG_OF_ZERO / n_points)))


# -- methods, and what they return ---------------------------------------------------------------------


@dataclass(frozen=True)
class Clustering:
    """K clusters that a method found in n rows."""

    density: ClusterDensity  # the clusters in the space of features
    assigner: Assigner  # who belongs to them; often the density itself
    labels: np.ndarray | None = None  # (n,) of the sorted rows; -1, or None for all: by the assigner
    cap_reached: bool = False
    warnings: tuple[ClusterwiseWarning, ...] = ()  # what a user should know of how the fit ended
    any_shape: bool = False  # whether Gaussians only summarize the clusters
    k_posterior: dict[int, float] | None = None  # where the method knows P(K) without further draws
    drawn: np.ndarray | None = None  # (S, n) labels in the input's order that the method drew itself
    weights_name: str | None = None  # of the network behind the clusters, if there is one
    learned: SortedRows | None = None  # the rows in features that the method learned, if these are others
    details: Any = None  # what the estimator's own attributes show: steps, draws, a tree

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""
        return self.assigner.n_clusters

    def select(self, clusters: np.ndarray) -> Clustering:
        """The clusters with these indices, in this order; none of the method's own labels is left out."""
        labels = self.labels
        if labels is not None:
            names = np.full(self.n_clusters + 1, -1)  # -1 stays -1
            names[clusters] = np.arange(len(clusters))
            labels = names[labels]
        density, assigner = self.density.select(clusters), self.assigner
        same = assigner is self.density
        return replace(
            self, density=density, assigner=density if same else assigner.select(clusters), labels=labels
        )

    def with_mixing_weights(self, features: np.ndarray, weights: np.ndarray) -> Clustering:
        """The same with the mixing weights that rows (n, f) give the clusters, by ``weights`` (n,)."""
        density = self.density.with_mixing_weights(features, weights)
        if self.assigner is self.density:
            return replace(self, density=density, assigner=density)
        return replace(self, density=density, assigner=self.assigner.with_mixing_weights(features, weights))


class Method(ABC):
    """What finds the clusters of data sets; see the module. Subclasses are frozen dataclasses of settings."""

    # Rows of a source that are enough: of more a sample is clustered, and all are assigned.
    max_rows: int = MAX_ROWS
    # Whether ``cluster`` itself looks at all rows of a source or of a large mapped file.
    sees_all_rows: ClassVar[bool] = False

    # The map from sorted points (n, d) to the features that the method wants; a method or a field.
    fit_space: Callable[[np.ndarray], FeatureSpace]

    @abstractmethod
    def cluster(self, sets: Sequence[SortedRows], seed: int, progress: Progress) -> list[Clustering]:
        """Clusters of each data set; it does not matter which others there are."""

    def posterior(self, rows: SortedRows, found: Clustering, seed: int) -> ClusteringPosterior:
        """Other clusterings of the rows with their probabilities, where none are ``drawn`` already."""
        raise NotImplementedError


def assign_rows(rows: SortedRows, found: Clustering) -> tuple[SortedRows, Clustering, np.ndarray]:
    """Rows in the clusters' features, clusters that some row prefers by first appearance, memberships (n, K).

    The largest entry of a row is its label, be it the assigner's or the method's own.
    """
    if found.learned is not None:
        rows, found = found.learned, replace(found, learned=None)
    while True:
        membership = _by_chunks(rows, found, found.assigner.memberships)
        if found.labels is not None:
            own = np.flatnonzero(found.labels >= 0)
            exchange_largest(membership, own, found.labels[own])
        in_use = by_first_appearance(membership.argmax(axis=1), found.n_clusters, rows.order)
        if np.array_equal(in_use, np.arange(found.n_clusters)):
            return rows, found, membership
        # A row between two clusters prefers the first of them: look again after they changed places.
        found = found.select(in_use)


def score_rows(rows: SortedRows, found: Clustering) -> np.ndarray:
    """Outlier scores (n,) of the sorted rows."""
    n = len(rows.rows.points)
    return _by_chunks(rows, found, lambda features: found.assigner.outlier_scores(features, n))


def by_first_appearance(labels: np.ndarray, n_clusters: int, order: np.ndarray | None) -> np.ndarray:
    """Return the clusters in use, (K,), the one that comes first in the input first.

    ``labels`` (n,) are those of the sorted rows, out of 0 .. ``n_clusters`` - 1.
    """
    never = np.iinfo(np.int64).max
    first = np.full(n_clusters, never)
    np.minimum.at(first, labels, np.arange(len(labels)) if order is None else order)
    return np.argsort(first, kind="stable")[: np.count_nonzero(first < never)]


def _by_chunks(
    rows: SortedRows, found: Clustering, function: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """What a function gives for the features of all rows, chunk by chunk."""
    parts = list(rows.rows.parts(found.n_clusters + rows.rows.n_features))

    if len(parts) == 1:
        return function(rows.rows.take(parts[0]))

    def of_part(part: slice) -> np.ndarray:
        return function(rows.rows.take(part))

    return np.concatenate(in_threads(of_part, parts))


def exchange_largest(membership: np.ndarray, rows: np.ndarray, labels: np.ndarray) -> None:
    """Exchange the entry of a row's label with the largest one, so that it is the largest."""
    lost = membership[rows].argmax(axis=1) != labels
    rows, labels = rows[lost], labels[lost]
    largest = membership[rows].argmax(axis=1)
    entries = membership[rows, largest]
    membership[rows, largest] = membership[rows, labels]
    # A little more where both are equal: the first of equals would count as the largest.
    tied = membership[rows, largest] == entries
    membership[rows, labels] = np.where(tied, np.nextafter(entries, np.inf), entries)


# -- what else may be true ---------------------------------------------------------------------------


@dataclass(frozen=True)
class ClusteringPosterior:
    """Clusterings of a data set, all their clusters in use, and the probability of each."""

    assigners: Sequence[Assigner]
    probabilities: np.ndarray
    labels: Sequence[np.ndarray] = ()  # (n,) of the sorted rows of each, as in ``Clustering``; empty: none

    @classmethod
    def of(
        cls,
        rows: SortedRows,
        assigners: Sequence[Assigner],
        log_probabilities: np.ndarray,
        labels: Sequence[np.ndarray] = (),
    ) -> ClusteringPosterior:
        """Likely clusterings, given unnormalized log probabilities for rows that were chosen evenly."""
        if rows.weights is not None:
            found = [one.memberships(rows.features) for one in assigners]
            log_probabilities = log_probabilities + [log_sampling_correction(m, rows.weights) for m in found]
        probabilities = np.exp(log_probabilities - log_probabilities.max())
        likely = np.flatnonzero(probabilities >= MIN_PROBABILITY).tolist()
        return cls(
            tuple(assigners[i] for i in likely),
            probabilities[likely] / probabilities[likely].sum(),
            tuple(labels[i] for i in likely if labels),
        )

    @property
    def k_posterior(self) -> dict[int, float]:
        """P(K), sorted by K."""
        by_k = np.bincount([one.n_clusters for one in self.assigners], weights=self.probabilities)
        return {int(k): float(by_k[k]) for k in np.flatnonzero(by_k)}

    def sample(self, rows: SortedRows, n_samples: int, seed: int) -> PartitionPosterior:
        """Partitions of all rows in the input's order: a clustering by its probability, then a cluster a row.

        Clusterings are drawn evenly: of n_samples equally likely ones each comes once.
        """
        rng = np.random.default_rng(seed)
        places = (np.arange(n_samples) + rng.random()) / n_samples
        last = len(self.probabilities) - 1
        drawn = np.minimum(np.searchsorted(self.probabilities.cumsum(), places), last)
        result = np.empty((n_samples, len(rows)), dtype=np.int64)
        for chosen in np.unique(drawn):
            own = self.labels[chosen] if self.labels else np.full(len(rows), -1)
            edges = None
            if (own < 0).any():
                edges = self.assigners[chosen].memberships(rows.features).cumsum(axis=1)[:, :-1]
            for draw in np.flatnonzero(drawn == chosen):
                labels = own
                if edges is not None:
                    labels = np.where(own < 0, (rng.random((len(rows), 1)) > edges).sum(axis=1), own)
                result[draw] = rows.in_input_order(labels)
        return PartitionPosterior(result)


def log_sampling_correction(membership: np.ndarray, weights: np.ndarray) -> float:
    """What the evidence of clusters, memberships (n, K), lacks if rows were chosen unevenly, by weights (n,).

    The evidence takes all mixing weights for equally likely a priori: those in the sample, p_k, in place of
    those among all rows, q_k = p_k w_k / sum_l p_l w_l. The determinant of the change from p to q is the
    product of q_k / p_k. A cluster that fills more of the sample than of the data is thus less probable.
    """
    in_sample = membership.mean(axis=0)
    among_all = weights @ membership / weights.sum()
    tiny = np.finfo(np.float64).tiny
    return float(np.log(np.maximum(among_all, tiny) / np.maximum(in_sample, tiny)).sum())
