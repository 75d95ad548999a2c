"""Do Gaussian clusters describe what they were fitted to? What can be seen of it in a few milliseconds.

Each check is about one way in which the description fails, looks at no more than ``MAX_ROWS`` rows, and is
silent on mixtures of Gaussians, overlapping ones included.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import chdtri, logsumexp

from clusterwise.affine import AffineMap
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
from clusterwise.fitting.protocol import Clustering
from clusterwise.rows.sorted_rows import SortedRows
from clusterwise.tables.encoding import choose_transform

__all__ = ["check_fit", "find_misfits", "find_misfits_of_any_shape", "valley"]

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
MAX_CORRELATED = 500  # columns that are looked at for it
MAX_FEATURES = 50  # beyond, covariances take too long for a check
# Bins of a density along a line; valleys that cut off a smaller share of the values do not count.
N_BINS, MIN_MASS = 128, 0.05
# Each cluster is compared with its nearest others, this many, if both have enough rows.
N_NEIGHBOURS, MIN_MEMBERS = 2, 5


def check_fit(
    rows: SortedRows, found: Clustering, labels: np.ndarray, names: Sequence[str] | None
) -> list[MisfitWarning]:
    """What clusters fail to describe of rows with labels (n,); ``names`` (d,) of the user's columns."""
    if not isinstance(rows.space, AffineMap):  # in learned features clusters may look like anything
        return []
    n = len(rows)
    some = slice(None) if n <= MAX_ROWS else np.linspace(0, n - 1, MAX_ROWS).astype(np.int64)
    features, labels = rows.rows.take(some), labels[some]
    columns, covariance_type = rows.space.inverse(features), found.density.covariance_type
    if covariance_type is None or found.any_shape:
        return find_misfits_of_any_shape(features, labels, names)
    # A network compares no evidences of clusters that could be one.
    full, compared = covariance_type == "full", found.weights_name is None
    return find_misfits(features, labels, columns, full=full, compared=compared, names=names)


def find_misfits(
    features: np.ndarray,
    labels: np.ndarray,
    columns: np.ndarray | None = None,
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
    columns : ndarray of shape (n, d), optional
        The same rows in the units of the user; None: features are the columns.
    full : bool
        Whether clusters may be correlated.
    compared : bool
        Whether the clusters were compared with fewer of them by their evidence.
    names : sequence of d str, optional
        Names of the user's columns.
    """
    if len(labels) < MIN_ROWS:
        return []
    columns = features if columns is None else columns
    if names is None:
        names = [f"column {place}" for place in range(columns.shape[1])]
    clusters = [features[labels == label] for label in np.unique(labels)]
    found = list(_followed_values(features, labels, names))
    if found:  # what values make of the other checks is not worth a word
        return found
    found += _far_rows(clusters, full)
    if not full:
        found += _correlated_members(clusters)
    if len(clusters) == 1:
        return found + list(_heaps(features))
    return found + list(_pieces(clusters, len(labels), compared, _skewed_columns(columns, names)))


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
    modal = values[counts.argmax()]
    constant = np.minimum.reduceat(column, starts) == np.maximum.reduceat(column, starts)
    constant &= sizes > 1
    deviating = constant & (column[starts] != modal)
    rare = len(column) - counts.max()
    return bool(sizes[constant].sum() > FOLLOWED * len(column) and sizes[deviating].sum() > FOLLOWED * rare)


def _far_rows(clusters: Sequence[np.ndarray], full: bool) -> Iterator[MisfitWarning]:
    """More rows far from their own cluster than Gaussians have.

    Extreme rows widen the covariance that they are measured by; the median is safe from them.
    """
    far, f = 0, clusters[0].shape[1]
    for members in clusters:
        if len(members) < max(MIN_ROWS, 5 * (f + 1)):
            continue
        centred = members - members.mean(axis=0)
        if full:
            lengths = _squared_lengths(np.linalg.solve(_root_of_covariance(centred), centred.T).T)
        else:
            variances = np.square(centred).mean(axis=0)
            lengths = _squared_lengths(centred / np.sqrt(np.where(variances > 0, variances, 1.0)))
        scale = chdtri(f, 0.5) / max(float(np.median(lengths)), 1e-300)
        far += int(np.count_nonzero(lengths * scale > chdtri(f, FAR)))
    share = far / sum(map(len, clusters))
    if share > TOO_MANY and far >= MIN_FAR:
        yield HeavyTailsWarning(share=share, expected=FAR)


def _correlated_members(clusters: Sequence[np.ndarray]) -> Iterator[MisfitWarning]:
    """Correlations that diagonal or spherical covariances pass over."""
    strongest = 0.0
    for members in clusters:
        if len(members) < MIN_ROWS:
            continue
        some = members[:, :: -(-members.shape[1] // MAX_CORRELATED)]
        varying = some[:, some.std(axis=0) > 1e-9]
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
        depth = valley(values)
        if depth < TWO_HEAPS:
            yield SeveralGroupsWarning(depth=depth)
            return


def _skewed_columns(columns: np.ndarray, names: Sequence[str]) -> Iterator[str]:
    for values, name in zip(columns.T[:20], names, strict=False):
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
    if clusters[0].shape[1] > MAX_FEATURES:
        return
    for members in _groups_without_gap(clusters):
        if _is_one_gaussian([clusters[k] for k in members]):
            share = sum(len(clusters[k]) for k in members) / n
            yield OneGaussianWarning(n_clusters=len(members), share=share)


def _groups_without_gap(clusters: Sequence[np.ndarray]) -> list[list[int]]:
    """Groups of at least two clusters, each without a gap to another one of its group."""
    k = len(clusters)
    if k > MAX_CLUSTERS:
        return []
    if clusters[0].shape[1] > sum(map(len, clusters)):  # the same distances in n dimensions
        rotated = np.linalg.qr(np.concatenate(clusters).T)[1].T
        clusters = np.split(rotated, np.cumsum([len(members) for members in clusters])[:-1])
    means = np.stack([members.mean(axis=0) for members in clusters])
    scatters = [_scatter(members - mean) for members, mean in zip(clusters, means, strict=True)]
    distances = np.square(means[:, None] - means).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    group = np.arange(k)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :N_NEIGHBOURS]
    for i, j in ((i, j) for i, others in enumerate(nearest.tolist()) for j in others):
        sizes = len(clusters[i]), len(clusters[j])
        if group[i] == group[j] or min(sizes) < MIN_MEMBERS:
            continue
        pooled = (scatters[i] + scatters[j]) / sum(sizes)
        pooled.flat[:: len(pooled) + 1] += 1e-9 * max(1.0, float(np.trace(pooled)))
        line = np.linalg.solve(pooled, means[j] - means[i])  # along it they are parted best
        if valley(np.concatenate([clusters[i] @ line, clusters[j] @ line])) > NO_GAP:
            group[group == max(group[i], group[j])] = min(group[i], group[j])
    return [np.flatnonzero(group == one).tolist() for one in np.flatnonzero(np.bincount(group) > 1)]


# -- tools ------------------------------------------------------------------------------------------


def valley(values: np.ndarray) -> float:
    """Depth of the deepest valley of a density of values (n,), as a share of the lower of the two peaks.

    1 if there is no valley; valleys that cut off less than 5 % of the values do not count.
    """
    n, low, high = len(values), values.min(), values.max()
    lower, upper = np.partition(values, [n // 4, (3 * n) // 4])[[n // 4, (3 * n) // 4]]
    spread = min(values.std(), (upper - lower) / 1.349) if upper > lower else values.std()
    if not 0 < spread < np.inf or high - low > 1e6 * spread:
        return 1.0
    width = 1.06 * spread * n**-0.2  # Silverman's rule
    step = (high - low + 2 * width) / (N_BINS - 1)
    counts = np.bincount(((values - low + width) / step + 0.5).astype(np.int64), minlength=N_BINS)
    reach = min(math.ceil(3 * width / step), N_BINS // 2 - 1)
    kernel = np.exp(-0.5 * np.square(np.arange(-reach, reach + 1) / max(width / step, 0.5)))
    density = np.convolve(counts, kernel / kernel.sum(), "same")
    peaks = np.minimum(np.maximum.accumulate(density), np.maximum.accumulate(density[::-1])[::-1])
    below = counts.cumsum() / n
    inside = (below > MIN_MASS) & (below < 1 - MIN_MASS)
    return float(np.min(density[inside] / peaks[inside], initial=1.0))


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
