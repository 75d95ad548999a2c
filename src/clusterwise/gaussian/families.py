"""Gaussian clusters without correlations, diagonal and spherical, and the list of all families."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np
from scipy.special import gammaln

from clusterwise.gaussian.niw import (
    LOG_2PI,
    LOG_PI,
    MIN_SCATTER,
    CovarianceType,
    Full,
    NormalInverseWishart,
    Posterior,
    student_log_density,
    variance_factor,
)

__all__ = ["GROUPS_AT_ONCE", "PRIORS", "AxisAligned", "Diagonal", "Spherical"]

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


PRIORS: dict[CovarianceType, type[NormalInverseWishart]] = {
    "full": Full,
    "diag": Diagonal,
    "spherical": Spherical,
}
