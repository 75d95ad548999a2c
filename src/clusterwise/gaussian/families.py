"""The families of covariances: full, diagonal and spherical; see ``niw`` for what they have in common.

Matrices of full covariances are small and many: one call of a library for each would take longer than its
arithmetic, hence compiled loops, which run along rows. Those with an underscore get the room that they write
to, because code that allocates takes longer to compile.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from scipy.special import gammaln

from clusterwise._compiled import compiled
from clusterwise.gaussian.niw import (
    LOG_2PI,
    LOG_PI,
    MIN_SCATTER,
    CovarianceType,
    NormalInverseWishart,
    Posterior,
    student_log_density,
    variance_factor,
)

__all__ = [
    "GROUPS_AT_ONCE",
    "PRIORS",
    "AxisAligned",
    "Diagonal",
    "Full",
    "Spherical",
    "full_terms",
    "log_det_of_root",
]

# Groups of features whose distances are in memory at a time.
GROUPS_AT_ONCE = 64


# -- without correlation -------------------------------------------------------------------------


class AxisAligned(NormalInverseWishart):
    """Features in g groups of m, each group with one variance: a cluster is a ball in each of them."""

    @property
    @abstractmethod
    def group_size(self) -> int:
        """Number of features m in a group."""

    @property
    def n_groups(self) -> int:
        """Number of groups g."""
        return self.n_features // self.group_size

    @property
    def n_statistics(self) -> int:
        return 1 + self.n_features + self.n_groups

    def _sums(self, by_feature: np.ndarray) -> np.ndarray:
        """Sums (n, g) over the features (n, d) of each group."""
        if self.group_size == 1:
            return by_feature
        sums: np.ndarray = by_feature.sum(axis=1, keepdims=True)
        return sums

    def _psi(self) -> np.ndarray:
        """Psi of the groups, (g,), or (K, g) if each cluster has a prior of its own."""
        return self.psi[..., :: self.group_size]

    def terms(self, points: np.ndarray) -> np.ndarray:
        n, d = points.shape
        terms = np.empty((n, self.n_statistics))
        terms[:, 0] = 1.0
        terms[:, 1 : d + 1] = points
        terms[:, d + 1 :] = self._sums(np.square(points))
        return terms

    def unit_noise(self) -> np.ndarray:
        return np.full(self.n_groups, float(self.group_size))

    def is_possible(self, statistics: np.ndarray) -> bool:
        squares = statistics[:, :1] * self._sums(np.square(self.means(statistics)))
        return bool((statistics[:, self.n_features + 1 :] - squares).min() >= -MIN_SCATTER)

    def posterior(self, statistics: np.ndarray) -> Posterior:
        d = self.n_features
        counts, sums = statistics[:, 0], statistics[:, 1 : d + 1]
        kappa = self.kappa + counts
        mean = sums / kappa[:, None]
        scatter = np.maximum(statistics[:, d + 1 :] - self._sums(sums * mean), 0.0)
        return Posterior(kappa, self.nu + self.group_size * counts, mean, scatter + self._psi() + MIN_SCATTER)

    def log_marginal_by_group(self, statistics: np.ndarray) -> np.ndarray:
        """Log marginal likelihood (K, g) of each group of features of each cluster; they add up."""
        counts, m = statistics[:, :1], self.group_size
        posterior = self.posterior(statistics)
        nu, nu_of_prior = posterior.nu[:, None], np.asarray(self.nu)[..., None]
        result: np.ndarray = (
            -0.5 * m * counts * LOG_PI
            + gammaln(nu / 2)
            - gammaln(nu_of_prior / 2)
            + 0.5 * nu_of_prior * np.log(self._psi() + MIN_SCATTER)
            - 0.5 * nu * np.log(posterior.psi)
            + 0.5 * m * np.log(self.kappa / posterior.kappa)[:, None]
        )
        return result

    def log_marginal(self, statistics: np.ndarray) -> np.ndarray:
        return self.log_marginal_by_group(statistics).sum(axis=1)

    def draw(self, rng: np.random.Generator, statistics: np.ndarray) -> np.ndarray:
        posterior = self.posterior(statistics)
        precisions = rng.standard_gamma(posterior.nu[:, None] / 2, posterior.psi.shape) / (posterior.psi / 2)
        precisions = np.maximum(precisions, 1e-300)
        widths = 1 / np.sqrt(posterior.kappa[:, None] * precisions)
        noise = rng.standard_normal(posterior.mean.shape)
        return self._natural(posterior.mean + noise * widths, precisions)

    def expected(self, statistics: np.ndarray) -> np.ndarray:
        posterior = self.posterior(statistics)
        return self._natural(posterior.mean, posterior.nu[:, None] / posterior.psi)

    def _natural(self, means: np.ndarray, precisions: np.ndarray) -> np.ndarray:
        """Natural parameters (K, p) of Gaussians with these means (K, d) and precisions (K, g)."""
        d = self.n_features
        eta = np.empty((len(means), self.n_statistics))
        linear = means * precisions
        log_det = self.group_size * np.log(precisions).sum(axis=1)
        eta[:, 0] = 0.5 * (log_det - d * LOG_2PI - (linear * means).sum(axis=1))
        eta[:, 1 : d + 1] = linear
        eta[:, d + 1 :] = -0.5 * precisions
        return eta

    def _squared_offsets(
        self, points: np.ndarray, posterior: Posterior, variances: np.ndarray
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield groups, a few at a time, and squared distances (., n, K) to means by its variance.

        So many at a time that sums do not depend on the number of points.
        """
        m, means = self.group_size, posterior.mean.T[:, None]  # (d, 1, K)
        for start in range(0, self.n_groups, GROUPS_AT_ONCE):
            groups = slice(start, min(start + GROUPS_AT_ONCE, self.n_groups))
            features = slice(groups.start * m, groups.stop * m)
            squares = np.square(points.T[features, :, None] - means[features])
            if m > 1:
                squares = squares.reshape(-1, m, *squares.shape[1:]).sum(axis=1)
            squares /= variances.T[groups, None]
            yield groups, squares

    def log_predictive(self, points: np.ndarray, posterior: Posterior) -> np.ndarray:
        factor = (posterior.kappa + 1) / (posterior.kappa * posterior.nu)
        scales, m = posterior.psi * factor[:, None], self.group_size
        result = np.zeros((len(points), len(factor)))
        for groups, distances in self._squared_offsets(points, posterior, scales):  # each has its own t
            log_det = m * np.log(scales.T[groups, None])
            result += student_log_density(distances, posterior.nu, log_det, m).sum(axis=0)
        return result

    def sample(self, rng: np.random.Generator, posterior: Posterior, labels: np.ndarray) -> np.ndarray:
        factor = (posterior.kappa + 1) / (posterior.kappa * posterior.nu)
        degrees = np.broadcast_to(posterior.nu[labels, None], (len(labels), self.n_groups))
        scales = (posterior.psi * factor[:, None])[labels] / (rng.chisquare(degrees) / degrees)
        return posterior.mean[labels] + np.sqrt(scales) * rng.standard_normal((len(labels), self.n_features))

    def squared_distances(self, points: np.ndarray, posterior: Posterior) -> np.ndarray:
        distances = np.zeros((len(points), len(posterior.mean)))
        variances = posterior.psi * variance_factor(posterior, posterior.nu)[:, None]
        for _, squares in self._squared_offsets(points, posterior, variances):
            distances += squares.sum(axis=0)
        return distances

    def widths(self, posterior: Posterior, variance: np.ndarray) -> np.ndarray:
        variances = posterior.psi * variance_factor(posterior, posterior.nu)[:, None]
        return np.asarray((variances / variance).max(axis=1))

    def covariances(self, posterior: Posterior) -> np.ndarray:
        variances = posterior.psi * variance_factor(posterior, posterior.nu)[:, None]
        return variances[:, :, None] * np.eye(self.n_features)


class Diagonal(AxisAligned):
    """A variance for each feature, no correlation within a cluster."""

    covariance_type = "diag"
    group_size = 1


class Spherical(AxisAligned):
    """One variance for all features."""

    covariance_type = "spherical"

    @property
    def group_size(self) -> int:
        return self.n_features


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


PRIORS: dict[CovarianceType, type[NormalInverseWishart]] = {
    "full": Full,
    "diag": Diagonal,
    "spherical": Spherical,
}


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
