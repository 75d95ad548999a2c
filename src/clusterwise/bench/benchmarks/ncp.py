"""NCP with 1, 10 and 50 orders on the larger mixtures of Gaussians: Table 5 of DAC."""

from __future__ import annotations

from clusterwise.bench.benchmarks import mog
from clusterwise.bench.methods.amortized import NCP_ON_MIXTURES, alone, with_search
from clusterwise.bench.methods.ncp import ORDERS, with_orders
from clusterwise.bench.registry import Benchmark, register

__all__: list[str] = []

register(
    Benchmark(
        "ncp",
        "NCP by the number of orders S, first test sets of mog",
        mog.draw_case,
        ("(3000, 12)",),
        n_sets=100,
        quick_n_sets=3,
        methods=(
            "oracle",
            "BayesianGaussianMixture",
            f"{alone('DAC (minimum-loss)')}, all rows",
            *map(with_orders, ORDERS),
            alone(NCP_ON_MIXTURES.name),
            with_search(NCP_ON_MIXTURES.name),
        ),
        time_limit=600.0,
    )
)
