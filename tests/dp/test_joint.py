"""Geweke's (2004) joint-distribution test: samplers of parameters given data and of data given parameters,
in turn, must leave the joint prior of both unchanged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from exact import state_of_labels

from clusterwise.dp.chain import step
from clusterwise.dp.state import GammaPrior, HyperParameters, HyperPrior, LogNormal, State
from clusterwise.priors.mixtures import crp_labels
from clusterwise.rows.blocks import ChainRows
from clusterwise.rows.sorted_rows import Rows

N_POINTS, N_FEATURES = 9, 2


def hyper_prior(covariance_type: str) -> HyperPrior:
    return HyperPrior(
        covariance_type,
        N_FEATURES,
        GammaPrior(2.0, 2.0),
        LogNormal(0.3, 0.7),
        LogNormal(8.0, 0.5),
        LogNormal(0.3, 0.5),
    )


def draw_hyper(rng: np.random.Generator, prior: HyperPrior) -> HyperParameters:
    def log_normal(law: LogNormal, size: int | None = None) -> np.ndarray:
        return law.median * np.exp(law.sd * rng.standard_normal(size))

    variances = log_normal(prior.variance, N_FEATURES)
    if prior.covariance_type == "spherical":
        variances = np.repeat(variances[:1], N_FEATURES)
    alpha = rng.gamma(prior.alpha.shape) / prior.alpha.rate
    return HyperParameters(alpha, float(log_normal(prior.kappa)), float(log_normal(prior.degrees)), variances)


def draw_points(rng: np.random.Generator, state: State, prior: HyperPrior) -> np.ndarray:
    """Points given partition and hyper-parameters, one after the other from the predictive densities."""
    niw = state.hyper.prior(prior)
    statistics = np.zeros((state.n_clusters, niw.n_statistics))
    points = np.empty((N_POINTS, N_FEATURES))
    for i, label in enumerate(state.labels):
        points[i] = niw.sample(rng, niw.posterior(statistics), np.array([label]))[0]
        statistics[label] += niw.terms(points[i : i + 1])[0]
    return points


def summary(state: State, points: np.ndarray) -> list[float]:
    return [
        state.n_clusters,
        state.counts.max(),
        np.log(state.hyper.alpha),
        np.log(state.hyper.kappa),
        np.log(state.hyper.degrees),
        np.log(state.hyper.variance[0]),
        np.arctan(np.square(points).sum()),  # bounded, as the t has heavy tails
        np.arctan(points[0] @ points[1]),
    ]


@pytest.mark.parametrize(
    ("sampler", "covariance_type"), [("split-merge", "full"), ("split-merge", "diag"), ("gibbs", "spherical")]
)
def test_joint_distribution_is_unchanged(sampler, covariance_type):
    prior = hyper_prior(covariance_type)
    rng = np.random.default_rng(7)
    before, after = [], []
    for _ in range(700):
        hyper = draw_hyper(rng, prior)
        labels = crp_labels(rng, np.array([hyper.alpha]), N_POINTS)[0]
        state = state_of_labels(np.zeros((N_POINTS, N_FEATURES)), labels, hyper, prior)
        points = draw_points(rng, state, prior)
        before.append(summary(state, points))
        for _ in range(2):
            state = state_of_labels(points, state.labels, state.hyper, prior)
            rows = ChainRows.in_memory(Rows(points), state.labels)
            state = step(rng, rows, state, prior, sampler, 3)
            points = draw_points(rng, replace(state, statistics=state.statistics), prior)
        after.append(summary(state, points))
    first, last = np.array(before), np.array(after)
    errors = np.sqrt((first.var(axis=0) + last.var(axis=0)) / len(first))
    assert (np.abs(first.mean(axis=0) - last.mean(axis=0)) < 4.5 * errors).all()
    assert np.abs(first - last).max(axis=0).min() > 0  # everything moves
