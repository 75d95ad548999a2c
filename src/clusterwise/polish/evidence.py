"""Evidence of a soft partition under a mixture of diagonal Gaussians, its parameters integrated out.

Sufficient statistics under memberships q go into the closed form for complete data, and the entropy of q is
added (Cheeseman & Stutz 1996). The hyper-parameters come from the data set itself: a cluster's variances are
inverse Gamma around the pooled ones, its mean is Normal around the centre of the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from clusterwise.mixture import PRIOR_POINTS, SMALLEST_VARIANCE

__all__ = [
    "Data",
    "HyperParameters",
    "Moments",
    "State",
    "average",
    "hyper_parameters",
    "judge",
    "log_evidence",
    "log_marginals",
    "log_partition",
    "log_restaurant_odds",
    "log_sizes",
    "plogp",
    "pooled_variance",
    "shrunk_variances",
]

# The prior of a cluster's variances is worth this many points that have the pooled variance; the
# evidence averages over all of them, so that the data say how alike the clusters' variances are.
STRENGTHS = np.array([2.0, 5.0, 15.0, 50.0, 150.0])
# The spread of the means counts the spread of the data as this many means.
SPREAD_MEANS = 2.0
# Clusters are things apart: a priori the variance of the means is at least this many times their own. With
# less, a few overlapping clusters are as likely as the one Gaussian that they add up to.
APART = 200.0


class Moments(NamedTuple):
    """Sufficient statistics of clusters: counts (..., K), means and scatters (..., K, d)."""

    counts: np.ndarray
    means: np.ndarray
    scatters: np.ndarray

    @property
    def squares(self) -> np.ndarray:
        """Sums of squares around zero."""
        return self.scatters + self.counts[..., None] * np.square(self.means)


@dataclass(frozen=True)
class HyperParameters:
    """Hyper-parameters that a data set gives to its own clusters."""

    variance: np.ndarray  # (..., 1, d) pooled within the clusters
    spread: np.ndarray  # (..., 1, d) variance of the means
    strength: float  # of the prior of the variances, in points


@dataclass(frozen=True)
class State:
    """Soft memberships and what follows from them."""

    memberships: np.ndarray  # (K, n)
    entropy: float
    moments: Moments
    hyper: HyperParameters
    log_evidence: float

    @property
    def n_clusters(self) -> int:
        return len(self.memberships)


class Data:
    """Points (n, d) with the columns that all moments need."""

    def __init__(self, points: np.ndarray) -> None:
        self.centre = points.mean(axis=0)
        self.points = np.ascontiguousarray(points - self.centre)
        self.columns = np.concatenate([self.points, np.square(self.points)], axis=1)  # (n, 2d)
        self.rows = np.ascontiguousarray(self.columns.T)  # (2d, n)
        self.variance = np.maximum(np.square(self.points).mean(axis=0), SMALLEST_VARIANCE)

    def moments(self, memberships: np.ndarray, columns: np.ndarray | None = None) -> Moments:
        """Moments under memberships (..., K, n); the data have unit spread, so squares may be subtracted."""
        columns = self.columns if columns is None else columns
        counts = memberships.sum(axis=-1)
        sums = memberships @ columns
        d = columns.shape[1] // 2
        means = sums[..., :d] / counts[..., None]
        scatters = np.maximum(sums[..., d:] - counts[..., None] * np.square(means), 0.0)
        return Moments(counts, means, scatters)


def shrunk_variances(moments: Moments, hyper: HyperParameters) -> np.ndarray:
    shrunk = moments.scatters + hyper.strength * hyper.variance
    return np.maximum(shrunk / (moments.counts[..., None] + hyper.strength), SMALLEST_VARIANCE)


def pooled_variance(data: Data, scatter: np.ndarray, k: int) -> np.ndarray:
    """Variance within k clusters, from the sum of their scatters."""
    # Where hardly any point shares a cluster, the spread of the data stands in for the clusters' own.
    left = len(data.points) - k
    guess = 1 / (1 + left) ** 2
    return np.maximum((scatter + guess * data.variance) / (left + guess), SMALLEST_VARIANCE)


def hyper_parameters(data: Data, moments: Moments, strength: float = PRIOR_POINTS) -> HyperParameters:
    """Pooled variance and spread of the means."""
    k = moments.counts.shape[-1]
    variance = pooled_variance(data, moments.scatters.sum(axis=-2, keepdims=True), k)
    around = np.square(moments.means).sum(axis=-2, keepdims=True)  # the data are centred
    spread = (SPREAD_MEANS * data.variance + around) / (SPREAD_MEANS + k)
    return HyperParameters(variance, np.maximum(spread, APART * variance), strength)


def log_marginals(moments: Moments, hyper: HyperParameters) -> np.ndarray:
    """Log probability of each cluster's points with its parameters integrated out, (S, ..., K).

    Means have the prior Normal(0, spread); variances the inverse Gamma prior of each of STRENGTHS.
    """
    strength = STRENGTHS.reshape(-1, *[1] * moments.counts.ndim)
    counts = moments.counts
    d = moments.means.shape[-1]
    freedom = (strength + counts - 1) / 2  # (S, ..., K)
    result = gammaln(freedom) - gammaln(strength / 2)
    result *= d
    total = moments.scatters + strength[..., None] * hyper.variance
    result += 0.5 * d * strength * np.log(strength) + 0.5 * strength * np.log(hyper.variance).sum(axis=-1)
    log_total = np.log(total)
    result -= freedom * log_total.sum(axis=-1)
    result -= 0.5 * d * ((counts - 1) * np.log(np.pi) + np.log(counts))
    width = hyper.spread + total / (strength + counts)[..., None] / counts[..., None]
    result -= 0.5 * (np.log(2 * np.pi * width) + np.square(moments.means) / width).sum(axis=-1)
    return result


def log_partition(sums: np.ndarray, k: int | np.ndarray, n: float) -> np.ndarray:
    """Log probability of a partition of n points in k clusters from ``sums`` (2, ...) of ``log_sizes``.

    Sizes are either uniform (proportions from Dirichlet(1)) or those of a Chinese restaurant process
    given k, in which tiny clusters are common; the evidence averages over both.
    """
    uniform = gammaln(k + 1) + gammaln(k) - gammaln(n + k)
    restaurant = gammaln(k) - gammaln(n) - (k - 1) * np.log(np.log(n + 1) + np.euler_gamma)
    return np.logaddexp(uniform + sums[0], restaurant + sums[1]) - np.log(2)


def log_restaurant_odds(counts: np.ndarray) -> float:
    """Log odds that clusters of these sizes (k,) come from a restaurant rather than from Dirichlet(1)."""
    k, n = len(counts), counts.sum()
    uniform = gammaln(k + 1) - gammaln(n + k)
    restaurant = -gammaln(n) - (k - 1) * np.log(np.log(n + 1) + np.euler_gamma) - np.log(counts).sum()
    return float(restaurant - uniform)


def log_sizes(counts: np.ndarray) -> np.ndarray:
    """What a cluster with such a count adds to the two logs of ``log_partition``, (2, ...)."""
    factorial = gammaln(counts + 1)
    return np.stack([factorial, factorial - np.log(counts)])


def average(log_marginals: np.ndarray) -> np.ndarray:
    """Average over the strengths, (S, ...) -> (...)."""
    largest = log_marginals.max(axis=0)
    return np.log(np.exp(log_marginals - largest).mean(axis=0)) + largest


def log_evidence(data: Data, moments: Moments) -> tuple[np.ndarray, np.ndarray]:
    """Evidence of hard clusters with such moments, (...), and the likely strength, (...)."""
    marginals = log_marginals(moments, hyper_parameters(data, moments)).sum(axis=-1)
    weights = np.exp(marginals - marginals.max(axis=0))
    strength = np.exp(np.tensordot(np.log(STRENGTHS), weights, axes=1) / weights.sum(axis=0))
    sizes = log_sizes(moments.counts).sum(axis=-1)
    evidence = average(marginals) + log_partition(sizes, moments.counts.shape[-1], len(data.points))
    return evidence, strength


def judge(data: Data, memberships: np.ndarray, entropy: float, moments: Moments | None = None) -> State:
    """Moments, hyper-parameters and evidence of memberships (K, n)."""
    moments = data.moments(memberships) if moments is None else moments
    evidence, strength = log_evidence(data, moments)
    return State(
        memberships,
        entropy,
        moments,
        hyper_parameters(data, moments, float(strength)),
        float(evidence) + entropy,
    )


def plogp(p: np.ndarray) -> np.ndarray:
    return p * np.log(np.maximum(p, 1e-300))
