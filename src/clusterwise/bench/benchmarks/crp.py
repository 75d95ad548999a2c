"""Chinese restaurant process mixtures with an exact number of clusters: section 4.1 of AMCP, its Table 1.

The text prints 10 for the spread of the means and for that of the clusters. Not even the oracle can tell
such clusters apart (NMI about 0.3 where the table prints 0.933), so that is not how the table was made.
Hence three scales: NCP's, from which the experiment is taken; DAC's, whose oracle log-likelihoods are
close to the printed ones; and the printed one, on fewer data sets, to show what it is.
"""

from __future__ import annotations

import numpy as np

from clusterwise.bench.methods.lineup import TABLE, slow_methods
from clusterwise.bench.registry import Benchmark, Case, register
from clusterwise.bench.synthetic import Word, case_of, generator_of
from clusterwise.priors.base import LabelledSet
from clusterwise.priors.crp import ChineseRestaurantMixture

__all__ = ["SCALES", "SETTINGS", "draw_case", "draw_mixture"]

SIZES = ((200, 4), (400, 6))  # points, clusters
SCALES = {  # standard deviation of the means, and of a cluster
    "NCP's scale": (10.0, 1.0),
    "DAC's scale": (3.0, 0.25),
    "the printed scale": (10.0, 10.0),
}
SETTINGS = {f"({n}, {k}) at {scale}": (n, k, scale) for scale in SCALES for n, k in SIZES}


def draw_mixture(rng: np.random.Generator, n: int, k: int, scale: str) -> LabelledSet:
    """Draw one data set."""
    mean_sd, sd = SCALES[scale]
    return ChineseRestaurantMixture(k_exact=k, mean_sd=mean_sd, sd=sd).draw_set(rng, n)


def draw_case(setting: str, index: int) -> Case:
    """Draw test set ``index`` of a setting."""
    n, k, scale = SETTINGS[setting]
    rng = generator_of(Word.CRP, n, k, list(SCALES).index(scale), index)
    return case_of(draw_mixture(rng, n, k, scale), index)


register(
    Benchmark(
        "crp",
        "Chinese restaurant process mixtures, test sets of AMCP by (points, clusters) and scale",
        draw_case,
        tuple(SETTINGS),
        n_sets=30,
        quick_n_sets=5,
        methods=TABLE,
        slow_methods=slow_methods(networks=5, mixtures=15),
        fewer_sets={setting: 5 for setting, (_, _, scale) in SETTINGS.items() if "printed" in scale},
    )
)
