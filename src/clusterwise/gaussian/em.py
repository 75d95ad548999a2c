"""EM for mixtures of Gaussians on sufficient statistics, with leaps where it creeps."""

from __future__ import annotations

import math

import numpy as np

from clusterwise._compiled import compiled
from clusterwise.gaussian.evidence import Hyper, Sample, State, hyper_of, judge
from clusterwise.gaussian.niw import sum_by_label

__all__ = ["expect", "log_joint_of", "refined", "state_of_labels"]

# Compared with one, the exponential of anything below is lost in rounding.
LOG_OF_NOTHING = -45.0


def log_joint_of(sample: Sample, hyper: Hyper, statistics: np.ndarray, lifted: np.ndarray) -> np.ndarray:
    """log(pi_j N(x_i; mu_j, Sigma_j)), (K, n), for points with T(x) ``lifted`` (n, p)."""
    eta = hyper.prior(sample).expected(statistics)
    eta[:, 0] += np.log(statistics[:, 0] / statistics[:, 0].sum())
    return eta @ lifted.T


def expect(log_joint: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Memberships (K, n), their entropy for each point and the log density of each point, (n,).

    ``log_joint`` (K, n) becomes the memberships.
    """
    n = log_joint.shape[1]
    entropy, log_density = np.empty(n), np.empty(n)
    _expect(log_joint, entropy, log_density)
    return log_joint, entropy, log_density


@compiled
def _expect(log_joint: np.ndarray, entropy: np.ndarray, log_density: np.ndarray) -> None:
    k, n = log_joint.shape
    for i in range(n):
        largest = log_joint[0, i]
        for j in range(1, k):
            largest = max(largest, log_joint[j, i])
        total = weighted = 0.0
        for j in range(k):
            gap = log_joint[j, i] - largest
            weight = 0.0
            if gap > LOG_OF_NOTHING:  # most clusters are far from most points
                weight = math.exp(gap)
                total += weight
                weighted += weight * gap
            log_joint[j, i] = weight
        for j in range(k):
            log_joint[j, i] /= total
        log_total = math.log(total)
        entropy[i] = log_total - weighted / total
        log_density[i] = log_total + largest


def state_of_labels(sample: Sample, labels: np.ndarray, rows: np.ndarray | None = None) -> State:
    """The state of a hard partition, labels (n,) from 0 to K - 1, all in use.

    With labels (m,) of the points at ``rows`` (m,) alone it is the state after one E-step from these.
    """
    k, lifted = int(labels.max()) + 1, sample.lifted
    if rows is None:
        memberships = np.zeros((k, len(labels)))
        memberships[labels, np.arange(len(labels))] = 1.0
        return judge(sample, memberships, 0.0, memberships @ lifted)
    statistics = sum_by_label(lifted[rows], labels, k) * (len(lifted) / len(rows))
    # How alike the clusters are will be estimated when they have all their points.
    hyper = hyper_of(sample, statistics, sample.settings.strengths[1])
    memberships, doubt, _ = expect(log_joint_of(sample, hyper, statistics, lifted))
    return judge(sample, memberships, float(doubt.sum()), memberships @ lifted)


def refined(sample: Sample, state: State, floor: float = -np.inf) -> State:
    """Run EM until it stands still, for a limited time; clusters that lose all their weight are dropped.

    How alike the clusters are is estimated again where EM has come to rest. Where the evidence is below
    ``floor`` after a few steps, it is left there.
    """
    n_steps = sample.settings.most_em_steps
    if np.isfinite(floor):
        state = _at_rest(sample, state, sample.settings.split_steps)
        if state.log_evidence < floor:
            return state
    for _ in sample.settings.strengths:
        if state.n_clusters == 1:
            break
        before = state.hyper.strength
        state = _at_rest(sample, state, n_steps)
        if state.hyper.strength == before:
            break
    return state


def _at_rest(sample: Sample, state: State, n_steps: int) -> State:
    """EM with one strength of the prior, ``n_steps`` at most.

    Steps that go on in one direction are prolonged (SQUAREM, Varadhan & Roland 2008): where clusters overlap
    EM creeps. A leap that lowers the likelihood is taken back.
    """
    settings, lifted = sample.settings, sample.lifted
    memberships, entropy, statistics = state.memberships, state.entropy, state.statistics
    strength, hyper = state.hyper.strength, state.hyper
    path: list[np.ndarray] = []
    ahead, height = statistics, -np.inf
    for _ in range(n_steps):
        found, doubt, log_density = expect(log_joint_of(sample, hyper, ahead, lifted))
        if ahead is not statistics and log_density.sum() < height:
            ahead, path = statistics, []
            continue
        height = float(log_density.sum())
        memberships, entropy, before = found, float(doubt.sum()), ahead[:, 0]
        statistics = ahead = memberships @ lifted
        if statistics[:, 0].min() < settings.least_points:
            memberships = memberships[statistics[:, 0] >= settings.least_points]
            memberships /= memberships.sum(axis=0)
            statistics = ahead = memberships @ lifted
            path = []
        elif np.abs(statistics[:, 0] - before).max() < settings.standstill:
            break
        hyper = hyper_of(sample, statistics, strength)
        path.append(statistics)
        if len(path) == 3:
            ahead, path = _leap(sample, *path), []
    return judge(sample, memberships, entropy, statistics)


def _leap(sample: Sample, first: np.ndarray, second: np.ndarray, third: np.ndarray) -> np.ndarray:
    """Statistics (K, p) where EM may be heading, from three of its steps; the last one if not ahead."""
    step = second - first
    bend = third - second - step
    length = np.sqrt(np.square(step).sum() / max(np.square(bend).sum(), 1e-300))
    if length <= 1:
        return third
    sums = first + 2 * length * step + length**2 * bend
    return sums if sums[:, 0].min() >= 1 and sample.family.is_possible(sums) else third
