"""Entropic optimal transport between points and components, batched, masked and in the log domain.

The Sinkhorn E-step of AMCP, section 3.1. Its Eq 6 prints p where log p belongs, as Eq 5 and appendix A.2
show: the cost of sending point i to component j is -log p(x_i | phi_j), hence the kernel is
exp(log p / epsilon).
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["sinkhorn"]

# Stands for -inf inside the loop: exp of it is exactly 0, but differences of it are not NaN.
_NOTHING = -1e30


def sinkhorn(
    log_kernel: Tensor,
    log_rows: Tensor,
    log_columns: Tensor,
    epsilon: float | Tensor,
    iterations: int = 10,
    strictness: float | Tensor = 1.0,
) -> Tensor:
    """The log of the plan that solves entropic optimal transport, (B, N, K).

    The plan P minimizes sum_ij P_ij (-log_kernel_ij) - epsilon * entropy(P) given its row sums and its
    column sums. It is P_ij = rows_i exp(log_kernel_ij / epsilon + g_j) / Z_i, and each iteration
    corrects the potentials g (B, K) by what the column sums lack.

    Every pass ends on the rows, so that the mass of each point is shared out fully after any number of
    iterations, while the columns hold in the limit. With no iteration, g is ``log_columns``: for
    epsilon = 1 that is the regular E-step with mixing proportions ``log_columns``. The smaller epsilon, the
    crisper is the plan, and the more iterations are needed until the columns hold.

    ``strictness`` below 1 is unbalanced transport (Chizat et al. 2018): columns may differ from what was
    asked at a price, rho times their Kullback-Leibler divergence, with strictness = rho / (rho + epsilon). At
    0 nothing holds them, and g stays ``log_columns``. Both it and epsilon may be learned.

    ``log_kernel`` (B, N, K) is minus the cost, ``log_rows`` (B, N) the log mass of each point, -inf for a
    masked one, whose row of the plan is then 0, and ``log_columns`` (B, K) that of each component, of which
    only the ratios matter.
    """
    points, components = log_rows > -torch.inf, log_columns > -torch.inf
    pairs = points[:, :, None] & components[:, None, :]
    log_kernel = log_kernel.masked_fill(~pairs, _NOTHING)
    # A constant per row changes nothing in the plan; without it, a small epsilon costs all digits.
    scores = (log_kernel - log_kernel.detach().amax(2, keepdim=True)) / epsilon
    scores = scores.masked_fill(~pairs, _NOTHING)
    log_rows = log_rows.masked_fill(~points, _NOTHING)
    log_columns = log_columns.masked_fill(~components, 0.0)
    correctable = components & points.any(1, keepdim=True)

    potentials = log_columns
    log_plan = _share_out(scores, log_rows, potentials)
    for _ in range(iterations):
        lacking = log_columns - torch.logsumexp(log_plan, 1)
        wanted = potentials - log_columns + lacking.masked_fill(~correctable, 0.0)
        potentials = log_columns + strictness * wanted
        log_plan = _share_out(scores, log_rows, potentials)
    return log_plan.masked_fill(~pairs, -torch.inf)


def _share_out(scores: Tensor, log_rows: Tensor, potentials: Tensor) -> Tensor:
    """The half-step on the rows: what each point gives to each component, log, (B, N, K)."""
    return log_rows[:, :, None] + torch.log_softmax(scores + potentials[:, None, :], 2)
