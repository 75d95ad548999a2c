"""Sinkhorn plans: those of POT, with the marginals that were asked for, whatever is masked."""

from __future__ import annotations

import numpy as np
import ot
import pytest
import torch
from torch import Tensor

from clusterwise.nn.sinkhorn import sinkhorn

N, K = 30, 4
EPSILONS = (1e-3, 1e-2, 0.1, 1.0, 10.0)
Problem = tuple[Tensor, Tensor, Tensor]


def problem(seed: int, n_sets: int = 2, n: int = N, k: int = K) -> Problem:
    """Log kernels with costs from 0 to 1, and marginals with total mass 1; float64."""
    rng = np.random.default_rng(seed)
    arrays = -rng.random((n_sets, n, k)), rng.dirichlet([3.0] * n, n_sets), rng.dirichlet([5.0] * k, n_sets)
    log_kernel, rows, columns = map(torch.from_numpy, arrays)
    return log_kernel, rows.log(), columns.log()


def with_masks(seed: int) -> Problem:
    """Three data sets: one whole, one with points masked and a component absent, one with neither points
    nor components. What is under the masks is not even a number."""
    log_kernel, log_rows, log_columns = problem(seed, 3, 7, 4)
    points, components = torch.ones(3, 7, dtype=torch.bool), torch.ones(3, 4, dtype=torch.bool)
    points[1, [1, 4, 6]] = components[1, 2] = False
    points[2] = components[2] = False
    log_kernel = log_kernel.where(points[:, :, None] & components[:, None, :], torch.nan)
    log_rows = log_rows.where(points, -torch.inf)
    return log_kernel, log_rows, log_columns.where(components, -torch.inf)


def pot_plan(cost: Tensor, rows: Tensor, columns: Tensor, epsilon: float, **options: object) -> np.ndarray:
    arrays = (tensor.numpy() for tensor in (rows, columns, cost))
    plan: np.ndarray = ot.sinkhorn(*arrays, epsilon, method="sinkhorn_log", **options)
    return plan


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_iterates_are_those_of_pot(epsilon: float) -> None:
    """From the same start, and long before a small epsilon has converged."""
    log_kernel, log_rows, log_columns = problem(0)
    plans = sinkhorn(log_kernel, log_rows, log_columns, epsilon, 30).exp()
    starts = log_rows - torch.logsumexp(log_kernel / epsilon + log_columns[:, None, :], 2)
    for plan, start, *given in zip(
        plans, starts, -log_kernel, log_rows.exp(), log_columns.exp(), strict=True
    ):
        begin = (start.numpy(), np.zeros(K))
        expected = pot_plan(*given, epsilon, numItermax=30, stopThr=0.0, warn=False, warmstart=begin)
        np.testing.assert_allclose(plan.numpy(), expected, rtol=1e-9, atol=1e-300)


def test_without_iterations_it_is_the_regular_e_step() -> None:
    log_density, _, log_weights = problem(4)
    everyone = torch.zeros(2, N, dtype=torch.float64)
    expected = torch.log_softmax(log_weights[:, None, :] + log_density, 2)
    torch.testing.assert_close(sinkhorn(log_density, everyone, log_weights, 1.0, 0), expected)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("scale", [1e-3, 1e6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_epsilon_and_no_cost_breaks_it(epsilon: float, scale: float, dtype: torch.dtype) -> None:
    log_kernel, log_rows, log_columns = (tensor.to(dtype) for tensor in problem(6))
    log_kernel = (scale * log_kernel).requires_grad_()
    plan = sinkhorn(log_kernel, log_rows, log_columns, epsilon).exp()
    torch.testing.assert_close(plan.sum(2), log_rows.exp())
    plan.square().sum().backward()
    assert log_kernel.grad is not None
    assert log_kernel.grad.isfinite().all()


def test_a_constant_per_point_costs_no_digits() -> None:
    log_kernel, log_rows, log_columns = (tensor.float() for tensor in problem(7))
    log_kernel = torch.round(log_kernel * 64) / 64  # so that adding the constant is exact
    moved = log_kernel - 2.0**15
    torch.testing.assert_close(
        sinkhorn(moved, log_rows, log_columns, 1e-3), sinkhorn(log_kernel, log_rows, log_columns, 1e-3),
        rtol=0.0, atol=0.0,
    )  # fmt: skip


def test_masking_is_deleting() -> None:
    log_kernel, log_rows, log_columns = with_masks(8)
    log_plan = sinkhorn(log_kernel, log_rows, log_columns, 0.1)
    points, components = log_rows[1].isfinite(), log_columns[1].isfinite()
    smaller = sinkhorn(
        log_kernel[1:2, points][:, :, components], log_rows[1:2, points], log_columns[1:2, components], 0.1
    )
    torch.testing.assert_close(log_plan[1][points][:, components], smaller[0])
    assert (log_plan[1][~points] == -torch.inf).all()
    assert (log_plan[1][:, ~components] == -torch.inf).all()
    assert (log_plan[2] == -torch.inf).all()
    torch.testing.assert_close(log_plan[:1], sinkhorn(log_kernel[:1], log_rows[:1], log_columns[:1], 0.1))


def test_columns_hold_in_the_limit_and_a_factor_on_them_changes_nothing() -> None:
    log_kernel, log_rows, log_columns = problem(2)
    plan = sinkhorn(log_kernel, log_rows, log_columns, 0.1, 400).exp()
    torch.testing.assert_close(plan.sum(1), log_columns.exp(), rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(sinkhorn(log_kernel, log_rows, log_columns + 3.0, 0.1, 400).exp(), plan)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 10.0])
@pytest.mark.parametrize("iterations", [0, 1, 5])
def test_gradients_are_those_of_finite_differences(epsilon: float, iterations: int) -> None:
    """With respect to every value that is not masked; the others get zero, not NaN."""
    whole = with_masks(11)
    present = [tensor.isfinite() for tensor in whole]

    def log_plan_of(*values: Tensor) -> Tensor:
        filled = [
            tensor.masked_scatter(where, value)
            for tensor, where, value in zip(whole, present, values, strict=True)
        ]
        log_plan = sinkhorn(filled[0], filled[1], filled[2], epsilon, iterations)
        return torch.stack([log_plan[present[0]], log_plan[present[0]].exp()])

    values = [tensor[where].requires_grad_() for tensor, where in zip(whole, present, strict=True)]
    assert torch.autograd.gradcheck(log_plan_of, values)

    leaves = [tensor.clone().requires_grad_() for tensor in whole]
    plan = sinkhorn(leaves[0], leaves[1], leaves[2], epsilon, iterations).exp()
    for gradient, where in zip(torch.autograd.grad(plan.square().sum(), leaves), present, strict=True):
        assert gradient[where].abs().sum() > 0
        assert (gradient[~where] == 0).all()
