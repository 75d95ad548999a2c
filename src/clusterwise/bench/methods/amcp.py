"""AMCP as a user calls it, as it is printed, and with one choice changed at a time.

The ablations are those of section 4.3 and appendix C.2.3. They look at the network's own loop, without
the EM steps and merges that follow it in ``fit`` and would level the differences. All use the same weights:
what changes is the loop, not the training.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from clusterwise.bench.methods.amortized import AS_PRINTED, amortized, weights_identity
from clusterwise.bench.registry import Method, register

__all__ = ["ABLATIONS", "BASE", "EM_STEPS", "NETWORK_ALONE", "with_em_steps"]

WEIGHTS = "amcp-2d"

# The clusters as the loop of Algorithm 1 gives them, on its likeliest path.
NETWORK_ALONE: dict[str, Any] = {**AS_PRINTED, "n_draws": 0, "max_network_points": 10_000}

EM_STEPS = (1, 2, 3, 4, 5)  # T


def with_em_steps(n_em_steps: int) -> str:
    """Name of the network alone with T = ``n_em_steps`` and everything else as in the base."""
    return f"AMCP*, T = {n_em_steps}"


# Every ablation differs from the base in what it says: T = 3, regular E-step, free proportions, earlier
# clusters updated (the asterisk), learned first cluster.
BASE = with_em_steps(3)
_BASE_OPTIONS: dict[str, Any] = {
    "n_em_steps": 3,
    "e_step": "regular",
    "proportions": "free",
    "update": True,
    "first_cluster": "learned",
}
ABLATIONS: dict[str, dict[str, Any]] = {
    **{with_em_steps(n): {"n_em_steps": n} for n in EM_STEPS},
    "AMCP*, Sinkhorn": {"e_step": "sinkhorn"},
    "AMCP*, balanced": {"proportions": "balanced"},
    "AMCP*, Sinkhorn, balanced": {"e_step": "sinkhorn", "proportions": "balanced"},
    "AMCP, no update": {"update": False},
    "AMCP*, k-means first": {"first_cluster": "k-means"},
}


def _network_alone(name: str, everywhere: bool, **options: Any) -> Method:
    build = partial(amortized, "AMCP", as_printed=True, weights=WEIGHTS, **NETWORK_ALONE, **options)
    identity = partial(weights_identity, WEIGHTS)
    return Method(name, build, kind="ours", identity=identity, everywhere=everywhere)


register(
    Method(
        "AMCP",
        partial(amortized, "AMCP", weights=WEIGHTS),
        kind="ours",
        identity=partial(weights_identity, WEIGHTS),
    ),
    _network_alone("AMCP, as printed", everywhere=True, update=False),
    _network_alone("AMCP*, as printed", everywhere=True, update=True),
    *(
        _network_alone(name, everywhere=False, **{**_BASE_OPTIONS, **changed})
        for name, changed in ABLATIONS.items()
    ),
)
