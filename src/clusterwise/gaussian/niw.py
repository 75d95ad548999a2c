"""The Normal-Inverse-Wishart prior of a Gaussian cluster, with full, diagonal or spherical covariance.

    Sigma ~ IW(nu, Psi),   mu | Sigma ~ Normal(0, Sigma / kappa),   x | mu, Sigma ~ Normal(mu, Sigma)

The prior mean is zero: the data are shifted so that it is. Everything about a cluster is in its sufficient
statistics, a vector of sums over its points of T(x) = (1, x, quadratic terms of x):

===========  ==========================  =======================================================
covariance   quadratic terms             prior of the covariance
===========  ==========================  =======================================================
full         x_a x_b for a <= b          IW(nu, Psi)
diagonal     x_a^2                       sigma_a^2 ~ IG(nu / 2, Psi_a / 2), one for each feature
spherical    x . x                       sigma^2 ~ IG(nu / 2, Psi / 2), one for all features
===========  ==========================  =======================================================

So the statistics of K clusters are an array (K, p), those of a union are sums of rows, and the log density
of a Gaussian is T(x) . eta with its natural parameters eta: a whole data set against K clusters is one
matrix product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.special import gammaln

from clusterwise._compiled import compiled
from clusterwise.rows.sorted_rows import Rows

__all__ = [
    "LOG_2PI",
    "LOG_PI",
    "MIN_SCATTER",
    "CovarianceType",
    "NormalInverseWishart",
    "Posterior",
    "statistics_of",
    "student_log_density",
    "sum_by_label",
    "variance_factor",
]

CovarianceType = Literal["full", "diag", "spherical"]
LOG_PI = float(np.log(np.pi))
LOG_2PI = float(np.log(2 * np.pi))
# Scatter below this is rounding: the data are scaled to unit spread.
MIN_SCATTER = 1e-12


@dataclass(frozen=True)
class Posterior:
    """Parameters of K Normal-Inverse-Wishart posteriors."""

    kappa: np.ndarray  # (K,)
    nu: np.ndarray  # (K,)
    mean: np.ndarray  # (K, d)
    psi: np.ndarray  # (K, d, d) full, (K, d) diagonal, (K, 1) spherical


def sum_by_label(terms: np.ndarray, labels: np.ndarray, n_clusters: int) -> np.ndarray:
    """Sums (K, p) of the rows of ``terms`` (n, p) with the same label."""
    sums = np.zeros((n_clusters, terms.shape[1]))
    _add_by_label(terms, labels, sums)
    return sums


@compiled
def _add_by_label(terms: np.ndarray, labels: np.ndarray, sums: np.ndarray) -> None:
    for i in range(len(labels)):
        for a in range(terms.shape[1]):
            sums[labels[i], a] += terms[i, a]


@dataclass(frozen=True)
class NormalInverseWishart(ABC):
    """The prior of one cluster; ``psi`` is a diagonal (d,), the same number d times if spherical.

    ``nu`` (K,) and ``psi`` (K, d) give each of K clusters a prior of its own in the closed forms
    ``posterior``, ``log_marginal`` and ``expected``.
    """

    kappa: float
    nu: float | np.ndarray
    psi: np.ndarray  # (d,)

    covariance_type: ClassVar[CovarianceType]

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return int(self.psi.shape[-1])

    @property
    @abstractmethod
    def n_statistics(self) -> int:
        """Length p of T(x)."""

    @abstractmethod
    def terms(self, points: np.ndarray) -> np.ndarray:
        """T(x) (n, p) of points (n, d)."""

    def smoothed(self, terms: np.ndarray, variance: float) -> np.ndarray:
        """T(x) (n, p) expected over noise of this variance in every direction; ``terms`` is overwritten."""
        terms[:, self.n_features + 1 :] += variance * self.unit_noise()
        return terms

    @abstractmethod
    def unit_noise(self) -> np.ndarray:
        """What noise of unit variance in every direction adds to the quadratic terms."""

    @abstractmethod
    def posterior(self, statistics: np.ndarray) -> Posterior:
        """Posterior of K clusters with the given statistics (K, p)."""

    @abstractmethod
    def log_marginal(self, statistics: np.ndarray) -> np.ndarray:
        """Log marginal likelihood log f(X_k) of K clusters, parameters integrated out; (K,)."""

    def log_marginal_of_each(self, statistics: np.ndarray) -> np.ndarray:
        """Log marginal likelihood (S, K) of K clusters under S priors, ``nu`` (S,) and ``psi`` (S, d)."""
        k, s = len(statistics), len(self.psi)
        repeated = type(self)(self.kappa, np.repeat(self.nu, k), np.repeat(self.psi, k, axis=0))
        return repeated.log_marginal(np.tile(statistics, (s, 1))).reshape(s, k)

    @abstractmethod
    def draw(self, rng: np.random.Generator, statistics: np.ndarray) -> np.ndarray:
        """Natural parameters (K, p) of (mu, Sigma) drawn from the posterior of K clusters."""

    @abstractmethod
    def expected(self, statistics: np.ndarray) -> np.ndarray:
        """Natural parameters (K, p) of Gaussians with the posterior means of mu and of the precision."""

    def most_probable(self, statistics: np.ndarray) -> np.ndarray:
        """Natural parameters (K, p) of the MAP Gaussians; statistics may be weighted sums.

        mu is the posterior mean and Sigma = Psi / (nu - d + 1), as in the slides of DeepDPM; a diagonal or
        spherical covariance is d = 1 for this purpose, and so the same as the expected precision.
        """
        return self.expected(statistics)

    @abstractmethod
    def log_predictive(self, points: np.ndarray, posterior: Posterior) -> np.ndarray:
        """Log density (n, K) of a new point in each cluster, a Student t; each row on its own."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, posterior: Posterior, labels: np.ndarray) -> np.ndarray:
        """Points (n, d) drawn from the predictive t of the clusters ``labels`` (n,)."""

    @abstractmethod
    def squared_distances(self, points: np.ndarray, posterior: Posterior) -> np.ndarray:
        """Squared distances (n, K) in the standard deviations of ``covariances``, each row on its own."""

    @abstractmethod
    def widths(self, posterior: Posterior, variance: np.ndarray) -> np.ndarray:
        """Largest variances (K,) of ``covariances`` in any direction, in units of those of features (d,)."""

    @abstractmethod
    def covariances(self, posterior: Posterior) -> np.ndarray:
        """Covariances (K, d, d) of the predictive t, or of a Normal of its shape where t has none."""

    def statistics(self, points: np.ndarray, labels: np.ndarray, n_clusters: int) -> np.ndarray:
        """Sufficient statistics (K, p) of the clusters of points (n, d) under labels (n,)."""
        return sum_by_label(self.terms(points), labels, n_clusters)

    @abstractmethod
    def is_possible(self, statistics: np.ndarray) -> bool:
        """Whether sums (K, p) can be those of points: no cluster has a negative scatter."""

    def means(self, statistics: np.ndarray) -> np.ndarray:
        """Centres (K, d) of K clusters with statistics (K, p); zero for empty ones."""
        counts = np.maximum(statistics[:, :1], 1e-300)
        centres: np.ndarray = statistics[:, 1 : 1 + self.n_features] / counts
        return centres


def statistics_of(rows: Rows, labels: np.ndarray, n_clusters: int, prior: NormalInverseWishart) -> np.ndarray:
    """Sufficient statistics (K, p) of rows with labels (n,), added up over chunks."""
    total = np.zeros((n_clusters, prior.n_statistics))
    for part, points in rows.chunks(prior.n_statistics):
        total += prior.statistics(points, labels[part], n_clusters)
    return total


def variance_factor(posterior: Posterior, degrees: np.ndarray) -> np.ndarray:
    """Factors (K,) from Psi to the variance of a t, or to its squared scale where that is infinite."""
    finite = np.where(degrees > 2, degrees - 2, degrees)
    factor: np.ndarray = (posterior.kappa + 1) / (posterior.kappa * finite)
    return factor


def student_log_density(
    distances: np.ndarray, degrees: np.ndarray, log_det: np.ndarray, d: int
) -> np.ndarray:
    """Log density of d-dimensional t at squared scaled distances (n, K)."""
    constant = gammaln((degrees + d) / 2) - gammaln(degrees / 2) - 0.5 * d * np.log(degrees * np.pi)
    result: np.ndarray = constant - 0.5 * log_det - 0.5 * (degrees + d) * np.log1p(distances / degrees)
    return result
