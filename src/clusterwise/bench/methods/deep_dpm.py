"""DeepDPM; only in the studies that name it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clusterwise.bench.registry import Case, Outcome

__all__ = ["deep_dpm"]


def deep_dpm(**options: Any) -> Callable[[Case], Outcome]:
    """DeepDPM with the given options."""
    import clusterwise as cw

    def run(case: Case) -> Outcome:
        estimator = cw.DeepDPM(random_state=case.seed, **options).fit(case.points)
        return Outcome(estimator.labels_, lambda: estimator.score(case.points))

    return run
