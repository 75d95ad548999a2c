"""Do Gaussian clusters describe what they were fitted to? What can be seen of it in a few milliseconds.

Each check is about one way in which the description fails, looks at no more than ``MAX_ROWS`` rows, and is
silent on mixtures of Gaussians, overlapping ones included.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy.special import chdtri, logsumexp

from clusterwise.exceptions import (
    BentClustersWarning,
    CorrelatedColumnsWarning,
    DiscreteColumnsWarning,
    HeavyTailsWarning,
    MisfitWarning,
    OneGaussianWarning,
    SeveralGroupsWarning,
    SkewedClustersWarning,
    ValuesFollowedWarning,
)
from clusterwise.fitting.gaps import groups_without_gap, n_far_rows, valley
from clusterwise.fitting.protocol import Clustering
from clusterwise.gaussian.sorted_rows import SortedRows
from clusterwise.tables.encoding import choose_transform

__all__ = ["check_fit", "find_misfits", "find_misfits_of_any_shape"]

MAX_ROWS = 1000
MIN_ROWS = 50
# Between two clusters there is no gap if the density never falls below this share of the lower peak. One
# cluster of two heaps is one where it falls below the second share.
NO_GAP = 0.85
TWO_HEAPS = 0.4
MAX_CLUSTERS = 40
# More clusters than this in a row without any gap are pieces of something else.
MAX_WITHOUT_GAP = 5
# Another scale of a column must be better by this many nats for each thousand rows.
MIN_GAIN = 30.0
# A column with no more different values than this, which are constant within the clusters of this many rows.
FEW_VALUES = 12
FOLLOWED = 0.5
# Expected share of rows beyond the limit, and how many of them are too many.
FAR = 1e-3
TOO_MANY = 0.03
MIN_FAR = 10
# Correlation within a cluster that a diagonal covariance must not pass over.
CORRELATED = 0.6
MAX_FEATURES = 50  # beyond, covariances take too long for a check


def check_fit(
    rows: SortedRows, found: Clustering, labels: np.ndarray, names: Sequence[str] | None
) -> list[MisfitWarning]:
    """What clusters fail to describe of rows with labels (n,); ``names`` (d,) of the user's columns."""
    n = len(rows)
    some = slice(None) if n <= MAX_ROWS else np.linspace(0, n - 1, MAX_ROWS).astype(np.int64)
    if found.check is None:
        return []
    features, labels, covariance_type = rows.rows.take(some), labels[some], found.density.covariance_type
    if found.check == "any shape" or covariance_type is None:
        return find_misfits_of_any_shape(features, labels, names)
    full, compared = covariance_type == "full", found.check == "compared"
    return find_misfits(features, labels, rows.space.inverse, full=full, compared=compared, names=names)


def find_misfits(
    features: np.ndarray,
    labels: np.ndarray,
    undo: Callable[[np.ndarray], np.ndarray] = np.asarray,
    *,
    full: bool = True,
    compared: bool = False,
    names: Sequence[str] | None = None,
) -> list[MisfitWarning]:
    """What is wrong with clusters, one sentence each with what to try.

    Parameters
    ----------
    features : ndarray of shape (n, f)
        Rows in the space of the clusters, of about unit spread; at most ``MAX_ROWS`` rows.
    labels : ndarray of shape (n,)
        0 to K - 1.
    undo : callable
        Brings rows (m, f) back to the units of the user, (m, d).
    full : bool
        Whether clusters may be correlated.
    compared : bool
        Whether the clusters were compared with fewer of them by their evidence.
    names : sequence of d str, optional
        Names of the user's columns.
    """
    if len(labels) < MIN_ROWS:
        return []
    if names is None:
        names = [f"column {place}" for place in range(undo(features[:1]).shape[1])]
    order = np.argsort(labels, kind="stable")
    rows = np.ascontiguousarray(features[order])  # those of one cluster stand together
    sizes = np.bincount(labels)
    bounds = np.concatenate([[0], sizes[sizes > 0].cumsum()])
    found = list(_followed_values(features, labels, names))
    if found:  # what values make of the other checks is not worth a word
        return found
    found += _far_rows(rows, bounds, full)
    clusters = [rows[start:end] for start, end in itertools.pairwise(bounds)]
    if not full:
        found += _correlated_members(clusters)
    if len(clusters) == 1:
        return found + list(_heaps(features))
    return found + list(_pieces(clusters, len(labels), compared, _skewed_columns(features, undo, names)))


def find_misfits_of_any_shape(
    features: np.ndarray, labels: np.ndarray, names: Sequence[str] | None = None
) -> list[MisfitWarning]:
    """What is wrong with clusters that need not be Gaussian; see ``find_misfits`` for the arguments.

    Values that repeat, one cluster of several heaps, and one Gaussian in parts are wrong all the same.
    """
    if len(labels) < MIN_ROWS:
        return []
    names = [f"column {place}" for place in range(features.shape[1])] if names is None else list(names)
    found = list(_followed_values(features, labels, names, max_groups=1))
    if found:
        return found
    clusters = [features[labels == label] for label in np.unique(labels)]
    if len(clusters) == 1:
        return list(_heaps(features))
    return list(_parts_of_one_gaussian(clusters, len(labels)))


# -- single checks --------------------------------------------------------------------------------


def _has_few_values(column: np.ndarray) -> bool:
    return len(set(column[: 4 * FEW_VALUES].tolist())) <= FEW_VALUES


def _followed_values(
    features: np.ndarray, labels: np.ndarray, names: Sequence[str], max_groups: int = MAX_WITHOUT_GAP
) -> Iterator[MisfitWarning]:
    """Clusters that are no more than the values of a column; over ``max_groups`` where all are few-valued."""
    if labels.max() == 0 or features.shape[1] != len(names):
        return
    few = [_has_few_values(column) for column in features.T]
    if not any(few):
        return
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
    sizes = np.diff(starts, append=len(labels))
    if all(few) and len(sizes) > max_groups:
        yield DiscreteColumnsWarning(n_clusters=len(sizes))
        return
    followed = [
        (name, len(np.unique(column)))
        for name, column, has_few in zip(names, features.T, few, strict=True)
        if has_few and _is_followed(column[order], starts, sizes)
    ]
    if followed:
        yield ValuesFollowedWarning(columns=[name for name, _ in followed], n_values=followed[0][1])


def _is_followed(column: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> bool:
    """Whether most rows of a few-valued column (n,), cluster after cluster, are in clusters of one value.

    Of a value that most rows have anyway, as pixels at a margin are black, this says nothing: most rows with
    other values must be in clusters of one value, too.
    """
    values, counts = np.unique(column, return_counts=True)
    if not 1 < len(values) <= FEW_VALUES:
        return False
    usual = values[counts.argmax()]
    constant = np.minimum.reduceat(column, starts) == np.maximum.reduceat(column, starts)
    constant &= sizes > 1
    unusual = constant & (column[starts] != usual)
    rare = len(column) - counts.max()
    return bool(sizes[constant].sum() > FOLLOWED * len(column) and sizes[unusual].sum() > FOLLOWED * rare)


def _far_rows(rows: np.ndarray, bounds: np.ndarray, full: bool) -> Iterator[MisfitWarning]:
    """More rows far from their own cluster than Gaussians have."""
    f = rows.shape[1]
    far = n_far_rows(
        rows, bounds, max(MIN_ROWS, 5 * (f + 1)), full, float(chdtri(f, 0.5)), float(chdtri(f, FAR))
    )
    share = far / len(rows)
    if share > TOO_MANY and far >= MIN_FAR:
        yield HeavyTailsWarning(share=share, expected=FAR)


def _correlated_members(clusters: Sequence[np.ndarray]) -> Iterator[MisfitWarning]:
    """Correlations that diagonal or spherical covariances pass over."""
    strongest = 0.0
    for members in clusters:
        if len(members) < MIN_ROWS:
            continue
        deviations = members.std(axis=0)
        varying = members[:, deviations > 1e-9]
        if varying.shape[1] > 1:
            correlations = np.abs(np.corrcoef(varying.T)) - np.eye(varying.shape[1])
            strongest = max(strongest, float(correlations.max()))
    if strongest > CORRELATED:
        yield CorrelatedColumnsWarning(correlation=strongest)


def _heaps(features: np.ndarray) -> Iterator[MisfitWarning]:
    """One cluster that falls into groups along a column or a principal axis."""
    if any(_has_few_values(column) for column in features.T):
        return  # values that repeat are heaps, too
    centred = features - features.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    for values in (*features.T[:20], *(centred @ axes[:3].T).T):
        depth = valley(np.ascontiguousarray(values))
        if depth < TWO_HEAPS:
            yield SeveralGroupsWarning(depth=depth)
            return


def _skewed_columns(
    features: np.ndarray, undo: Callable[[np.ndarray], np.ndarray], names: Sequence[str]
) -> Iterator[str]:
    for values, name in zip(undo(features).T[:20], names, strict=False):
        if choose_transform(values)[1] > MIN_GAIN * len(values) / 1000:
            yield name


def _pieces(
    clusters: Sequence[np.ndarray], n: int, compared: bool, skewed_columns: Iterator[str]
) -> Iterator[MisfitWarning]:
    """Clusters that run into each other without a gap: parts of a Gaussian, a skewed or a bent cloud."""
    for members in _groups_without_gap(clusters):
        share = sum(len(clusters[k]) for k in members) / n
        skewed = list(itertools.islice(skewed_columns, 3)) if share > FOLLOWED else []
        if not compared and _is_one_gaussian([clusters[k] for k in members]):
            yield OneGaussianWarning(n_clusters=len(members), share=share)
        elif skewed:
            yield SkewedClustersWarning(n_clusters=len(members), share=share, columns=skewed)
        elif len(members) > MAX_WITHOUT_GAP:
            yield BentClustersWarning(n_clusters=len(members), share=share)


def _parts_of_one_gaussian(clusters: Sequence[np.ndarray], n: int) -> Iterator[MisfitWarning]:
    """Clusters without a gap between them that one Gaussian describes better."""
    for members in _groups_without_gap(clusters):
        if _is_one_gaussian([clusters[k] for k in members]):
            share = sum(len(clusters[k]) for k in members) / n
            yield OneGaussianWarning(n_clusters=len(members), share=share)


def _groups_without_gap(clusters: Sequence[np.ndarray]) -> list[list[int]]:
    """Groups of at least two clusters, each without a gap to another one of its group."""
    if len(clusters) > MAX_CLUSTERS:
        return []
    bounds = np.concatenate([[0], np.cumsum([len(members) for members in clusters])])
    group_of = groups_without_gap(np.ascontiguousarray(np.concatenate(clusters)), bounds, NO_GAP)
    return [np.flatnonzero(group_of == group).tolist() for group in np.flatnonzero(np.bincount(group_of) > 1)]


# -- tools ------------------------------------------------------------------------------------------


def _scatter(centred: np.ndarray) -> np.ndarray:
    return np.asarray(centred.T @ centred)


def _root_of_covariance(centred: np.ndarray) -> np.ndarray:
    """Cholesky factor (f, f) of the covariance of centred rows, with a little added to its diagonal."""
    n, f = centred.shape
    covariance = _scatter(centred) / n
    covariance.flat[:: f + 1] += max(1e-6 * float(np.trace(covariance)) / f, 1e-9)
    return np.asarray(np.linalg.cholesky(covariance))


def _squared_lengths(rows: np.ndarray) -> np.ndarray:
    return np.asarray(np.square(rows).sum(axis=1))


def _is_one_gaussian(parts: Sequence[np.ndarray]) -> bool:
    """Whether one Gaussian describes all parts (n_k, f) better than one for each, by BIC."""
    union = np.concatenate(parts)
    n, f = union.shape
    if n < max(MIN_ROWS, 5 * f) or f > MAX_FEATURES:
        return False
    each = [np.log(len(part) / n) + _log_gaussian(union, part) for part in parts]
    gain = float(logsumexp(each, axis=0).sum() - _log_gaussian(union, union).sum())
    n_parameters = (len(parts) - 1) * (f * (f + 3) / 2 + 1)
    return gain < n_parameters / 2 * np.log(n)


def _log_gaussian(rows: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Log density of rows (n, f) under the Gaussian of members (m, f); constants left out."""
    mean = members.mean(axis=0)
    root = _root_of_covariance(members - mean)
    return -0.5 * _squared_lengths(np.linalg.solve(root, (rows - mean).T).T) - np.log(np.diag(root)).sum()
