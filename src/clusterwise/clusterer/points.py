"""Columns in comparable units, and not too many of them, before distances are measured."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from clusterwise.affine import fit_scaling

__all__ = ["Projection", "fit_projection", "in_one_unit", "reduced", "standardized"]

# From this many columns on, with spreads no more unequal than this, they count as measured in one unit:
# pixels, counts, coordinates of an embedding. Small ones are then small for a reason.
COLUMNS_OF_ONE_UNIT = 16
MOST_UNEQUAL = 10.0
# Distances are taken between at most this many leading principal components.
MOST_COMPONENTS = 50


def in_one_unit(points: np.ndarray) -> bool:
    """Whether the columns of points (n, d) seem to have one unit."""
    if points.shape[1] < COLUMNS_OF_ONE_UNIT:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        spreads = points.std(axis=0)
    spreads = spreads[spreads > 0]
    if len(spreads) == 0 or not np.isfinite(spreads).all():
        return False
    low, high = np.quantile(spreads, [0.25, 0.75])  # some pixels hardly vary
    return bool(high <= MOST_UNEQUAL * low)


def standardized(points: np.ndarray) -> np.ndarray:
    """Points (n, d), each column with unit spread, or all together if they have one unit."""
    return fit_scaling(points, per_feature=not in_one_unit(points)).apply(points)


@dataclass(frozen=True)
class Projection:
    """From features (n, f) to the points that distances are taken between."""

    centre: np.ndarray = field(default_factory=lambda: np.zeros(1))  # (f,)
    vectors: np.ndarray | None = (
        None  # (f, MOST_COMPONENTS) leading directions; None: features are few enough
    )

    def apply(self, features: np.ndarray) -> np.ndarray:
        """Points (n, at most MOST_COMPONENTS), each row on its own."""
        if self.vectors is None:
            return features
        return (features - self.centre) @ self.vectors


def fit_projection(features: np.ndarray) -> Projection:
    """Leading principal components of features (n, f); themselves if they are few."""
    centre = features.mean(axis=0)
    if features.shape[1] <= MOST_COMPONENTS:
        return Projection(centre, None)
    centred = features - centre
    _, vectors = np.linalg.eigh(centred.T @ centred)
    return Projection(centre, np.ascontiguousarray(vectors[:, ::-1][:, :MOST_COMPONENTS]))


def reduced(features: np.ndarray) -> np.ndarray:
    """Points of features (n, f) by their own principal components."""
    return fit_projection(features).apply(features)
