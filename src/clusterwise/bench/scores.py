"""The metrics that every benchmark reports, and how noise and several true partitions count.

Noise (label -1) is scored as it is: for ARI, NMI and accuracy it is one more cluster, as a user who
asks for a partition gets it; the number of clusters leaves it out.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
from sklearn.metrics import adjusted_rand_score

from clusterwise.bench.registry import Case, Metric, register
from clusterwise.metrics import davies_bouldin, matched_accuracy, nmi

__all__ = ["error_in_k", "index_of_clusters", "right_k", "score"]


def error_in_k(true: np.ndarray, found: np.ndarray) -> float:
    """Return the absolute error in the number of clusters, noise not counted as one."""
    return float(abs(len(np.unique(true)) - len(np.unique(found[found >= 0]))))


def right_k(true: np.ndarray, found: np.ndarray) -> float:
    """Return 1 if the number of clusters is the true one, else 0."""
    return float(error_in_k(true, found) == 0)


def score(metric: Metric, case: Case, labels: np.ndarray, log_likelihood: float | None) -> float:
    """Return the value of ``metric`` for labels (n,); NaN where it does not apply."""
    if metric.of_points is not None:
        return float(metric.of_points(case.points, labels))
    if metric.score is None:
        return float("nan") if log_likelihood is None else float(log_likelihood)
    if case.truth is None or not case.truth.references:
        return float("nan")
    values = [metric.score(true, labels) for true in case.truth.references]
    return float(max(values) if metric.larger_is_better else min(values))


def index_of_clusters(points: np.ndarray, found: np.ndarray, metric: Literal["cosine", "euclidean"]) -> float:
    """Return the Davies-Bouldin index; NaN where it is not defined, as for a single cluster."""
    if not 2 <= len(np.unique(found)) < len(found):
        return float("nan")
    return davies_bouldin(points, found, metric=metric)


register(
    Metric("ARI", adjusted_rand_score),
    Metric("NMI (geometric)", partial(nmi, average="geometric")),
    Metric("NMI (arithmetic)", partial(nmi, average="arithmetic")),
    Metric("accuracy", matched_accuracy),
    Metric("k error", error_in_k, larger_is_better=False, digits=3),
    Metric("log-likelihood", None),
    Metric("right k", right_k, digits=3, everywhere=False),
    *(
        Metric(
            f"DBI ({metric})",
            None,
            larger_is_better=False,
            of_points=partial(index_of_clusters, metric=metric),
            everywhere=False,
        )
        for metric in ("cosine", "euclidean")
    ),
)
