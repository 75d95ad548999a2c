"""Where a chain is: a partition, and the hyper-parameters with their own weak prior.

The prior of partitions is the Chinese restaurant process with concentration alpha. What a cluster looks like
a priori is said by three numbers (and a width for each feature): kappa, how tightly the clusters' means lie
together; nu, how alike the clusters' covariances are; and psi, how wide the clusters are. None is known
beforehand, and the number of clusters depends on all of them, so they are inferred with the rest. In the
units of the sampler the data have unit spread, hence the centres below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from clusterwise.gaussian.families import PRIORS, Diagonal
from clusterwise.gaussian.niw import CovarianceType, NormalInverseWishart

__all__ = [
    "GammaPrior",
    "HyperParameters",
    "HyperPrior",
    "LogNormal",
    "State",
    "average",
    "draw_alpha",
    "draw_hyper",
    "log_partition_probability",
    "medians",
]

# Rows that repeat would otherwise draw the width of the clusters to zero without end.
MAX_STEP = float(np.log(1e5))
# Slices start as wide as this many standard deviations of the prior, and end after at most this many cuts.
WIDTH, MAX_SHRINKS = 4.0, 60
# How often the variance of one feature is drawn by itself, and not those of all features together.
ONE_FEATURE = 0.7


# -- hyper-parameters ----------------------------------------------------------------------------


@dataclass(frozen=True)
class GammaPrior:
    """Gamma(shape, rate) of the concentration alpha."""

    shape: float = 1.0
    rate: float = 1.0


@dataclass(frozen=True)
class LogNormal:
    """exp(Normal(log median, sd)), or just ``median`` if ``sd`` is 0."""

    median: float
    sd: float

    def log_density(self, value: np.ndarray | float) -> np.ndarray:
        """Log density of log(value), without the constant; it ends at MAX_STEP."""
        if self.sd == 0:
            return np.zeros(np.shape(value))
        steps = np.abs(np.log(value) - np.log(self.median))
        return np.where(steps < MAX_STEP, -0.5 * np.square(steps / self.sd), -np.inf)


@dataclass(frozen=True)
class HyperPrior:
    """Priors of alpha, kappa, nu - d + 1 and of the clusters' variance; one number means a fixed value."""

    covariance_type: CovarianceType
    n_features: int
    alpha: GammaPrior | float = field(default_factory=GammaPrior)
    kappa: LogNormal = LogNormal(0.05, 1.5)
    degrees: LogNormal = LogNormal(10.0, 1.2)  # nu - d + 1, positive for a proper prior
    variance: LogNormal = LogNormal(0.05, 2.0)  # psi / nu, in units of the data's variance
    variance_unit: np.ndarray | None = None  # (d,) what a variance of 1 means for each feature

    def while_searching(self) -> HyperPrior:
        """The prior for the search of clusters: alike they need not be, and how far apart they lie is open.

        One cluster says nothing of how alike clusters are. If that were inferred from the start, it might by
        chance come out that all clusters look like the first, which would keep it from being split.
        """
        loose = replace(self, kappa=LogNormal(self.kappa.median, 0.0))
        return loose if self.degrees.sd == 0 else replace(loose, degrees=LogNormal(2.0, 0.0))


@dataclass(frozen=True)
class HyperParameters:
    """One value for each hyper-parameter."""

    alpha: float
    kappa: float
    degrees: float
    variance: np.ndarray  # (d,) relative to the units of the prior

    def prior(self, hyper_prior: HyperPrior) -> NormalInverseWishart:
        """The Normal-Inverse-Wishart prior that they stand for."""
        d = hyper_prior.n_features
        nu = self.degrees + (d - 1 if hyper_prior.covariance_type == "full" else 0)
        unit = 1.0 if hyper_prior.variance_unit is None else hyper_prior.variance_unit
        return PRIORS[hyper_prior.covariance_type](self.kappa, nu, nu * self.variance * unit)


def medians(hyper_prior: HyperPrior) -> HyperParameters:
    """The medians of the prior, but for alpha its mean."""
    alpha = hyper_prior.alpha
    return HyperParameters(
        alpha if isinstance(alpha, float) else alpha.shape / alpha.rate,
        hyper_prior.kappa.median,
        hyper_prior.degrees.median,
        np.full(hyper_prior.n_features, hyper_prior.variance.median),
    )


def average(draws: Sequence[HyperParameters]) -> HyperParameters:
    """Geometric means of the hyper-parameters."""
    mean = [np.exp(np.mean([np.log(getattr(h, name)) for h in draws], axis=0)) for name in vars(draws[0])]
    alpha, kappa, degrees, variance = mean
    return HyperParameters(float(alpha), float(kappa), float(degrees), variance)


# -- partitions ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """A partition in K clusters, none of them empty, and the hyper-parameters."""

    labels: np.ndarray  # (m,) from 0 to K-1, of the rows of the sample
    statistics: np.ndarray  # (K, p) sufficient statistics of all rows
    hyper: HyperParameters

    @property
    def n_clusters(self) -> int:
        """Number of clusters K; each has a point."""
        return len(self.statistics)

    @property
    def counts(self) -> np.ndarray:
        """Points in each cluster, (K,)."""
        counts: np.ndarray = self.statistics[:, 0]
        return counts

    def log_joint(self, prior: NormalInverseWishart) -> float:
        """Log of P(partition) f(X | partition), parameters integrated out."""
        partition = log_partition_probability(self.counts, self.hyper.alpha)
        return partition + float(prior.log_marginal(self.statistics).sum())


def log_partition_probability(counts: np.ndarray, alpha: float) -> float:
    """Log probability of a partition with cluster sizes ``counts`` (K,), all positive, under CRP(alpha)."""
    n = counts.sum()
    return float(len(counts) * np.log(alpha) + gammaln(counts).sum() + gammaln(alpha) - gammaln(alpha + n))


# -- hyper-parameters given a partition ----------------------------------------------------------


def draw_hyper(rng: np.random.Generator, state: State, hyper_prior: HyperPrior, n_times: int = 1) -> State:
    """The state after every hyper-parameter was drawn ``n_times`` given the partition.

    The clusters' parameters are integrated out, so a step costs K determinants whatever n is.
    """
    for _ in range(n_times):
        hyper = state.hyper
        if isinstance(hyper_prior.alpha, GammaPrior):
            n = round(float(state.counts.sum()))
            alpha = draw_alpha(rng, hyper.alpha, state.n_clusters, n, hyper_prior.alpha)
            hyper = replace(hyper, alpha=alpha)
        for name in ("kappa", "degrees", "variance"):
            law: LogNormal = getattr(hyper_prior, name)
            if law.sd > 0:
                hyper = _drawn(rng, hyper, hyper_prior, state.statistics, name, law)
        state = replace(state, hyper=hyper)
    return state


def draw_alpha(
    rng: np.random.Generator, alpha: float, n_clusters: int, n_points: int, prior: GammaPrior
) -> float:
    """One Gibbs step for alpha given K and N, by the auxiliary variable of Escobar & West (1995)."""
    eta = rng.beta(alpha + 1, n_points)
    rate = prior.rate - np.log(eta)
    odds = (prior.shape + n_clusters - 1) / (n_points * rate)
    shape = prior.shape + n_clusters - (rng.random() >= odds / (1 + odds))
    return max(float(rng.gamma(shape) / rate), 1e-12)


def _drawn(
    rng: np.random.Generator,
    hyper: HyperParameters,
    hyper_prior: HyperPrior,
    statistics: np.ndarray,
    name: str,
    law: LogNormal,
) -> HyperParameters:
    """The hyper-parameters after one was drawn given the others, by a slice of its logarithm."""
    value = getattr(hyper, name)
    is_variance, kind = name == "variance", hyper_prior.covariance_type
    if is_variance and kind == "diag":  # features are independent given the rest
        direction, n_steps = np.ones(len(value)), len(value)
    else:
        direction, n_steps = np.ones(np.shape(value)), 1
        if is_variance and kind == "full" and rng.random() < ONE_FEATURE:
            direction[np.arange(len(value)) != rng.integers(len(value))] = 0.0

    def moved(steps: np.ndarray) -> HyperParameters:
        proposed = value * np.exp(steps * direction)
        changed: dict[str, Any] = {name: proposed if is_variance else float(proposed[0])}
        return replace(hyper, **changed)

    def log_density(steps: np.ndarray) -> np.ndarray:
        candidate = moved(steps)
        of_law = law.log_density(getattr(candidate, name))
        prior = candidate.prior(hyper_prior)
        if n_steps > 1 and isinstance(prior, Diagonal):
            by_feature: np.ndarray = prior.log_marginal_by_group(statistics).sum(axis=0)
            return by_feature + of_law
        # One variance for all features counts once.
        once = float(np.ravel(of_law)[0] if kind == "spherical" else np.sum(of_law))
        return np.array([once + float(prior.log_marginal(statistics).sum())])

    return moved(_slice(rng, log_density, n_steps, WIDTH * law.sd))


def _slice(
    rng: np.random.Generator, log_density: Callable[[np.ndarray], np.ndarray], n: int, width: float
) -> np.ndarray:
    """Steps (n,) from zero, each drawn from a slice of a density of its own (Neal 2003, not stepping out).

    The interval shrinks until a step falls under the density, so that it finds its size by itself, over
    orders of magnitude: many large clusters that are alike leave little room, few leave much.
    """
    heights = log_density(np.zeros(n)) + np.log(rng.random(n))
    low = -width * rng.random(n)
    high = low + width
    steps, is_open = np.zeros(n), np.ones(n, dtype=bool)
    for _ in range(MAX_SHRINKS):
        tried = np.where(is_open, low + (high - low) * rng.random(n), steps)
        found = is_open & (log_density(tried) > heights)
        steps[found] = tried[found]
        is_open &= ~found
        if not is_open.any():
            break
        below = is_open & (tried < 0)
        low, high = np.where(below, tried, low), np.where(is_open & ~below, tried, high)
    return steps
