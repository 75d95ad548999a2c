"""Mixtures on which a search from scratch is hard: other scales, many clusters, eight features.

The clusters of `mog` have a standard deviation of 0.25 and means with one of 3. Here clusters are four times
wider or two and a half times narrower, there are up to 40 of them, or they are tilted in eight features,
where only methods that take any number of features can run.
"""

from __future__ import annotations

import math

from clusterwise.bench.methods.lineup import PEERS, TABLE, slow_methods
from clusterwise.bench.registry import Benchmark, Case, register
from clusterwise.bench.synthetic import Word, case_of, generator_of
from clusterwise.priors.base import LabelledSet
from clusterwise.priors.correlated import CorrelatedGaussians
from clusterwise.priors.gaussians import MixtureOfGaussians

__all__ = ["SCALES", "SETTINGS", "draw_case"]

SCALES = {  # n_max, k_max and the standard deviation of a cluster; that of the means is 3
    "(1000, 4), sd 1": (1000, 4, 1.0),
    "(3000, 12), sd 1": (3000, 12, 1.0),
    "(1000, 4), sd 0.1": (1000, 4, 0.1),
    "(3000, 12), sd 0.1": (3000, 12, 0.1),
}
MANY, EIGHT = "(3000, 40), k uniform", "8 features, (1000, 12)"
SETTINGS = (*SCALES, MANY, EIGHT)

# Means 1.3 standard deviations of a cluster apart, on each of eight axes: the oracle's ARI is 0.93 on
# average (0.87 at 1.0, 0.96 at 1.5; 150 data sets each), so that clusters overlap but can be told apart.
TILTED = CorrelatedGaussians(n_features=8, k_max=12, mean_sd=0.65, sd_median=0.5, sd_log_sd=0.5)
MANY_CLUSTERS = MixtureOfGaussians(k_max=40, k_law="uniform")

_MORE_COMPONENTS = ("BayesianGaussianMixture (60)", "GMM + BIC (k to 50)")
_PLANE = tuple(name for name in TABLE if name != "random labels")


def _draw(setting: str, index: int) -> LabelledSet:
    if setting == MANY:
        return MANY_CLUSTERS.draw_set(generator_of(Word.MANY_CLUSTERS, index), 3000)
    if setting == EIGHT:
        return TILTED.draw_set(generator_of(Word.CORRELATED, index), 1000)
    n_max, k_max, sd = SCALES[setting]
    rng = generator_of(Word.SCALES, list(SCALES).index(setting), index)
    n = int(rng.integers(math.ceil(0.3 * n_max), n_max, endpoint=True))
    return MixtureOfGaussians(k_max=k_max, sd_median=sd).draw_set(rng, n)


def draw_case(setting: str, index: int) -> Case:
    """Draw test set ``index`` of a setting."""
    return case_of(_draw(setting, index), index)


register(
    Benchmark(
        "scales",
        "Mixtures of other scales by (n_max, k_max), of many clusters, and in eight features",
        draw_case,
        SETTINGS,
        n_sets=40,
        # Those with many points take long, and with narrow clusters hardly anybody errs.
        fewer_sets={"(3000, 12), sd 1": 25, "(1000, 4), sd 0.1": 20, "(3000, 12), sd 0.1": 15, MANY: 20},
        quick_n_sets=3,
        methods=(*_PLANE, *_MORE_COMPONENTS),
        slow_methods={**slow_methods(networks=5, mixtures=20), _MORE_COMPONENTS[1]: 5},
        only={
            **dict.fromkeys(SCALES, _PLANE),
            MANY: tuple(name for name in _PLANE if name != "GMM + BIC") + _MORE_COMPONENTS,
            EIGHT: ("oracle", "GaussianSearch", *PEERS, "k-means (true k)"),
        },
    )
)
