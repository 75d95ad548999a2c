"""Measures of a partition that scikit-learn lacks."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, eye_array, hstack
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from scipy.spatial.distance import cdist
from sklearn.metrics import normalized_mutual_info_score

from clusterwise.exceptions import InvalidDataError
from clusterwise.partition import canonical_labels

__all__ = ["davies_bouldin", "k_error", "matched_accuracy", "matched_points", "nmi"]


def _two_labelings(y: ArrayLike, labels: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    true, found = canonical_labels(y), canonical_labels(labels)
    if len(true) != len(found):
        raise InvalidDataError(
            f"y and labels must name the same points; got {len(true)} and {len(found)} labels."
        )
    if len(true) == 0:
        raise InvalidDataError("y and labels are empty; pass at least one point.")
    return true, found


def matched_accuracy(y: ArrayLike, labels: ArrayLike) -> float:
    """The share of points that are right under the best one-to-one matching of clusters to classes.

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
    """Which points are right, (n,), under the matching of :func:`matched_accuracy`.

    Examples
    --------
    >>> matched_points([0, 0, 0, 1, 1], [7, 7, 5, 3, 3])
    array([ True,  True, False,  True,  True])
    """
    true, found = _two_labelings(y, labels)
    counts = coo_array((np.ones(len(true)), (true, found))).tocsr()
    # The solver wants every class matched. So each gets a private cluster without points; adding 1
    # to all weights makes those visible to it and, with one match per class, changes no optimum.
    counts.data += 1
    table = hstack([counts, eye_array(counts.shape[0])], format="csr")
    classes, clusters = min_weight_full_bipartite_matching(table, maximize=True)
    partners = np.full(table.shape[1], -1, dtype=np.int64)  # the class of each cluster
    partners[clusters] = classes
    return partners[found] == true


def k_error(y: ArrayLike, labels: ArrayLike) -> int:
    """The absolute difference of the numbers of classes and clusters.

    Examples
    --------
    >>> k_error([0, 0, 1, 1], [0, 1, 2, 3])
    2
    """
    true, found = _two_labelings(y, labels)
    return abs(int(true.max()) - int(found.max()))


def nmi(y: ArrayLike, labels: ArrayLike, average: Literal["geometric", "arithmetic"] = "geometric") -> float:
    """The mutual information of classes and clusters over the mean of their entropies.

    The papers on amortized clustering divide by the geometric mean, scikit-learn by default by
    the arithmetic one; say which one you report.

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
    """The Davies-Bouldin index: mean over clusters of the worst (a_k + a_j) / d(c_k, c_j).

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
