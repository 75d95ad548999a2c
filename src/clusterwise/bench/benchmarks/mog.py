"""Mixtures of Gaussians as in DAC, Eq 13: the test sets of its Tables 1 and 5.

The number of points is uniform between 0.3 n_max and n_max; k - 1 is binomial up to k_max - 1.
Training draws from ``default_rng([seed, stream, step])`` with small seeds; the first word here is 2^31, so
no test set is one that a network was trained on.
"""

from __future__ import annotations

import math

import numpy as np

from clusterwise.bench.registry import Benchmark, Case, Truth, register
from clusterwise.priors.gaussians import MixtureOfGaussians

__all__ = ["SETTINGS", "draw_case"]

SETTINGS = {"(1000, 4)": (1000, 4), "(3000, 12)": (3000, 12)}  # n_max, k_max
_TEST_SEED = 2**31


def draw_case(setting: str, index: int) -> Case:
    """Draw test set ``index`` of a setting."""
    n_max, k_max = SETTINGS[setting]
    rng = np.random.default_rng([_TEST_SEED, n_max, k_max, index])
    n = int(rng.integers(math.ceil(0.3 * n_max), n_max, endpoint=True))
    drawn = MixtureOfGaussians(k_max=k_max).draw_set(rng, n)
    truth = Truth((drawn.labels,), drawn.oracle_labels(), drawn.oracle_log_likelihood())
    return Case(drawn.points, index, truth)


register(
    Benchmark(
        "mog",
        "Mixtures of Gaussians, test sets of DAC by (n_max, k_max)",
        draw_case,
        tuple(SETTINGS),
        n_sets=1000,
        quick_n_sets=20,
    )
)
