"""Splits of clusters: which ones to try, and from where.

A cluster is tried if it does not look like one Gaussian. Its points are made round by its own covariance and
projected on the directions in which fourth moments are most unlike those of a Gaussian (the eigenvectors of
``E[|z|^2 z z']``, Cardoso 1989), and on the most skew one. The best cuts in two are where local EM of two
Gaussians starts (split-and-merge EM, Ueda et al. 2000).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, gammaln, ndtri

from clusterwise.affine import scatter_axes
from clusterwise.gaussian.mixture import (
    FIRST_EM_STEPS,
    MIN_POINTS,
    STRENGTHS,
    FittedMixture,
    hyper_of,
    log_marginals,
    log_partition,
    plogp,
)
from clusterwise.gaussian.moves import logistic, two_parts

__all__ = ["Split", "best_split", "first_sides", "log_p_gaussian", "log_p_widths", "projections"]

# A cluster is tried for a split if tests find it less probable than this for one Gaussian, along at most this
# many directions. Points with less of a membership are no members.
SUSPICIOUS = 0.1
MAX_DIRECTIONS = 6
MIN_MEMBERSHIP = 1e-3
# A split that seems to lose no more evidence is tried all the same: what surrounds it will adapt.
WORTH_A_TRIAL = 4.0
# Edges of the eighths of a Gaussian, and how many points each should have for a chi-squared test to hold.
EIGHTHS = ndtri(np.arange(1, 8) / 8)
POINTS_PER_EIGHTH = 5
# Directions with less of the largest variance have no width.
MIN_VARIANCE = 1e-10


class Split(NamedTuple):
    """A split of one cluster: what it adds to the evidence, and memberships (2, n) of its parts."""

    cluster: int
    gain: float
    parts: np.ndarray


def best_split(mixture: FittedMixture, j: int, log_p_width: float = 0.0) -> Split | None:
    """Best split of cluster ``j`` in two, if it does not look like one Gaussian and a split may gain.

    It does not if its width is less probable than it should be (``log_p_width``), or its shape.
    """
    sample = mixture.sample
    rows = np.flatnonzero(mixture.memberships[j] > MIN_MEMBERSHIP)
    weights = mixture.memberships[j, rows]
    if weights.sum() < 2 + MIN_POINTS:
        return None
    projected = projections(sample.points[rows], weights, MAX_DIRECTIONS)
    log_p = min(log_p_gaussian(projected, weights), log_p_width)
    if len(projected) == 0 or log_p > np.log(SUSPICIOUS):
        return None
    terms = sample.terms[rows]
    sides = np.array(list({side.tobytes(): side for side in first_sides(projected, weights)}.values()))
    sides = np.concatenate([sides, sides])
    # Clusters may be unlike the others or much like them.
    strengths = np.repeat([STRENGTHS[1], STRENGTHS[-2]], len(sides) // 2)
    prior = mixture.hyper.prior(sample, np.tile(strengths, 2))
    share = logistic(two_parts(terms, weights, sides, prior, FIRST_EM_STEPS) @ terms.T)
    upper = (share * weights) @ terms
    parts = np.stack([mixture.statistics[j] - upper, upper], axis=1)  # (starts, 2, p)
    share, parts = (values[parts[:, :, 0].min(axis=1) > MIN_POINTS] for values in (share, parts))
    if len(parts) == 0:
        return None
    entropy = -(plogp(share) + plogp(1 - share)) @ weights
    best = int((_rough_gains(mixture, j, parts) + entropy).argmax())
    gain = _gain(mixture, j, parts[best]) + float(entropy[best])
    if gain < -WORTH_A_TRIAL:
        return None
    memberships = np.zeros((2, len(sample.points)))
    memberships[1, rows] = share[best] * weights
    memberships[0] = mixture.memberships[j] - memberships[1]
    return Split(j, gain, memberships)


def _rough_gains(mixture: FittedMixture, j: int, parts: np.ndarray) -> np.ndarray:
    """Gains in evidence (starts,) of hard clusters by splits of cluster ``j`` into parts (starts, 2, p).

    Hyper-parameters stay what they are, and a constant is left out: this is for choosing among the starts.
    """
    changes = log_marginals(mixture.sample, mixture.hyper, parts).sum(axis=2)
    changes -= mixture.log_marginals[:, [j]]
    return np.asarray(changes.max(axis=0) + gammaln(parts[:, :, 0] + 1).sum(axis=1))


def _gain(mixture: FittedMixture, j: int, parts: np.ndarray) -> float:
    """Gain in evidence of hard clusters by the split of cluster ``j`` into parts (2, p).

    It is judged by the strength of the prior that suits it best: as long as several clusters are merged with
    others, clusters seem less alike than they are.
    """
    sample, before = mixture.sample, mixture.statistics
    after = np.concatenate([np.delete(before, j, axis=0), parts])
    hyper = hyper_of(sample, after, STRENGTHS[0])
    changes = log_marginals(sample, hyper, after).sum(axis=1) - mixture.log_marginals.sum(axis=1)
    n = len(sample.points)
    sizes = [float(log_partition(gammaln(s[:, 0] + 1).sum(), len(s), n)) for s in (after, before)]
    return float(changes.max()) + sizes[0] - sizes[1]


def log_p_widths(mixture: FittedMixture) -> np.ndarray:
    """Log probability that clusters are so much wider than on average by chance alone, (K,).

    Chance is that of a cluster's own points and of as many as a fairly strong prior is worth: clusters need
    not be quite alike.
    """
    if mixture.n_clusters == 1:
        return np.zeros(1)
    prior, strength = mixture.prior, STRENGTHS[-2]
    excess = prior.widths(prior.posterior(mixture.statistics), mixture.hyper.variance) - 1
    counts = mixture.statistics[:, 0]
    # A variance ratio of m points is about Normal(1, 2 / m); squared and halved it is minus log p.
    log_p: np.ndarray = -0.25 * np.maximum(excess, 0.0) ** 2 * counts * strength / (counts + strength)
    return log_p


# -- does it look like one Gaussian, and where may it be cut? ------------------------------------


def projections(points: np.ndarray, weights: np.ndarray, max_directions: int) -> np.ndarray:
    """Projections (m, n), at most ``max_directions``, of weighted points (n, d) on least Gaussian directions.

    They have mean zero and unit variance.
    """
    count = weights.sum()
    centred = points - weights @ points / count
    variances, axes = scatter_axes(centred * np.sqrt(weights / count)[:, None])
    wide = variances > MIN_VARIANCE * variances.max(initial=1e-300)
    white = centred @ (axes[:, wide] / np.sqrt(variances[wide]))
    f = white.shape[1]
    if f <= 1:
        return white.T
    lengths = np.square(white).sum(axis=1) * weights
    fourth, axes = np.linalg.eigh((white.T * lengths) @ white / count)
    least_gaussian = np.argsort(-np.abs(fourth - (f + 2)), kind="stable")[: max_directions - 1]
    skew = lengths @ white
    skew /= max(math.sqrt(skew @ skew), 1e-300)
    return np.concatenate([axes[:, least_gaussian], skew[:, None]], axis=1).T @ white.T


def log_p_gaussian(projected: np.ndarray, weights: np.ndarray) -> float:
    """Log probability, at least, of weighted projections (m, n), of unit variance, under a Gaussian.

    Skewness and kurtosis (Jarque & Bera 1980), and how many points lie in each eighth of a Gaussian, are both
    chi-squared; the smallest of all probabilities counts, as many times as there are tests.
    """
    m, count = len(projected), float(weights.sum())
    if m == 0:
        return 0.0
    squares = np.square(projected)
    skewness = (squares * projected) @ weights / count
    kurtosis = np.square(squares) @ weights / count - 3
    log_p = -count / 12 * float((skewness**2 + kurtosis**2 / 4).max())
    if count >= 8 * POINTS_PER_EIGHTH:  # three clusters in a row may have the moments of one
        eighths = np.searchsorted(EIGHTHS, projected) + 8 * np.arange(m)[:, None]
        counts = np.bincount(eighths.ravel(), np.tile(weights, m), 8 * m).reshape(m, 8)
        chi_squared = np.square(counts - count / 8).sum(axis=1).max() / (count / 8)
        # Mean and variance were estimated: five degrees of freedom are left.
        log_p = min(log_p, math.log(max(chdtrc(5, chi_squared), 1e-300)))
    return log_p + math.log(2 * m)


def _cut_gaussian(quantiles: np.ndarray) -> np.ndarray:
    """Gain in log-likelihood per point by cutting a Gaussian at its quantiles p in (0, 1).

    That is below zero: the halves of one Gaussian, each with its own Gaussian, pay for their label.
    """
    p, cut = quantiles, ndtri(quantiles)
    density = np.exp(-(cut**2) / 2) / math.sqrt(2 * math.pi)
    left, right = -density / p, density / (1 - p)
    below = 1 - cut * density / p - np.square(left)
    above = 1 + cut * density / (1 - p) - np.square(right)
    gains: np.ndarray = -0.5 * (p * np.log(below) + (1 - p) * np.log(above))
    return gains + p * np.log(p) + (1 - p) * np.log(1 - p)


QUANTILES = np.arange(1, 200) / 200
CUT_GAUSSIAN = _cut_gaussian(QUANTILES)


def first_sides(projected: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Two cuts of each projection (m, n), (2 m, n) bool: the likeliest, and the least expected of a Gaussian.

    The first finds few points far from the others, the second two overlapping halves.
    """
    m, n = projected.shape
    order = np.argsort(projected, axis=1, kind="stable")
    places, sorted_weights = np.take_along_axis(projected, order, axis=1), weights[order]
    sums = np.cumsum([sorted_weights, sorted_weights * places, sorted_weights * places**2], axis=2)
    below, above = sums[:, :, :-1], sums[:, :, -1:] - sums[:, :, :-1]
    total = float(weights.sum())
    gains = _log_likelihood(*below) + _log_likelihood(*above) - total * math.log(total)
    share = below[0] / total
    excess = gains - total * np.interp(share, QUANTILES, CUT_GAUSSIAN)
    gains[np.minimum(below[0], above[0]) < 1] = -np.inf
    excess[np.minimum(share, 1 - share) < QUANTILES[0]] = -np.inf
    last = np.concatenate([gains, excess]).argmax(axis=1)  # of those below the cut
    sides = np.empty((2 * m, n), dtype=bool)
    np.put_along_axis(sides, np.concatenate([order, order]), np.arange(n) > last[:, None], axis=1)
    return sides


def _log_likelihood(count: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Log-likelihood of one side with these moments, its share included, up to constants."""
    safe = np.maximum(count, 1e-9)
    variance = np.maximum(second - first**2 / safe, 0.0) / safe
    # A few points that happen to be equal are no cluster.
    result: np.ndarray = count * (np.log(safe) - 0.5 * np.log(variance + 1 / (1 + safe)))
    return result
