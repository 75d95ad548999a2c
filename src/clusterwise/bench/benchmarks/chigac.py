"""Table 1 of CHiGac: mixtures of Gaussians with a fixed number of points and of clusters.

The paper does not print its generator. Reading: the scales and the weights of DAC Eq 13 with k and n fixed.
A cluster of small weight may have few points or none, so the number of labels in use can be below k.
"""

from __future__ import annotations

import numpy as np

from clusterwise.bench.methods.chigac import AS_PRINTED
from clusterwise.bench.methods.lineup import TABLE, slow_methods
from clusterwise.bench.registry import Benchmark, Case, register
from clusterwise.bench.synthetic import Word, case_of, generator_of
from clusterwise.priors.base import LabelledSet
from clusterwise.priors.gaussians import MixtureOfGaussians

__all__ = ["METHODS", "SETTINGS", "draw_case", "draw_mixture"]

SETTINGS = {"(200, 4)": (200, 4), "(400, 6)": (400, 6)}  # points, clusters
METHODS = (*TABLE, AS_PRINTED, "DAC (anchored), network alone, all rows")


def draw_mixture(rng: np.random.Generator, n: int, k: int) -> LabelledSet:
    """Draw one data set."""
    return MixtureOfGaussians(k_exact=k).draw_set(rng, n)


def draw_case(setting: str, index: int) -> Case:
    """Draw test set ``index`` of a setting."""
    n, k = SETTINGS[setting]
    rng = generator_of(Word.CHIGAC, n, k, index)
    return case_of(draw_mixture(rng, n, k), index)


register(
    Benchmark(
        "chigac",
        "Mixtures of Gaussians, test sets of CHiGac by (points, clusters)",
        draw_case,
        tuple(SETTINGS),
        n_sets=40,
        quick_n_sets=5,
        methods=METHODS,
        slow_methods=slow_methods(networks=10, mixtures=20),
        metrics=(
            "accuracy",
            "NMI (geometric)",
            "NMI (arithmetic)",
            "ARI",
            "k error",
            "log-likelihood",
            "DBI (cosine)",
            "DBI (euclidean)",
        ),
        headline=("accuracy", "k error", "ARI", "DBI (cosine)"),
    )
)
