"""Hyper-parameters of the mixture: their own weak prior, and Metropolis steps given a partition.

What a cluster looks like a priori is said by three numbers (and a width for each feature): kappa, how
tightly the clusters' means lie together; nu, how alike the clusters' covariances are; and psi, how wide
the clusters are. None is known beforehand, and the number of clusters depends on all of them, so they are
inferred with the rest. In the units of the sampler the data have unit spread, hence the centres below.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from clusterwise.dp.niw import PRIORS, CovarianceType, Diagonal, NormalInverseWishart
from clusterwise.dp.restaurant import GammaPrior, draw_alpha

__all__ = ["HyperParameters", "HyperPrior", "LogNormal", "first_guess", "update"]


# Rows that repeat would otherwise draw the width of the clusters to zero without end.
LARGEST_STEP = float(np.log(1e5))


@dataclass(frozen=True)
class LogNormal:
    """exp(Normal(log median, sd)), or just ``median`` if ``sd`` is 0."""

    median: float
    sd: float

    def log_density(self, value: np.ndarray | float) -> np.ndarray:
        """Log density of log(value), without the constant; it ends at LARGEST_STEP."""
        if self.sd == 0:
            return np.zeros(np.shape(value))
        steps = np.abs(np.log(value) - np.log(self.median))
        return np.where(steps < LARGEST_STEP, -0.5 * np.square(steps / self.sd), -np.inf)


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


def first_guess(hyper_prior: HyperPrior) -> HyperParameters:
    """The medians of the prior."""
    alpha = hyper_prior.alpha
    return HyperParameters(
        alpha if isinstance(alpha, float) else alpha.shape / alpha.rate,
        hyper_prior.kappa.median,
        hyper_prior.degrees.median,
        np.full(hyper_prior.n_features, hyper_prior.variance.median),
    )


def update(
    rng: np.random.Generator, hyper: HyperParameters, hyper_prior: HyperPrior, statistics: np.ndarray
) -> HyperParameters:
    """One step for every hyper-parameter given the statistics (K, p) of the occupied clusters.

    The clusters' parameters are integrated out, so a step costs K determinants whatever n is.
    """
    if not isinstance(hyper_prior.alpha, float):
        n = round(float(statistics[:, 0].sum()))
        alpha = draw_alpha(rng, hyper.alpha, len(statistics), n, hyper_prior.alpha)
        hyper = replace(hyper, alpha=alpha)
    for name in ("kappa", "degrees", "variance"):
        law: LogNormal = getattr(hyper_prior, name)
        if law.sd > 0:
            hyper = _metropolis(rng, hyper, hyper_prior, statistics, name, law)
    return hyper


def _metropolis(
    rng: np.random.Generator,
    hyper: HyperParameters,
    hyper_prior: HyperPrior,
    statistics: np.ndarray,
    name: str,
    law: LogNormal,
) -> HyperParameters:
    """Random walk on the logarithm, with steps of all sizes up to the prior's."""
    value = getattr(hyper, name)
    # Under a diagonal covariance the features' variances are independent given the rest: each is
    # proposed and judged on its own.
    by_feature = name == "variance" and hyper_prior.covariance_type == "diag"
    n_steps = hyper_prior.n_features if by_feature else 1
    steps = rng.standard_normal(n_steps) * law.sd * rng.choice([0.05, 0.2, 0.8])
    proposed = value * (np.exp(steps) if by_feature else float(np.exp(steps[0])))
    candidate = replace(hyper, **{name: proposed})
    gain = _log_likelihood(candidate, hyper_prior, statistics, by_feature)
    gain = gain - _log_likelihood(hyper, hyper_prior, statistics, by_feature)
    change = law.log_density(proposed) - law.log_density(value)
    gain = gain + (change if by_feature else np.ravel(change)[0])
    accepted = np.log(rng.random(n_steps)) < gain
    if not by_feature:
        return candidate if accepted[0] else hyper
    return replace(hyper, variance=np.where(accepted, proposed, value))


def _log_likelihood(
    hyper: HyperParameters, hyper_prior: HyperPrior, statistics: np.ndarray, by_feature: bool
) -> np.ndarray:
    prior = hyper.prior(hyper_prior)
    if by_feature and isinstance(prior, Diagonal):
        return prior.log_marginal_by_feature(statistics).sum(axis=0)
    return prior.log_marginal(statistics).sum(keepdims=True)
