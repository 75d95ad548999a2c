"""Clusters as Gaussians of the data: agreement with scipy, whatever the order of the rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from torch import Tensor

from clusterwise.papers.amcp.revision import MAX_CORRELATION, ClusterJudge, Points
from tests.papers.amcp.samples import judge_of


def some_plan(n: int, k: int, d: int, seed: int = 0) -> tuple[Points, Tensor]:
    """One data set (1, n, d) and a plan (1, k, n)."""
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.standard_normal((1, n, d)) + 2 * rng.integers(0, k, (1, n, 1)))
    plan = torch.from_numpy(rng.random((1, k, n)) ** 3)
    return Points.of(x, torch.ones(1, n, dtype=torch.bool)), plan / plan.sum(1, keepdim=True)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_one_step_is_that_of_em_with_any_covariance(d: int) -> None:
    points, plan = some_plan(200, 3, d)
    clusters = judge_of().em(points, plan, 1)
    scores = np.empty((3, 200))
    x = points.x[0].numpy()
    for j, weights in enumerate(plan[0].numpy()):
        covariance = np.atleast_2d(np.cov(x, rowvar=False, aweights=weights, ddof=0))
        covariance = np.where(np.eye(d) > 0, covariance + 1e-6, MAX_CORRELATION * covariance)
        mean = np.average(x, axis=0, weights=weights)
        scores[j] = multivariate_normal(mean, covariance).logpdf(x) + np.log(weights.mean())
    evidence = logsumexp(scores, axis=0)
    np.testing.assert_allclose(clusters.log_likelihood, [evidence.sum()], rtol=1e-6)
    np.testing.assert_allclose(clusters.plan[0], np.exp(scores - evidence), atol=1e-6)


def test_widths_are_between_a_clusters_own_and_those_of_all() -> None:
    points, plan = some_plan(200, 3, 2)
    own, shared = (judge_of(gate=gate).em(points, plan, 1) for gate in (40.0, -40.0))
    torch.testing.assert_close(own.log_sds, own.moments.half_logs)
    torch.testing.assert_close(shared.log_sds, shared.context.width.expand_as(shared.log_sds))
    correlations = judge_of(gate=-40.0).correlations(own.moments, own.context)
    torch.testing.assert_close(correlations, torch.eye(2).double().expand_as(correlations))


def test_the_order_of_points_and_features_does_not_matter() -> None:
    points, plan = some_plan(150, 3, 2)
    torch.manual_seed(0)
    judge = ClusterJudge().double()
    order = torch.randperm(150, generator=torch.Generator().manual_seed(1))
    shuffled = Points.of(points.x[:, order].flip(2), points.present)
    with torch.no_grad():
        one, other = judge.em(points, plan, 4), judge.em(shuffled, plan[..., order], 4)
    torch.testing.assert_close(other.plan, one.plan[..., order])
    torch.testing.assert_close(other.log_sds, one.log_sds.flip(2))
    torch.testing.assert_close(one.plan.sum(1), torch.ones(1, 150).double())
    assert one.context.log_n_clusters.exp().item() == pytest.approx(3)


def test_absent_points_and_clusters_without_mass_count_for_nothing() -> None:
    points, plan = some_plan(60, 3, 2)
    padded = Points.of(
        torch.cat([points.x, torch.full((1, 5, 2), 1e3)], 1), torch.arange(65).unsqueeze(0) < 60
    )
    wide = torch.nn.functional.pad(plan, (0, 5, 0, 2), value=0.0)
    judge = judge_of(gate=0.3)
    one, other = judge.em(points, plan, 3), judge.em(padded, wide, 3)
    torch.testing.assert_close(other.plan[:, :3, :60], one.plan)
    torch.testing.assert_close(other.log_likelihood, one.log_likelihood)
    assert (other.moments.mass[:, 3:] == 0).all()


def test_a_cluster_of_copies_has_a_density() -> None:
    x, plan = torch.zeros(1, 30, 2).double(), torch.zeros(1, 2, 30).double()
    x[:, 10:] = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
    plan[:, 0, :10] = plan[:, 1, 10:] = 1
    clusters = judge_of().em(Points.of(x, torch.ones(1, 30, dtype=torch.bool)), plan, 5)
    assert clusters.log_likelihood.isfinite().all()
    assert (clusters.plan[0, 0, :10] > 0.99).all()
