"""CHiGac as a user calls it, and as it is printed: the network's own loop until no point is left."""

from __future__ import annotations

from functools import partial

from clusterwise.bench.methods.amortized import AS_PRINTED, amortized, weights_identity
from clusterwise.bench.registry import Method, register

__all__ = ["WEIGHTS"]

WEIGHTS = "chigac-2d"

register(
    Method(
        "CHiGac",
        partial(amortized, "CHiGac", weights=WEIGHTS),
        kind="ours",
        identity=partial(weights_identity, WEIGHTS),
    ),
    Method(
        "CHiGac, as printed",
        partial(
            amortized,
            "CHiGac",
            as_printed=True,
            weights=WEIGHTS,
            stop="empty",
            recentre=0,
            max_network_points=10_000,
            **AS_PRINTED,
        ),
        kind="ours",
        identity=partial(weights_identity, WEIGHTS),
    ),
    # What the learned stop and pioneers from the middle of their clusters add to the printed loop.
    Method(
        "CHiGac, network alone",
        partial(
            amortized, "CHiGac", as_printed=True, weights=WEIGHTS, max_network_points=10_000, **AS_PRINTED
        ),
        kind="ours",
        identity=partial(weights_identity, WEIGHTS),
        everywhere=False,
    ),
)
