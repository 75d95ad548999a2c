"""The shared noun: a partition of n points, hard labels with optional soft memberships."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clusterwise._compiled import compiled
from clusterwise.exceptions import InvalidDataError

__all__ = ["Partition", "canonical_labels"]

# Rows of memberships that a network wrote in single precision sum to 1 about this closely.
ROW_SUM_TOLERANCE = 1e-5


def canonical_labels(labels: ArrayLike) -> NDArray[np.int64]:
    """Name the clusters 0..K-1 by first appearance, so that equal partitions have equal labels.

    Parameters
    ----------
    labels : array-like of shape (n,)
        Labels of any kind that can be sorted: integers with gaps, strings. No value is special;
        -1 names a cluster like any other.

    Returns
    -------
    ndarray of shape (n,), int64

    Examples
    --------
    >>> canonical_labels(["b", "a", "b", "c"])
    array([0, 1, 0, 2])
    """
    values = np.asarray(labels)
    if values.ndim != 1:
        raise InvalidDataError(f"labels must be a 1-D array, one label per point; got shape {values.shape}.")
    if values.dtype == np.int64 and len(values) > 0 and values.min() >= 0 and values.max() < len(values):
        renamed = np.empty_like(values)
        _rename(values, np.full(len(values), -1), renamed)
        return renamed
    try:
        _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    except TypeError as error:  # an object array that mixes kinds
        raise InvalidDataError("labels must all be of one kind, such as integers or strings.") from error
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


@compiled
def _rename(labels: NDArray[np.int64], names: NDArray[np.int64], renamed: NDArray[np.int64]) -> None:
    """The same for labels (n,) from 0 to n - 1, without sorting, to ``renamed``; ``names`` (n,) are -1."""
    k = 0
    for i in range(len(labels)):
        if names[labels[i]] < 0:
            names[labels[i]] = k
            k += 1
        renamed[i] = names[labels[i]]


def _with_strict_winner(memberships: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Raise the label's entry by one unit in the last place in rows where an earlier column ties with it.

    Reordering the columns would otherwise hand a tied row to another cluster.
    """
    lost = np.flatnonzero(memberships.argmax(axis=1) != labels)
    memberships[lost, labels[lost]] = np.nextafter(memberships[lost].max(axis=1), np.inf)
    return memberships


@dataclass(frozen=True, eq=False)
class Partition:
    """A partition of n points into K clusters.

    Parameters
    ----------
    labels : ndarray of shape (n,), int
        Canonical labels: 0..K-1 by first appearance (see :func:`canonical_labels`).
    memberships : ndarray of shape (n, K), optional
        Probability of each cluster for each point; rows sum to 1 and ``argmax(axis=1)`` is ``labels``.
    log_probability : float, optional
        Log-probability that the method gives to this partition, where it has one.

    Examples
    --------
    >>> partition = Partition(canonical_labels([7, 7, 2]))
    >>> partition.n_clusters, partition.sizes
    (2, array([2, 1]))
    """

    labels: NDArray[np.int64]
    memberships: NDArray[np.float64] | None = None
    log_probability: float | None = None

    def __post_init__(self) -> None:
        labels = np.asarray(self.labels)
        canonical = canonical_labels(labels)
        if len(canonical) == 0:
            raise InvalidDataError("a partition needs at least one point.")
        if not np.issubdtype(labels.dtype, np.integer) or np.any(canonical != labels):
            raise InvalidDataError(
                "labels must be integers 0..K-1 by first appearance; pass them through canonical_labels."
            )
        object.__setattr__(self, "labels", canonical)
        if self.memberships is not None:
            object.__setattr__(self, "memberships", self._checked_memberships(self.memberships))

    def _checked_memberships(self, memberships: ArrayLike) -> NDArray[np.float64]:
        values = np.asarray(memberships, dtype=np.float64)
        expected = (len(self.labels), self.n_clusters)
        if values.shape != expected:
            raise InvalidDataError(f"memberships must have shape (n, K) = {expected}; got {values.shape}.")
        if not np.all(values >= 0):  # false for NaN too
            raise InvalidDataError("memberships must be probabilities; some are negative or NaN.")
        if not np.all(np.abs(values.sum(axis=1) - 1) <= ROW_SUM_TOLERANCE):
            raise InvalidDataError("every row of memberships must sum to 1; divide each row by its sum.")
        if np.any(values.argmax(axis=1) != self.labels):
            raise InvalidDataError(
                "labels must be the largest membership of each row; use Partition.from_memberships."
            )
        return values

    @property
    def n_clusters(self) -> int:
        """Number of clusters K; each holds at least one point."""
        return int(self.labels.max()) + 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of points in each cluster, shape (K,)."""
        return np.bincount(self.labels).astype(np.int64, copy=False)

    @classmethod
    def from_memberships(cls, memberships: ArrayLike, log_probability: float | None = None) -> Self:
        """Give each point its most likely cluster.

        Clusters that are no row's most likely one are dropped, the others are named by first
        appearance, and the rows that are left are scaled to sum to 1. Ties go to the first column.

        Parameters
        ----------
        memberships : array-like of shape (n, columns)
            Non-negative weights, at least one positive in each row; they need not sum to 1.
        log_probability : float, optional
            Kept as it is.

        Examples
        --------
        >>> partition = Partition.from_memberships([[0.1, 0.2, 0.7], [0.5, 0.2, 0.3]])
        >>> partition.labels
        array([0, 1])
        >>> partition.memberships
        array([[0.875, 0.125],
               [0.375, 0.625]])
        """
        values = np.asarray(memberships, dtype=np.float64)
        if values.ndim != 2 or values.size == 0:
            raise InvalidDataError(f"memberships must be a non-empty (n, K) array; got shape {values.shape}.")
        if not np.all((values >= 0) & np.isfinite(values)):
            raise InvalidDataError("memberships must be finite and not negative.")
        largest = values.max(axis=1, keepdims=True)
        if not np.all(largest > 0):
            row = int(np.flatnonzero(largest == 0)[0])
            raise InvalidDataError(f"row {row} of memberships is all zero; give it a positive entry.")
        winners = values.argmax(axis=1)
        labels = canonical_labels(winners)
        # Columns that win no row are dropped; the others come in the order in which they first win one.
        columns, first = np.unique(winners, return_index=True)
        kept = values[:, columns[np.argsort(first)]]
        kept = kept / largest  # the winner is 1 now, so that the sum cannot overflow
        kept /= kept.sum(axis=1, keepdims=True)
        return cls(labels, _with_strict_winner(kept, labels), log_probability)
