"""Splits of clusters: which ones to try, and from where.

A cluster is tried if it does not look like one Gaussian. Its points are made round by its own covariance;
along the directions in which fourth moments are most unlike those of a Gaussian (the eigenvectors of
``E[|z|^2 z z']``, Cardoso 1989), and along the most skew one, the best cut in two is where local
EM of two Gaussians starts (split-and-merge EM, Ueda et al. 2000).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, expit, gammaln
from scipy.stats import norm

from clusterwise.components.moves import two_parts
from clusterwise.search.evidence import Sample, State, hyper_of, judge, log_marginals, log_partition, plogp

__all__ = ["Split", "best_split", "divided", "log_p_gaussian", "log_p_widths", "projections"]

# Edges of the eighths of a Gaussian, and how many points each should have for a chi-squared test to hold.
EIGHTHS = norm.ppf(np.arange(1, 8) / 8)
POINTS_PER_EIGHTH = 5


class Split(NamedTuple):
    """A split of one cluster: what it adds to the evidence, and memberships (parts, n) of the parts."""

    gain: float
    parts: np.ndarray


def projections(points: np.ndarray, weights: np.ndarray, most: int) -> np.ndarray:
    """Projections (m, n), m <= ``most``, of weighted points (n, d) on the least Gaussian directions.

    They have mean zero and unit variance.
    """
    count = weights.sum()
    centred = points - weights @ points / count
    variances, axes = np.linalg.eigh((centred * weights[:, None]).T @ centred / count)
    wide = variances > 1e-10 * max(variances[-1], 1e-300)
    if not wide.any():
        return np.empty((0, len(points)))
    white = centred @ (axes[:, wide] / np.sqrt(variances[wide]))
    if white.shape[1] == 1:
        return white.T
    lengths = np.square(white).sum(axis=1) * weights
    fourth, directions = np.linalg.eigh((white * lengths[:, None]).T @ white / count)
    ranked = np.argsort(-np.abs(fourth - (white.shape[1] + 2)), kind="stable")[: most - 1]
    skew = lengths @ white
    skew /= max(np.sqrt(skew @ skew), 1e-300)
    found: np.ndarray = np.concatenate([directions[:, ranked], skew[:, None]], axis=1).T @ white.T
    return found


def log_p_gaussian(projected: np.ndarray, weights: np.ndarray) -> float:
    """Log probability that a Gaussian looks as odd as weighted projections (m, n) of unit variance; at least.

    Skewness and kurtosis (Jarque & Bera 1980), and how many points lie in each eighth of a Gaussian, are both
    chi-squared; the smallest of all probabilities counts, as many times as there are tests.
    """
    if len(projected) == 0:
        return 0.0
    count = weights.sum()
    squares = np.square(projected)
    skewness = (squares * projected) @ weights / count
    kurtosis = np.square(squares) @ weights / count - 3
    log_p = -float((count / 12 * (np.square(skewness) + np.square(kurtosis) / 4)).max())
    if count >= 8 * POINTS_PER_EIGHTH:  # three clusters in a row may have the moments of one
        eighths = np.searchsorted(EIGHTHS, projected) + 8 * np.arange(len(projected))[:, None]
        counts = np.bincount(eighths.ravel(), np.tile(weights, len(projected)), 8 * len(projected))
        excess = np.square(counts - count / 8).reshape(-1, 8).sum(axis=1) / (count / 8)
        # Mean and variance were estimated: five degrees of freedom are left.
        log_p = min(log_p, float(np.log(np.maximum(chdtrc(5, excess.max()), 1e-300))))
    return log_p + np.log(2 * len(projected))


def _cut_gaussian(size: int = 199) -> np.ndarray:
    """What cutting a Gaussian at its quantile p adds to the log-likelihood per point, for p in (0, 1).

    That is below zero: the halves of one Gaussian, each with its own Gaussian, pay for their label.
    """
    p = np.arange(1, size + 1) / (size + 1)
    cut = norm.ppf(p)
    density = norm.pdf(cut)
    left, right = -density / p, density / (1 - p)
    below = 1 - cut * density / p - np.square(left)
    above = 1 + cut * density / (1 - p) - np.square(right)
    return -0.5 * (p * np.log(below) + (1 - p) * np.log(above)) + plogp(p) + plogp(1 - p)


CUT_GAUSSIAN = _cut_gaussian()


def _first_sides(projected: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Two cuts of each projection (m, n), (2 m, n) bool: the likeliest, and the least expected of a Gaussian.

    The first finds few points far from the others, the second two overlapping halves.
    """
    order = np.argsort(projected, axis=1, kind="stable")
    place, mass = np.take_along_axis(projected, order, axis=1), weights[order]
    sums = np.cumsum(np.stack([mass, mass * place, mass * place**2]), axis=2)  # (3, m, n)
    below, above = sums[..., :-1], sums[..., -1:] - sums[..., :-1]
    total = weights.sum()
    value = np.full(below.shape[1:], -total * np.log(total))
    for count, first, second in (below, above):
        safe = np.maximum(count, 1e-9)
        variance = np.maximum(second - first**2 / safe, 0.0) / safe
        # A few points that happen to be equal are no cluster.
        value += count * (np.log(safe) - 0.5 * np.log(variance + 1 / (1 + safe)))
    share = below[0] / total
    quantiles = np.arange(1, len(CUT_GAUSSIAN) + 1) / (len(CUT_GAUSSIAN) + 1)
    excess = value - total * np.interp(share, quantiles, CUT_GAUSSIAN)
    value[np.minimum(below[0], above[0]) < 1] = -np.inf
    excess[np.minimum(share, 1 - share) < quantiles[0]] = -np.inf
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(order.shape[1]), order.shape), axis=1)
    cuts = np.concatenate([value.argmax(axis=1), excess.argmax(axis=1)])
    sides: np.ndarray = np.concatenate([rank, rank]) > cuts[:, None]
    return sides


def best_split(sample: Sample, state: State, j: int, log_p_width: float = 0.0) -> Split | None:
    """Best split of cluster ``j`` in two, if it does not look like one Gaussian and a split may gain.

    It does not if its width is less probable than it should be (``log_p_width``), or its shape.
    What it gains is judged by the strength of the prior that suits it best: as long as several clusters are
    merged with others, clusters seem less alike than they are.
    """
    settings = sample.settings
    rows = np.flatnonzero(state.memberships[j] > settings.least_membership)
    weights = state.memberships[j, rows]
    if weights.sum() < 2 + settings.least_points:
        return None
    projected = projections(sample.points[rows], weights, settings.most_directions)
    log_p = min(log_p_gaussian(projected, weights), log_p_width)
    if len(projected) == 0 or log_p > np.log(settings.suspicious):
        return None
    lifted = sample.lifted[rows]
    sides = _first_sides(projected, weights)
    sides = np.concatenate([sides, sides])
    # Clusters may be unlike the others or much like them.
    strengths = np.repeat([settings.strengths[1], settings.strengths[-2]], len(sides) // 2)
    prior = state.hyper.prior(sample, np.tile(strengths, 2))
    share = expit(two_parts(lifted, weights, sides, prior, settings.split_steps) @ lifted.T)
    upper = (share * weights) @ lifted
    parts = np.stack([state.statistics[j] - upper, upper], axis=1)  # (starts, 2, p)
    share, parts = (values[parts[:, :, 0].min(axis=1) > settings.least_points] for values in (share, parts))
    if len(parts) == 0:
        return None
    entropy = -(plogp(share) + plogp(1 - share)) @ weights
    best = int((_rough_gains(sample, state, j, parts) + entropy).argmax())
    gain = _gain(sample, state, j, parts[best]) + float(entropy[best])
    if gain < -settings.worth_a_trial:
        return None
    memberships = np.zeros((2, len(sample.points)))
    memberships[1, rows] = share[best] * weights
    memberships[0] = state.memberships[j] - memberships[1]
    return Split(gain, memberships)


def log_p_widths(sample: Sample, state: State) -> np.ndarray:
    """Log probability that clusters are so much wider than on average by chance alone, (K,).

    Chance is that of a cluster's own points and of as many as a fairly strong prior is worth: clusters need
    not be quite alike.
    """
    if state.n_clusters == 1:
        return np.zeros(1)
    prior = state.hyper.prior(sample)
    covariances = prior.covariances(prior.posterior(state.statistics))
    scale = np.sqrt(state.hyper.variance)
    excess = np.linalg.eigvalsh(covariances / scale / scale[:, None])[:, -1] - 1
    counts, strength = state.statistics[:, 0], sample.settings.strengths[-2]
    # A variance ratio of m points is about Normal(1, 2 / m); squared and halved it is minus log p.
    log_p: np.ndarray = -0.25 * np.maximum(excess, 0.0) ** 2 * counts * strength / (counts + strength)
    return log_p


def _rough_gains(sample: Sample, state: State, j: int, parts: np.ndarray) -> np.ndarray:
    """What splits of cluster ``j`` into parts (starts, 2, p) add to the evidence of hard clusters, (starts,).

    Hyper-parameters stay what they are, and a constant is left out: this is for choosing among the starts.
    """
    whole = log_marginals(sample, state.hyper, state.statistics[j])
    changes = log_marginals(sample, state.hyper, parts).sum(axis=2) - whole[:, None]
    return np.asarray(changes.max(axis=0) + gammaln(parts[:, :, 0] + 1).sum(axis=1))


def _gain(sample: Sample, state: State, j: int, parts: np.ndarray) -> float:
    """What the split of cluster ``j`` into parts (2, p) adds to the evidence of hard clusters."""
    n = len(sample.points)
    after = np.concatenate([np.delete(state.statistics, j, axis=0), parts])
    changes = _log_marginals_by_strength(sample, after) - _log_marginals_by_strength(sample, state.statistics)
    sizes = [float(log_partition(gammaln(s[:, 0] + 1).sum(), len(s), n)) for s in (after, state.statistics)]
    return float(changes.max()) + sizes[0] - sizes[1]


def _log_marginals_by_strength(sample: Sample, statistics: np.ndarray) -> np.ndarray:
    """Log marginal likelihood of all clusters with hyper-parameters of their own, (S,)."""
    return log_marginals(sample, hyper_of(sample, statistics, 1.0), statistics).sum(axis=1)


def divided(sample: Sample, state: State, splits: Sequence[tuple[int, Split]]) -> State:
    """Replace clusters by their parts: the first takes the cluster's place, the others go to the end."""
    memberships = np.concatenate([state.memberships, *(split.parts[1:] for _, split in splits)])
    entropy = state.entropy
    for j, split in splits:
        terms = plogp(split.parts).sum(axis=0) - plogp(state.memberships[j])
        entropy -= float(terms.sum())
        memberships[j] = split.parts[0]
    return judge(sample, memberships, entropy, memberships @ sample.lifted)
