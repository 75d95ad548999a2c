"""Hyper-parameters of the mixture: their own weak prior, and Metropolis steps given a partition.

What a cluster looks like a priori is said by three numbers (and a width for each feature): kappa, how
tightly the clusters' means lie together; nu, how alike the clusters' covariances are; and psi, how wide
the clusters are. None is known beforehand, and the number of clusters depends on all of them, so they are
inferred with the rest. In the units of the sampler the data have unit spread, hence the centres below.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from clusterwise.components.diagonal import Diagonal
from clusterwise.components.families import PRIORS
from clusterwise.components.niw import CovarianceType, NormalInverseWishart
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

    def while_searching(self) -> HyperPrior:
        """The prior for the search of clusters: alike they need not be, and how far apart they lie is open.

        One cluster says nothing of how alike clusters are. If that were inferred from the start, a chance
        belief that all clusters look like the first would keep it from being split.
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
    size = law.sd * rng.choice([0.05, 0.2, 0.8])
    if name == "variance" and hyper_prior.covariance_type == "diag":
        return _each_feature(rng, hyper, hyper_prior, statistics, law, size)
    steps = np.full(np.shape(value), size * rng.standard_normal())
    if name == "variance" and hyper_prior.covariance_type == "full" and rng.random() < 0.7:
        steps[np.arange(len(steps)) != rng.integers(len(steps))] = 0.0  # one feature at a time
    proposed = value * np.exp(steps)
    change = law.log_density(proposed) - law.log_density(value)
    # One variance for all features counts once.
    gain = float(np.ravel(change)[0] if hyper_prior.covariance_type == "spherical" else np.sum(change))
    changed: dict[str, Any] = {name: proposed if name == "variance" else float(proposed)}
    candidate = replace(hyper, **changed)
    gain += float(candidate.prior(hyper_prior).log_marginal(statistics).sum())
    gain -= float(hyper.prior(hyper_prior).log_marginal(statistics).sum())
    return candidate if np.log(rng.random()) < gain else hyper


def _each_feature(
    rng: np.random.Generator,
    hyper: HyperParameters,
    hyper_prior: HyperPrior,
    statistics: np.ndarray,
    law: LogNormal,
    size: float,
) -> HyperParameters:
    """Variances of all features, each proposed and judged on its own: they are independent given the rest."""
    proposed = hyper.variance * np.exp(size * rng.standard_normal(len(hyper.variance)))
    candidate = replace(hyper, variance=proposed)
    gain = law.log_density(proposed) - law.log_density(hyper.variance)
    gain = (
        gain + _by_feature(candidate, hyper_prior, statistics) - _by_feature(hyper, hyper_prior, statistics)
    )
    accepted = np.log(rng.random(len(proposed))) < gain
    return replace(hyper, variance=np.where(accepted, proposed, hyper.variance))


def _by_feature(hyper: HyperParameters, hyper_prior: HyperPrior, statistics: np.ndarray) -> np.ndarray:
    prior = hyper.prior(hyper_prior)
    assert isinstance(prior, Diagonal)
    return prior.log_marginal_by_feature(statistics).sum(axis=0)
