"""Who belongs where: the one protocol between clusters and rows, those of a fit and those to come.

==================  =========================================================================================
``Assigner``        memberships, outlier scores and quick labels of rows, each row on its own
``ClusterDensity``  clusters as densities: an assigner by Bayes' rule, with all that follows from a density
==================  =========================================================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from scipy.special import chdtr, chdtrc, gammaincinv, logsumexp, softmax

__all__ = ["AssignedRows", "Assigner", "ClusterDensity", "max_ordinary_distance", "outlier_scores"]

# The exponential of anything below is zero.
LOG_OF_ZERO = -760.0
# Steps of EM for the mixing weights alone.
MIXING_STEPS = 20


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
    def nearest_distances(self, points: np.ndarray) -> np.ndarray:
        """Squared distance of each point to the nearest cluster in its standard deviations, (n,)."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, n_samples: int) -> tuple[np.ndarray, np.ndarray]:
        """Points (n_samples, f) drawn from the mixture and their clusters (n_samples,), sorted by cluster."""

    def memberships(self, points: np.ndarray) -> np.ndarray:
        """See ``Assigner``; by Bayes' rule."""
        return np.asarray(softmax(self.log_joint(points), axis=1))

    def outlier_scores(self, points: np.ndarray, n_rows: int) -> np.ndarray:
        """See ``Assigner``; by the distance to the nearest cluster."""
        return outlier_scores(self.nearest_distances(points), points.shape[1], n_rows)

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
