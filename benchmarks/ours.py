"""Our estimators as methods of a benchmark."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

from benchmarks.suite import Case, Method, Outcome, Run

__all__ = ["estimator", "ours"]


def estimator(name: str, **options: Any) -> Run:
    """Any of our estimators that needs no choice of weights, with the given options."""
    import clusterwise

    kind = getattr(clusterwise, name)

    def run(case: Case) -> Outcome:
        model = kind(random_state=case.seed, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # chains that did not converge: their result counts all the same
            labels = model.fit_predict(case.points)
        return Outcome(labels, lambda: float(model.score(case.points)))

    return run


def ours(name: str, estimator_name: str | None = None, **options: Any) -> Method:
    """A method with the name of its row, by default that of the estimator."""
    return Method(name, partial(estimator, estimator_name or name, **options), kind="ours")
