"""Bayesian methods on the first test sets of `mog` and `crp`: they take seconds, not milliseconds, each.

Beside them the variational mixture, AMCP and the search, in the same run on the same data.
"""

from __future__ import annotations

from clusterwise.bench.benchmarks import crp, mog
from clusterwise.bench.methods.amortized import NCP_ON_MIXTURES, alone, with_search
from clusterwise.bench.registry import Benchmark, Case, register

__all__ = ["SETTINGS", "draw_case"]

SETTINGS = {
    **dict.fromkeys(mog.SETTINGS, mog.draw_case),
    **{setting: crp.draw_case for setting in crp.SETTINGS if "printed" not in setting},
}


def draw_case(setting: str, index: int) -> Case:
    """Draw test set ``index`` of a setting, as the benchmark does that the setting comes from."""
    return SETTINGS[setting](setting, index)


register(
    Benchmark(
        "bayesian",
        "Bayesian mixtures and NCP, first test sets of mog (n_max, k_max) and crp (points, clusters)",
        draw_case,
        tuple(SETTINGS),
        n_sets=100,
        quick_n_sets=3,
        methods=(
            "oracle",
            alone("NCP"),
            with_search("NCP"),
            alone(NCP_ON_MIXTURES.name),
            with_search("AMCP"),
            "GaussianSearch",
            "DPMixture, diagonal",
            "BayesianGaussianMixture",
        ),
        time_limit=600.0,
    )
)
