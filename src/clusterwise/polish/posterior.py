"""From the evidences of the mixtures that were tried to a posterior over the number of clusters.

The evidences alone are too sure, for two reasons. They are approximations, so differences between them are
halved. And nobody can list clusters that hide within others; each pair of clusters could have come to lie
so close that it looks like one, the more so where sizes are unlike and some clusters therefore tiny. The
three numbers below were chosen on validation sets of both kinds of mixtures, by the log score of the true
number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from clusterwise.mixture import DiagonalMixture
from clusterwise.polish.evidence import log_restaurant_odds

__all__ = ["k_posterior", "probabilities"]

# Differences of log evidence are divided by this.
TEMPERATURE = 2.0
# Chance that a pair of clusters hides one more, and what a Chinese restaurant's sizes add to it.
HIDDEN, HIDDEN_AMONG_UNLIKE = 0.004, 0.04
# Of what hides, this share is one cluster, the rest two.
ONLY_ONE = 0.75


def probabilities(log_evidences: Sequence[float]) -> np.ndarray:
    """Probability of each of several mixtures, (m,)."""
    logits = np.asarray(log_evidences) / TEMPERATURE
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum())


def _share_hidden(mixture: DiagonalMixture, n_points: int) -> float:
    """Probability that some cluster of a mixture of ``n_points`` points hides another."""
    k = mixture.n_clusters
    counts = np.maximum(n_points * mixture.proportions, 1e-2)
    rate = HIDDEN + HIDDEN_AMONG_UNLIKE * float(expit(log_restaurant_odds(counts)))
    return float(-np.expm1(-rate * k * (k - 1) / 2))


def k_posterior(mixtures: Sequence[DiagonalMixture], weights: np.ndarray, n_points: int) -> dict[int, float]:
    """P(K) from mixtures with probabilities ``weights`` (m,), clusters that hide within others included."""
    shares: dict[int, float] = {}
    for mixture, weight in zip(mixtures, weights, strict=True):
        hidden = _share_hidden(mixture, n_points)
        parts = (1 - hidden, ONLY_ONE * hidden, (1 - ONLY_ONE) * hidden)
        for extra, part in enumerate(parts):
            if part > 0:
                k = mixture.n_clusters + extra
                shares[k] = shares.get(k, 0.0) + float(weight) * part
    return dict(sorted(shares.items()))
