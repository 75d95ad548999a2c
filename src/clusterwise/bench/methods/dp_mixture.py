"""Dirichlet-process mixtures by Markov chain Monte Carlo; too slow to be measured everywhere."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from clusterwise.bench.registry import Case, Method, Outcome, register

__all__ = ["dp_mixture"]


def dp_mixture(**options: Any) -> Callable[[Case], Outcome]:
    """DPMixture with the given options."""
    from clusterwise.estimators import DPMixture
    from clusterwise.exceptions import NotConvergedWarning

    def run(case: Case) -> Outcome:
        model = DPMixture(random_state=case.seed, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConvergedWarning)
            labels = model.fit_predict(case.points)
        return Outcome(labels, lambda: model.score(case.points))

    return run


register(
    Method("DPMixture", dp_mixture, kind="ours"),
    Method("DPMixture, diagonal", partial(dp_mixture, covariance_type="diag"), kind="ours"),
)
