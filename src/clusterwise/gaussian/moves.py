"""Splits and merges of Gaussian clusters: one engine, and the acceptance test is its argument.

A split replaces a cluster by two parts, a merge is its inverse. Every method takes the same steps:

1. propose: neighbours to merge (``neighbouring_pairs``), or two parts of a cluster (``two_parts``);
2. judge: an ``AcceptanceTest`` gives the log ratio of what would come to what is;
3. accept: the test says which ratios suffice, and no cluster takes part in two moves at once
   (``choose_splits``, ``choose_merges``);
4. apply: labels follow (``names_after``).

The tests are the gain in evidence (``search.EvidenceGain``), the Hastings ratio (``HastingsRatio``: samplers
of ``dp``, DeepDPM) and, in the papers' methods, learned ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from clusterwise.gaussian.niw import NormalInverseWishart

__all__ = [
    "AcceptanceTest",
    "Chosen",
    "HastingsRatio",
    "choose_merges",
    "choose_splits",
    "disjoint",
    "logistic",
    "names_after",
    "neighbouring_pairs",
    "two_parts",
]

# Each cluster may merge with this many neighbours.
NEIGHBOURS = 3


# -- proposals -----------------------------------------------------------------------------------


def neighbouring_pairs(statistics: np.ndarray, prior: NormalInverseWishart) -> np.ndarray:
    """Pairs (P, 2) of each cluster, told by statistics (K, p), with the few nearest to it.

    Centres are compared in the standard deviations of either cluster.
    """
    k = len(statistics)
    if k <= NEIGHBOURS + 1:
        return _all_pairs(k)
    posterior = prior.posterior(statistics)
    distances = prior.squared_distances(posterior.mean, posterior)
    distances = np.minimum(distances, distances.T)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argpartition(distances, NEIGHBOURS - 1, axis=1)[:, :NEIGHBOURS]
    is_pair = np.zeros((k, k), dtype=bool)
    is_pair[np.arange(k)[:, None], nearest] = True
    return np.argwhere(np.triu(is_pair | is_pair.T))


@cache
def _all_pairs(k: int) -> np.ndarray:
    return np.argwhere(np.triu(np.ones((k, k), dtype=bool), 1))


def two_parts(
    terms: np.ndarray, weights: np.ndarray, sides: np.ndarray, prior: NormalInverseWishart, n_steps: int
) -> np.ndarray:
    """Log odds of the second of two Gaussians, as natural parameters (m, p), by EM from m starts at once.

    ``terms`` (n, p) has T(x) of the points of one cluster, ``weights`` (n,) what each counts for, ``sides``
    (m, n) who is in the second part at first. The prior may differ between starts: first parts come first.
    """
    weighted = terms * weights[:, None]
    total, m = weighted.sum(axis=0), len(sides)
    share = sides.astype(np.float64)
    odds = np.zeros((m, len(total)))
    for step in range(n_steps):
        upper = (share if step == 0 else logistic(odds @ terms.T)) @ weighted
        parts = np.concatenate([total - upper, upper])
        eta = prior.expected(parts)
        eta[:, 0] += np.log(np.maximum(parts[:, 0], 0.5))
        odds = eta[m:] - eta[:m]
    return odds


def logistic(log_odds: np.ndarray) -> np.ndarray:
    """Probabilities of log odds, which are overwritten; several times quicker than scipy's ``expit``."""
    np.maximum(log_odds, -700.0, out=log_odds)  # the exponential of the negative must stay finite
    np.negative(log_odds, out=log_odds)
    np.exp(log_odds, out=log_odds)
    log_odds += 1.0
    return np.reciprocal(log_odds, out=log_odds)


# -- acceptance ----------------------------------------------------------------------------------


class AcceptanceTest(ABC):
    """Judges moves of the clusters that it was made for."""

    @abstractmethod
    def of_splits(self, parts: Any) -> np.ndarray:
        """Log ratios (m,) of clusters in two parts to the same in one; statistics of parts (m, 2, p)."""

    @abstractmethod
    def of_merges(self, pairs: np.ndarray) -> np.ndarray:
        """Log ratios (P,) of pairs (P, 2) of clusters in one to the same in two."""

    def accepts(self, log_ratios: np.ndarray) -> np.ndarray:
        """Which of m moves are made, (m,) bool."""
        return log_ratios > 0


@dataclass(frozen=True)
class HastingsRatio(AcceptanceTest):
    """Accepts moves with probability min(1, H), by the posterior of a Dirichlet process.

        H = alpha Gamma(n_1) f(X_1) Gamma(n_2) f(X_2) / (Gamma(n) f(X))

    for a split into parts of n_1 and n_2 points, its inverse for a merge. The probability of the proposal is
    left out, as by Chang & Fisher (2013) and in DeepDPM; ``dp.exact_moves`` has it.
    """

    statistics: np.ndarray  # (K, p)
    prior: NormalInverseWishart
    alpha: float
    rng: np.random.Generator | None = None  # None: the more probable is taken

    def of_splits(self, parts: np.ndarray) -> np.ndarray:
        """Log ratios (m,); of a cluster with an empty part minus infinity."""
        first, second = parts[:, 0], parts[:, 1]
        both = np.concatenate([first, second, first + second])
        ratios = self._log_ratio(*self._log_weights(both).reshape(3, -1))
        return np.where(np.minimum(first[:, 0], second[:, 0]) > 0.5, ratios, -np.inf)

    def of_merges(self, pairs: np.ndarray) -> np.ndarray:
        first, second = pairs.T
        own = self._log_weights(self.statistics)
        union = self._log_weights(self.statistics[first] + self.statistics[second])
        return -self._log_ratio(own[first], own[second], union)

    def _log_weights(self, statistics: np.ndarray) -> np.ndarray:
        """Log of Gamma(n) f(X) of clusters with the given statistics (K, p)."""
        return self.prior.log_marginal(statistics) + gammaln(np.maximum(statistics[:, 0], 1e-300))

    def _log_ratio(self, first: np.ndarray, second: np.ndarray, union: np.ndarray) -> np.ndarray:
        ratio: np.ndarray = np.log(self.alpha) + first + second - union
        return ratio

    def accepts(self, log_ratios: np.ndarray) -> np.ndarray:
        if self.rng is None:
            return super().accepts(log_ratios)
        accepted: np.ndarray = np.log(self.rng.random(len(log_ratios))) < log_ratios
        return accepted


class Chosen(NamedTuple):
    """Moves that are made, and the log ratios of all that were proposed."""

    moves: np.ndarray  # clusters (m,) to split, or disjoint pairs (m, 2) to merge, the best first
    log_ratios: np.ndarray


def choose_splits(parts: Any, test: AcceptanceTest) -> Chosen:
    """Which of K clusters fall into their two parts, with statistics (K, 2, p)."""
    log_ratios = test.of_splits(parts)
    return Chosen(np.flatnonzero(test.accepts(log_ratios)), log_ratios)


def choose_merges(pairs: np.ndarray, test: AcceptanceTest) -> Chosen:
    """Which of the pairs (P, 2) merge: the best first, and never three clusters at once."""
    log_ratios = test.of_merges(pairs)
    accepted = test.accepts(log_ratios)
    return Chosen(disjoint(pairs[accepted], log_ratios[accepted]), log_ratios)


def disjoint(pairs: np.ndarray, log_ratios: np.ndarray) -> np.ndarray:
    """Pairs (m, 2) that have no cluster in common with a better one: those with large ratios come first."""
    busy: set[int] = set()
    chosen = []
    for a, b in pairs[np.argsort(-log_ratios, kind="stable")].tolist():
        if a not in busy and b not in busy:
            busy |= {a, b}
            chosen.append((a, b))
    return np.array(chosen, dtype=np.int64).reshape(-1, 2)


def names_after(pairs: np.ndarray, n_clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """New names (K,) of K clusters after disjoint pairs (m, 2) merge into their first, and who remains."""
    remains = np.ones(n_clusters, dtype=bool)
    remains[pairs[:, 1]] = False
    joins = np.arange(n_clusters)
    joins[pairs[:, 1]] = pairs[:, 0]
    return (remains.cumsum() - 1)[joins], np.flatnonzero(remains)
