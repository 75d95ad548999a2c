"""CHiGac as it is printed: the network's own loop, on all rows, until no point is left."""

from __future__ import annotations

from clusterwise.bench.methods.amortized import ALL_ROWS, FAMILIES
from clusterwise.bench.registry import register

__all__ = ["AS_PRINTED"]

AS_PRINTED = "CHiGac, as printed"

(_FAMILY,) = (family for family in FAMILIES if family.name == "CHiGac")
register(_FAMILY.entry(AS_PRINTED, None, stop="empty", recentre=0, **ALL_ROWS))
