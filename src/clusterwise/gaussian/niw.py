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

Matrices of full covariances are small and many: one call of a library for each would take longer than its
arithmetic, hence compiled loops, which run along rows. Those with an underscore get the room that they write
to, because code that allocates takes longer to compile.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
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
    "Full",
    "NormalInverseWishart",
    "Posterior",
    "full_terms",
    "log_det_of_root",
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


# -- with correlations ---------------------------------------------------------------------------


class Full(NormalInverseWishart):
    """Any covariance matrix."""

    covariance_type = "full"

    @property
    def n_statistics(self) -> int:
        d = self.n_features
        return 1 + d + d * (d + 1) // 2

    def terms(self, points: np.ndarray) -> np.ndarray:
        return full_terms(points)

    def unit_noise(self) -> np.ndarray:
        return (_places(self.n_features)[2] == 1.0).astype(np.float64)

    def is_possible(self, statistics: np.ndarray) -> bool:
        d, means = self.n_features, self.means(statistics)
        scatter = statistics[:, d + 1 :].take(_places(d)[0], axis=1).reshape(-1, d, d)
        scatter -= statistics[:, :1, None] * means[:, :, None] * means[:, None, :]
        scatter[:, range(d), range(d)] += MIN_SCATTER
        try:
            np.linalg.cholesky(scatter)
        except np.linalg.LinAlgError:
            return False
        return True

    def _parameters(self, statistics: np.ndarray) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
        """Statistics and prior, ``nu`` (1,) or (K,) and ``psi`` (1, d) or (K, d), for compiled functions."""
        nu = np.asarray(self.nu, dtype=np.float64).reshape(-1)
        return np.ascontiguousarray(statistics), self.kappa, nu, self.psi.reshape(-1, self.n_features)

    def posterior(self, statistics: np.ndarray) -> Posterior:
        statistics, kappa, _, psi = self._parameters(statistics)
        k, d = len(statistics), self.n_features
        means, matrices = np.empty((k, d)), np.empty((k, d, d))
        _posteriors(statistics, kappa, psi, means, matrices)
        counts = statistics[:, 0]
        return Posterior(kappa + counts, self.nu + counts, means, matrices)

    def log_marginal(self, statistics: np.ndarray) -> np.ndarray:
        values: np.ndarray = self.log_marginal_of_each(statistics)[0]
        return values

    def log_marginal_of_each(self, statistics: np.ndarray) -> np.ndarray:
        statistics, kappa, nu, psi = self._parameters(statistics)
        values, d = np.empty((len(nu), len(statistics))), self.n_features
        _log_marginals(statistics, kappa, nu, psi, np.empty((3, d, d)), values)
        return values

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
        precision, log_det = half @ half.transpose(0, 2, 1), log_det_of_root(bartlett) - log_det_of_root(root)
        linear = np.matmul(precision, means[:, :, None])[:, :, 0]
        _, upper, times = _places(d)
        eta = np.empty((k, self.n_statistics))
        eta[:, 0] = 0.5 * (log_det - d * LOG_2PI - (linear * means).sum(axis=1))
        eta[:, 1 : d + 1] = linear
        eta[:, d + 1 :] = precision.reshape(-1, d * d)[:, upper] * (-0.5 * times)
        return eta

    def expected(self, statistics: np.ndarray) -> np.ndarray:
        return self._natural(statistics, 0)

    def most_probable(self, statistics: np.ndarray) -> np.ndarray:
        return self._natural(statistics, self.n_features - 1)

    def _natural(self, statistics: np.ndarray, fewer: int) -> np.ndarray:
        """Natural parameters (K, p) with the posterior means and precisions (nu* - fewer) / Psi*."""
        d = self.n_features
        statistics, kappa, nu, psi = self._parameters(statistics)
        eta = np.empty(statistics.shape)
        _natural_parameters(statistics, kappa, nu - fewer, psi, np.empty((4, d, d)), eta)
        return eta

    def log_predictive(self, points: np.ndarray, posterior: Posterior) -> np.ndarray:
        d, degrees = self.n_features, posterior.nu - self.n_features + 1
        scale = (posterior.kappa + 1) / (posterior.kappa * degrees)
        whiten, log_dets = _whiteners_of(posterior.psi)
        distances = _squared_lengths_of(points, posterior.mean, whiten) / scale
        return student_log_density(distances, degrees, log_dets + d * np.log(scale), d)

    def sample(self, rng: np.random.Generator, posterior: Posterior, labels: np.ndarray) -> np.ndarray:
        degrees = posterior.nu - self.n_features + 1
        scale = np.sqrt((posterior.kappa + 1) / (posterior.kappa * degrees))[labels]
        noise = rng.standard_normal((len(labels), self.n_features))
        noise *= (scale / np.sqrt(rng.chisquare(degrees[labels]) / degrees[labels]))[:, None]
        root = np.linalg.cholesky(posterior.psi)
        return posterior.mean[labels] + np.einsum("nde,ne->nd", root[labels], noise)

    def squared_distances(self, points: np.ndarray, posterior: Posterior) -> np.ndarray:
        whiten, _ = _whiteners_of(self.covariances(posterior))
        return _squared_lengths_of(points, posterior.mean, whiten)

    def widths(self, posterior: Posterior, variance: np.ndarray) -> np.ndarray:
        scale = np.sqrt(variance)
        return np.asarray(np.linalg.eigvalsh(self.covariances(posterior) / scale / scale[:, None])[:, -1])

    def covariances(self, posterior: Posterior) -> np.ndarray:
        factor = variance_factor(posterior, posterior.nu - self.n_features + 1)
        return posterior.psi * factor[:, None, None]


@lru_cache(maxsize=64)
def _places(d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where x_a x_b stands among the quadratic terms for all a and b, (d * d,); where these terms stand in
    a matrix, and how often (once or twice) they count in a quadratic form, both (d (d + 1) / 2,).
    """
    rows, columns = np.triu_indices(d)
    places = np.empty((d, d), dtype=np.int64)
    places[rows, columns] = places[columns, rows] = np.arange(len(rows))
    return places.ravel(), rows * d + columns, np.where(rows == columns, 1.0, 2.0)


def log_det_of_root(root: np.ndarray) -> np.ndarray:
    """Log determinants (K,) of the matrices whose triangular roots (K, d, d) are given."""
    result: np.ndarray = 2 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    return result


def full_terms(points: np.ndarray) -> np.ndarray:
    """T(x) of points (n, d), (n, p): one, x, and x_a x_b for a <= b."""
    n, d = points.shape
    terms = np.empty((n, 1 + d + d * (d + 1) // 2))
    terms[:, 0] = 1.0
    terms[:, 1 : d + 1] = points
    place = d + 1
    for a in range(d):
        np.multiply(points[:, a : a + 1], points[:, a:], out=terms[:, place : place + d - a])
        place += d - a
    return terms


@compiled
def _root(matrix: np.ndarray, upper: np.ndarray) -> float:
    """Write U with U' U = ``matrix`` (d, d) to ``upper``; return the log determinant.

    Only what is on and above the diagonal is read and written.
    """
    d = len(matrix)
    for a in range(d):
        for b in range(a, d):
            upper[a, b] = matrix[a, b]
    log_det = 0.0
    for j in range(d):
        pivot = upper[j, j]
        if not pivot > 0.0:
            raise np.linalg.LinAlgError("Matrix is not positive definite")
        scale = 1.0 / math.sqrt(pivot)
        for b in range(j, d):
            upper[j, b] *= scale
        for a in range(j + 1, d):
            factor = upper[j, a]
            for b in range(a, d):
                upper[a, b] -= factor * upper[j, b]
        log_det += math.log(pivot)
    return log_det


@compiled
def _invert_transposed(upper: np.ndarray, inverse: np.ndarray) -> None:
    """Write the inverse of U' to ``inverse``, a lower triangle; ``upper`` is U, (d, d)."""
    d = len(upper)
    for a in range(d):
        for b in range(d):
            inverse[a, b] = 0.0
        inverse[a, a] = 1.0
        for j in range(a):
            factor = upper[j, a]
            for b in range(j + 1):
                inverse[a, b] -= factor * inverse[j, b]
        scale = 1.0 / upper[a, a]
        for b in range(a + 1):
            inverse[a, b] *= scale


@compiled
def _posterior_of(
    sums: np.ndarray, kappa: float, psi: np.ndarray, mean: np.ndarray, matrix: np.ndarray
) -> None:
    """Write the mean (d,) and Psi (d, d) of the posterior of one cluster with statistics ``sums`` (p,)."""
    d, weight, place = len(psi), kappa + sums[0], len(psi) + 1
    for a in range(d):
        mean[a] = sums[1 + a] / weight
    for a in range(d):
        for b in range(a, d):
            value = sums[place] - sums[1 + a] * mean[b]
            place += 1
            if a == b:
                value = max(value, 0.0) + psi[a] + MIN_SCATTER
            matrix[a, b] = matrix[b, a] = value


@compiled
def _posteriors(
    statistics: np.ndarray, kappa: float, psi: np.ndarray, means: np.ndarray, matrices: np.ndarray
) -> None:
    """Write means (K, d) and matrices Psi (K, d, d) of posteriors, for statistics (K, p)."""
    for j in range(len(statistics)):
        _posterior_of(statistics[j], kappa, psi[j] if len(psi) > 1 else psi[0], means[j], matrices[j])


@compiled
def _natural_parameters(
    statistics: np.ndarray, kappa: float, nu: np.ndarray, psi: np.ndarray, room: np.ndarray, eta: np.ndarray
) -> None:
    """Write natural parameters (K, p) of Gaussians with the posterior means and precisions nu* / Psi*."""
    d, mean = psi.shape[1], room[0, 0]
    matrix, upper, inverse = room[1], room[2], room[3]
    for j in range(len(statistics)):
        degrees = (nu[j] if len(nu) > 1 else nu[0]) + statistics[j, 0]
        _posterior_of(statistics[j], kappa, psi[j] if len(psi) > 1 else psi[0], mean, matrix)
        log_det = _root(matrix, upper)
        _invert_transposed(upper, inverse)
        for a in range(d):  # becomes the precision
            for b in range(d):
                matrix[a, b] = 0.0
        for e in range(d):
            for a in range(e + 1):
                factor = inverse[e, a] * degrees
                for b in range(e + 1):
                    matrix[a, b] += factor * inverse[e, b]
        square, place = 0.0, d + 1
        for a in range(d):
            linear = 0.0
            for b in range(d):
                linear += matrix[a, b] * mean[b]
            eta[j, 1 + a] = linear
            square += linear * mean[a]
            for b in range(a, d):
                eta[j, place] = -0.5 * matrix[a, b] if a == b else -matrix[a, b]
                place += 1
        eta[j, 0] = 0.5 * (d * math.log(degrees) - log_det - d * LOG_2PI - square)


@compiled
def _log_marginals(
    statistics: np.ndarray,
    kappa: float,
    nu: np.ndarray,
    psi: np.ndarray,
    room: np.ndarray,
    values: np.ndarray,
) -> None:
    """Write the log marginal likelihoods (S, K) of clusters with statistics (K, p) under S priors."""
    d = psi.shape[1]
    for s in range(len(nu)):
        constant = 0.0
        for a in range(d):
            constant += 0.5 * nu[s] * math.log(psi[s, a] + MIN_SCATTER) - math.lgamma(0.5 * (nu[s] - a))
        for j in range(len(statistics)):
            count = statistics[j, 0]
            _posterior_of(statistics[j], kappa, psi[s], room[0, 0], room[1])
            value = constant - 0.5 * count * d * LOG_PI - 0.5 * (nu[s] + count) * _root(room[1], room[2])
            value += 0.5 * d * math.log(kappa / (kappa + count))
            for a in range(d):  # Gamma_d(nu* / 2) / Gamma_d(nu / 2) without the constants that cancel
                value += math.lgamma(0.5 * (nu[s] + count - a))
            values[s, j] = value


def _whiteners_of(matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inverses (K, d, d) of the lower triangular roots of matrices (K, d, d), and log determinants (K,)."""
    roots = np.linalg.cholesky(matrices)
    return np.linalg.inv(roots), log_det_of_root(roots)


def _squared_lengths_of(points: np.ndarray, means: np.ndarray, whiten: np.ndarray) -> np.ndarray:
    """Squared lengths (n, K) of W_k (x_i - m_k) for lower triangles W (K, d, d); each row on its own."""
    lengths = np.empty((len(points), len(means)))
    _squared_lengths(np.ascontiguousarray(points), means, whiten, np.empty(points.shape[1]), lengths)
    return lengths


@compiled
def _squared_lengths(
    points: np.ndarray, means: np.ndarray, whiten: np.ndarray, offset: np.ndarray, lengths: np.ndarray
) -> None:
    n, d = points.shape
    for i in range(n):
        for j in range(len(means)):
            length = 0.0
            for e in range(d):
                offset[e] = points[i, e] - means[j, e]
                along = 0.0
                for a in range(e + 1):
                    along += whiten[j, e, a] * offset[a]
                length += along * along
            lengths[i, j] = length
