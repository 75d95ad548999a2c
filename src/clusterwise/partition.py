"""A partition of n points, hard labels with optional soft memberships; and many, sampled from a posterior."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from clusterwise.exceptions import InvalidDataError

__all__ = ["Partition", "PartitionPosterior", "canonical_labels", "variation_of_information"]

# Rows of memberships that a network wrote in single precision sum to 1 about this closely.
ROW_SUM_TOLERANCE = 1e-5
MAX_COCLUSTERING = 20_000  # points; the matrix of this many takes 3.2 GB
# Samples that all others are compared with to find those which may be the consensus, and how many these are.
MAX_COMPARED, MAX_FINALISTS = 64, 16
ROWS_AT_ONCE = 256  # keeps the temporary array of coclustering small compared with its result


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
        first = np.full(int(values.max()) + 1, len(values))
        first[values[::-1]] = np.arange(len(values))[::-1]  # the last one that is written stays
        names = np.empty(len(first), dtype=np.int64)
        names[np.argsort(first, kind="stable")] = np.arange(len(first))
        return names[values]
    try:
        _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    except TypeError as error:  # an object array that mixes kinds
        raise InvalidDataError("labels must all be of one kind, such as integers or strings.") from error
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


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
                "labels must be the largest membership of each row; number the columns as the labels are."
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


# -- many partitions --------------------------------------------------------------------------------


def _joint_counts(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """The cells of the contingency table, in no special order; memory is linear in n."""
    width = int(second.max()) + 1
    cells = first * width + second
    n_cells = (int(first.max()) + 1) * width
    if n_cells > 4 * len(cells):  # a dense table of two partitions into singletons would be n x n
        return np.asarray(np.unique(cells, return_counts=True)[1], dtype=np.int64)
    return np.bincount(cells, minlength=n_cells).astype(np.int64, copy=False)


def _sum_of_c_log_c(counts: NDArray[np.int64]) -> float:
    return float(xlogy(counts, counts).sum())


def _information_distance(
    first: NDArray[np.int64], second: NDArray[np.int64], own_terms: tuple[float, float]
) -> float:
    joint = _sum_of_c_log_c(_joint_counts(first, second))
    return max(0.0, (own_terms[0] + own_terms[1] - 2 * joint) / len(first))


def variation_of_information(first: ArrayLike, second: ArrayLike) -> float:
    """The Variation of Information between two partitions of the same points, in nats.

    VI(A, B) = H(A | B) + H(B | A) is a metric on partitions: 0 when they are equal, at most log n
    (Meila, 2007, Comparing clusterings).

    Examples
    --------
    >>> variation_of_information([0, 0, 1, 1], [5, 5, 3, 3])
    0.0
    >>> round(variation_of_information([0, 0, 1, 1], [0, 0, 0, 0]), 4)  # log 2
    0.6931
    """
    a, b = canonical_labels(first), canonical_labels(second)
    if len(a) != len(b) or len(a) == 0:
        raise InvalidDataError(
            f"both partitions must label the same points; got {len(a)} and {len(b)} labels."
        )
    return _information_distance(a, b, (_sum_of_c_log_c(np.bincount(a)), _sum_of_c_log_c(np.bincount(b))))


@dataclass(frozen=True, eq=False)
class PartitionPosterior:
    """S partitions of the same n points, drawn from a posterior over partitions.

    Parameters
    ----------
    labels : ndarray of shape (S, n), int
        One partition per row, in any names; kept in canonical ones (0..K-1 by first appearance).
    weights : ndarray of shape (S,), optional
        Weight of each sample, not negative; equal when left out. Kept scaled to sum to 1.

    Examples
    --------
    >>> posterior = PartitionPosterior(np.array([[0, 0, 1], [4, 4, 2], [0, 1, 2], [0, 0, 0]]))
    >>> posterior.k_posterior
    {1: 0.25, 2: 0.5, 3: 0.25}
    >>> posterior.coclustering()[0]
    array([1.  , 0.75, 0.25])
    >>> posterior.consensus().labels
    array([0, 0, 1])
    """

    labels: NDArray[np.int64]
    weights: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        labels = np.asarray(self.labels)
        if labels.ndim != 2 or labels.size == 0 or not np.issubdtype(labels.dtype, np.integer):
            raise InvalidDataError(
                "labels must be a non-empty integer array of shape (samples, points); "
                f"got shape {labels.shape} of {labels.dtype}."
            )
        object.__setattr__(self, "labels", np.stack([canonical_labels(row) for row in labels]))
        if self.weights is None:
            return
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.shape != labels.shape[:1]:
            raise InvalidDataError(
                f"weights must hold one number per sample, {len(labels)} here; got shape {weights.shape}."
            )
        if not np.all((weights >= 0) & np.isfinite(weights)) or not np.any(weights > 0):
            raise InvalidDataError(
                "weights must be finite and not negative, and at least one must be positive."
            )
        weights = weights / weights.max()  # first, so that the sum cannot overflow
        object.__setattr__(self, "weights", weights / weights.sum())

    @property
    def n_samples(self) -> int:
        """Number of sampled partitions S."""
        return len(self.labels)

    @property
    def n_points(self) -> int:
        """Number of points n."""
        return int(self.labels.shape[1])

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """Probability of each sample, shape (S,); 1 / S each when no weights were given."""
        if self.weights is None:
            return np.full(self.n_samples, 1 / self.n_samples)
        return self.weights

    @property
    def k_posterior(self) -> dict[int, float]:
        """Probability of each number of clusters that was sampled, sorted by k."""
        by_k = np.bincount(self.labels.max(axis=1) + 1, weights=self.probabilities)
        return {int(k): float(by_k[k]) for k in np.flatnonzero(by_k)}

    def __len__(self) -> int:
        return self.n_samples

    def __iter__(self) -> Iterator[Partition]:
        """Iterate over the sampled partitions, with multiplicity."""
        return (Partition(row) for row in self.labels)

    def coclustering(self, rows: ArrayLike | None = None) -> NDArray[np.float64]:
        """The probability that two points share a cluster.

        Parameters
        ----------
        rows : array-like of int of shape (m,), or boolean mask of shape (n,), optional
            The points to compare; all of them when left out. More than 20,000 are refused, since
            the result grows with their square.

        Returns
        -------
        ndarray of shape (m, m)
            Symmetric, with ones on the diagonal.
        """
        labels = self.labels if rows is None else self.labels[:, self._row_numbers(rows)]
        m = labels.shape[1]
        if m > MAX_COCLUSTERING:
            raise InvalidDataError(
                f"a co-clustering matrix of {m:,} points would not fit in memory; "
                f"pass rows= with at most {MAX_COCLUSTERING:,} of them."
            )
        result = np.zeros((m, m))
        for start in range(0, m, ROWS_AT_ONCE):
            block = result[start : start + ROWS_AT_ONCE]
            for sample, probability in zip(labels, self.probabilities, strict=True):
                together = sample[start : start + ROWS_AT_ONCE, None] == sample
                block += probability * together
        np.fill_diagonal(result, 1.0)  # the probabilities sum to 1 only up to rounding
        return np.minimum(result, 1.0, out=result)

    def _row_numbers(self, rows: ArrayLike) -> NDArray[np.int64]:
        chosen = np.asarray(rows)
        if chosen.dtype == bool and chosen.shape == (self.n_points,):
            return np.flatnonzero(chosen)
        if chosen.ndim != 1 or not np.issubdtype(chosen.dtype, np.integer):
            raise InvalidDataError(
                "rows must be a 1-D array of row numbers, or a boolean mask of all points."
            )
        if np.any((chosen < 0) | (chosen >= self.n_points)):
            raise InvalidDataError(f"rows must lie between 0 and {self.n_points - 1}.")
        return chosen.astype(np.int64, copy=False)

    def consensus(self) -> Partition:
        """The sampled partition that is closest to all samples.

        The one with the least expected Variation of Information to the posterior; the first of
        them when several are equally close. We take this loss rather than Binder's because the
        latter favours additional tiny clusters (Wade & Ghahramani, 2018, Bayesian cluster
        analysis). Each comparison of two samples costs O(n) time; no n x n matrix is built. Of more than 64
        different samples only those that are closest to 64 of them, spread evenly, are compared with all.
        """
        distinct, probabilities = self._distinct()
        own = [_sum_of_c_log_c(np.bincount(labels)) for labels in distinct]

        def expected_losses(chosen: NDArray, among: NDArray, weights: NDArray) -> NDArray[np.float64]:
            distances = [
                [_information_distance(distinct[i], distinct[j], (own[i], own[j])) for j in among]
                for i in chosen
            ]
            return np.asarray(np.array(distances) @ weights)

        everything = chosen = np.arange(len(distinct))
        if len(distinct) > MAX_COMPARED:
            evenly = (np.arange(MAX_COMPARED) + 0.5) / MAX_COMPARED
            some = np.minimum(np.searchsorted(probabilities.cumsum(), evenly), len(distinct) - 1)
            chosen = np.sort(
                np.argsort(expected_losses(everything, some, np.ones(MAX_COMPARED)), kind="stable")[
                    :MAX_FINALISTS
                ]
            )
        return Partition(distinct[chosen[expected_losses(chosen, everything, probabilities).argmin()]])

    def _distinct(self) -> tuple[list[NDArray[np.int64]], NDArray[np.float64]]:
        """The different partitions in order of first appearance, and their probabilities."""
        index_of: dict[bytes, int] = {}
        index = [index_of.setdefault(row.tobytes(), len(index_of)) for row in self.labels]
        _, first = np.unique(index, return_index=True)
        probabilities = np.bincount(index, weights=self.probabilities).astype(np.float64, copy=False)
        return [self.labels[i] for i in first], probabilities
