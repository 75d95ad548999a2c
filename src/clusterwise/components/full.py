"""The Normal-Inverse-Wishart prior of clusters with any covariance matrix; see ``niw``."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import gammaln

from clusterwise.components.niw import (
    LEAST_SCATTER,
    LOG_2PI,
    LOG_PI,
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
        n, d = points.shape
        lifted = np.empty((n, self.n_statistics))
        lifted[:, 0] = 1.0
        lifted[:, 1 : d + 1] = points
        start = d + 1
        for a in range(d):
            np.multiply(points[:, a : a + 1], points[:, a:], out=lifted[:, start : start + d - a])
            start += d - a
        return lifted

    def blurred(self, lifted: np.ndarray, variance: float) -> np.ndarray:
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
        try:
            np.linalg.cholesky(scatter)
        except np.linalg.LinAlgError:
            return False
        return True

    def posterior(self, statistics: np.ndarray) -> Posterior:
        d = self.n_features
        counts, sums = statistics[:, 0], statistics[:, 1 : d + 1]
        kappa = self.kappa + counts
        psi = self._squares(statistics)
        psi -= sums[:, :, None] * (sums / kappa[:, None])[:, None, :]
        diagonals = _diagonals(psi)
        np.maximum(diagonals, 0.0, out=diagonals)
        diagonals += self.psi + LEAST_SCATTER
        return Posterior(kappa, self.nu + counts, sums / kappa[:, None], psi)

    def log_marginal(self, statistics: np.ndarray) -> np.ndarray:
        d, counts = self.n_features, statistics[:, 0]
        posterior = self.posterior(statistics)
        log_det = log_det_of_root(np.linalg.cholesky(posterior.psi))
        # Gamma_d(nu* / 2) / Gamma_d(nu / 2) without the constants that cancel
        halves = (posterior.nu[:, None] - np.arange(d)) / 2
        log_gammas = gammaln(halves).sum(axis=1) - gammaln(self._halves_of_prior()).sum(axis=-1)
        log_det_prior = np.log(self.psi + LEAST_SCATTER).sum(axis=-1)
        result: np.ndarray = (
            -0.5 * counts * d * LOG_PI
            + log_gammas
            + 0.5 * self.nu * log_det_prior
            - 0.5 * posterior.nu * log_det
            + 0.5 * d * np.log(self.kappa / posterior.kappa)
        )
        return result

    def _halves_of_prior(self) -> np.ndarray:
        halves: np.ndarray = (np.asarray(self.nu)[..., None] - np.arange(self.n_features)) / 2
        return halves

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
        posterior = self.posterior(statistics)
        return self._with_precision(posterior, posterior.nu)

    def most_probable(self, statistics: np.ndarray) -> np.ndarray:
        posterior = self.posterior(statistics)
        return self._with_precision(posterior, posterior.nu - self.n_features + 1)

    def _with_precision(self, posterior: Posterior, degrees: np.ndarray) -> np.ndarray:
        """Natural parameters of Gaussians with the posterior means and the precisions degrees / Psi."""
        precision = np.linalg.inv(posterior.psi) * degrees[:, None, None]
        log_det = self.n_features * np.log(degrees) - log_det_of_root(np.linalg.cholesky(posterior.psi))
        return self._natural(posterior.mean, precision, log_det)

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
        root = np.linalg.cholesky(posterior.psi)
        distances = self._distances(points, posterior.mean, root) / scale
        return student_log_density(distances, degrees, log_det_of_root(root) + d * np.log(scale), d)

    def _distances(self, points: np.ndarray, means: np.ndarray, root: np.ndarray) -> np.ndarray:
        """Squared lengths of root^-1 (x - mean), (n, K)."""
        whiten = np.linalg.inv(root)
        # Number by number, no matrix product: each row must come out the same whatever rows stand beside it.
        offsets = [coordinate[:, None] - mean for coordinate, mean in zip(points.T, means.T, strict=True)]
        distances = np.zeros((len(points), len(means)))
        for e in range(self.n_features):
            along = offsets[0] * whiten[:, e, 0]
            for a in range(1, e + 1):
                along += offsets[a] * whiten[:, e, a]
            along *= along
            distances += along
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
        factor = variance_factor(posterior, posterior.nu - self.n_features + 1)
        return posterior.psi * factor[:, None, None]
