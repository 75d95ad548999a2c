"""Are ``k_posterior_`` and ``membership_`` honest? Over many data sets whose truth is known."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.ours import FAMILIES, ours
from benchmarks.page import NOTHING, mean, sets
from benchmarks.suite import Case, Data, Suite
from benchmarks.suites.mixtures import CRP_SCALES, DAC_SIZES, SIZES, draw_crp, draw_mog
from benchmarks.summary import Rows
from benchmarks.synthetic import Word, drawn, generator_of
from clusterwise.metrics import matched_points
from clusterwise.priors.broad import BroadPrior
from clusterwise.priors.prior import LabelledSet
from clusterwise.training.partition_tasks import expected_calibration_error

N_FORECASTS = 1000  # of a calibrated forecaster, which a real one is compared with
WORD = Word.CALIBRATION  # one kind of data after the other, then the tables
COLUMNS = ("true k on top", "P(top k)", "P(true k)", "points right", "confidence", "ECE of points")
DRAWS: dict[str, Callable[[np.random.Generator], LabelledSet]] = {
    **{f"mog {name}": partial(draw_mog, *of) for name, of in DAC_SIZES.items()},
    # Clusters of the printed scale are hopeless: no probabilities mean much there.
    **{
        f"crp {name} at {scale}": partial(draw_crp, *of, scale)
        for scale in list(CRP_SCALES)[:2]
        for name, of in SIZES.items()
    },
}
# Fresh tables of the kind that the judges of Clusterer were trained on (recipes/partition-judge.toml).
PRIOR = BroadPrior(uneven=0.2, plain=0.12, hierarchies=0.1)


def _table(index: int) -> Case:
    found = PRIOR.draw_table(generator_of(WORD, len(DRAWS), index))
    return Case(found.points, index, (found.labels,))


def scored(model: Any, case: Case) -> dict[str, float]:
    """What the probabilities of an estimator are worth."""
    (true,) = case.references
    kept = true >= 0  # without noise
    true = true[kept]
    right, confidence = matched_points(true, model.labels_[kept]), model.probabilities_[kept]
    k, posterior = len(np.unique(true)), model.k_posterior_
    top = min(posterior, key=lambda one: (-posterior[one], one))
    return {
        "true k on top": float(top == k),
        "P(top k)": float(posterior[top]),
        "P(true k)": float(posterior.get(k, 0.0)),
        "points right": float(right.mean()),
        "confidence": float(confidence.mean()),
        "ECE of points": expected_calibration_error(confidence, right),
    }


SCORED: dict[str, Any] = {"density": False, "more": scored}
METHODS = (
    *(FAMILIES[name].entry(name, **SCORED) for name in ("AMCP", "CHiGac", "DAC (anchored)", "ACT-ST")),
    *(replace(ours(name, **SCORED), group="networks") for name in ("GaussianSearch", "Clusterer")),
)


def k_error(rows: Rows, everything: Rows) -> str:
    """Expected calibration error of the most probable k, and that of a calibrated forecaster."""
    stated, right = (np.array(list(rows.values(name).values())) for name in ("P(top k)", "true k on top"))
    if not len(stated):
        return NOTHING
    draws = np.random.default_rng(0).random((N_FORECASTS, len(stated))) < stated
    calibrated = np.mean([expected_calibration_error(stated, drawn) for drawn in draws])
    return f"{expected_calibration_error(stated, right):.3f} ({calibrated:.3f})"


def calibration(quick: bool) -> Suite:
    n_sets = 5 if quick else 50
    draws = [partial(drawn, draw, WORD, place) for place, draw in enumerate(DRAWS.values())]
    data = [Data(name, draw, n_sets) for name, draw in zip(DRAWS, draws, strict=True)]
    data.append(Data("tables of the training prior", _table, 60 * n_sets, ("Clusterer",)))
    table = {"sets": sets, **{name: mean(name, 3) for name in COLUMNS}, "ECE of k": k_error}
    return Suite(data, METHODS, table, metrics=("k", "true k"), columns=COLUMNS)


SUITES = {"calibration": calibration}
