"""The Neural Clustering Process as it is printed: every point, in S random orders whose labels are drawn.

A step of the network for each point takes a while: these entries run only where they are named.
"""

from __future__ import annotations

from clusterwise.bench.methods.amortized import NCP_ON_MIXTURES
from clusterwise.bench.registry import register

__all__ = ["ORDERS", "with_orders"]

ORDERS = (1, 10, 50)  # S; those of DAC's Table 5


def with_orders(n: int) -> str:
    """Name of the entry with S = n orders."""
    return f"NCP, S = {n}, as printed"


register(
    *(
        NCP_ON_MIXTURES.entry(with_orders(n), None, n_orders=n, greedy=False, max_network_points=1_000_000)
        for n in ORDERS
    )
)
