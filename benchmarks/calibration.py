"""How honest stated probabilities were over many data sets: figures with standard errors.

Calibration is a matter of many data sets. What one contributes are sums over bins of equal width, which
add up; standard errors come from leaving out one data set at a time, since the points of a data set are right
or wrong together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from benchmarks.summary import describe
from clusterwise.metrics import matched_points
from clusterwise.partition import canonical_labels

__all__ = [
    "N_BINS",
    "Curve",
    "Figure",
    "Record",
    "bin_sums",
    "calibration_error",
    "figures",
    "k_brier_score",
    "k_sums",
    "membership_brier_score",
    "pooled_curve",
    "wilson_errors",
]

N_BINS = 10
N_DRAWS = 1000  # of the calibrated forecaster that the error of a real one is compared with
NORMAL_95 = 1.96


@dataclass(frozen=True)
class Record:
    """One method on one data set."""

    true_k: int
    k_posterior: dict[int, float]
    membership_brier: float
    membership_sums: np.ndarray  # (3, N_BINS), see ``bin_sums``

    @property
    def top_k(self) -> int:
        """The most probable number of clusters; of equally probable ones the smallest."""
        return min(self.k_posterior, key=lambda k: (-self.k_posterior[k], k))

    @property
    def k_is_right(self) -> bool:
        """Whether the true number of clusters has the top probability."""
        return self.top_k == self.true_k


@dataclass(frozen=True)
class Figure:
    """A figure over data sets and its standard error."""

    value: float
    standard_error: float


@dataclass(frozen=True)
class Curve:
    """Stated against observed frequency, one entry per bin that holds something."""

    confidence: np.ndarray  # (bins,) mean confidence in the bin
    accuracy: np.ndarray  # (bins,) share that was right
    counts: np.ndarray  # (bins,) how many fell into it


# -- one data set --------------------------------------------------------------------------------------


def bin_sums(confidence: ArrayLike, right: ArrayLike) -> np.ndarray:
    """Return number of decisions, sum of confidences and number right per bin of equal width, (3, N_BINS)."""
    stated = np.clip(np.asarray(confidence, dtype=np.float64), 0.0, 1.0)
    bins = np.minimum((stated * N_BINS).astype(np.int64), N_BINS - 1)
    columns = (np.ones_like(stated), stated, np.asarray(right, dtype=np.float64))
    return np.stack([np.bincount(bins, weights=column, minlength=N_BINS) for column in columns])


def membership_brier_score(y: ArrayLike, membership: ArrayLike) -> float:
    """Return the Brier score of memberships (n, K), clusters matched to the classes y (n,) one to one.

    What is given to a cluster without a partner is wrong, and so is everything that is said about the points
    of a class without a partner. From 0 (sure and right) to 2 (sure and wrong).

    >>> membership_brier_score([0, 0, 1], [[0.0, 1.0], [0.0, 1.0], [0.5, 0.5]])
    0.16666666666666666
    """
    stated, true = np.asarray(membership, dtype=np.float64), canonical_labels(y)
    winners = stated.argmax(axis=1)
    found = canonical_labels(winners)  # the order of columns must not decide between equal matchings
    partners = np.full(stated.shape[1], -1, dtype=np.int64)  # a cluster that wins no point has none
    points = matched_points(true, found)  # every cluster with a partner has some
    partners[winners[points]] = true[points]
    right = partners == true[:, None]  # (n, K), at most one True in a row
    without_partner = ~right.any(axis=1)
    return float((np.square(stated - right).sum(axis=1) + without_partner).mean())


def k_brier_score(k_posterior: Mapping[int, float], k: int) -> float:
    """Return the Brier score of P(K) for one data set whose number of clusters is ``k``, from 0 to 2.

    >>> k_brier_score({3: 0.5, 4: 0.5}, 3), k_brier_score({3: 0.5, 4: 0.5}, 7)
    (0.5, 1.5)
    """
    values = {k: 0.0, **k_posterior}
    return sum((probability - (number == k)) ** 2 for number, probability in values.items())


# -- many data sets ------------------------------------------------------------------------------------


def k_sums(records: Sequence[Record]) -> np.ndarray:
    """Bin sums (S, 3, N_BINS) of the events "K is the most probable k", one decision per data set."""
    return np.stack([bin_sums([r.k_posterior[r.top_k]], [r.k_is_right]) for r in records])


def calibration_error(sums: np.ndarray) -> np.ndarray:
    """Expected calibration error of bin sums (..., 3, N_BINS)."""
    counts, confidence, right = np.moveaxis(sums, -2, 0)
    return np.abs(confidence - right).sum(axis=-1) / counts.sum(axis=-1)


def _overconfidence(sums: np.ndarray) -> np.ndarray:
    counts, confidence, right = np.moveaxis(sums, -2, 0)
    return (confidence - right).sum(axis=-1) / counts.sum(axis=-1)


def pooled_curve(sums: np.ndarray) -> tuple[Curve, np.ndarray]:
    """Pool bin sums (S, 3, N_BINS); return the curve and the standard errors (bins,) of its accuracies.

    A bin's accuracy is a ratio of sums over data sets; its error is that of its linearization.
    """
    counts, confidence, right = sums.sum(axis=0)
    used = np.flatnonzero(counts)
    accuracy = right[used] / counts[used]
    residuals = sums[:, 2, used] - accuracy * sums[:, 0, used]
    errors = np.sqrt(np.square(residuals).sum(axis=0)) / counts[used]
    return Curve(confidence[used] / counts[used], accuracy, counts[used]), errors


def wilson_errors(accuracy: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """95 % interval of each frequency (bins,) of independent decisions, as lengths down and up, (2, bins)."""
    z2 = NORMAL_95**2 / counts
    centre = (accuracy + z2 / 2) / (1 + z2)
    half = np.sqrt(z2 * (accuracy * (1 - accuracy) + z2 / 4)) / (1 + z2)
    return np.maximum([accuracy - (centre - half), centre + half - accuracy], 0.0)


def _with_jackknife(sums: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray]) -> Figure:
    """Figure of the pooled sums (S, 3, N_BINS), its error by leaving out one data set at a time."""
    total, n_sets = sums.sum(axis=0), len(sums)
    if n_sets < 2:
        return Figure(float(statistic(total)), float("nan"))
    without = statistic(total - sums)
    return Figure(float(statistic(total)), float(np.sqrt((n_sets - 1) * without.var())))


def _error_if_calibrated(sums: np.ndarray) -> Figure:
    """Mean and spread of the error of a calibrated forecaster that states the same confidences."""
    stated = sums[:, 1].sum(axis=1)  # one decision per data set
    right = np.random.default_rng(0).random((N_DRAWS, len(sums), 1)) < stated[:, None]
    counts, confidence = sums[:, 0].sum(axis=0), sums[:, 1].sum(axis=0)
    drawn = (right * sums[:, 0]).sum(axis=1)  # (N_DRAWS, N_BINS)
    errors = np.abs(confidence - drawn).sum(axis=1) / counts.sum()
    return Figure(float(errors.mean()), float(errors.std()))


def _mean(values: Sequence[float]) -> Figure:
    statistic = describe(values)
    return Figure(statistic.mean, statistic.standard_error)


def figures(records: Sequence[Record]) -> dict[str, Figure]:
    """All figures of one method over some data sets, at least one."""
    number = k_sums(records)
    membership = np.stack([r.membership_sums for r in records])
    return {
        "true k on top": _mean([float(r.k_is_right) for r in records]),
        "P(true k)": _mean([r.k_posterior.get(r.true_k, 0.0) for r in records]),
        "k ECE": _with_jackknife(number, calibration_error),
        "k ECE if calibrated": _error_if_calibrated(number),
        "k overconfidence": _with_jackknife(number, _overconfidence),
        "k Brier": _mean([k_brier_score(r.k_posterior, r.true_k) for r in records]),
        "membership ECE": _with_jackknife(membership, calibration_error),
        "membership overconfidence": _with_jackknife(membership, _overconfidence),
        "membership Brier": _mean([r.membership_brier for r in records]),
    }
