"""The prior of clusters with one variance for all features; see ``niw``."""

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

__all__ = ["Spherical"]


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

    def blurred(self, lifted: np.ndarray, variance: float) -> np.ndarray:
        lifted[:, -1] += self.n_features * variance
        return lifted

    def is_possible(self, statistics: np.ndarray) -> bool:
        squares = statistics[:, 0] * np.square(self.means(statistics)).sum(axis=1)
        return bool((statistics[:, -1] - squares).min() >= -LEAST_SCATTER)

    def posterior(self, statistics: np.ndarray) -> Posterior:
        d = self.n_features
        counts, sums = statistics[:, 0], statistics[:, 1 : d + 1]
        kappa = self.kappa + counts
        mean = sums / kappa[:, None]
        scatter = np.maximum(statistics[:, d + 1] - (sums * mean).sum(axis=1), 0.0)
        return Posterior(kappa, self.nu + counts * d, mean, scatter + self.psi[..., 0] + LEAST_SCATTER)

    def log_marginal(self, statistics: np.ndarray) -> np.ndarray:
        d, counts = self.n_features, statistics[:, 0]
        posterior = self.posterior(statistics)
        result: np.ndarray = (
            -0.5 * counts * d * LOG_PI
            + gammaln(posterior.nu / 2)
            - gammaln(self.nu / 2)
            + 0.5 * self.nu * np.log(self.psi[..., 0] + LEAST_SCATTER)
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
        return student_log_density(distances, posterior.nu, d * np.log(scales), d)

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
        variances = posterior.psi * variance_factor(posterior, posterior.nu)
        return self._distances(points, posterior.mean) / variances

    def covariances(self, posterior: Posterior) -> np.ndarray:
        variances = posterior.psi * variance_factor(posterior, posterior.nu)
        return variances[:, None, None] * np.eye(self.n_features)
