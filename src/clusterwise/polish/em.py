"""EM for mixtures of diagonal Gaussians, with leaps where it creeps."""

from __future__ import annotations

import numpy as np

from clusterwise.polish.evidence import (
    Data,
    HyperParameters,
    Moments,
    State,
    hyper_parameters,
    judge,
    shrunk_variances,
)

__all__ = ["log_joint_of", "refined", "soft"]

# EM runs for at most this many times the steps that were asked for,
PATIENCE = 5
# unless no cluster gains or loses more than this, in points.
STANDSTILL = 0.02
# Its leaps are no longer than this many steps, and may lower the log-likelihood by no more than this.
LONGEST_LEAP = 20.0
TOLERANCE = 0.1
# Clusters of less weight than this are dropped.
SMALLEST_COUNT = 1e-2


def log_joint_of(rows: np.ndarray, moments: Moments, hyper: HyperParameters) -> np.ndarray:
    """log(pi_j N(x_i; mu_j, v_j)), (..., K, n), up to a constant; proportions sum to one over K."""
    precision = 1 / shrunk_variances(moments, hyper)
    linear = precision * moments.means
    constant = (
        np.log(moments.counts / moments.counts.sum(axis=-1, keepdims=True))
        + 0.5 * np.log(precision).sum(axis=-1)
        - 0.5 * (linear * moments.means).sum(axis=-1)
    )
    return np.concatenate([linear, -0.5 * precision], axis=-1) @ rows + constant[..., None]


def soft(log_joint: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Memberships (..., K, n), their entropy for each point and the log density of each point, (..., n)."""
    largest = log_joint.max(axis=-2, keepdims=True)
    log_joint = log_joint - largest
    weights = np.exp(log_joint)
    total = weights.sum(axis=-2, keepdims=True)
    weights /= total
    log_total = np.log(total[..., 0, :])
    entropy = log_total - (weights * log_joint).sum(axis=-2)
    return weights, entropy, log_total + largest[..., 0, :]


def refined(data: Data, state: State, steps: int) -> State:
    """Run EM until it stands still, for a limited time; clusters that lose all their weight are dropped.

    Steps that go on in one direction are prolonged (SQUAREM, Varadhan & Roland 2008): where clusters overlap
    EM creeps. A leap that lowers the likelihood is taken back.
    """
    if steps == 0:
        return state
    memberships, entropy, moments, hyper = state.memberships, state.entropy, state.moments, state.hyper
    path: list[Moments] = []
    ahead, height = moments, -np.inf
    for _ in range(PATIENCE * steps):
        found, doubt, log_density = soft(log_joint_of(data.rows, ahead, hyper))
        if ahead is not moments and log_density.sum() < height - TOLERANCE:
            ahead, path = moments, []
            continue
        height = float(log_density.sum())
        memberships, entropy, before = found, float(doubt.sum()), ahead.counts
        moments = ahead = data.moments(memberships)
        if moments.counts.min() < SMALLEST_COUNT:
            memberships = memberships[moments.counts >= SMALLEST_COUNT]
            memberships /= memberships.sum(axis=0)
            moments = ahead = data.moments(memberships)
            path = []
        elif np.abs(moments.counts - before).max() < STANDSTILL:
            break
        hyper = hyper_parameters(data, moments, hyper.strength)
        path.append(moments)
        if len(path) == 3:
            ahead, path = _leap(*path) or moments, []
    return judge(data, memberships, entropy, moments)


def _leap(first: Moments, second: Moments, third: Moments) -> Moments | None:
    """Where EM may be heading, from three of its steps, or None where that is not ahead."""
    start, middle, end = (
        np.concatenate([m.counts[:, None], m.counts[:, None] * m.means, m.squares], axis=1)
        for m in (first, second, third)
    )
    step = middle - start
    bend = end - middle - step
    length = np.sqrt(np.square(step).sum() / max(np.square(bend).sum(), 1e-300))
    length = min(length, LONGEST_LEAP)
    sums = start + 2 * length * step + length**2 * bend
    counts, d = sums[:, :1], first.means.shape[1]
    if length <= 1 or counts.min() < 1:
        return None
    means = sums[:, 1 : 1 + d] / counts
    scatters = sums[:, 1 + d :] - counts * np.square(means)
    return Moments(counts[:, 0], means, scatters) if scatters.min() >= 0 else None
