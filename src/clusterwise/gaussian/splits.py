"""Splits of clusters: which ones to try, and from where.

A cluster is tried if it does not look like one Gaussian; ``shapes`` says so. The best cuts in two are where
local EM of two Gaussians starts (split-and-merge EM, Ueda et al. 2000).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from clusterwise.gaussian.evidence import Sample, State, hyper_of, judge, log_marginals, log_partition, plogp
from clusterwise.gaussian.moves import logistic, two_parts
from clusterwise.gaussian.shapes import first_sides, log_p_gaussian, projections

__all__ = ["Split", "best_split", "divided", "log_p_widths"]


class Split(NamedTuple):
    """A split of one cluster: what it adds to the evidence, and memberships (parts, n) of the parts."""

    gain: float
    parts: np.ndarray


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
    members = np.ascontiguousarray(sample.points[rows])
    projected = projections(members, weights, settings.most_directions)
    log_p = min(log_p_gaussian(projected, weights), log_p_width)
    if len(projected) == 0 or log_p > np.log(settings.suspicious):
        return None
    lifted = sample.lifted[rows]
    sides = np.array(list({side.tobytes(): side for side in first_sides(projected, weights)}.values()))
    sides = np.concatenate([sides, sides])
    # Clusters may be unlike the others or much like them.
    strengths = np.repeat([settings.strengths[1], settings.strengths[-2]], len(sides) // 2)
    prior = state.hyper.prior(sample, np.tile(strengths, 2))
    share = logistic(two_parts(lifted, weights, sides, prior, settings.split_steps) @ lifted.T)
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
    excess = _largest_eigenvalues(covariances / scale / scale[:, None]) - 1
    counts, strength = state.statistics[:, 0], sample.settings.strengths[-2]
    # A variance ratio of m points is about Normal(1, 2 / m); squared and halved it is minus log p.
    log_p: np.ndarray = -0.25 * np.maximum(excess, 0.0) ** 2 * counts * strength / (counts + strength)
    return log_p


def _largest_eigenvalues(matrices: np.ndarray) -> np.ndarray:
    """Of symmetric matrices (K, d, d); (K,)."""
    if matrices.shape[1] == 2:  # a library call takes longer than the rest of a test
        (a, b), (_, c) = matrices.transpose(1, 2, 0)
        result: np.ndarray = 0.5 * (a + c) + np.sqrt((0.5 * (a - c)) ** 2 + b**2)
        return result
    return np.asarray(np.linalg.eigvalsh(matrices)[:, -1])


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
