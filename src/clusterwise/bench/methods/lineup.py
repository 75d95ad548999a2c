"""Who stands in the tables, and in which order: network alone, its controls, network and search, peers."""

from __future__ import annotations

from clusterwise.bench.methods.amortized import (
    FAMILIES,
    alone,
    untrained,
    untrained_alone,
    with_search,
)

__all__ = ["NETWORKS", "PEERS", "TABLE", "slow_methods"]

# Two networks also without training and search, to show that they learn; these also on all rows, as their
# papers run them.
_IN_FULL = ("AMCP", "DAC (minimum-loss)")


def _rows(name: str) -> tuple[str, ...]:
    further = (f"{alone(name)}, all rows", untrained_alone(name)) if name in _IN_FULL else ()
    return (alone(name), *further, untrained(name), with_search(name))


NETWORKS = tuple(row for family in FAMILIES for row in _rows(family.name))
PEERS = (
    "BayesianGaussianMixture",
    "BayesianGaussianMixture, full",
    "GMM + BIC",
    "HDBSCAN",
    "HDBSCAN, noise to nearest",
)
TABLE = ("oracle", *NETWORKS, "GaussianSearch", *PEERS, "k-means (true k)", "random labels")


def slow_methods(ncp: int, gmm: int) -> dict[str, int]:
    """Data sets per setting for the methods that take ten times longer than the others."""
    return dict.fromkeys(_rows("NCP"), ncp) | {"GMM + BIC": gmm, "BayesianGaussianMixture, full": gmm}
