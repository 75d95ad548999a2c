"""How honest probabilities are: those of decisions, of memberships and of the number of clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clusterwise.exceptions import InvalidDataError
from clusterwise.metrics import matched_points
from clusterwise.partition import ROW_SUM_TOLERANCE, canonical_labels

__all__ = [
    "ReliabilityCurve",
    "brier_score",
    "expected_calibration_error",
    "k_brier_score",
    "membership_brier_score",
    "reliability_curve",
    "top_k_hit_rate",
]


class ReliabilityCurve(NamedTuple):
    """Stated against observed frequency, one entry per bin that holds something."""

    confidence: NDArray[np.float64]  # (bins,) mean confidence in the bin
    accuracy: NDArray[np.float64]  # (bins,) share that was correct
    counts: NDArray[np.int64]  # (bins,) how many fell into it


def _bins(stated: NDArray[np.float64], n_bins: int, bins: str) -> NDArray[np.int64]:
    """Number the bin of each probability (m,)."""
    if bins == "width":
        return np.minimum((stated * n_bins).astype(np.int64), n_bins - 1)
    if bins == "count":
        starts = np.arange(1, n_bins) * len(stated) // n_bins
        # Equal probabilities share a bin, or the order of the decisions would decide.
        return np.searchsorted(np.sort(stated)[starts], stated, side="right")
    raise InvalidDataError(f"bins must be 'width' or 'count'; got {bins!r}.")


def reliability_curve(
    confidence: ArrayLike,
    correct: ArrayLike,
    n_bins: int = 15,
    bins: Literal["width", "count"] = "width",
) -> ReliabilityCurve:
    """Return stated confidence and observed accuracy in bins of equal width over [0, 1], or of equal count.

    Bins without a decision are left out. The last bin includes 1. Equal confidences share a bin, so that
    bins of equal count are only as equal as they allow.

    Parameters
    ----------
    confidence : array-like of shape (m,)
        Probability that was stated for each decision.
    correct : array-like of shape (m,)
        Whether the decision was right (bool, or 0 and 1).
    n_bins : int
    bins : {"width", "count"}

    Examples
    --------
    >>> curve = reliability_curve([0.5, 0.5, 1.0, 1.0], [1, 0, 1, 1], n_bins=2)
    >>> curve.counts, curve.accuracy
    (array([4]), array([0.75]))
    >>> reliability_curve([0.5, 0.6, 0.9, 1.0], [1, 0, 1, 1], n_bins=2, bins="count").counts
    array([2, 2])
    """
    stated = np.asarray(confidence, dtype=np.float64)
    right = np.asarray(correct, dtype=np.float64)
    if stated.ndim != 1 or stated.shape != right.shape:
        raise InvalidDataError(
            f"confidence and correct must be 1-D and equally long; got {stated.shape} and {right.shape}."
        )
    if len(stated) == 0:
        raise InvalidDataError("confidence and correct are empty; pass at least one decision.")
    if not np.all((stated >= 0) & (stated <= 1)):
        raise InvalidDataError("confidence must lie between 0 and 1.")
    if not np.all((right == 0) | (right == 1)):
        raise InvalidDataError("correct must hold booleans, or 0 and 1.")
    if n_bins < 1:
        raise InvalidDataError(f"n_bins must be at least 1; got {n_bins}.")
    places = _bins(stated, n_bins, bins)
    count = np.bincount(places, minlength=n_bins)
    used = np.flatnonzero(count)
    mean_confidence = np.bincount(places, weights=stated, minlength=n_bins)[used] / count[used]
    accuracy = np.bincount(places, weights=right, minlength=n_bins)[used] / count[used]
    return ReliabilityCurve(mean_confidence, accuracy, count[used].astype(np.int64, copy=False))


def expected_calibration_error(
    confidence: ArrayLike,
    correct: ArrayLike,
    n_bins: int = 15,
    bins: Literal["width", "count"] = "width",
) -> float:
    """Return the mean gap between stated confidence and accuracy, bins weighted by their counts.

    Parameters are those of :func:`reliability_curve`. It is never negative, so that even a calibrated
    forecaster scores about the standard error of a bin's accuracy: compare with that, not with zero.

    Examples
    --------
    >>> round(expected_calibration_error([0.9, 0.9, 0.9, 0.9], [1, 1, 1, 0]), 4)
    0.15
    """
    curve = reliability_curve(confidence, correct, n_bins, bins)
    gaps = np.abs(curve.confidence - curve.accuracy)
    return float(np.average(gaps, weights=curve.counts))


def _distributions(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Check rows of probabilities (m, C)."""
    stated = np.asarray(values, dtype=np.float64)
    if stated.size == 0:
        raise InvalidDataError(f"{name} are empty; pass at least one forecast.")
    if not (np.all(stated >= 0) and np.all(np.abs(stated.sum(axis=1) - 1) <= ROW_SUM_TOLERANCE)):
        raise InvalidDataError(f"every row of {name} must be non-negative and sum to 1.")
    return stated


def brier_score(probabilities: ArrayLike, outcomes: ArrayLike) -> float:
    """Return the mean squared distance between stated probabilities and what happened.

    The sum over all C classes, so from 0 (sure and right) to 2 (sure and wrong).

    Parameters
    ----------
    probabilities : array-like of shape (m, C)
        Rows sum to 1.
    outcomes : array-like of int of shape (m,)
        The class that happened, 0..C-1.

    Examples
    --------
    >>> brier_score([[1.0, 0.0], [0.5, 0.5]], [0, 1])
    0.25
    """
    stated = np.asarray(probabilities, dtype=np.float64)
    happened = np.asarray(outcomes)
    if stated.ndim != 2 or happened.shape != stated.shape[:1]:
        raise InvalidDataError(
            f"probabilities must be (m, C) and outcomes (m,); got {stated.shape} and {happened.shape}."
        )
    stated = _distributions(stated, "probabilities")
    n_classes = stated.shape[1]
    if not np.issubdtype(happened.dtype, np.integer) or np.any((happened < 0) | (happened >= n_classes)):
        raise InvalidDataError(f"outcomes must be integers between 0 and {n_classes - 1}.")
    difference = stated - (np.arange(n_classes) == happened[:, None])
    return float(np.square(difference).sum(axis=1).mean())


def membership_brier_score(y: ArrayLike, membership: ArrayLike) -> float:
    """Return the Brier score of memberships, clusters matched to classes as in ``matched_accuracy``.

    What is given to a cluster without a partner is wrong, and so is everything that is said about the
    points of a class without a partner. From 0 (sure and right) to 2 (sure and wrong).

    Parameters
    ----------
    y : array-like of shape (n,)
        Classes under any names.
    membership : array-like of shape (n, K)
        Rows sum to 1. Each point counts for its largest entry when clusters are matched.

    Examples
    --------
    >>> membership_brier_score([0, 0, 1], [[0.0, 1.0], [0.0, 1.0], [0.5, 0.5]])
    0.16666666666666666
    """
    stated = np.asarray(membership, dtype=np.float64)
    true = canonical_labels(y)
    if stated.ndim != 2 or len(stated) != len(true):
        raise InvalidDataError(
            f"membership must be (n, K) with one row per label; got {stated.shape} and {len(true)} labels."
        )
    stated = _distributions(stated, "membership")
    winners = stated.argmax(axis=1)
    found = canonical_labels(winners)  # the order of columns must not decide between equal matchings
    partners = np.full(stated.shape[1], -1, dtype=np.int64)  # a cluster that wins no point has none
    points = matched_points(true, found)  # every cluster with a partner has some
    partners[winners[points]] = true[points]
    right = partners == true[:, None]  # (n, K), at most one True in a row
    without_partner = ~right.any(axis=1)
    return float((np.square(stated - right).sum(axis=1) + without_partner).mean())


def _ranked(k_posterior: Mapping[int, float]) -> list[int]:
    """Return the numbers of clusters from the most to the least probable; of equals the smaller first."""
    _distributions([list(k_posterior.values())], "k_posterior")
    return sorted(k_posterior, key=lambda k: (-k_posterior[k], k))


def k_brier_score(k_posterior: Mapping[int, float], k: int) -> float:
    """Return the Brier score of P(K) for one data set whose number of clusters is ``k``, from 0 to 2.

    Examples
    --------
    >>> k_brier_score({3: 0.5, 4: 0.5}, 3), k_brier_score({3: 0.5, 4: 0.5}, 7)
    (0.5, 1.5)
    """
    values = {number: float(k_posterior[number]) for number in _ranked(k_posterior)}
    values.setdefault(k, 0.0)
    return sum((probability - (number == k)) ** 2 for number, probability in values.items())


def top_k_hit_rate(
    k_posteriors: Sequence[Mapping[int, float]], numbers: Sequence[int], top: int = 1
) -> float:
    """Return how often the true number of clusters is among the ``top`` most probable ones.

    Of equally probable numbers the smaller comes first.

    Parameters
    ----------
    k_posteriors : sequence of mappings from k to its probability, one per data set
    numbers : sequence of int
        The true numbers of clusters.
    top : int

    Examples
    --------
    >>> top_k_hit_rate([{3: 0.2, 4: 0.8}, {2: 1.0}], [3, 2]), top_k_hit_rate([{3: 0.2, 4: 0.8}], [3], top=2)
    (0.5, 1.0)
    """
    if len(k_posteriors) != len(numbers) or len(numbers) == 0:
        raise InvalidDataError(
            "k_posteriors and numbers must be equally long and not empty; "
            f"got {len(k_posteriors)} and {len(numbers)}."
        )
    if top < 1:
        raise InvalidDataError(f"top must be at least 1; got {top}.")
    hits = [k in _ranked(p)[:top] for p, k in zip(k_posteriors, numbers, strict=True)]
    return float(np.mean(hits))
