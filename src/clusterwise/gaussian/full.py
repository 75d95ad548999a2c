"""The Normal-Inverse-Wishart prior of clusters with any covariance matrix; see ``niw``."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from clusterwise.gaussian.full_loops import (
    are_positive,
    lift,
    log_marginals,
    log_marginals_of_each,
    natural_parameters,
    posterior_moments,
    squared_lengths,
    whiteners,
)
from clusterwise.gaussian.niw import (
    LEAST_SCATTER,
    LOG_2PI,
    NormalInverseWishart,
    Posterior,
    log_det_of_root,
    student_log_density,
    variance_factor,
)

__all__ = ["Full"]


@lru_cache(maxsize=64)
def _places(d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where x_a x_b stands among the quadratic terms for all a and b, (d * d,); where these terms stand in
    a matrix, and how often (once or twice) they count in a quadratic form, both (d (d + 1) / 2,).
    """
    rows, columns = np.triu_indices(d)
    places = np.empty((d, d), dtype=np.int64)
    places[rows, columns] = places[columns, rows] = np.arange(len(rows))
    return places.ravel(), rows * d + columns, np.where(rows == columns, 1.0, 2.0)


def _diagonals(matrices: np.ndarray) -> np.ndarray:
    """The diagonals (K, d) of matrices (K, d, d), as a view."""
    return np.einsum("kdd->kd", matrices)


class Full(NormalInverseWishart):
    """Any covariance matrix."""

    covariance_type = "full"

    @property
    def n_statistics(self) -> int:
        d = self.n_features
        return 1 + d + d * (d + 1) // 2

    def lift(self, points: np.ndarray) -> np.ndarray:
        return np.asarray(lift(np.ascontiguousarray(points)))

    def blurred(self, lifted: np.ndarray, variance: float) -> np.ndarray:
        if variance > 0:
            d = self.n_features
            lifted[:, d + 1 :] += variance * (_places(d)[2] == 1.0)
        return lifted

    def _squares(self, statistics: np.ndarray) -> np.ndarray:
        """Sums of x x' as matrices (K, d, d)."""
        d = self.n_features
        squares: np.ndarray = statistics[:, d + 1 :][:, _places(d)[0]].reshape(-1, d, d)
        return squares

    def is_possible(self, statistics: np.ndarray) -> bool:
        means = self.means(statistics)
        scatter = self._squares(statistics) - statistics[:, :1, None] * means[:, :, None] * means[:, None, :]
        _diagonals(scatter)[:] += LEAST_SCATTER
        return bool(are_positive(scatter))

    def _parameters(self, statistics: np.ndarray) -> tuple[np.ndarray, float, np.ndarray, np.ndarray, float]:
        """Statistics and prior as compiled functions take them."""
        nu = np.asarray(self.nu, dtype=np.float64).reshape(-1)
        psi = self.psi.reshape(-1, self.n_features)
        return np.ascontiguousarray(statistics), self.kappa, nu, psi, LEAST_SCATTER

    def posterior(self, statistics: np.ndarray) -> Posterior:
        statistics, kappa, _, psi, least = self._parameters(statistics)
        counts = statistics[:, 0]
        return Posterior(kappa + counts, self.nu + counts, *posterior_moments(statistics, kappa, psi, least))

    def log_marginal(self, statistics: np.ndarray) -> np.ndarray:
        return np.asarray(log_marginals(*self._parameters(statistics)))

    def log_marginal_of_each(self, statistics: np.ndarray) -> np.ndarray:
        return np.asarray(log_marginals_of_each(*self._parameters(statistics)))

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
        log_det = log_det_of_root(bartlett) - log_det_of_root(root)
        return self._natural(means, half @ half.transpose(0, 2, 1), log_det)

    def expected(self, statistics: np.ndarray) -> np.ndarray:
        return np.asarray(natural_parameters(*self._parameters(statistics)))

    def most_probable(self, statistics: np.ndarray) -> np.ndarray:
        statistics, kappa, nu, psi, least = self._parameters(statistics)
        return np.asarray(natural_parameters(statistics, kappa, nu - self.n_features + 1, psi, least))

    def _natural(self, means: np.ndarray, precision: np.ndarray, log_det: np.ndarray) -> np.ndarray:
        """Natural parameters of Gaussians with precisions (K, d, d) of determinants exp(log_det)."""
        d = self.n_features
        linear = np.matmul(precision, means[:, :, None])[:, :, 0]
        eta = np.empty((len(means), self.n_statistics))
        eta[:, 0] = 0.5 * (log_det - d * LOG_2PI - (linear * means).sum(axis=1))
        eta[:, 1 : d + 1] = linear
        _, upper, times = _places(d)
        eta[:, d + 1 :] = precision.reshape(-1, d * d)[:, upper] * (-0.5 * times)
        return eta

    def log_predictive(self, points: np.ndarray, posterior: Posterior) -> np.ndarray:
        d, degrees = self.n_features, posterior.nu - self.n_features + 1
        scale = (posterior.kappa + 1) / (posterior.kappa * degrees)
        whiten, log_dets = whiteners(posterior.psi)
        distances = squared_lengths(np.ascontiguousarray(points), posterior.mean, whiten) / scale
        return student_log_density(distances, degrees, log_dets + d * np.log(scale), d)

    def sample(self, rng: np.random.Generator, posterior: Posterior, labels: np.ndarray) -> np.ndarray:
        degrees = posterior.nu - self.n_features + 1
        scale = np.sqrt((posterior.kappa + 1) / (posterior.kappa * degrees))[labels]
        noise = rng.standard_normal((len(labels), self.n_features))
        noise *= (scale / np.sqrt(rng.chisquare(degrees[labels]) / degrees[labels]))[:, None]
        root = np.linalg.cholesky(posterior.psi)
        return posterior.mean[labels] + np.einsum("nde,ne->nd", root[labels], noise)

    def squared_distances(self, points: np.ndarray, posterior: Posterior) -> np.ndarray:
        whiten, _ = whiteners(self.covariances(posterior))
        return np.asarray(squared_lengths(np.ascontiguousarray(points), posterior.mean, whiten))

    def covariances(self, posterior: Posterior) -> np.ndarray:
        factor = variance_factor(posterior, posterior.nu - self.n_features + 1)
        return posterior.psi * factor[:, None, None]
