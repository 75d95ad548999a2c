"""The Neural Clustering Process as a user calls it, and as its paper prints it.

As printed the network sees every point, in S = 50 random orders whose labels are drawn, and the likeliest
partition stays as it is. A step of the network for each point takes a while: the entries run only where they
are named.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from clusterwise.bench.methods.amortized import AS_PRINTED, amortized, weights_identity
from clusterwise.bench.registry import Method, register

__all__ = ["NETWORK_ALONE"]

NETWORK_ALONE: dict[str, Any] = {
    **AS_PRINTED,
    "n_orders": 50,
    "greedy": False,
    "max_network_points": 1_000_000,
}


def _entry(name: str, weights: str, **options: Any) -> Method:
    return Method(
        name,
        partial(amortized, "NCP", weights=weights, **options),
        kind="ours",
        identity=partial(weights_identity, weights),
        everywhere=False,
    )


# Each of the two weights for the kind of mixture that it was trained on.
for _name, _weights in {"NCP": "ncp-2d-mog", "NCP (CRP)": "ncp-2d"}.items():
    register(
        _entry(_name, _weights),
        _entry(f"{_name}, as printed", _weights, as_printed=True, **NETWORK_ALONE),
    )

# DAC's Table 5: fewer orders.
register(
    *(
        _entry(f"NCP, S = {n}, as printed", "ncp-2d-mog", as_printed=True, **{**NETWORK_ALONE, "n_orders": n})
        for n in (1, 10)
    )
)
