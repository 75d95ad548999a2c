"""The EM steps of IntraCM, compiled: Eq 4, and Eq 7 in closed form for a linear decoder.

Components come before points, (J, N); the last of the J components is the rest. Everything is in single
precision, as the network's encodings are.
"""

from __future__ import annotations

import math

import numpy as np

from clusterwise._compiled import compiled
from clusterwise.papers.amcp_mixing import NEVER

__all__ = ["e_step", "log_shares_of", "m_step"]

# Compared with one, the exponential of anything below is lost in single precision.
LOG_OF_NOTHING = -25.0


@compiled
def log_shares_of(mass: np.ndarray, n: int) -> np.ndarray:
    """Log proportions (J,) of components with this mass; one without any gets no point ever."""
    shares = np.empty_like(mass)
    for j in range(len(mass)):
        shares[j] = math.log(max(mass[j], 1e-9) / n) if mass[j] > 0 else NEVER
    return shares


@compiled
def e_step(
    scaled: np.ndarray,
    rest: np.ndarray,
    centres: np.ndarray,
    log_shares: np.ndarray,
    precision: float,
    log_density_of_rest: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and plan of Eq 4, (J, N); see ``IntraCM``."""
    k, n = len(centres) - 1, len(rest)
    scores = np.empty((k + 1, n), scaled.dtype)
    scores[:k] = np.dot(centres[:k], scaled)
    for j in range(k):
        offset = log_shares[j] - 0.5 * precision * np.dot(centres[j], centres[j])
        for i in range(n):
            scores[j, i] += offset
    offset = log_shares[k] + log_density_of_rest
    for i in range(n):
        scores[k, i] = rest[i] + offset
    plan = np.empty_like(scores)
    for i in range(n):
        largest = scores[0, i]
        for j in range(1, k + 1):
            largest = max(largest, scores[j, i])
        total = 0.0
        for j in range(k + 1):
            gap = scores[j, i] - largest
            weight = math.exp(gap) if gap > LOG_OF_NOTHING else 0.0
            plan[j, i] = weight
            total += weight
        for j in range(k + 1):
            plan[j, i] /= total
    return scores, plan


@compiled
def m_step(x: np.ndarray, plan: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Closed form of Eq 7 for a linear decoder, (J, D), and the mean of q for the log proportions, (J,)."""
    means = np.dot(plan, x)
    mass = plan.sum(axis=1)
    for j in range(len(means)):
        if mass[j] > 1e-3:
            means[j] /= mass[j] + 1e-6
        else:  # a component that no point wants stays where it is
            means[j] = centres[j]
    return means, log_shares_of(mass, len(x))
