"""Who stands in the tables, and in which order: network alone, its controls, network and search, peers."""

from __future__ import annotations

from clusterwise.bench.methods.amortized import (
    FAMILIES,
    NCP_ON_MIXTURES,
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


def slow_methods(networks: int, mixtures: int) -> dict[str, int]:
    """Data sets per setting for methods that take about ten times longer than the others.

    NCP needs a step for each point, and an untrained CHiGac one for each of the most clusters allowed; peers
    fit twenty mixtures, or one with hundreds of iterations.
    """
    of_networks = (*_rows("NCP"), untrained("CHiGac"), alone(NCP_ON_MIXTURES.name))
    return dict.fromkeys(of_networks, networks) | dict.fromkeys(PEERS[1:3], mixtures)
