"""Many columns of one kind: embeddings and sparse matrices, normalized and reduced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.preprocessing import normalize

from clusterwise.exceptions import InvalidDataError

__all__ = ["Reduction", "fit_embedding", "fit_projection", "fit_sparse", "looks_like_embedding"]

# Fewer columns than this are no embedding.
LEAST_WIDTH = 32
# Lengths of the rows of an embedding differ by less than this share of their mean, and the spreads of its
# columns by less than this factor (90th to 10th percentile).
MOST_LENGTH_VARIATION = 0.1
MOST_SPREAD_RATIO = 10.0
ROWS_LOOKED_AT = 2000


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
    if d < LEAST_WIDTH or n < 2:
        return False
    # A share of the rows from all over the table; which ones matters little for so plain a question.
    some = points[:: max(1, n // ROWS_LOOKED_AT)]
    lengths = np.linalg.norm(some, axis=1)
    if not np.isfinite(lengths).all() or lengths.mean() == 0:
        return False
    low, high = np.quantile(some.std(axis=0), [0.1, 0.9])
    return bool(
        lengths.std() < MOST_LENGTH_VARIATION * lengths.mean() and low > 0 and high < MOST_SPREAD_RATIO * low
    )


def _with_unit_spread(projection: Any, normalized: bool, components: np.ndarray) -> Reduction:
    scale = float(components.std(axis=0).max())
    return Reduction(projection, normalized, scale if scale > 0 else 1.0)


def fit_embedding(points: np.ndarray, n_components: int, seed: int) -> Reduction:
    """Principal components of points (n, d) brought to unit length."""
    rows = normalize(points)
    projection = PCA(min(n_components, *points.shape), svd_solver="auto", random_state=seed)
    return _with_unit_spread(projection, True, projection.fit_transform(rows))


def fit_sparse(rows: Any, n_components: int, seed: int) -> Reduction:
    """Latent semantic analysis: singular vectors of a sparse matrix (n, d) whose rows have unit length."""
    if not np.isfinite(rows.data).all():
        raise InvalidDataError("X contains NaN or infinity in a sparse matrix; replace them first.")
    n_components = max(1, min(n_components, rows.shape[0] - 1, rows.shape[1] - 1))
    if rows.shape[1] == 1:
        raise InvalidDataError("X is a sparse matrix with one column; pass X.toarray().")
    projection = TruncatedSVD(n_components, random_state=seed)
    return _with_unit_spread(projection, True, projection.fit_transform(normalize(rows)))


def fit_projection(features: np.ndarray, n_components: int, seed: int) -> Reduction:
    """Principal components of features (n, f) as they are."""
    projection = PCA(min(n_components, *features.shape), svd_solver="auto", random_state=seed)
    return _with_unit_spread(projection, False, projection.fit_transform(features))
