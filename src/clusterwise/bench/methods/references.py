"""Lines to compare with, not competitors: the ceiling, the floor, and k-means that is told k."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from clusterwise.bench.registry import Case, Method, Outcome, Truth, register

__all__ = ["k_means", "oracle", "random_labels"]


def _truth(case: Case) -> Truth:
    if case.truth is None:
        raise ValueError("this reference line needs a data set with a known truth")
    return case.truth


def oracle() -> Callable[[Case], Outcome]:
    """The most likely component of each point under the true parameters."""

    def run(case: Case) -> Outcome:
        truth = _truth(case)
        if truth.oracle_labels is None:
            raise ValueError("this data set has no oracle")
        likelihood = truth.oracle_log_likelihood
        return Outcome(truth.oracle_labels, None if likelihood is None else lambda: likelihood)

    return run


def random_labels() -> Callable[[Case], Outcome]:
    """From 2 to 8 clusters, thrown like dice."""

    def run(case: Case) -> Outcome:
        rng = np.random.default_rng(case.seed)
        return Outcome(rng.integers(rng.integers(2, 9), size=len(case.points)))

    return run


def k_means() -> Callable[[Case], Outcome]:
    """The best of 10 runs of k-means with the true number of clusters."""
    from sklearn.cluster import KMeans

    def run(case: Case) -> Outcome:
        k = len(np.unique(_truth(case).references[0]))
        return Outcome(KMeans(k, n_init=10, random_state=case.seed).fit_predict(case.points))

    return run


_reference = partial(Method, kind="reference", group="scikit-learn")
register(
    _reference("oracle", oracle, sees_truth=True),
    _reference("k-means (true k)", k_means, sees_truth=True),
    _reference("random labels", random_labels),
)
