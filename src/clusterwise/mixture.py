"""A diagonal Gaussian for each cluster: what a fitted estimator keeps, predicts and samples with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtr, chdtrc, gammaincinv, logsumexp

__all__ = ["DiagonalMixture", "merge_indistinct", "mixture_from_labels", "outlier_scores", "refine"]

# Rows are treated in chunks of about this many (row, cluster, feature) triples: bounded memory, and what a
# chunk needs stays in the processor's cache.
CHUNK = 200_000
# A cluster's variance is shrunk towards the pooled one as if this many points had that variance, so
# that a cluster of one point has a sensible width.
PRIOR_POINTS = 5.0
# Smallest variance, for data scaled to unit spread: duplicates must not give an infinite density.
SMALLEST_VARIANCE = 1e-8
# The exponential of anything below is zero.
LOG_OF_ZERO = -760.0
# Points farther out than this count as lying there: their squared distances must not overflow.
FARTHEST = 1e140


@dataclass(frozen=True)
class DiagonalMixture:
    """Proportions (K,), means (K, d) and variances (K, d) of a mixture of diagonal Gaussians."""

    proportions: np.ndarray
    means: np.ndarray
    variances: np.ndarray

    @property
    def n_clusters(self) -> int:
        """Number of components."""
        return len(self.proportions)

    def log_joint(self, points: np.ndarray) -> np.ndarray:
        """Return log(pi_j N(x_i; mu_j, diag(v_j))), shape (n, K); each row on its own."""
        normalizer = np.log(self.proportions) - 0.5 * np.log(2 * np.pi * self.variances).sum(axis=1)
        result = np.empty((len(points), self.n_clusters))
        for rows in _chunks(len(points), self.means.size):
            distances = self._squared_distances(points[rows])
            distances *= 0.5
            np.subtract(normalizer, distances, out=result[rows])
        return result

    def memberships(self, points: np.ndarray) -> np.ndarray:
        """Posterior probability of each cluster for each point, (n, K), rows sum to one."""
        result = np.empty((len(points), self.n_clusters))
        for rows in _chunks(len(points), self.means.size):
            log_joint = self.log_joint(points[rows])
            log_joint -= log_joint.max(axis=1, keepdims=True)
            weights = np.exp(log_joint, out=log_joint)
            np.divide(weights, weights.sum(axis=1, keepdims=True), out=result[rows])
        return result

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Log density of each point under the mixture, (n,)."""
        return logsumexp(self.log_joint(points), axis=1)

    def outlier_scores(self, points: np.ndarray, n_points: int) -> np.ndarray:
        """Probability that not one of ``n_points`` ordinary points lies as far out as this one; (n,).

        The distance is the one to the nearest cluster in its own standard deviations, squared;
        under the mixture it is at most chi-squared with d degrees of freedom. Ordinary points score
        near zero, a point farther out than the farthest of n should be scores near one.
        """
        nearest = np.empty(len(points))
        for rows in _chunks(len(points), self.means.size):
            nearest[rows] = self._squared_distances(points[rows]).min(axis=1)
        return outlier_scores(nearest, self.means.shape[1], n_points)

    def sample(self, rng: np.random.Generator, n_samples: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw points (n_samples, d) and their clusters (n_samples,), sorted by cluster."""
        labels = np.repeat(np.arange(self.n_clusters), rng.multinomial(n_samples, self.proportions))
        noise = rng.standard_normal((n_samples, self.means.shape[1]))
        return self.means[labels] + np.sqrt(self.variances[labels]) * noise, labels

    def select(self, clusters: np.ndarray) -> DiagonalMixture:
        """Keep the clusters with these indices, in this order."""
        proportions = self.proportions[clusters]
        proportions = proportions / proportions.sum()
        return DiagonalMixture(proportions, self.means[clusters], self.variances[clusters])

    def _squared_distances(self, points: np.ndarray) -> np.ndarray:
        """Squared distances in standard deviations, (n, K)."""
        # No matrix product: each row must come out the same whatever rows stand beside it.
        near = np.clip(points, -FARTHEST, FARTHEST)
        distances = np.zeros((len(points), self.n_clusters))
        # Feature by feature: a sum over a short last axis takes longer than all the rest.
        for coordinate, means, variances in zip(near.T, self.means.T, self.variances.T, strict=True):
            difference = coordinate[:, None] - means
            np.square(difference, out=difference)
            difference /= variances
            distances += difference
        return distances


def outlier_scores(nearest: np.ndarray, d: int, n_points: int) -> np.ndarray:
    """P(none of ``n_points`` is as far out) for squared distances (n,) in standard deviations, d features."""
    scores = np.zeros(len(nearest))  # what nearly all of many points have
    far = nearest >= 2 * gammaincinv(d / 2, np.exp(LOG_OF_ZERO / n_points))
    scores[far] = np.exp(n_points * _log_chi_squared(d, nearest[far]))
    return scores


def _log_chi_squared(d: int, x: np.ndarray) -> np.ndarray:
    """Log of P(chi-squared with d degrees of freedom < x); a millisecond less than through scipy.stats."""
    with np.errstate(divide="ignore"):
        return np.where(x < d, np.log(chdtr(d, x)), np.log1p(-chdtrc(d, x)))


def _chunks(n_rows: int, row_cost: int) -> list[slice]:
    size = max(1, CHUNK // max(1, row_cost))
    return [slice(start, start + size) for start in range(0, n_rows, size)]


def _maximize(points: np.ndarray, weights: np.ndarray) -> DiagonalMixture:
    """M-step: moments of each cluster under ``weights`` (n, K), variances shrunk to the pooled one."""
    counts = weights.sum(axis=0)
    means = (weights.T @ points) / counts[:, None]
    scatter = np.stack(
        [weights[:, j] @ np.square(points - mean) for j, mean in enumerate(means)]
    )  # around the mean itself: a difference of squares would cancel for far clusters
    pooled = scatter.sum(axis=0) / len(points)
    variances = (scatter + PRIOR_POINTS * pooled) / (counts[:, None] + PRIOR_POINTS)
    return DiagonalMixture(counts / len(points), means, np.maximum(variances, SMALLEST_VARIANCE))


def mixture_from_labels(points: np.ndarray, labels: np.ndarray) -> DiagonalMixture:
    """Moments of each cluster of a partition with labels 0 .. K-1, all in use."""
    return _maximize(points, np.eye(labels.max() + 1)[labels])


def refine(points: np.ndarray, mixture: DiagonalMixture, steps: int) -> DiagonalMixture:
    """Run some EM steps; a cluster that loses all its weight is dropped."""
    for _ in range(steps):
        weights = mixture.memberships(points)
        weights = weights[:, weights.sum(axis=0) > 1e-6]
        mixture = _maximize(points, weights)
    return mixture


def merge_indistinct(points: np.ndarray, mixture: DiagonalMixture, refine_steps: int) -> DiagonalMixture:
    """Merge clusters as long as the data do not tell them apart, by minimum message length.

    A cluster's 2 d parameters cost d log n_j, for they are known only as well as its own n_j points tell,
    and its proportion costs 1/2 log n (Figueiredo & Jain 2002; Schwarz's criterion would charge
    log n for all of them). The smaller of two clusters is worth it only if it raises the
    log-likelihood by more. Two clusters merge into the Gaussian with their common moments; a round
    merges all pairs that gain, best first and each cluster once, and EM steps follow. This takes back
    what a cluster-wise loop leaves behind: a few far members of a cluster that was removed before them.
    """
    while mixture.n_clusters > 1:
        gains = _gains_of_mergers(points, mixture)
        counts = len(points) * mixture.proportions + PRIOR_POINTS
        prices = points.shape[1] * np.log(counts) + 0.5 * np.log(len(points))
        partner = np.arange(mixture.n_clusters)
        for (i, j), gain in sorted(gains.items(), key=lambda item: -item[1]):
            if gain + min(prices[i], prices[j]) > 0 and partner[i] == i and partner[j] == j:
                partner[j] = i
        if (partner == np.arange(mixture.n_clusters)).all():
            break
        mixture = refine(points, _merged(mixture, partner), refine_steps)
    return mixture


def _neighbours(mixture: DiagonalMixture) -> set[tuple[int, int]]:
    """Each cluster with the two that are nearest to it in pooled standard deviations."""
    gaps = np.square(mixture.means[:, None] - mixture.means)
    distances = (gaps / (mixture.variances[:, None] + mixture.variances)).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1)[:, : min(2, mixture.n_clusters - 1)]
    return {(min(i, int(j)), max(i, int(j))) for i, row in enumerate(nearest) for j in row}


def _merged(mixture: DiagonalMixture, partner: np.ndarray) -> DiagonalMixture:
    """Give the clusters with the same ``partner`` (K,) one Gaussian with their common moments."""
    groups = np.unique(partner, return_inverse=True)[1]
    share = np.eye(groups.max() + 1)[groups].T * mixture.proportions  # (groups, K)
    proportions = share.sum(axis=1)
    share /= proportions[:, None]
    means = share @ mixture.means
    between = np.square(mixture.means - means[groups])
    return DiagonalMixture(proportions, means, share @ (mixture.variances + between))


def _gains_of_mergers(points: np.ndarray, mixture: DiagonalMixture) -> dict[tuple[int, int], float]:
    """Change of the log-likelihood by the merger of each pair of neighbours."""
    log_joint = mixture.log_joint(points)
    largest = log_joint.max(axis=1, keepdims=True)
    weights = np.exp(log_joint - largest)
    total = weights.sum(axis=1)
    gains = {}
    for i, j in _neighbours(mixture):
        pair = _merged(mixture.select(np.array([i, j])), np.zeros(2, dtype=int))
        log_pair = pair.log_joint(points)[:, 0] + np.log(mixture.proportions[[i, j]].sum())
        # Densities relative to the largest term: rounding leaves 1e-16 of it, far below any price.
        others = np.maximum(total - weights[:, i] - weights[:, j], 1e-16)
        merged = others + np.exp(np.minimum(log_pair - largest[:, 0], 500.0))
        gains[i, j] = float(np.log(merged / total).sum())
    return gains
