"""Are ``k_posterior_`` and ``membership_`` honest? Over many data sets whose truth is known."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from benchmarks.ours import weights_identity
from benchmarks.page import NOTHING, Cell, by_data, mean, sets
from benchmarks.suite import Case, Data, Method, Outcome, Run, Suite
from benchmarks.suites.mixtures import CRP, MOG, draw_crp, draw_mog
from benchmarks.summary import Rows
from benchmarks.synthetic import Word, case_of, generator_of
from clusterwise.metrics import matched_points
from clusterwise.priors.base import LabelledSet
from clusterwise.training.partition_tasks import expected_calibration_error

__all__ = ["METHODS", "SETTINGS", "SUITES", "k_error", "scored"]

N_FORECASTS = 1000  # of a calibrated forecaster, which a real one is compared with
HOW_TO_READ = """\
Mean ± standard error over data sets. Calibration errors have ten bins of equal width.

- *True k on top*: how often the true number of clusters is the most probable one; *P(top k)*: the probability
  that is stated for the most probable one. The two should be equal.
- *ECE of k*: expected calibration error of "the most probable k is right", one decision for each data set;
  in brackets what a calibrated forecaster that states the same probabilities would score on average. With few
  data sets it is far from zero.
- *Points right*: share of points whose cluster is matched to their true one; *confidence*: mean of
  `probabilities_`. The two should be equal. *ECE of points*: mean over data sets."""
COLUMNS = ("true k on top", "P(top k)", "P(true k)", "points right", "confidence", "ECE of points")
SETTINGS: dict[str, Callable[[np.random.Generator], LabelledSet]] = {
    **{f"mog {name}": partial(draw_mog, n_max=n, k_max=k) for name, (n, k) in MOG.items()},
    # Clusters of the printed scale are hopeless: no probabilities mean much there.
    **{
        f"crp {name}": partial(draw_crp, n=n, k=k, scale=scale)
        for name, (n, k, scale) in CRP.items()
        if "printed" not in name
    },
}


def _draw(setting: str, index: int) -> Case:
    rng = generator_of(Word.CALIBRATION, list(SETTINGS).index(setting), index)
    return case_of(SETTINGS[setting](rng), index)


def with_probabilities(name: str, **options: Any) -> Run:
    """An estimator whose ``more`` are its probabilities."""
    import clusterwise

    def run(case: Case) -> Outcome:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = getattr(clusterwise, name)(random_state=case.seed, **options).fit(case.points)
            found = {"k": model.k_posterior_, "confidence": model.probabilities_}
        return Outcome(model.labels_, more=lambda: found)

    return run


def _method(name: str, estimator: str, weights: str | None = None, **options: Any) -> Method:
    identity = None if weights is None else partial(weights_identity, weights)
    build = partial(with_probabilities, estimator, **options)
    return Method(name, build, kind="ours", identity=identity, group="ours")


METHODS = (
    _method("AMCP", "AMCP", "amcp-2d"),
    _method("CHiGac", "CHiGac", "chigac-2d"),
    _method("DAC (anchored)", "DAC", "dac-anchored-2d", filtering="anchored"),
    _method("ACT-ST", "ACTST", "act-st-2d"),
    _method("GaussianSearch", "GaussianSearch"),
    _method("Clusterer", "Clusterer"),
)


def scored(case: Case, labels: np.ndarray, more: Mapping[str, Any]) -> dict[str, object]:
    """Cells of a row."""
    (true,) = case.references
    right, confidence = matched_points(true, labels), np.asarray(more["confidence"])
    k, posterior = len(np.unique(true)), more["k"]
    top = min(posterior, key=lambda one: (-posterior[one], one))
    return {
        "true k on top": float(top == k),
        "P(top k)": float(posterior[top]),
        "P(true k)": float(posterior.get(k, 0.0)),
        "points right": float(right.mean()),
        "confidence": float(confidence.mean()),
        "ECE of points": expected_calibration_error(confidence, right),
    }


def k_error(rows: Rows, everything: Rows) -> str:
    """Expected calibration error of the most probable k, and that of a calibrated forecaster."""
    stated, right = (np.array(list(rows.values(name).values())) for name in ("P(top k)", "true k on top"))
    if not len(stated):
        return NOTHING
    draws = np.random.default_rng(0).random((N_FORECASTS, len(stated))) < stated
    calibrated = np.mean([expected_calibration_error(stated, drawn) for drawn in draws])
    return f"{expected_calibration_error(stated, right):.3f} ({calibrated:.3f})"


def calibration(quick: bool) -> Suite:
    """The suite."""
    columns: dict[str, Cell] = {"sets": sets, **{name: mean(name, 3) for name in COLUMNS[:3]}}
    columns |= {"ECE of k": k_error, **{name: mean(name, 3) for name in COLUMNS[3:]}}
    return Suite(
        "Calibration of the number of clusters and of memberships",
        [Data(setting, partial(_draw, setting), 5 if quick else 50) for setting in SETTINGS],
        METHODS,
        lambda rows, page: [HOW_TO_READ, *by_data(rows, columns)],
        ("k", "true k"),
        COLUMNS,
        scored,
    )


SUITES = {"calibration": calibration}
