"""How good a partition is, and how honest its probabilities are: what scikit-learn lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, eye_array, hstack
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from scipy.spatial.distance import cdist
from sklearn.metrics import normalized_mutual_info_score

from clusterwise.exceptions import InvalidDataError
from clusterwise.partition import ROW_SUM_TOLERANCE, canonical_labels

__all__ = [
    "ReliabilityCurve",
    "brier_score",
    "davies_bouldin",
    "expected_calibration_error",
    "k_brier_score",
    "k_error",
    "matched_accuracy",
    "matched_points",
    "membership_brier_score",
    "nmi",
    "reliability_curve",
    "top_k_hit_rate",
]


class ReliabilityCurve(NamedTuple):
    """Stated against observed frequency, one entry per bin that holds something."""

    confidence: NDArray[np.float64]  # (bins,) mean confidence in the bin
    accuracy: NDArray[np.float64]  # (bins,) share that was correct
    counts: NDArray[np.int64]  # (bins,) how many fell into it


def _two_labelings(y: ArrayLike, labels: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    true, found = canonical_labels(y), canonical_labels(labels)
    if len(true) != len(found):
        raise InvalidDataError(
            f"y and labels must name the same points; got {len(true)} and {len(found)} labels."
        )
    if len(true) == 0:
        raise InvalidDataError("y and labels are empty; pass at least one point.")
    return true, found


def _partners(true: NDArray[np.int64], found: NDArray[np.int64]) -> NDArray[np.int64]:
    """Match clusters 0..K-1 to classes 0..C-1 one to one; return each cluster's class, (K,), or -1."""
    counts = coo_array((np.ones(len(true)), (true, found))).tocsr()
    # The solver wants every class matched. So each gets a private cluster without points; adding 1
    # to all weights makes those visible to it and, with one match per class, changes no optimum.
    counts.data += 1
    n_clusters = counts.shape[1]
    table = hstack([counts, eye_array(counts.shape[0])], format="csr")
    classes, clusters = min_weight_full_bipartite_matching(table, maximize=True)
    partners = np.full(n_clusters, -1, dtype=np.int64)
    partners[clusters[clusters < n_clusters]] = classes[clusters < n_clusters]
    return partners


def matched_accuracy(y: ArrayLike, labels: ArrayLike) -> float:
    """Return the share of points that are right under the best one-to-one matching of clusters to classes.

    The table of classes and clusters may be rectangular: with more clusters than classes, the
    points of clusters without a partner count as wrong, and the other way round. It is kept
    sparse, so that memory stays linear in the number of points.

    Parameters
    ----------
    y, labels : array-like of shape (n,)
        Classes and clusters under any names.

    Examples
    --------
    >>> matched_accuracy([0, 0, 1, 1], [5, 5, 3, 3])
    1.0
    >>> matched_accuracy([0, 0, 1, 1], [0, 1, 2, 2])
    0.75
    """
    return float(matched_points(y, labels).mean())


def matched_points(y: ArrayLike, labels: ArrayLike) -> NDArray[np.bool_]:
    """Return which points are right, (n,), under the matching of :func:`matched_accuracy`.

    Examples
    --------
    >>> matched_points([0, 0, 0, 1, 1], [7, 7, 5, 3, 3])
    array([ True,  True, False,  True,  True])
    """
    true, found = _two_labelings(y, labels)
    return _partners(true, found)[found] == true


def k_error(y: ArrayLike, labels: ArrayLike) -> int:
    """Return the absolute difference of the numbers of classes and clusters.

    Examples
    --------
    >>> k_error([0, 0, 1, 1], [0, 1, 2, 3])
    2
    """
    true, found = _two_labelings(y, labels)
    return abs(int(true.max()) - int(found.max()))


def nmi(y: ArrayLike, labels: ArrayLike, average: Literal["geometric", "arithmetic"] = "geometric") -> float:
    """Return the mutual information of classes and clusters over the mean of their entropies.

    The papers on amortized clustering divide by the geometric mean, scikit-learn by default by
    the arithmetic one; name the one in use beside the figure.

    Examples
    --------
    >>> round(nmi([0, 0, 1, 1], [0, 1, 2, 2]), 4)
    0.8165
    >>> round(nmi([0, 0, 1, 1], [0, 1, 2, 2], average="arithmetic"), 4)
    0.8
    """
    if average not in ("geometric", "arithmetic"):
        raise InvalidDataError(f"average must be 'geometric' or 'arithmetic'; got {average!r}.")
    true, found = _two_labelings(y, labels)
    return float(normalized_mutual_info_score(true, found, average_method=average))


def _unit_rows(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    if not np.all(largest > 0):
        raise InvalidDataError(
            "the cosine distance is not defined for a point or a cluster mean at the origin; "
            "use metric='euclidean'."
        )
    vectors = vectors / largest  # first, so that squares neither overflow nor vanish
    lengths: NDArray[np.float64] = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / lengths


def davies_bouldin(
    X: ArrayLike, labels: ArrayLike, metric: Literal["cosine", "euclidean"] = "cosine"
) -> float:
    """Return the Davies-Bouldin index: mean over clusters of the worst (a_k + a_j) / d(c_k, c_j).

    a_k is the mean distance of a cluster's points to its mean c_k. Smaller is better. Both
    distances are of the kind that ``metric`` names; the cosine distance is 1 minus the cosine.
    For ``metric="euclidean"`` this is scikit-learn's ``davies_bouldin_score``, except that two
    clusters with the same mean give infinity, not zero.

    Parameters
    ----------
    X : array-like of shape (n, d)
    labels : array-like of shape (n,)
        From 2 to n - 1 clusters.

    Examples
    --------
    >>> X = [[0.0, 1.0], [0.0, 3.0], [8.0, 1.0], [8.0, 3.0]]
    >>> davies_bouldin(X, [0, 0, 1, 1], metric="euclidean")
    0.25
    >>> round(davies_bouldin(X, [0, 0, 1, 1], metric="cosine"), 4)
    0.0091
    """
    points = np.asarray(X, dtype=np.float64)
    found = canonical_labels(labels)
    if points.ndim != 2 or len(points) != len(found):
        raise InvalidDataError(
            f"X must be (n, d) with one row per label; got shape {points.shape} and {len(found)} labels."
        )
    if not np.all(np.isfinite(points)):
        raise InvalidDataError("X holds NaN or infinity; remove or fill those rows.")
    sizes = np.bincount(found)
    if not 2 <= len(sizes) < len(points):
        raise InvalidDataError(
            "the Davies-Bouldin index needs from 2 to n - 1 clusters; "
            f"got {len(sizes)} for {len(points)} points."
        )
    belongs = coo_array((np.ones(len(points)), (found, np.arange(len(points)))))  # (K, n)
    centres = (belongs @ points) / sizes[:, None]
    if metric == "cosine":
        points, centres = _unit_rows(points), _unit_rows(centres)
        # For unit vectors 1 - cos is half the squared distance, which does not cancel when it is small.
        to_centre = 0.5 * np.square(points - centres[found]).sum(axis=1)
        between = 0.5 * cdist(centres, centres, "sqeuclidean")
    elif metric == "euclidean":
        to_centre = np.linalg.norm(points - centres[found], axis=1)
        between = cdist(centres, centres)
    else:
        raise InvalidDataError(f"metric must be 'cosine' or 'euclidean'; got {metric!r}.")
    spread = np.bincount(found, weights=to_centre) / sizes
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = (spread[:, None] + spread) / between
    ratios[np.isnan(ratios)] = np.inf  # 0 / 0: two clusters at the very same spot
    np.fill_diagonal(ratios, -np.inf)
    return float(ratios.max(axis=1).mean())


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
    """Return the Brier score of memberships, clusters matched to classes as in :func:`matched_accuracy`.

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
    partners[winners] = _partners(true, found)[found]
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
