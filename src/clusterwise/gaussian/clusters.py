"""The clusters of one partition under a conjugate prior: what rows, known and new, are compared with.

``QuickClusters`` labels very many rows: clusters that cannot win a row are left as soon as that is certain.
The log joint density of a row x and cluster k is a falling function of D_k(x), the squared distance in units
of the cluster's covariance. The cluster with the nearest centre is tried first. Another one is out as soon as
a lower bound of D_k is too long for k to come within CERTAIN of the best so far: the plain squared distance
to its centre over its largest variance, then sums over some of the d whitened coordinates. Where clusters lie
apart a row costs little more than the distance to one of them (labels and outlier scores of 200,000 rows in
20 features and clusters: 0.15 s, against 1.9 s by memberships). No label depends on other rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from clusterwise._compiled import compiled
from clusterwise.fitting.protocol import AssignedRows, ClusterDensity, max_ordinary_distance, outlier_scores
from clusterwise.gaussian.families import GROUPS_AT_ONCE
from clusterwise.gaussian.niw import (
    CovarianceType,
    NormalInverseWishart,
    Posterior,
    log_det_of_root,
    variance_factor,
)

__all__ = ["Clusters", "QuickClusters"]

# Rows are compared with clusters in chunks of about this many (row, cluster) pairs: what a chunk needs stays
# in the processor's cache.
PAIRS_AT_ONCE = 65_536
# Clusters whose log joint density is below the best by more than this have no share in a row.
CERTAIN = 32.0
# What plain squared distances may be off by, relative to those from the origin.
ROUNDING = 1e-9
# What belongs to this many rows stays in the processor's cache.
ROWS_AT_ONCE = 4096
# Whitened coordinates that are computed at once.
BLOCK = 4


@dataclass(frozen=True)
class Clusters(ClusterDensity):
    """K clusters, told by the sums of T(x) over their members, which may be weighted; see ``niw``."""

    prior: NormalInverseWishart
    statistics: np.ndarray  # (K, p)
    weights: np.ndarray | None = None  # (K,) where the statistics are of rows that were not chosen evenly

    @property
    def covariance_type(self) -> CovarianceType:
        """Shape of a cluster."""
        return self.prior.covariance_type

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""
        return len(self.statistics)

    @cached_property
    def posterior(self) -> Posterior:
        """Posterior of the clusters' parameters."""
        return self.prior.posterior(self.statistics)

    @property
    def proportions(self) -> np.ndarray:
        """Mixing weight of each cluster, (K,)."""
        counts: np.ndarray = self.statistics[:, 0] if self.weights is None else self.weights
        return counts / counts.sum()

    @property
    def means(self) -> np.ndarray:
        """Posterior means of the centres, (K, d)."""
        return self.posterior.mean

    @property
    def covariances(self) -> np.ndarray:
        """Covariances of the predictive densities, (K, d, d)."""
        return self.prior.covariances(self.posterior)

    def select(self, clusters: np.ndarray) -> Clusters:
        """The clusters with these indices, in this order."""
        weights = None if self.weights is None else self.weights[clusters]
        return Clusters(self.prior, self.statistics[clusters], weights)

    def with_proportions(self, proportions: np.ndarray) -> Clusters:
        """The same clusters with other mixing weights (K,)."""
        return replace(self, weights=proportions)

    def log_joint(self, points: np.ndarray) -> np.ndarray:
        """Log of mixing weight times predictive density, (n, K), each row on its own."""
        log_weights, chunks = np.log(self.proportions), self._chunks(len(points))
        result, posterior = np.empty((len(points), len(log_weights))), self.posterior
        for rows in chunks:
            np.add(log_weights, self.prior.log_predictive(points[rows], posterior), out=result[rows])
        return result

    def memberships(self, points: np.ndarray) -> np.ndarray:
        """Probability of each cluster for each point, (n, K), rows sum to one."""
        weights = self.log_joint(points)
        weights -= weights.max(axis=1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=1, keepdims=True)
        return weights

    def assign(self, points: np.ndarray, n_rows: int) -> AssignedRows:
        """Labels, their probabilities and outlier scores, without the clusters that cannot win a row."""
        return self._quick.assign(points, n_rows)

    @cached_property
    def _quick(self) -> QuickClusters:
        return QuickClusters(self)

    def outlier_scores(self, points: np.ndarray, n_rows: int) -> np.ndarray:
        """See ``Assigner``; by the distance to the nearest cluster."""
        return outlier_scores(self.nearest_distances(points), points.shape[1], n_rows)

    def nearest_distances(self, points: np.ndarray) -> np.ndarray:
        """Squared distance of each point to the nearest cluster in its standard deviations, (n,).

        A cluster of one point does not make that point an ordinary one, and does not count.
        """
        shared = np.flatnonzero(self.statistics[:, 0] > 1.5)
        clusters = self.select(shared) if 0 < len(shared) < self.n_clusters else self
        distances = np.empty(len(points))
        for rows in self._chunks(len(points)):
            distances[rows] = self.prior.squared_distances(points[rows], clusters.posterior).min(axis=1)
        return distances

    def sample(self, rng: np.random.Generator, n_samples: int) -> tuple[np.ndarray, np.ndarray]:
        """Points (n_samples, d) that are drawn, and their clusters (n_samples,), sorted by cluster."""
        labels = np.repeat(np.arange(self.n_clusters), rng.multinomial(n_samples, self.proportions))
        return self.prior.sample(rng, self.posterior, labels), labels

    def _chunks(self, n_rows: int) -> list[slice]:
        diagonal = self.prior.covariance_type == "diag"  # each feature has a number for each pair
        width = min(self.prior.n_features, GROUPS_AT_ONCE) if diagonal else 1
        size = max(16, PAIRS_AT_ONCE // (width * self.n_clusters))
        return [slice(start, start + size) for start in range(0, n_rows, size)]


# -- labels of very many rows --------------------------------------------------------------------


class _Terms(NamedTuple):
    """Parts of the log joint densities of K Student t."""

    means: np.ndarray  # (K, d)
    widest: np.ndarray  # (K,) a lower bound of the precision along any direction
    whiten: np.ndarray  # (K, d, d') transposed roots of the precisions, d' a multiple of BLOCK
    constants: np.ndarray  # (K,)
    degrees: np.ndarray  # (K,)
    factors: np.ndarray  # (K,) from D_k to squared distances in standard deviations


@dataclass(frozen=True)
class QuickClusters:
    """Clusters that label rows by their predictive densities."""

    clusters: Clusters

    def assign(self, features: np.ndarray, n_rows: int) -> AssignedRows:
        """See ``Assigner``; features (n, f) are of a data set of ``n_rows``."""
        d = features.shape[1]
        if self.clusters.prior.covariance_type == "full":
            labels, probabilities, bounds = self._label_by_full(np.ascontiguousarray(features))
        else:
            membership = self.clusters.memberships(features)
            labels, probabilities = membership.argmax(axis=1).astype(np.int32), membership.max(axis=1)
            bounds = np.full(len(features), np.inf)
        scores = np.zeros(len(features))
        far = np.flatnonzero(bounds >= max_ordinary_distance(d, n_rows))
        if len(far) > 0:
            scores[far] = outlier_scores(self.clusters.nearest_distances(features[far]), d, n_rows)
        return AssignedRows(labels, probabilities.astype(np.float32), scores)

    @cached_property
    def _terms(self) -> _Terms:
        clusters, posterior = self.clusters, self.clusters.posterior
        d = clusters.prior.n_features
        degrees = posterior.nu - d + 1
        scale = (posterior.kappa + 1) / (posterior.kappa * degrees)
        root = np.linalg.cholesky(posterior.psi)
        whiten = np.linalg.inv(root) / np.sqrt(scale)[:, None, None]
        constants = gammaln((degrees + d) / 2) - gammaln(degrees / 2) - 0.5 * d * np.log(degrees * np.pi)
        constants += np.log(clusters.proportions) - 0.5 * (log_det_of_root(root) + d * np.log(scale))
        factors = scale / variance_factor(posterior, degrees)
        factors[clusters.statistics[:, 0] <= 1.5] = np.inf  # a row close to a single one may be an outlier
        return _Terms(
            np.ascontiguousarray(posterior.mean),
            np.square(np.linalg.norm(whiten, ord=-2, axis=(1, 2))) * (1 - ROUNDING),
            np.ascontiguousarray(np.pad(whiten.transpose(0, 2, 1), ((0, 0), (0, 0), (0, -d % BLOCK)))),
            constants,
            degrees,
            factors,
        )

    def _label_by_full(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Labels, their probabilities, and squared distances (n,), the nearest cluster's or longer."""
        terms, n = self._terms, len(features)
        labels, probabilities, distances = np.empty(n, dtype=np.int32), np.empty(n), np.empty(n)
        twice, lengths = np.ascontiguousarray(-2 * terms.means.T), np.square(terms.means).sum(axis=1)
        room = np.empty((min(n, ROWS_AT_ONCE), len(lengths)))
        spare = np.empty(len(lengths)), np.empty(features.shape[1])
        for start in range(0, n, ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            some = features[rows]
            plain = np.matmul(some, twice, out=room[: len(some)])
            plain += lengths
            plain += np.einsum("nd,nd->n", some, some)[:, None]
            _label(some, plain, *terms[:-1], *spare, labels[rows], probabilities[rows], distances[rows])
        return labels, probabilities, distances * terms.factors[labels]


@compiled
def _label(
    points: np.ndarray,
    plain: np.ndarray,
    means: np.ndarray,
    widest: np.ndarray,
    whiten: np.ndarray,
    constants: np.ndarray,
    degrees: np.ndarray,
    logs: np.ndarray,
    offset: np.ndarray,
    labels: np.ndarray,
    probabilities: np.ndarray,
    distances: np.ndarray,
) -> None:
    """Fill in the last three, (n,) each; ``logs`` (K,), ``offset`` (d,) are room, others as in ``_Terms``."""
    n, d = points.shape
    k, width = len(means), whiten.shape[2]
    for i in range(n):
        nearest, length = 0, 0.0
        for a in range(d):
            length += points[i, a] * points[i, a]
        for j in range(1, k):
            if plain[i, j] < plain[i, nearest]:
                nearest = j
        best, winner, shortest = -np.inf, nearest, np.inf
        for t in range(k):
            j = nearest if t == 0 else (t - 1 if t <= nearest else t)
            exponent = (constants[j] - best + CERTAIN) / (0.5 * (degrees[j] + d))
            if exponent <= 0.0:
                logs[j] = -np.inf
                continue
            if exponent < 1.0:  # a little more than the exponential function minus one
                longest = degrees[j] * exponent * (1.0 + exponent * (0.5 + 0.2183 * exponent))
            else:
                longest = degrees[j] * np.expm1(min(exponent, 700.0))
            if widest[j] * (plain[i, j] - ROUNDING * length) > longest:
                logs[j] = -np.inf
                continue
            for a in range(d):
                offset[a] = points[i, a] - means[j, a]
            total = 0.0
            for start in range(0, width, BLOCK):
                first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
                for b in range(min(start + BLOCK, d)):
                    away = offset[b]
                    first += whiten[j, b, start] * away
                    second += whiten[j, b, start + 1] * away
                    third += whiten[j, b, start + 2] * away
                    fourth += whiten[j, b, start + 3] * away
                total += first * first + second * second + third * third + fourth * fourth
                if total > longest:
                    break
            if total > longest:
                logs[j] = -np.inf
                continue
            value = constants[j] - 0.5 * (degrees[j] + d) * np.log1p(total / degrees[j])
            logs[j] = value
            if value > best or (value == best and j < winner):
                best, winner, shortest = value, j, total
        share = 0.0
        for j in range(k):
            if logs[j] > best - CERTAIN:
                share += np.exp(logs[j] - best)
        labels[i] = winner
        probabilities[i] = 1.0 / share if share > 0.0 else 1.0
        distances[i] = shortest
