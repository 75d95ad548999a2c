"""One correlated Gaussian is one cluster: how often a method says so, by the correlation."""

from __future__ import annotations

import numpy as np

from clusterwise.bench.methods.amortized import FAMILIES, with_search
from clusterwise.bench.registry import Benchmark, Case, register
from clusterwise.bench.synthetic import Word, case_of, generator_of
from clusterwise.priors.base import LabelledSet
from clusterwise.priors.correlated import CorrelatedComponents

__all__ = ["SETTINGS", "draw_case"]

SETTINGS = {f"correlation {rho:g}": rho for rho in (0.0, 0.3, 0.5, 0.7, 0.9)}
N_POINTS = 1000


def draw_case(setting: str, index: int) -> Case:
    """Draw test set ``index`` of a setting."""
    rho = SETTINGS[setting]
    rng = generator_of(Word.ONE_GAUSSIAN, list(SETTINGS).index(setting), index)
    root = np.linalg.cholesky([[1.0, rho], [rho, 1.0]])
    points = rng.standard_normal((N_POINTS, 2)) @ root.T
    truth = CorrelatedComponents(np.ones(1), np.zeros((1, 2)), root[None])
    return case_of(LabelledSet(points, np.zeros(N_POINTS, dtype=np.int64), truth), index)


register(
    Benchmark(
        "one-gaussian",
        f"One Gaussian of {N_POINTS:,} points in the plane: share of data sets in which one cluster is found",
        draw_case,
        tuple(SETTINGS),
        n_sets=20,
        quick_n_sets=2,
        methods=(
            *(with_search(family.name) for family in FAMILIES),
            "GaussianSearch",
            "BayesianGaussianMixture",
            "BayesianGaussianMixture, full",
            "GMM + BIC",
        ),
        metrics=("right k", "k error", "log-likelihood"),
        headline=("right k", "k error"),
        oracle=None,
    )
)
