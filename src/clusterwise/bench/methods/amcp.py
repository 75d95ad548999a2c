"""AMCP's network with one choice changed at a time: section 4.3 and appendix C.2.3.

No search follows, which would level the differences, and the network sees all rows. All use the same
weights: what changes is the loop, not the training.
"""

from __future__ import annotations

from typing import Any

from clusterwise.bench.methods.amortized import ALL_ROWS, FAMILIES
from clusterwise.bench.registry import register

__all__ = ["ABLATIONS", "BASE", "EM_STEPS", "with_em_steps"]

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

register(
    *(
        FAMILIES[0].entry(name, None, **{**_BASE_OPTIONS, **changed, **ALL_ROWS})
        for name, changed in ABLATIONS.items()
    )
)
