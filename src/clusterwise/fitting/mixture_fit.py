"""Gaussian mixtures as the end of a fit: a search from candidate partitions, sorted by evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from clusterwise.fitting.protocol import Clustering, assign_rows
from clusterwise.fitting.uncertainty import MIN_PROBABILITY, ClusteringPosterior
from clusterwise.gaussian.clusters import Clusters
from clusterwise.gaussian.mixture import FittedMixture, Sample, mixture_of_labels
from clusterwise.gaussian.niw import CovarianceType
from clusterwise.gaussian.search import search
from clusterwise.partition import canonical_labels
from clusterwise.rows.sorted_rows import SortedRows, by_first_appearance

__all__ = [
    "choose_covariance_type",
    "clusters_of_labels",
    "clusters_of_mixtures",
    "posterior_of_mixtures",
    "search_from",
]

# Full covariances need this many rows for each feature, and are too slow beyond this many features.
ROWS_PER_FEATURE = 10
MAX_FEATURES = 32


def choose_covariance_type(
    covariance_type: CovarianceType | Literal["auto"], n: int, d: int
) -> CovarianceType:
    """What "auto" stands for: full where n points of d features can tell correlations, else diagonal."""
    if covariance_type != "auto":
        return covariance_type
    return "full" if d <= MAX_FEATURES and n >= ROWS_PER_FEATURE * d else "diag"


def clusters_of_labels(
    points: np.ndarray, labels: np.ndarray, covariance_type: CovarianceType = "full"
) -> Clusters:
    """The clusters of a partition as it is, labels (n,) from 0 to K - 1 all in use; no EM."""
    return mixture_of_labels(Sample(points, covariance_type), labels).clusters


def search_from(
    rows: SortedRows,
    context: np.ndarray,
    candidates: Sequence[np.ndarray],
    labelled: np.ndarray,
    covariance_type: CovarianceType,
    max_rounds: int | None = None,
) -> list[FittedMixture]:
    """All mixtures of the rows at ``context`` (s,) that a search visits, the one with most evidence first.

    It starts from candidate partitions (m,), 0 to K - 1, of those of these rows at ``labelled`` (m,).
    """
    features = rows.features if len(context) == len(rows) else rows.features[context]
    places = None if len(labelled) == len(context) else np.searchsorted(context, labelled)
    if len(candidates) > 1:
        candidates = list({labels.tobytes(): labels for labels in map(canonical_labels, candidates)}.values())
    return search(features, candidates, covariance_type, rows=places, max_rounds=max_rounds)


def clusters_of_mixtures(
    rows: SortedRows,
    context: np.ndarray,
    mixtures: Sequence[FittedMixture],
    max_clusters: int,
    *,
    cap_reached: bool = False,
    details: Any = None,
) -> Clustering:
    """The best mixture with at most ``max_clusters`` clusters, or the best one if there is none."""
    best = next((one for one in mixtures if one.n_clusters <= max_clusters), mixtures[0])
    # In the order that nearly always is that of all rows, which then are assigned only once.
    order = context if rows.order is None else rows.order[context]
    density = best.clusters.select(by_first_appearance(best.labels, best.n_clusters, order))
    beyond = mixtures[0].n_clusters > max_clusters
    return Clustering(density, density, cap_reached=cap_reached or beyond, check="compared", details=details)


def posterior_of_mixtures(
    rows: SortedRows, mixtures: Sequence[FittedMixture], max_clusters: int
) -> ClusteringPosterior:
    """Mixtures by their evidence, with at most ``max_clusters`` clusters if there are such."""
    mixtures = [one for one in mixtures if one.n_clusters <= max_clusters] or mixtures
    evidence = np.array([one.log_evidence for one in mixtures])
    if rows.weights is None:  # or the less likely may gain
        likely = np.flatnonzero(evidence >= evidence.max() + np.log(MIN_PROBABILITY)).tolist()
        mixtures, evidence = [mixtures[i] for i in likely], evidence[likely]
    found = [assign_rows(rows, Clustering(one.clusters, one.clusters))[1] for one in mixtures]
    return ClusteringPosterior.of(rows, [one.density for one in found], evidence)
