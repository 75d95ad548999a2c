"""What AMCP's polishing does by itself, and for another network: how much of AMCP's figures is the network's.

Both entries polish as ``AMCP`` does, without its second look at odd clusters, which needs AMCP's network.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from clusterwise.bench.methods.amortized import AS_PRINTED, weights_identity
from clusterwise.bench.registry import Case, Method, Outcome, register

__all__ = ["dac_polished", "polished_alone"]


def _polished(points: np.ndarray, labels: np.ndarray) -> Outcome:
    from clusterwise._arrays import fit_scaling
    from clusterwise.polish import polish

    scaling = fit_scaling(points)
    features = scaling.apply(points)
    mixture = polish(features, [labels], 10).mixture
    memberships = mixture.memberships(features)
    return Outcome(
        memberships.argmax(axis=1), lambda: float(mixture.log_density(features).mean() - scaling.log_volume)
    )


def polished_alone() -> Callable[[Case], Outcome]:
    """No network: polishing starts from one cluster that holds everything."""
    return lambda case: _polished(case.points, np.zeros(len(case.points), dtype=np.int64))


def dac_polished() -> Callable[[Case], Outcome]:
    """The partition of DAC's network alone, polished as AMCP's is."""
    import clusterwise

    options: dict[str, Any] = {"weights": "dac-minimum-loss-2d", **AS_PRINTED}
    estimator = clusterwise.DAC(**options)

    def run(case: Case) -> Outcome:
        estimator.set_params(random_state=case.seed).fit(case.points)
        return _polished(case.points, estimator.network_labels_)

    return run


register(
    Method("AMCP's polishing, no network", polished_alone, kind="ours"),
    Method(
        "DAC (minimum-loss), AMCP's polishing",
        dac_polished,
        kind="ours",
        identity=partial(weights_identity, "dac-minimum-loss-2d"),
    ),
)
