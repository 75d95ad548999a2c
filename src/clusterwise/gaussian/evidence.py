"""Evidence of a soft partition under a mixture of Gaussians, all parameters integrated out.

Sufficient statistics under memberships q go into the closed form for complete data, and the entropy of q is
added (Cheeseman & Stutz 1996):

    log p(X) ~ log P(sizes) + sum_k log f(X_k) + H(q)

with f the marginal likelihood of ``components`` and sizes from Dirichlet(1): every split of n points into k
sizes is equally likely. The hyper-parameters come from the data set itself: covariances are inverse Wishart
around the pooled one, worth an unknown number of points, over which the evidence averages; centres are Normal
around the centre of the data, as wide as they are found to be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import gammaln

from clusterwise._compiled import compiled
from clusterwise.gaussian.families import PRIORS
from clusterwise.gaussian.niw import LEAST_SCATTER, CovarianceType, NormalInverseWishart
from clusterwise.gaussian.settings import SearchSettings

__all__ = [
    "Hyper",
    "Sample",
    "State",
    "average",
    "hyper_of",
    "judge",
    "log_marginals",
    "log_partition",
    "plogp",
]

# Rows whose distance to the next one is looked at where some rows are copies.
ROWS_OF_BLUR = 500


@dataclass(frozen=True)
class Sample:
    """Points (n, d) of unit spread with T(x) of each, and the settings of the search."""

    points: np.ndarray
    covariance_type: CovarianceType
    settings: SearchSettings

    @cached_property
    def family(self) -> NormalInverseWishart:
        """A prior of the right kind, for what does not depend on its numbers."""
        d = self.points.shape[1]
        return PRIORS[self.covariance_type](1.0, d + 1.0, np.ones(d))

    @cached_property
    def blur(self) -> float:
        """Variance of a point around where it seems to be; see ``_blur``."""
        return _blur(self.points)

    @cached_property
    def lifted(self) -> np.ndarray:
        """T(x) of all points, (n, p), expected over what is not known of their places."""
        return self.family.blurred(self.family.lift(self.points), self.blur)

    @cached_property
    def variance(self) -> np.ndarray:
        """Variance of each feature around zero, (d,)."""
        return np.maximum(np.square(self.points).sum(axis=0) / len(self.points), LEAST_SCATTER) + self.blur


def _blur(points: np.ndarray) -> float:
    """Variance of a point around where it seems to be, for sorted points (n, d) of which some are copies.

    Rounded or repeated rows look like clusters without any width. As far as rows are copies, a row is known
    to within the distance to the next one only.
    """
    is_new = np.zeros(len(points), dtype=bool)
    _mark_new(np.ascontiguousarray(points), is_new)
    if np.count_nonzero(is_new) in (1, len(points)):
        return 0.0
    distinct = points[is_new]
    some = distinct[:: max(1, len(distinct) // ROWS_OF_BLUR)]  # many features make this slow
    nearest = cKDTree(distinct).query(some, 2)[0][:, 1]
    return float(1 - len(distinct) / len(points)) * float(np.median(nearest)) ** 2


@compiled
def _mark_new(points: np.ndarray, is_new: np.ndarray) -> None:
    """Write whether each of sorted points (n, d) differs from the one before it to ``is_new`` (n,), False."""
    n, d = points.shape
    is_new[0] = True
    for i in range(1, n):
        for a in range(d):
            if points[i, a] != points[i - 1, a]:
                is_new[i] = True
                break


@dataclass(frozen=True)
class Hyper:
    """Hyper-parameters that a data set gives to its own clusters."""

    kappa: float  # variance of a cluster over that of the centres
    variance: np.ndarray  # (d,) pooled within the clusters
    strength: float  # points that the prior of a covariance is worth

    def prior(self, sample: Sample, strengths: float | np.ndarray | None = None) -> NormalInverseWishart:
        """The prior of a cluster, or of several with ``strengths`` (K,) of their own."""
        strength = np.asarray(self.strength if strengths is None else strengths, dtype=np.float64)
        nu = strength + (len(self.variance) - 1) * (sample.covariance_type == "full")
        return PRIORS[sample.covariance_type](self.kappa, nu, nu[..., None] * self.variance)


@dataclass(frozen=True)
class State:
    """Soft memberships and what follows from them."""

    memberships: np.ndarray  # (K, n)
    entropy: float
    statistics: np.ndarray  # (K, p)
    hyper: Hyper
    log_evidence: float

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""
        return len(self.memberships)


def hyper_of(sample: Sample, statistics: np.ndarray, strength: float) -> Hyper:
    """Pooled variance within the clusters, and how far apart these lie in its units."""
    spherical, apart = sample.covariance_type == "spherical", sample.settings.means_apart
    pooled = np.empty(len(sample.variance))
    kappa = _pool(statistics, sample.variance, len(sample.points), spherical, apart, pooled)
    return Hyper(kappa, pooled, strength)


@compiled
def _pool(
    statistics: np.ndarray,
    variance: np.ndarray,
    n: int,
    spherical: bool,
    means_apart: float,
    pooled: np.ndarray,
) -> float:
    """Write the variance ``pooled`` (d,) within K clusters; its ratio to that of their centres.

    ``statistics`` (K, p) are theirs, ``variance`` (d,) is that of all n points around zero.
    """
    k, d = len(statistics), len(variance)
    total = 0.0
    for a in range(d):
        scatter = n * variance[a]
        for j in range(k):
            scatter -= statistics[j, 1 + a] ** 2 / max(statistics[j, 0], 1e-300)
        pooled[a] = max(scatter, 0.0)
        total += pooled[a]
    # Where hardly any point shares a cluster, the spread of the data stands in for the clusters' own.
    free = max(n - k, 0)
    guess = 1 / (1.0 + free) ** 2
    for a in range(d):
        scatter = total / d if spherical else pooled[a]
        pooled[a] = max((scatter + guess * variance[a]) / (free + guess), LEAST_SCATTER)
    squares = d * means_apart
    for j in range(k):
        for a in range(d):
            squares += (statistics[j, 1 + a] / max(statistics[j, 0], 1e-300)) ** 2 / pooled[a]
    return d * (k + 1) / squares


def log_marginals(sample: Sample, hyper: Hyper, statistics: np.ndarray) -> np.ndarray:
    """Log marginal likelihood of clusters with the given statistics (..., p), for each strength; (S, ...)."""
    flat = statistics.reshape(-1, statistics.shape[-1])
    found = hyper.prior(sample, np.array(sample.settings.strengths)).log_marginal_of_each(flat)
    return found.reshape(-1, *statistics.shape[:-1])


def log_partition(log_sizes: np.ndarray | float, k: int | np.ndarray, n: int) -> np.ndarray:
    """Log probability of a partition of n points in k clusters, given the sum of log n_j! over them."""
    result: np.ndarray = gammaln(k + 1) + gammaln(k) - gammaln(n + k) + log_sizes
    return result


def average(log_values: np.ndarray) -> np.ndarray:
    """Log of the mean of exp over the strengths, (S, ...) -> (...)."""
    of_each = np.ascontiguousarray(log_values).reshape(len(log_values), -1)
    result = np.empty(of_each.shape[1])
    _log_mean(of_each, result)
    return result.reshape(log_values.shape[1:])


@compiled
def _log_mean(log_values: np.ndarray, result: np.ndarray) -> None:
    """Write the log of the mean of exp over the rows of (S, m) to ``result`` (m,)."""
    n_strengths, m = log_values.shape
    for i in range(m):
        largest, total = log_values[0, i], 0.0
        for s in range(1, n_strengths):
            largest = max(largest, log_values[s, i])
        for s in range(n_strengths):
            total += math.exp(log_values[s, i] - largest)
        result[i] = math.log(total / n_strengths) + largest


def judge(sample: Sample, memberships: np.ndarray, entropy: float, statistics: np.ndarray) -> State:
    """Hyper-parameters and evidence of memberships (K, n) with the given entropy and statistics (K, p)."""
    settings = sample.settings
    hyper = hyper_of(sample, statistics, settings.strengths[0])
    marginals = log_marginals(sample, hyper, statistics).sum(axis=1)
    log_sizes = gammaln(statistics[:, 0] + 1).sum()
    partition = float(log_partition(log_sizes, len(statistics), len(sample.points)))
    strength = settings.strengths[int(marginals.argmax())]
    evidence = float(average(marginals)) + partition + entropy
    return State(memberships, entropy, statistics, Hyper(hyper.kappa, hyper.variance, strength), evidence)


def plogp(p: np.ndarray) -> np.ndarray:
    """p log p, zero at zero."""
    return p * np.log(np.maximum(p, 1e-300))
