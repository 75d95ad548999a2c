"""Where the time of our ``fit`` goes: a clock around each stage of an estimator's pipeline."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from benchmarks.suite import Case, Outcome, Run

__all__ = ["REST", "STAGES", "by_stages", "stage_seconds"]

STAGES, REST = ("prepare", "propose", "refine", "describe"), "checks, storing"


class _Timed:
    """A pipeline with a clock for each stage."""

    def __init__(self, pipeline: Any) -> None:
        self.pipeline, self.seconds = pipeline, dict.fromkeys(STAGES, 0.0)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.pipeline, name)
        if name not in STAGES:
            return found

        def timed(*args: Any, **options: Any) -> Any:
            started = time.perf_counter()
            result = found(*args, **options)
            self.seconds[name] += time.perf_counter() - started
            return result

        return timed


def stage_seconds(estimator: Any, points: np.ndarray) -> dict[str, float]:
    """Seconds of one ``fit`` on points (n, d) by stages, and of the rest: checks, attributes, warnings."""
    clock = _Timed(estimator._pipeline())
    estimator._pipeline = lambda: clock
    started = time.perf_counter()
    try:
        estimator.fit(points)
    finally:
        del estimator._pipeline  # which the class has, too
    whole = time.perf_counter() - started
    return clock.seconds | {REST: whole - sum(clock.seconds.values())}


def by_stages(name: str, **options: Any) -> Run:
    """One of our estimators whose ``more`` are the seconds of its stages."""
    import clusterwise

    model = getattr(clusterwise, name)(random_state=0, **options)

    def run(case: Case) -> Outcome:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seconds = stage_seconds(model, case.points)
        return Outcome(model.labels_, more=lambda: seconds, seconds=sum(seconds.values()))

    return run
