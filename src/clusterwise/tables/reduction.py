"""Features of all columns together: imputation, weights of redundant ones, very many projected onto few."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.preprocessing import normalize

from clusterwise._threads import in_threads
from clusterwise.exceptions import InvalidDataError
from clusterwise.neighbours import nearest_in

__all__ = [
    "Imputer",
    "Reduction",
    "fit_reduction",
    "looks_like_embedding",
    "redundancy_weights",
]

N_NEIGHBOURS = 5  # whose mean replaces a missing value
# Rows that the others are compared with; more cost time and hardly change the neighbours' mean.
MAX_DONORS = 2000
# The nearest of them, among which nearly always enough have a value, and distances in memory at a time.
N_NEAREST, BLOCK = 24, 1_000_000
# Features with correlations beyond this are redundant.
REDUNDANT = 0.95
# Correlations cost the square of the number of features; beyond this many the projection sees to it.
MAX_CORRELATED = 500
# Fewer columns than this are no embedding. Lengths of the rows of one differ by less than this share of their
# mean, and the spreads of its columns by less than this factor (90th to 10th percentile).
MIN_WIDTH = 32
MAX_LENGTH_VARIATION = 0.1
MAX_SPREAD_RATIO = 10.0
ROWS_LOOKED_AT = 2000


@dataclass(frozen=True)
class Imputer:
    """Replaces missing values by the mean of the nearest donors that have one.

    Distances are those over the columns that two rows both have, for each column (Dixon, 1979).
    """

    donors: np.ndarray  # (m, f), NaN where missing

    @classmethod
    def of(cls, features: np.ndarray, seed: int) -> Imputer:
        """One whose donors are some of the rows of features (n, f) with NaN; no column is empty."""
        if len(features) <= MAX_DONORS:
            return cls(features.copy())
        # In an order of their own: which rows are drawn does not depend on how the table was sorted.
        order = np.lexsort(np.nan_to_num(features).T[::-1])
        drawn = np.random.default_rng(seed).choice(len(features), MAX_DONORS, replace=False)
        donors = features[order[np.sort(drawn)]]
        empty = np.flatnonzero(np.isnan(donors).all(axis=0))
        if len(empty) > 0:  # one more row for each
            donors = np.concatenate([donors, features[(~np.isnan(features[:, empty])).argmax(axis=0)]])
        return cls(donors)

    def fill(self, features: np.ndarray) -> None:
        """Fill in features (n, f)."""
        rows = np.flatnonzero(np.isnan(features).any(axis=1))
        size = max(1, BLOCK // max(self.donors.shape))

        def fill(part: np.ndarray) -> None:
            features[part] = self._filled(features[part])

        in_threads(fill, (rows[start : start + size] for start in range(0, len(rows), size)))

    def _filled(self, rows: np.ndarray) -> np.ndarray:
        """Rows (n, f) with what was missing."""
        known, has = ~np.isnan(rows), ~np.isnan(self.donors)
        filled, values = np.nan_to_num(rows), np.nan_to_num(self.donors)
        distances = np.hstack([np.square(filled), known, -2 * filled]) @ np.hstack([has, values**2, values]).T
        common = known.astype(float) @ has.T
        with np.errstate(invalid="ignore"):
            distances = np.maximum(distances, 0, out=distances)
            distances /= common
        distances[common == 0] = np.inf
        places, columns = np.nonzero(~known)
        nearest, near = nearest_in(distances, min(N_NEAREST, len(values)))
        nearest, near = nearest[places], near[places]
        used = has[nearest, columns[:, None]] & np.isfinite(near)
        few = np.flatnonzero(used.sum(axis=1) < N_NEIGHBOURS)
        if len(few) > 0 and nearest.shape[1] < len(values):
            with_value = np.where(has.T[columns[few]], distances[places[few]], np.inf)
            nearest[few, :N_NEIGHBOURS], near[few, :N_NEIGHBOURS] = nearest_in(with_value, N_NEIGHBOURS)
            used[few] = np.isfinite(near[few]) & (np.arange(nearest.shape[1]) < N_NEIGHBOURS)
        used &= used.cumsum(axis=1) <= N_NEIGHBOURS
        counts = used.sum(axis=1)
        means = (values[nearest, columns[:, None]] * used).sum(axis=1) / np.maximum(counts, 1)
        overall = values.sum(axis=0) / np.maximum(has.sum(axis=0), 1)  # where no donor has a column in common
        filled[places, columns] = np.where(counts > 0, means, overall[columns])
        return filled


def redundancy_weights(features: np.ndarray) -> np.ndarray:
    """One over the root of how many features are redundant with each, (f,); features (n, f) without NaN.

    Together they then weigh like one in distances; nothing is lost to methods that look at their differences.
    """
    n, f = features.shape
    if f < 2 or f > MAX_CORRELATED or n < 3:
        return np.ones(f)
    # Ranks would be safer against outliers and ten times slower; values are clipped instead.
    clipped = np.clip(features, -4, 4)
    centred = clipped - clipped.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=0)
    centred /= np.where(lengths > 0, lengths, 1.0)
    alike = np.abs(centred.T @ centred) > REDUNDANT
    np.fill_diagonal(alike, True)
    if alike.all():  # to count all of them less changes nothing
        return np.ones(f)
    return np.asarray(1 / np.sqrt(alike.sum(axis=0)))


@dataclass(frozen=True)
class Reduction:
    """Normalize rows, project them, and divide by one number."""

    projection: Any  # fitted PCA or TruncatedSVD
    normalized: bool
    scale: float

    @property
    def n_features(self) -> int:
        """Number of components."""
        return len(self.projection.components_)

    def apply(self, rows: Any) -> np.ndarray:
        """Components (n, f) of rows (n, d), dense or sparse."""
        if self.normalized:
            rows = normalize(rows)
        return np.asarray(self.projection.transform(rows)) / self.scale


def looks_like_embedding(points: np.ndarray) -> bool:
    """Whether points (n, d) are many dense columns of similar scales with rows of nearly equal length."""
    n, d = points.shape
    if d < MIN_WIDTH or n < 2:
        return False
    # A share of the rows from all over the table; which ones matters little for so plain a question.
    some = points[:: max(1, n // ROWS_LOOKED_AT)]
    lengths = np.linalg.norm(some, axis=1)
    if not np.isfinite(lengths).all() or lengths.mean() == 0:
        return False
    low, high = np.quantile(some.std(axis=0), [0.1, 0.9])
    return bool(
        lengths.std() < MAX_LENGTH_VARIATION * lengths.mean() and low > 0 and high < MAX_SPREAD_RATIO * low
    )


def fit_reduction(rows: Any, n_components: int, seed: int, *, normalized: bool) -> Reduction:
    """Principal components of rows (n, d), brought to unit length first if ``normalized``.

    Those of a sparse matrix are its singular vectors: latent semantic analysis.
    """
    if scipy.sparse.issparse(rows):
        if not np.isfinite(rows.data).all():
            raise InvalidDataError("X contains NaN or infinity in a sparse matrix; replace them first.")
        if rows.shape[1] == 1:
            raise InvalidDataError("X is a sparse matrix with one column; pass X.toarray().")
        n_components = max(1, min(n_components, rows.shape[0] - 1, rows.shape[1] - 1))
        projection = TruncatedSVD(n_components, random_state=seed)
    else:
        projection = PCA(min(n_components, *rows.shape), random_state=seed)
    components = projection.fit_transform(normalize(rows) if normalized else rows)
    return Reduction(projection, normalized, float(components.std(axis=0).max()) or 1.0)
