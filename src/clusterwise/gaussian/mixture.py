"""Mixtures of Gaussians with soft memberships: EM, and the evidence of what it finds.

Sufficient statistics under memberships q go into the closed form for complete data, and the entropy of q is
added (Cheeseman & Stutz 1996):

    log p(X) ~ log P(sizes) + sum_k log f(X_k) + H(q)

with f the marginal likelihood of ``niw`` and sizes from Dirichlet(1): every split of n points into k sizes is
equally likely. The hyper-parameters come from the data set itself: covariances are inverse Wishart around the
pooled one, worth an unknown number of points, over which the evidence averages; centres are Normal around the
centre of the data, as wide as they are found to be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import gammaln

from clusterwise.gaussian.clusters import Clusters
from clusterwise.gaussian.families import PRIORS
from clusterwise.gaussian.niw import MIN_SCATTER, CovarianceType, NormalInverseWishart

__all__ = [
    "STRENGTHS",
    "FittedMixture",
    "Hyper",
    "Sample",
    "choose_covariance_type",
    "clusters_of_labels",
    "expect",
    "fit_em",
    "hyper_of",
    "log_marginals",
    "log_mean",
    "log_partition",
    "mixture_of_labels",
    "plogp",
    "scored",
]

# How alike the clusters' covariances are is not known: the prior of a covariance may be worth this many
# points around the pooled one, from hardly any to many, and the evidence averages over these.
STRENGTHS = (2.0, 12.0, 72.0, 432.0)
# Clusters are things apart: the variance of their centres is taken to be this many times a cluster's own.
# That counts as much as one cluster, so that the data decide where there are several.
MEANS_APART = 100.0
# EM ends when no cluster gains or loses more than this many points in a step, or after this many steps; some
# steps show whether a mixture is worth more.
TOLERANCE = 0.05
MAX_EM_STEPS, FIRST_EM_STEPS = 60, 12
# A cluster with fewer points is none.
MIN_POINTS = 0.5
# Rows whose distance to the next one is looked at where some rows are copies.
ROWS_OF_NOISE = 500
# Full covariances need this many rows for each feature, and are too slow beyond this many features.
ROWS_PER_FEATURE = 10
MAX_FEATURES = 32


def choose_covariance_type(
    covariance_type: CovarianceType | Literal["auto"], n: int, d: int
) -> CovarianceType:
    """What "auto" stands for: full where n points of d features can tell correlations, else diagonal."""
    if covariance_type != "auto":
        return covariance_type
    return "full" if d <= MAX_FEATURES and n >= ROWS_PER_FEATURE * d else "diag"


@dataclass(frozen=True)
class Sample:
    """Points (n, d) of unit spread with T(x) of each."""

    points: np.ndarray
    covariance_type: CovarianceType

    @cached_property
    def family(self) -> NormalInverseWishart:
        """A prior of the right kind, for what does not depend on its numbers."""
        d = self.points.shape[1]
        return PRIORS[self.covariance_type](1.0, d + 1.0, np.ones(d))

    @cached_property
    def noise(self) -> float:
        """Variance of a point around where it seems to be; see ``_noise``."""
        return _noise(self.points)

    @cached_property
    def terms(self) -> np.ndarray:
        """T(x) (n, p) of all points, expected over what is not known of their places."""
        family, noise = self.family, self.noise
        return family.smoothed(family.terms(self.points), noise)

    @cached_property
    def variance(self) -> np.ndarray:
        """Variance of each feature around zero, (d,)."""
        return np.maximum(np.square(self.points).sum(axis=0) / len(self.points), MIN_SCATTER) + self.noise


def _noise(points: np.ndarray) -> float:
    """Variance of a point around where it seems to be, for sorted points (n, d) of which some are copies.

    Rounded or repeated rows look like clusters without any width. As far as rows are copies, a row is known
    to within the distance to the next one only.
    """
    is_new = np.append(True, (points[1:] != points[:-1]).any(axis=1))
    if np.count_nonzero(is_new) in (1, len(points)):
        return 0.0
    distinct = points[is_new]
    some = distinct[:: max(1, len(distinct) // ROWS_OF_NOISE)]  # many features make this slow
    nearest = cKDTree(distinct).query(some, 2)[0][:, 1]
    return float(1 - len(distinct) / len(points)) * float(np.median(nearest)) ** 2


@dataclass(frozen=True)
class Hyper:
    """Hyper-parameters that a data set gives to its own clusters."""

    kappa: float  # variance of a cluster over that of the centres
    variance: np.ndarray  # (d,) pooled within the clusters
    strength: float  # points that the prior of a covariance is worth

    def prior(self, sample: Sample, strengths: np.ndarray | None = None) -> NormalInverseWishart:
        """The prior of a cluster, or of several with ``strengths`` (K,) of their own."""
        fewest = len(self.variance) - 1 if sample.covariance_type == "full" else 0
        if strengths is None:
            nu: float | np.ndarray = self.strength + fewest
            return PRIORS[sample.covariance_type](self.kappa, nu, nu * self.variance)
        nu = strengths + fewest
        return PRIORS[sample.covariance_type](self.kappa, nu, nu[:, None] * self.variance)


def hyper_of(sample: Sample, statistics: np.ndarray, strength: float) -> Hyper:
    """Pooled variance within clusters with statistics (K, p), and how far apart these lie in its units."""
    n, d, k = len(sample.points), len(sample.variance), len(statistics)
    sums = statistics[:, 1 : 1 + d]
    means = sums / np.maximum(statistics[:, :1], 1e-300)
    pooled = n * sample.variance - np.einsum("kd,kd->d", sums, means)
    if sample.covariance_type == "spherical":
        pooled[:] = pooled.mean()
    # Where hardly any point shares a cluster, the spread of the data stands in for the clusters' own.
    free = max(n - k, 0)
    guess = 1 / (1.0 + free) ** 2
    pooled = np.maximum((pooled + guess * sample.variance) / (free + guess), MIN_SCATTER)
    squares = d * MEANS_APART + float((means**2 / pooled).sum())
    return Hyper(d * (k + 1) / squares, pooled, strength)


# -- evidence ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FittedMixture:
    """Soft memberships of a sample and what follows from them."""

    sample: Sample
    memberships: np.ndarray  # (K, n)
    entropy: float
    statistics: np.ndarray  # (K, p)
    hyper: Hyper
    log_marginals: np.ndarray  # (S, K) of the clusters, for each strength of the prior
    log_evidence: float

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""
        return len(self.memberships)

    @property
    def labels(self) -> np.ndarray:
        """The best cluster of each point, (n,); some clusters may be nobody's best."""
        labels: np.ndarray = self.memberships.argmax(axis=0)
        return labels

    @property
    def prior(self) -> NormalInverseWishart:
        """The prior of a cluster."""
        return self.hyper.prior(self.sample)

    @property
    def clusters(self) -> Clusters:
        """The clusters, for rows to come."""
        return Clusters(self.prior, self.statistics)


def scored(sample: Sample, memberships: np.ndarray, entropy: float, statistics: np.ndarray) -> FittedMixture:
    """The mixture of memberships (K, n) with the given entropy and statistics (K, p)."""
    hyper = hyper_of(sample, statistics, STRENGTHS[0])
    marginals = log_marginals(sample, hyper, statistics)
    of_all = marginals.sum(axis=1)
    log_sizes = gammaln(statistics[:, 0] + 1).sum()
    partition = float(log_partition(log_sizes, len(statistics), len(sample.points)))
    hyper = Hyper(hyper.kappa, hyper.variance, STRENGTHS[int(of_all.argmax())])
    evidence = float(log_mean(of_all)) + partition + entropy
    return FittedMixture(sample, memberships, entropy, statistics, hyper, marginals, evidence)


def log_marginals(sample: Sample, hyper: Hyper, statistics: np.ndarray) -> np.ndarray:
    """Log marginal likelihood of clusters with the given statistics (..., p), for each strength; (S, ...)."""
    flat = statistics.reshape(-1, statistics.shape[-1])
    found = hyper.prior(sample, np.array(STRENGTHS)).log_marginal_of_each(flat)
    return found.reshape(len(STRENGTHS), *statistics.shape[:-1])


def log_partition(log_sizes: np.ndarray | float, k: int | np.ndarray, n: int) -> np.ndarray:
    """Log probability of a partition of n points in k clusters, given the sum of log n_j! over them."""
    result: np.ndarray = gammaln(k + 1) + gammaln(k) - gammaln(n + k) + log_sizes
    return result


def log_mean(log_values: np.ndarray) -> np.ndarray:
    """Log of the mean of exp over the strengths, (S, ...) -> (...)."""
    largest = log_values.max(axis=0)
    result: np.ndarray = largest + np.log(np.exp(log_values - largest).mean(axis=0))
    return result


def plogp(p: np.ndarray) -> np.ndarray:
    """p log p, zero at zero."""
    return p * np.log(np.maximum(p, 1e-300))


# -- EM ------------------------------------------------------------------------------------------


def mixture_of_labels(sample: Sample, labels: np.ndarray) -> FittedMixture:
    """The mixture of a hard partition, labels (n,) from 0 to K - 1, all in use."""
    memberships = np.zeros((int(labels.max()) + 1, len(labels)))
    memberships[labels, np.arange(len(labels))] = 1.0
    return scored(sample, memberships, 0.0, memberships @ sample.terms)


def clusters_of_labels(
    points: np.ndarray, labels: np.ndarray, covariance_type: CovarianceType = "full"
) -> Clusters:
    """The clusters of a partition as it is, labels (n,) from 0 to K - 1 all in use; no EM."""
    sample = Sample(points, covariance_type)
    members = np.zeros((int(labels.max()) + 1, len(labels)))
    members[labels, np.arange(len(labels))] = 1.0
    statistics = members @ sample.terms
    hyper = hyper_of(sample, statistics, STRENGTHS[0])
    likeliest = log_marginals(sample, hyper, statistics).sum(axis=1).argmax()
    return Clusters(replace(hyper, strength=STRENGTHS[int(likeliest)]).prior(sample), statistics)


def fit_em(mixture: FittedMixture, floor: float = -np.inf) -> FittedMixture:
    """The mixture after EM until it stands still, for a limited time; clusters without points are dropped.

    How alike the clusters are is estimated again where EM has stopped. Where the evidence is below ``floor``
    after a few steps, it is left there.
    """
    if np.isfinite(floor):
        mixture = _em(mixture, FIRST_EM_STEPS)
        if mixture.log_evidence < floor:
            return mixture
    for _ in STRENGTHS:
        if mixture.n_clusters == 1:
            break
        before = mixture.hyper.strength
        mixture = _em(mixture, MAX_EM_STEPS)
        if mixture.hyper.strength == before:
            break
    return mixture


def _em(mixture: FittedMixture, n_steps: int) -> FittedMixture:
    """EM with one strength of the prior, ``n_steps`` at most.

    Steps that go on in one direction are prolonged (SQUAREM, Varadhan & Roland 2008): where clusters overlap
    EM creeps. A long step that lowers the likelihood is taken back.
    """
    sample, strength, hyper = mixture.sample, mixture.hyper.strength, mixture.hyper
    terms = sample.terms
    memberships, entropy, statistics = mixture.memberships, mixture.entropy, mixture.statistics
    path: list[np.ndarray] = []
    ahead, height = statistics, -np.inf
    for _ in range(n_steps):
        eta = _log_parameters(sample, hyper, ahead)
        found, log_density = expect(eta @ terms.T)
        likelihood = float(log_density.sum())
        if ahead is not statistics and likelihood < height:
            ahead, path = statistics, []
            continue
        memberships, height, counts = found, likelihood, ahead[:, 0]
        statistics = ahead = memberships @ terms
        entropy = _entropy(log_density, eta, statistics)
        if statistics[:, 0].min() < MIN_POINTS:
            memberships = memberships[statistics[:, 0] >= MIN_POINTS]
            memberships /= memberships.sum(axis=0)
            statistics = ahead = memberships @ terms
            path = []
        elif np.abs(statistics[:, 0] - counts).max() < TOLERANCE:
            break
        hyper = hyper_of(sample, statistics, strength)
        path.append(statistics)
        if len(path) == 3:
            ahead, path = _extrapolated(sample, *path), []
    return scored(sample, memberships, entropy, statistics)


def _extrapolated(sample: Sample, first: np.ndarray, second: np.ndarray, third: np.ndarray) -> np.ndarray:
    """Statistics (K, p) where EM may be heading, from three of its steps; the last one if not ahead."""
    step = second - first
    bend = third - second - step
    length = np.sqrt(np.square(step).sum() / max(np.square(bend).sum(), 1e-300))
    if length <= 1:
        return third
    sums = first + 2 * length * step + length**2 * bend
    return sums if sums[:, 0].min() >= 1 and sample.family.is_possible(sums) else third


def _log_parameters(sample: Sample, hyper: Hyper, statistics: np.ndarray) -> np.ndarray:
    """Natural parameters (K, p) with the shares: log(pi_k N(x; mu_k, Sigma_k)) is T(x) . eta_k."""
    eta = hyper.prior(sample).expected(statistics)
    eta[:, 0] += np.log(statistics[:, 0] / statistics[:, 0].sum())
    return eta


def expect(log_joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Memberships (K, n) and the log density of each point, (n,); ``log_joint`` (K, n) is overwritten."""
    largest = log_joint.max(axis=0)
    log_joint -= largest
    memberships = np.exp(log_joint, out=log_joint)
    total = memberships.sum(axis=0)
    memberships /= total
    return memberships, np.log(total) + largest


def _entropy(log_density: np.ndarray, eta: np.ndarray, statistics: np.ndarray) -> float:
    """Entropy of memberships with the given statistics (K, p): log q_ik = T(x_i) . eta_k - log p(x_i)."""
    return float(log_density.sum() - np.vdot(eta, statistics))
