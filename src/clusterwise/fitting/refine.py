"""The third stage of ``fit``: candidate partitions become fitted clusters with their evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from clusterwise.gaussian.clusters import Clusters
from clusterwise.gaussian.mixture import Sample, mixture_of_labels
from clusterwise.gaussian.niw import CovarianceType
from clusterwise.gaussian.search import search
from clusterwise.partition import canonical_labels

__all__ = ["Refine", "Refined", "Scored", "choose_covariance_type", "clusters_of_labels", "refine"]

Refine = Literal["search", "em", "cut"]
# Full covariances need this many rows for each feature, and are too slow beyond this many features.
ROWS_PER_FEATURE = 10
MOST_FEATURES = 32


@dataclass(frozen=True)
class Scored:
    """Clusters, the log evidence of the mixture that they are, and the best cluster of each point."""

    clusters: Clusters
    log_evidence: float
    labels: np.ndarray  # (n,)


@dataclass(frozen=True)
class Refined:
    """All distinct mixtures that refining has visited, the one with the largest evidence first."""

    scored: tuple[Scored, ...]
    beyond_cap: bool = False  # whether a mixture with too many clusters was better
    labels_stay: bool = False  # whether rows that the proposer saw keep their labels, whatever densities say

    @property
    def best(self) -> Clusters:
        """The clusters with the largest evidence."""
        return self.scored[0].clusters

    @property
    def probabilities(self) -> np.ndarray:
        """Probability of each mixture by its evidence, (m,)."""
        logits = np.array([one.log_evidence for one in self.scored])
        weights = np.exp(logits - logits.max())
        return np.asarray(weights / weights.sum())


def choose_covariance_type(
    covariance_type: CovarianceType | Literal["auto"], n: int, d: int
) -> CovarianceType:
    """What "auto" stands for: full where n points of d features can tell correlations, else diagonal."""
    if covariance_type != "auto":
        return covariance_type
    return "full" if d <= MOST_FEATURES and n >= ROWS_PER_FEATURE * d else "diag"


def refine(
    points: np.ndarray,
    candidates: Sequence[np.ndarray],
    how: Refine,
    *,
    rows: np.ndarray | None = None,
    covariance_type: CovarianceType = "full",
    max_clusters: int | None = None,
) -> Refined:
    """Fit Gaussian mixtures that start from candidate partitions, and rank them by their evidence.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        Finite, centred, of unit spread.
    candidates : sequence of ndarray of shape (n,)
        Labels of any names; equal partitions count once.
    rows : ndarray of shape (m,), optional
        The points that the candidates have labels of, (m,) each, if not all.
    how : {"search", "em"}
        EM alone keeps the number of clusters (or loses some); the search also splits and merges. "cut" is
        done elsewhere, by ``pipeline.learned_cut``.
    max_clusters : int, optional
        Mixtures with more clusters are left out, unless there are no others.

    Returns
    -------
    Refined
        Deterministic; another order of the rows changes no more than rounding does.
    """
    distinct = {labels.tobytes(): labels for labels in map(canonical_labels, candidates)}
    max_rounds = None if how == "search" else 0
    found = search(points, list(distinct.values()), covariance_type, rows=rows, max_rounds=max_rounds)
    within = [one for one in found if max_clusters is None or one.n_clusters <= max_clusters]
    scored = tuple(Scored(one.clusters, one.log_evidence, one.labels) for one in within or found)
    return Refined(scored, beyond_cap=max_clusters is not None and found[0].n_clusters > max_clusters)


def clusters_of_labels(
    points: np.ndarray, labels: np.ndarray, covariance_type: CovarianceType = "full"
) -> Clusters:
    """The clusters of a partition as it is, labels (n,) from 0 to K - 1 all in use; no EM."""
    return mixture_of_labels(Sample(points, covariance_type), labels).clusters
