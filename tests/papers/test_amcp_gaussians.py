"""Clusters as Gaussians of the data: agreement with scipy and with torch, whatever the order of the rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from clusterwise.papers.amcp_gaussians import LARGEST_CORRELATION, Perceptron, Perceptrons, settled
from clusterwise.papers.amcp_reviser import Reviser, log_likelihood


def constant(n_inputs: int, *outputs: float) -> Perceptron:
    """A perceptron that says the same of everything."""
    return Perceptron(
        np.zeros((2, n_inputs)),
        np.zeros(2),
        np.zeros((2, 2)),
        np.zeros(2),
        np.zeros((len(outputs), 2)),
        np.array(outputs),
    )


# Widths and correlations as the plan has them: gates that are open.
PLAIN = Perceptrons(constant(6, 40.0, 0.0), constant(5, 40.0), constant(13, 0.0))


def some_plan(n: int, k: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points (d, n) and a plan (k, n) of them."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((d, n)) + 2 * rng.integers(0, k, n)
    plan = rng.random((k, n)) ** 3
    return x, plan / plan.sum(axis=0)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_one_step_is_that_of_em_with_any_covariance(d: int) -> None:
    x, plan = some_plan(200, 3, d)
    mixture, _ = settled(x, plan, 1, PLAIN)
    scores = np.empty((3, 200))
    for j, weights in enumerate(plan):
        mean = np.average(x, axis=1, weights=weights)
        covariance = np.atleast_2d(np.cov(x, aweights=weights, ddof=0))
        covariance = np.where(np.eye(d) > 0, covariance + 1e-6, LARGEST_CORRELATION * covariance)
        scores[j] = multivariate_normal(mean, covariance).logpdf(x.T) + np.log(weights.mean())
    evidence = logsumexp(scores, axis=0)
    np.testing.assert_allclose(mixture.log_likelihood, evidence.sum(), rtol=1e-7)
    np.testing.assert_allclose(mixture.plan, np.exp(scores - evidence), atol=1e-7)


def test_the_order_of_points_and_features_does_not_matter() -> None:
    x, plan = some_plan(150, 3, 2)
    torch.manual_seed(0)
    learned = Reviser().compiled()
    order = np.random.default_rng(1).permutation(150)
    one, context = settled(x, plan, 4, learned)
    other, _ = settled(np.ascontiguousarray(x[::-1, order]), np.ascontiguousarray(plan[:, order]), 4, learned)
    np.testing.assert_allclose(other.plan, one.plan[:, order], atol=1e-9)
    np.testing.assert_allclose(other.log_sds, one.log_sds[:, ::-1], atol=1e-9)
    np.testing.assert_allclose(one.plan.sum(axis=0), 1)
    assert context.n_clusters == 3


@pytest.mark.parametrize("d", [1, 2, 4])
def test_compiled_code_agrees_with_torch(d: int) -> None:
    x, plan = some_plan(120, 4, d)
    torch.manual_seed(1)
    reviser = Reviser().double()
    mixture, context = settled(x, plan, 1, reviser.compiled())
    points, plans = torch.from_numpy(x.T)[None], torch.from_numpy(plan)[None]
    means = plans @ points / plans.sum(2, keepdim=True)
    covariances = torch.stack([torch.cov(points[0].T, correction=0, aweights=w) for w in plans[0]])
    covariances = covariances.reshape(1, 4, d, d)
    half_logs = 0.5 * torch.log(covariances.diagonal(dim1=2, dim2=3) + 1e-6)
    correlations = covariances * torch.exp(-half_logs.unsqueeze(3) - half_logs.unsqueeze(2))
    of_context, mass = torch.tensor([context], dtype=torch.double), plans.sum(2)
    with torch.no_grad():
        log_sds = reviser.log_sds(half_logs, mass, of_context)
        shrinkage = reviser.shrinkage(correlations, mass, of_context)
        eye = torch.eye(d)
        matrices = shrinkage[..., None, None] * correlations * (1 - eye) + eye
        joint = log_likelihood(points, means, log_sds, matrices) + torch.log(mass / 120).unsqueeze(2)
    np.testing.assert_allclose(mixture.log_sds, log_sds[0].numpy(), atol=1e-9)
    np.testing.assert_allclose(mixture.log_likelihood, float(torch.logsumexp(joint, 1).sum()), rtol=1e-9)


def test_a_cluster_of_copies_has_a_density() -> None:
    x, plan = np.zeros((2, 30)), np.zeros((2, 30))
    x[:, 10:] = np.random.default_rng(0).standard_normal((2, 20))
    plan[0, :10] = plan[1, 10:] = 1
    mixture, _ = settled(x, plan, 5, PLAIN)
    assert np.isfinite(mixture.log_likelihood)
    assert (mixture.plan[0, :10] > 0.99).all()
