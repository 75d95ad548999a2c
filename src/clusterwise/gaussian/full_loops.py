"""Compiled loops over clusters with full covariance matrices; ``full`` says what they are for.

The matrices are small and many: one call of a library for each would take longer than its arithmetic. Inner
loops run along rows, so that they stay quick for matrices that are not so small. Functions without an
underscore make the room, because code that allocates takes longer to compile.
"""

from __future__ import annotations

import math

import numpy as np

from clusterwise._compiled import compiled

__all__ = [
    "are_positive",
    "lift",
    "log_marginals",
    "log_marginals_of_each",
    "natural_parameters",
    "posterior_moments",
    "squared_lengths",
    "whiteners",
]

LOG_PI = math.log(math.pi)
LOG_2PI = math.log(2 * math.pi)


def lift(points: np.ndarray) -> np.ndarray:
    """T(x) of points (n, d), (n, p): one, x, and x_a x_b for a <= b."""
    n, d = points.shape
    lifted = np.empty((n, 1 + d + d * (d + 1) // 2))
    _lift(points, lifted)
    return lifted


@compiled
def _lift(points: np.ndarray, lifted: np.ndarray) -> None:
    n, d = points.shape
    for i in range(n):
        lifted[i, 0] = 1.0
        place = d + 1
        for a in range(d):
            lifted[i, 1 + a] = points[i, a]
            for b in range(a, d):
                lifted[i, place] = points[i, a] * points[i, b]
                place += 1


@compiled
def _root(matrix: np.ndarray, upper: np.ndarray) -> float:
    """Write U with U' U = ``matrix`` (d, d) to ``upper``; return the log determinant, NaN if there is none.

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
            return math.nan
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
    sums: np.ndarray, kappa: float, psi: np.ndarray, least: float, mean: np.ndarray, matrix: np.ndarray
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
                value = max(value, 0.0) + psi[a] + least
            matrix[a, b] = matrix[b, a] = value


def posterior_moments(
    statistics: np.ndarray, kappa: float, psi: np.ndarray, least: float
) -> tuple[np.ndarray, np.ndarray]:
    """Means (K, d) and matrices Psi (K, d, d) of posteriors, for statistics (K, p).

    The prior has ``kappa``, and ``psi`` (1, d) for all clusters or (K, d); ``least`` is added to variances.
    """
    k, d = len(statistics), psi.shape[1]
    means, matrices = np.empty((k, d)), np.empty((k, d, d))
    _posterior_moments(statistics, kappa, psi, least, means, matrices)
    return means, matrices


@compiled
def _posterior_moments(
    statistics: np.ndarray,
    kappa: float,
    psi: np.ndarray,
    least: float,
    means: np.ndarray,
    matrices: np.ndarray,
) -> None:
    for j in range(len(statistics)):
        own_psi = psi[j] if len(psi) > 1 else psi[0]
        _posterior_of(statistics[j], kappa, own_psi, least, means[j], matrices[j])


def natural_parameters(
    statistics: np.ndarray, kappa: float, nu: np.ndarray, psi: np.ndarray, least: float
) -> np.ndarray:
    """Natural parameters (K, p) of Gaussians with the posterior means and precisions nu* / Psi*.

    The prior is that of ``posterior_moments``; nu* is ``nu``, (1,) or (K,), and the number of points.
    """
    k, d = len(statistics), psi.shape[1]
    eta, spare = np.empty((k, 1 + d + d * (d + 1) // 2)), np.empty((4, d, d))
    _natural_parameters(statistics, kappa, nu, psi, least, spare, eta)
    return eta


@compiled
def _natural_parameters(
    statistics: np.ndarray,
    kappa: float,
    nu: np.ndarray,
    psi: np.ndarray,
    least: float,
    spare: np.ndarray,
    eta: np.ndarray,
) -> None:
    d, mean = psi.shape[1], spare[0, 0]
    matrix, upper, inverse = spare[1], spare[2], spare[3]
    for j in range(len(statistics)):
        own_psi = psi[j] if len(psi) > 1 else psi[0]
        degrees = (nu[j] if len(nu) > 1 else nu[0]) + statistics[j, 0]
        _posterior_of(statistics[j], kappa, own_psi, least, mean, matrix)
        log_det = _root(matrix, upper)
        if math.isnan(log_det):
            raise np.linalg.LinAlgError("Matrix is not positive definite")
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
def _log_marginal(
    sums: np.ndarray, kappa: float, nu: float, psi: np.ndarray, least: float, spare: np.ndarray
) -> float:
    """Log marginal likelihood of one cluster with statistics ``sums`` (p,); ``spare`` (3, d, d) is room."""
    d, count, total = len(psi), sums[0], nu + sums[0]
    _posterior_of(sums, kappa, psi, least, spare[0, 0], spare[1])
    log_det = _root(spare[1], spare[2])
    if math.isnan(log_det):
        raise np.linalg.LinAlgError("Matrix is not positive definite")
    value = -0.5 * count * d * LOG_PI - 0.5 * total * log_det
    value += 0.5 * d * math.log(kappa / (kappa + count))
    for a in range(d):
        # Gamma_d(nu* / 2) / Gamma_d(nu / 2) without the constants that cancel
        value += math.lgamma(0.5 * (total - a)) - math.lgamma(0.5 * (nu - a))
        value += 0.5 * nu * math.log(psi[a] + least)
    return value


def log_marginals(
    statistics: np.ndarray, kappa: float, nu: np.ndarray, psi: np.ndarray, least: float
) -> np.ndarray:
    """Log marginal likelihoods (K,) of clusters with statistics (K, p).

    The prior has ``kappa``, ``nu`` (1,) or (K,) and ``psi`` (1, d) or (K, d).
    """
    k, d = len(statistics), psi.shape[1]
    found, spare = np.empty(k), np.empty((3, d, d))
    _log_marginals(statistics, kappa, nu, psi, least, spare, found)
    return found


@compiled
def _log_marginals(
    statistics: np.ndarray,
    kappa: float,
    nu: np.ndarray,
    psi: np.ndarray,
    least: float,
    spare: np.ndarray,
    found: np.ndarray,
) -> None:
    for j in range(len(statistics)):
        own_nu, own_psi = nu[j] if len(nu) > 1 else nu[0], psi[j] if len(psi) > 1 else psi[0]
        found[j] = _log_marginal(statistics[j], kappa, own_nu, own_psi, least, spare)


def log_marginals_of_each(
    statistics: np.ndarray, kappa: float, nu: np.ndarray, psi: np.ndarray, least: float
) -> np.ndarray:
    """Log marginal likelihoods (S, K) of clusters with statistics (K, p) under priors ``nu`` (S,), (S, d)."""
    k, s, d = len(statistics), len(nu), psi.shape[1]
    found, spare = np.empty((s, k)), np.empty((3, d, d))
    _log_marginals_of_each(statistics, kappa, nu, psi, least, spare, found)
    return found


@compiled
def _log_marginals_of_each(
    statistics: np.ndarray,
    kappa: float,
    nu: np.ndarray,
    psi: np.ndarray,
    least: float,
    spare: np.ndarray,
    found: np.ndarray,
) -> None:
    for prior in range(len(nu)):
        for j in range(len(statistics)):
            found[prior, j] = _log_marginal(statistics[j], kappa, nu[prior], psi[prior], least, spare)


def whiteners(matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inverses (K, d, d) of the lower triangular roots of matrices (K, d, d), and log determinants (K,)."""
    k, d = matrices.shape[:2]
    inverses, log_dets = np.empty((k, d, d)), np.empty(k)
    _whiteners(matrices, np.empty((d, d)), inverses, log_dets)
    return inverses, log_dets


@compiled
def _whiteners(matrices: np.ndarray, upper: np.ndarray, inverses: np.ndarray, log_dets: np.ndarray) -> None:
    for j in range(len(matrices)):
        log_dets[j] = _root(matrices[j], upper)
        if math.isnan(log_dets[j]):
            raise np.linalg.LinAlgError("Matrix is not positive definite")
        _invert_transposed(upper, inverses[j])


def are_positive(matrices: np.ndarray) -> bool:
    """Whether all matrices (K, d, d) are positive definite."""
    return bool(_are_positive(matrices, np.empty(matrices.shape[1:])))


@compiled
def _are_positive(matrices: np.ndarray, upper: np.ndarray) -> bool:
    log_det = 0.0
    for j in range(len(matrices)):  # for matrix in matrices: would compile the root again, for another layout
        log_det += _root(matrices[j], upper)  # NaN if there is none
    return not math.isnan(log_det)


def squared_lengths(points: np.ndarray, means: np.ndarray, whiten: np.ndarray) -> np.ndarray:
    """Squared lengths of W_k (x_i - m_k), (n, K), for lower triangles W (K, d, d); each row on its own."""
    lengths = np.empty((len(points), len(means)))
    _squared_lengths(points, means, whiten, np.empty(points.shape[1]), lengths)
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
