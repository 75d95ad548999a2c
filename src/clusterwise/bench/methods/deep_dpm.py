"""DeepDPM, and what stands beside it on large data sets; only in the studies that name them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clusterwise.bench.registry import Case, Outcome

__all__ = ["bayesian_mixture", "deep_dpm"]


def deep_dpm(**options: Any) -> Callable[[Case], Outcome]:
    """DeepDPM with the given options."""
    import clusterwise as cw

    def run(case: Case) -> Outcome:
        estimator = cw.DeepDPM(random_state=case.seed, **options).fit(case.points)
        return Outcome(estimator.labels_, lambda: estimator.score(case.points))

    return run


def bayesian_mixture(n_components: int) -> Callable[[Case], Outcome]:
    """scikit-learn's variational mixture, full covariances; its clusters are the components that are used."""
    from sklearn.mixture import BayesianGaussianMixture

    def run(case: Case) -> Outcome:
        model = BayesianGaussianMixture(
            n_components=min(n_components, len(case.points)), random_state=case.seed
        )
        return Outcome(model.fit_predict(case.points))

    return run
