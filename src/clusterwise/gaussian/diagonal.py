"""The prior of clusters with a variance for each feature; see ``niw``."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from clusterwise.gaussian.niw import (
    LEAST_SCATTER,
    LOG_2PI,
    LOG_PI,
    NormalInverseWishart,
    Posterior,
    student_log_density,
    variance_factor,
)

__all__ = ["Diagonal"]


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

    def blurred(self, lifted: np.ndarray, variance: float) -> np.ndarray:
        lifted[:, self.n_features + 1 :] += variance
        return lifted

    def is_possible(self, statistics: np.ndarray) -> bool:
        d = self.n_features
        scatter = statistics[:, d + 1 :] - statistics[:, :1] * np.square(self.means(statistics))
        return bool(scatter.min() >= -LEAST_SCATTER)

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
        nu, nu_of_prior = posterior.nu[:, None], np.asarray(self.nu)[..., None]
        result: np.ndarray = (
            -0.5 * counts * LOG_PI
            + gammaln(nu / 2)
            - gammaln(nu_of_prior / 2)
            + 0.5 * nu_of_prior * np.log(self.psi + LEAST_SCATTER)
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
            result += student_log_density(distances, posterior.nu, np.log(scales[:, a]), 1)
        return result

    def sample(self, rng: np.random.Generator, posterior: Posterior, labels: np.ndarray) -> np.ndarray:
        factor = (posterior.kappa + 1) / (posterior.kappa * posterior.nu)
        scales = np.sqrt(posterior.psi * factor[:, None])[labels]
        return posterior.mean[labels] + scales * rng.standard_t(posterior.nu[labels, None], scales.shape)

    def _variances(self, posterior: Posterior) -> np.ndarray:
        return posterior.psi * variance_factor(posterior, posterior.nu)[:, None]

    def squared_distances(self, points: np.ndarray, posterior: Posterior) -> np.ndarray:
        distances = np.zeros((len(points), len(posterior.mean)))
        for coordinate, mean, variance in zip(
            points.T, posterior.mean.T, self._variances(posterior).T, strict=True
        ):
            distances += np.square(coordinate[:, None] - mean) / variance
        return distances

    def covariances(self, posterior: Posterior) -> np.ndarray:
        return self._variances(posterior)[:, :, None] * np.eye(self.n_features)
