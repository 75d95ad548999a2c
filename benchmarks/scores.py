"""Figures of merit, and how noise and several true partitions count.

Noise that a method finds (label -1) is scored as it is: for ARI, NMI and accuracy it is one more cluster, as
a user who asks for a partition gets it; the number of clusters leaves it out. Noise in a true partition
(label -1, too) is left out of the score. With several true partitions the one that suits the method best
counts, in each figure by itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from sklearn.metrics import adjusted_rand_score

from benchmarks.suite import Case
from clusterwise.metrics import davies_bouldin, matched_accuracy, nmi


@dataclass(frozen=True)
class Metric:
    """A figure of labels compared with the true ones, or of labels and points alone."""

    of_pair: Callable[[np.ndarray, np.ndarray], float] | None = None  # (true, found) -> value
    of_case: Callable[[Case, np.ndarray], float] | None = None
    larger_is_better: bool = True
    digits: int = 4


def n_clusters(labels: np.ndarray) -> int:
    """Number of clusters, noise not counted as one."""
    return len(np.unique(labels[labels >= 0]))


def _error_in_k(true: np.ndarray, found: np.ndarray) -> float:
    return float(abs(n_clusters(true) - n_clusters(found)))


def _davies_bouldin(metric: Literal["cosine", "euclidean"], case: Case, found: np.ndarray) -> float:
    """NaN where it is not defined, as for a single cluster."""
    defined = 2 <= len(np.unique(found)) < len(found)
    return davies_bouldin(case.points, found, metric=metric) if defined else float("nan")


METRICS: dict[str, Metric] = {
    "ARI": Metric(adjusted_rand_score),
    "NMI (geometric)": Metric(partial(nmi, average="geometric")),
    "NMI (arithmetic)": Metric(partial(nmi, average="arithmetic")),
    "accuracy": Metric(matched_accuracy),
    "k error": Metric(_error_in_k, larger_is_better=False, digits=3),
    "right k": Metric(lambda true, found: float(_error_in_k(true, found) == 0), digits=3),
    "log-likelihood": Metric(),  # the method's own
    "DBI (cosine)": Metric(of_case=partial(_davies_bouldin, "cosine"), larger_is_better=False),
    "DBI (euclidean)": Metric(of_case=partial(_davies_bouldin, "euclidean"), larger_is_better=False),
    "k": Metric(of_case=lambda case, found: float(n_clusters(found)), digits=1),
    "true k": Metric(of_case=lambda case, found: float(n_clusters(case.references[0])), digits=1),
    "n": Metric(of_case=lambda case, found: float(len(case.points)), digits=0),
    "d": Metric(of_case=lambda case, found: float(case.points.shape[1]), digits=0),
}


def score(name: str, case: Case, labels: np.ndarray, log_likelihood: float = float("nan")) -> float:
    """Return a figure of labels (n,); NaN where it does not apply."""
    metric = METRICS[name]
    if metric.of_case is not None:
        return float(metric.of_case(case, labels))
    if metric.of_pair is None:
        return log_likelihood
    values = [metric.of_pair(true[true >= 0], labels[true >= 0]) for true in case.references]
    best = max if metric.larger_is_better else min
    return float(best(values, default=float("nan")))
