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
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array
from scipy.special import gammaln

__all__ = [
    "PRIORS",
    "CovarianceType",
    "Diagonal",
    "Full",
    "NormalInverseWishart",
    "Posterior",
    "Spherical",
    "sum_by_label",
]

CovarianceType = Literal["full", "diag", "spherical"]
LOG_PI = float(np.log(np.pi))
LOG_2PI = float(np.log(2 * np.pi))
# Scatter below this is rounding: the data are scaled to unit spread.
LEAST_SCATTER = 1e-12


@dataclass(frozen=True)
class Posterior:
    """Parameters of K Normal-Inverse-Wishart posteriors."""

    kappa: np.ndarray  # (K,)
    nu: np.ndarray  # (K,)
    mean: np.ndarray  # (K, d)
    psi: np.ndarray  # (K, d, d) full, (K, d) diagonal, (K,) spherical


def sum_by_label(lifted: np.ndarray, labels: np.ndarray, n_clusters: int) -> np.ndarray:
    """Sum the rows of ``lifted`` (n, p) with the same label; (K, p)."""
    n = len(labels)
    member = csr_array((np.ones(n), labels, np.arange(n + 1)), shape=(n, n_clusters))
    return np.asarray(member.T @ lifted)


@dataclass(frozen=True)
class NormalInverseWishart(ABC):
    """The prior of one cluster; ``psi`` is a diagonal (d,), the same number d times if spherical."""

    kappa: float
    nu: float
    psi: np.ndarray  # (d,)

    covariance_type: ClassVar[CovarianceType]

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return len(self.psi)

    @property
    @abstractmethod
    def n_statistics(self) -> int:
        """Length p of T(x)."""

    @abstractmethod
    def lift(self, points: np.ndarray) -> np.ndarray:
        """T(x) of points (n, d); (n, p)."""

    @abstractmethod
    def posterior(self, statistics: np.ndarray) -> Posterior:
        """Posterior of K clusters with the given statistics (K, p)."""

    @abstractmethod
    def log_marginal(self, statistics: np.ndarray) -> np.ndarray:
        """Log marginal likelihood log f(X_k) of K clusters, parameters integrated out; (K,)."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, statistics: np.ndarray) -> np.ndarray:
        """Draw (mu, Sigma) of K clusters from their posterior, as natural parameters (K, p)."""

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
        """Log density of a new point in each cluster, a Student t; (n, K), each row on its own."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, posterior: Posterior, labels: np.ndarray) -> np.ndarray:
        """Draw a new point from the predictive t of each of the clusters ``labels`` (n,); (n, d)."""

    @abstractmethod
    def squared_distances(self, points: np.ndarray, posterior: Posterior) -> np.ndarray:
        """Squared distances (n, K) in the standard deviations of ``covariances``, each row on its own."""

    @abstractmethod
    def covariances(self, posterior: Posterior) -> np.ndarray:
        """Covariances of the predictive t, (K, d, d), or of a Normal of its shape where t has none."""

    def statistics(self, points: np.ndarray, labels: np.ndarray, n_clusters: int) -> np.ndarray:
        """Sufficient statistics (K, p) of the clusters of points (n, d) under labels (n,)."""
        return sum_by_label(self.lift(points), labels, n_clusters)

    def means(self, statistics: np.ndarray) -> np.ndarray:
        """Centres of K clusters, (K, d), with the statistics (K, p); zero for empty ones."""
        counts = np.maximum(statistics[:, :1], 1e-300)
        centres: np.ndarray = statistics[:, 1 : 1 + self.n_features] / counts
        return centres


class Full(NormalInverseWishart):
    """Any covariance matrix."""

    covariance_type = "full"

    @property
    def n_statistics(self) -> int:
        d = self.n_features
        return 1 + d + d * (d + 1) // 2

    def lift(self, points: np.ndarray) -> np.ndarray:
        n, d = points.shape
        lifted = np.empty((n, self.n_statistics))
        lifted[:, 0] = 1.0
        lifted[:, 1 : d + 1] = points
        start = d + 1
        for a in range(d):
            np.multiply(points[:, a : a + 1], points[:, a:], out=lifted[:, start : start + d - a])
            start += d - a
        return lifted

    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        return np.triu_indices(self.n_features)

    def posterior(self, statistics: np.ndarray) -> Posterior:
        d = self.n_features
        counts, sums = statistics[:, 0], statistics[:, 1 : d + 1]
        kappa = self.kappa + counts
        psi = np.empty((len(statistics), d, d))
        rows, columns = self._pairs()
        psi[:, rows, columns] = statistics[:, d + 1 :]
        psi[:, columns, rows] = statistics[:, d + 1 :]
        psi -= sums[:, :, None] * (sums / kappa[:, None])[:, None, :]
        psi[:, range(d), range(d)] = np.maximum(psi[:, range(d), range(d)], 0.0) + self.psi + LEAST_SCATTER
        return Posterior(kappa, self.nu + counts, sums / kappa[:, None], psi)

    def log_marginal(self, statistics: np.ndarray) -> np.ndarray:
        d, counts = self.n_features, statistics[:, 0]
        posterior = self.posterior(statistics)
        log_det = _log_det(np.linalg.cholesky(posterior.psi))
        # Gamma_d(nu* / 2) / Gamma_d(nu / 2) without the constants that cancel
        halves = (posterior.nu[:, None] - np.arange(d)) / 2
        log_gammas = gammaln(halves).sum(axis=1) - gammaln((self.nu - np.arange(d)) / 2).sum()
        log_det_prior = np.log(self.psi + LEAST_SCATTER).sum()
        result: np.ndarray = (
            -0.5 * counts * d * LOG_PI
            + log_gammas
            + 0.5 * self.nu * log_det_prior
            - 0.5 * posterior.nu * log_det
            + 0.5 * d * np.log(self.kappa / posterior.kappa)
        )
        return result

    def draw(self, rng: np.random.Generator, statistics: np.ndarray) -> np.ndarray:
        posterior = self.posterior(statistics)
        k, d = posterior.mean.shape
        # Bartlett: A lower triangular, A A' ~ Wishart(nu, I); precision = C^-T A A' C^-1 with Psi = C C'
        bartlett = np.tril(rng.standard_normal((k, d, d)), -1)
        squares = rng.chisquare(posterior.nu[:, None] - np.arange(d))
        bartlett[:, range(d), range(d)] = np.sqrt(np.maximum(squares, 1e-200))  # few degrees underflow
        root = np.linalg.cholesky(posterior.psi)
        half = np.linalg.solve(root.transpose(0, 2, 1), bartlett)  # precision = half half'
        noise = rng.standard_normal((k, d, 1)) / np.sqrt(posterior.kappa)[:, None, None]
        means = posterior.mean + np.linalg.solve(half.transpose(0, 2, 1), noise)[:, :, 0]
        return self._natural(means, half, 2 * (_log_det(bartlett) / 2 - _log_det(root) / 2))

    def expected(self, statistics: np.ndarray) -> np.ndarray:
        posterior = self.posterior(statistics)
        return self._with_precision(posterior, posterior.nu)

    def most_probable(self, statistics: np.ndarray) -> np.ndarray:
        posterior = self.posterior(statistics)
        return self._with_precision(posterior, posterior.nu - self.n_features + 1)

    def _with_precision(self, posterior: Posterior, degrees: np.ndarray) -> np.ndarray:
        """Natural parameters of Gaussians with the posterior means and the precisions degrees / Psi."""
        root = np.linalg.cholesky(posterior.psi)
        identity = np.broadcast_to(np.eye(self.n_features), root.shape)
        half = np.linalg.solve(root.transpose(0, 2, 1), identity) * np.sqrt(degrees)[:, None, None]
        log_det = self.n_features * np.log(degrees) - _log_det(root)
        return self._natural(posterior.mean, half, log_det)

    def _natural(self, means: np.ndarray, half: np.ndarray, log_det: np.ndarray) -> np.ndarray:
        """Natural parameters of Gaussians whose precisions are half half', of determinant exp(log_det)."""
        d = self.n_features
        precision = half @ half.transpose(0, 2, 1)
        linear = np.matmul(precision, means[:, :, None])[:, :, 0]
        eta = np.empty((len(means), self.n_statistics))
        eta[:, 0] = 0.5 * (log_det - d * LOG_2PI - (linear * means).sum(axis=1))
        eta[:, 1 : d + 1] = linear
        rows, columns = self._pairs()
        eta[:, d + 1 :] = -precision[:, rows, columns]
        eta[:, d + 1 :][:, rows == columns] *= 0.5
        return eta

    def log_predictive(self, points: np.ndarray, posterior: Posterior) -> np.ndarray:
        d, degrees = self.n_features, posterior.nu - self.n_features + 1
        scale = (posterior.kappa + 1) / (posterior.kappa * degrees)
        root = np.linalg.cholesky(posterior.psi)
        distances = self._distances(points, posterior.mean, root) / scale
        return _student_log_density(distances, degrees, _log_det(root) + d * np.log(scale), d)

    def _distances(self, points: np.ndarray, means: np.ndarray, root: np.ndarray) -> np.ndarray:
        """Squared lengths of root^-1 (x - mean), (n, K)."""
        distances = np.empty((len(points), len(means)))
        for k, mean in enumerate(means):
            whiten = solve_triangular(root[k], np.eye(self.n_features), lower=True)
            # einsum, no matrix product: each row must come out the same whatever rows stand beside it
            distances[:, k] = np.square(np.einsum("nd,ed->ne", points - mean, whiten)).sum(axis=1)
        return distances

    def sample(self, rng: np.random.Generator, posterior: Posterior, labels: np.ndarray) -> np.ndarray:
        degrees = posterior.nu - self.n_features + 1
        scale = np.sqrt((posterior.kappa + 1) / (posterior.kappa * degrees))[labels]
        noise = rng.standard_normal((len(labels), self.n_features))
        noise *= (scale / np.sqrt(rng.chisquare(degrees[labels]) / degrees[labels]))[:, None]
        root = np.linalg.cholesky(posterior.psi)
        return posterior.mean[labels] + np.einsum("nde,ne->nd", root[labels], noise)

    def squared_distances(self, points: np.ndarray, posterior: Posterior) -> np.ndarray:
        return self._distances(points, posterior.mean, np.linalg.cholesky(self.covariances(posterior)))

    def covariances(self, posterior: Posterior) -> np.ndarray:
        factor = _variance_factor(posterior, posterior.nu - self.n_features + 1)
        return posterior.psi * factor[:, None, None]


class Diagonal(NormalInverseWishart):
    """A variance for each feature, no correlation within a cluster."""

    covariance_type = "diag"

    @property
    def n_statistics(self) -> int:
        return 1 + 2 * self.n_features

    def lift(self, points: np.ndarray) -> np.ndarray:
        n, d = points.shape
        lifted = np.empty((n, self.n_statistics))
        lifted[:, 0] = 1.0
        lifted[:, 1 : d + 1] = points
        np.square(points, out=lifted[:, d + 1 :])
        return lifted

    def posterior(self, statistics: np.ndarray) -> Posterior:
        d = self.n_features
        counts, sums = statistics[:, 0], statistics[:, 1 : d + 1]
        kappa = self.kappa + counts
        mean = sums / kappa[:, None]
        psi = np.maximum(statistics[:, d + 1 :] - sums * mean, 0.0) + self.psi + LEAST_SCATTER
        return Posterior(kappa, self.nu + counts, mean, psi)

    def log_marginal_by_feature(self, statistics: np.ndarray) -> np.ndarray:
        """Log marginal likelihood of each feature of each cluster, (K, d); they add up."""
        counts = statistics[:, :1]
        posterior = self.posterior(statistics)
        nu = posterior.nu[:, None]
        result: np.ndarray = (
            -0.5 * counts * LOG_PI
            + gammaln(nu / 2)
            - gammaln(self.nu / 2)
            + 0.5 * self.nu * np.log(self.psi + LEAST_SCATTER)
            - 0.5 * nu * np.log(posterior.psi)
            + 0.5 * np.log(self.kappa / posterior.kappa)[:, None]
        )
        return result

    def log_marginal(self, statistics: np.ndarray) -> np.ndarray:
        return self.log_marginal_by_feature(statistics).sum(axis=1)

    def draw(self, rng: np.random.Generator, statistics: np.ndarray) -> np.ndarray:
        posterior = self.posterior(statistics)
        precisions = rng.standard_gamma(posterior.nu[:, None] / 2, posterior.psi.shape) / (posterior.psi / 2)
        precisions = np.maximum(precisions, 1e-300)
        noise = rng.standard_normal(precisions.shape)
        return self._natural(
            posterior.mean + noise / np.sqrt(posterior.kappa[:, None] * precisions), precisions
        )

    def expected(self, statistics: np.ndarray) -> np.ndarray:
        posterior = self.posterior(statistics)
        return self._natural(posterior.mean, posterior.nu[:, None] / posterior.psi)

    def _natural(self, means: np.ndarray, precisions: np.ndarray) -> np.ndarray:
        d = self.n_features
        eta = np.empty((len(means), self.n_statistics))
        linear = means * precisions
        eta[:, 0] = 0.5 * (np.log(precisions) - linear * means).sum(axis=1) - 0.5 * d * LOG_2PI
        eta[:, 1 : d + 1] = linear
        eta[:, d + 1 :] = -0.5 * precisions
        return eta

    def log_predictive(self, points: np.ndarray, posterior: Posterior) -> np.ndarray:
        factor = (posterior.kappa + 1) / (posterior.kappa * posterior.nu)
        scales = posterior.psi * factor[:, None]
        result = np.zeros((len(points), len(factor)))
        for a in range(self.n_features):  # each feature has a t of its own
            distances = np.square(points[:, a, None] - posterior.mean[:, a]) / scales[:, a]
            result += _student_log_density(distances, posterior.nu, np.log(scales[:, a]), 1)
        return result

    def sample(self, rng: np.random.Generator, posterior: Posterior, labels: np.ndarray) -> np.ndarray:
        factor = (posterior.kappa + 1) / (posterior.kappa * posterior.nu)
        scales = np.sqrt(posterior.psi * factor[:, None])[labels]
        return posterior.mean[labels] + scales * rng.standard_t(posterior.nu[labels, None], scales.shape)

    def _variances(self, posterior: Posterior) -> np.ndarray:
        return posterior.psi * _variance_factor(posterior, posterior.nu)[:, None]

    def squared_distances(self, points: np.ndarray, posterior: Posterior) -> np.ndarray:
        distances = np.zeros((len(points), len(posterior.mean)))
        for coordinate, mean, variance in zip(
            points.T, posterior.mean.T, self._variances(posterior).T, strict=True
        ):
            distances += np.square(coordinate[:, None] - mean) / variance
        return distances

    def covariances(self, posterior: Posterior) -> np.ndarray:
        return self._variances(posterior)[:, :, None] * np.eye(self.n_features)


class Spherical(NormalInverseWishart):
    """One variance for all features."""

    covariance_type = "spherical"

    @property
    def n_statistics(self) -> int:
        return 2 + self.n_features

    def lift(self, points: np.ndarray) -> np.ndarray:
        n, d = points.shape
        lifted = np.empty((n, d + 2))
        lifted[:, 0] = 1.0
        lifted[:, 1 : d + 1] = points
        np.square(points).sum(axis=1, out=lifted[:, d + 1])
        return lifted

    def posterior(self, statistics: np.ndarray) -> Posterior:
        d = self.n_features
        counts, sums = statistics[:, 0], statistics[:, 1 : d + 1]
        kappa = self.kappa + counts
        mean = sums / kappa[:, None]
        scatter = np.maximum(statistics[:, d + 1] - (sums * mean).sum(axis=1), 0.0)
        return Posterior(kappa, self.nu + counts * d, mean, scatter + self.psi[0] + LEAST_SCATTER)

    def log_marginal(self, statistics: np.ndarray) -> np.ndarray:
        d, counts = self.n_features, statistics[:, 0]
        posterior = self.posterior(statistics)
        result: np.ndarray = (
            -0.5 * counts * d * LOG_PI
            + gammaln(posterior.nu / 2)
            - gammaln(self.nu / 2)
            + 0.5 * self.nu * np.log(self.psi[0] + LEAST_SCATTER)
            - 0.5 * posterior.nu * np.log(posterior.psi)
            + 0.5 * d * np.log(self.kappa / posterior.kappa)
        )
        return result

    def draw(self, rng: np.random.Generator, statistics: np.ndarray) -> np.ndarray:
        posterior = self.posterior(statistics)
        precisions = np.maximum(rng.standard_gamma(posterior.nu / 2) / (posterior.psi / 2), 1e-300)
        noise = rng.standard_normal(posterior.mean.shape)
        means = posterior.mean + noise / np.sqrt(posterior.kappa * precisions)[:, None]
        return self._natural(means, precisions)

    def expected(self, statistics: np.ndarray) -> np.ndarray:
        posterior = self.posterior(statistics)
        return self._natural(posterior.mean, posterior.nu / posterior.psi)

    def _natural(self, means: np.ndarray, precisions: np.ndarray) -> np.ndarray:
        d = self.n_features
        eta = np.empty((len(means), d + 2))
        linear = means * precisions[:, None]
        eta[:, 0] = 0.5 * (d * np.log(precisions) - d * LOG_2PI - (linear * means).sum(axis=1))
        eta[:, 1 : d + 1] = linear
        eta[:, d + 1] = -0.5 * precisions
        return eta

    def log_predictive(self, points: np.ndarray, posterior: Posterior) -> np.ndarray:
        d = self.n_features
        scales = posterior.psi * (posterior.kappa + 1) / (posterior.kappa * posterior.nu)
        distances = self._distances(points, posterior.mean) / scales
        return _student_log_density(distances, posterior.nu, d * np.log(scales), d)

    def _distances(self, points: np.ndarray, means: np.ndarray) -> np.ndarray:
        distances = np.zeros((len(points), len(means)))
        for coordinate, mean in zip(points.T, means.T, strict=True):
            distances += np.square(coordinate[:, None] - mean)
        return distances

    def sample(self, rng: np.random.Generator, posterior: Posterior, labels: np.ndarray) -> np.ndarray:
        variances = posterior.psi * (posterior.kappa + 1) / (posterior.kappa * posterior.nu)
        degrees = posterior.nu[labels]
        scales = np.sqrt(variances[labels] / (rng.chisquare(degrees) / degrees))
        return posterior.mean[labels] + scales[:, None] * rng.standard_normal((len(labels), self.n_features))

    def squared_distances(self, points: np.ndarray, posterior: Posterior) -> np.ndarray:
        variances = posterior.psi * _variance_factor(posterior, posterior.nu)
        return self._distances(points, posterior.mean) / variances

    def covariances(self, posterior: Posterior) -> np.ndarray:
        variances = posterior.psi * _variance_factor(posterior, posterior.nu)
        return variances[:, None, None] * np.eye(self.n_features)


PRIORS: dict[CovarianceType, type[NormalInverseWishart]] = {
    "full": Full,
    "diag": Diagonal,
    "spherical": Spherical,
}


def _log_det(root: np.ndarray) -> np.ndarray:
    """Log determinant of the matrices whose triangular roots (K, d, d) are given."""
    result: np.ndarray = 2 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    return result


def _variance_factor(posterior: Posterior, degrees: np.ndarray) -> np.ndarray:
    """What Psi is multiplied by to give the variance of a t, or its squared scale where that is infinite."""
    finite = np.where(degrees > 2, degrees - 2, degrees)
    factor: np.ndarray = (posterior.kappa + 1) / (posterior.kappa * finite)
    return factor


def _student_log_density(
    distances: np.ndarray, degrees: np.ndarray, log_det: np.ndarray, d: int
) -> np.ndarray:
    """Log density of d-dimensional t at squared scaled distances (n, K)."""
    constant = gammaln((degrees + d) / 2) - gammaln(degrees / 2) - 0.5 * d * np.log(degrees * np.pi)
    result: np.ndarray = constant - 0.5 * log_det - 0.5 * (degrees + d) * np.log1p(distances / degrees)
    return result
