"""Mixtures of Gaussians as in DAC, Eq 13: the test sets of its Tables 1 and 5.

The number of points is uniform between 0.3 n_max and n_max; k - 1 is binomial up to k_max - 1.
"""

from __future__ import annotations

import math

import numpy as np

from clusterwise.bench.methods.amortized import NCP_ON_MIXTURES, alone
from clusterwise.bench.methods.lineup import TABLE, slow_methods
from clusterwise.bench.registry import Benchmark, Case, register
from clusterwise.bench.synthetic import case_of, generator_of
from clusterwise.priors.base import LabelledSet
from clusterwise.priors.gaussians import MixtureOfGaussians

__all__ = ["SETTINGS", "draw_case", "draw_mixture"]

SETTINGS = {"(1000, 4)": (1000, 4), "(3000, 12)": (3000, 12)}  # n_max, k_max
# Networks that were trained on these data, as in the papers; the shipped ones have seen other kinds too.
AS_IN_PAPERS = (
    "DAC (minimum-loss, trained on k <= 4), network alone, all rows",
    alone(NCP_ON_MIXTURES.name),
)


def draw_mixture(rng: np.random.Generator, n_max: int, k_max: int) -> LabelledSet:
    """Draw one data set."""
    n = int(rng.integers(math.ceil(0.3 * n_max), n_max, endpoint=True))
    return MixtureOfGaussians(k_max=k_max).draw_set(rng, n)


def draw_case(setting: str, index: int) -> Case:
    """Draw test set ``index`` of a setting."""
    n_max, k_max = SETTINGS[setting]
    rng = generator_of(n_max, k_max, index)
    return case_of(draw_mixture(rng, n_max, k_max), index)


register(
    Benchmark(
        "mog",
        "Mixtures of Gaussians, test sets of DAC by (n_max, k_max)",
        draw_case,
        tuple(SETTINGS),
        n_sets=100,
        quick_n_sets=5,
        methods=(*TABLE, *AS_IN_PAPERS),
        slow_methods=slow_methods(networks=10, mixtures=25),
    )
)
