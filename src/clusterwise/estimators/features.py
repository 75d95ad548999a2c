"""The one place that scales, pads or projects the user's features to those that the weights take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from clusterwise._arrays import Scaling, fit_scaling
from clusterwise.exceptions import FeatureCountError

__all__ = ["FeatureMap", "fit_feature_map"]


@dataclass(frozen=True)
class FeatureMap:
    """An affine map from d features in the user's units to w features of unit spread, and back."""

    outer: Scaling  # on the d features of the user
    matrix: np.ndarray | None  # (d, w) with orthonormal columns or rows; None where d = w
    inner: Scaling  # on the w features of the network

    def apply(self, points: np.ndarray) -> np.ndarray:
        """Map points (n, d) to the network's features (n, w)."""
        scaled = self.outer.apply(points)
        if self.matrix is not None:
            scaled = scaled @ self.matrix
        return self.inner.apply(scaled)

    def undo(self, features: np.ndarray) -> np.ndarray:
        """Map the network's features (n, w) back to the user's units (n, d)."""
        scaled = self.inner.undo(features)
        if self.matrix is not None:
            scaled = scaled @ self.matrix.T
        return self.outer.undo(scaled)

    def undo_variances(self, variances: np.ndarray) -> np.ndarray:
        """Variances (K, w) of the network's features, as variances (K, d) in the user's units."""
        scaled = variances * np.square(self.inner.scale)
        if self.matrix is not None:
            scaled = scaled @ np.square(self.matrix.T)
        # One factor at a time: the square of a scale beyond 1e154 would overflow before its turn.
        return scaled * self.outer.scale * self.outer.scale

    @property
    def log_volume(self) -> float:
        """Log volume element of the map's inverse; a projection's density is one over its plane."""
        if self.matrix is None:
            return self.outer.log_volume + self.inner.log_volume
        # A common scale also acts on the plane; per-feature scales have no single effect there.
        return float(np.log(self.outer.scale).mean() * len(self.inner.scale)) + self.inner.log_volume


def fit_feature_map(
    points: np.ndarray,
    n_features: int,
    weights_name: str,
    projection: Literal["pca"] | None,
    scaling: Literal["joint", "feature"],
) -> FeatureMap:
    """Fit the map from points (n, d) to ``n_features`` features.

    Without ``projection`` d must equal ``n_features``. With "pca" more features are projected on
    their first principal components, and fewer are padded with zeros.
    """
    d = points.shape[1]
    if d != n_features and projection is None:
        raise FeatureCountError(
            f"X has {d} features, but the weights {weights_name!r} take {n_features}; select {n_features} "
            "columns, pass projection='pca', or use weights made for your number of features."
        )
    outer = fit_scaling(points, per_feature=scaling == "feature")
    if d == n_features:
        return FeatureMap(outer, None, Scaling(np.zeros(d), np.ones(d)))
    scaled = outer.apply(points)
    matrix = principal_axes(scaled, n_features) if d > n_features else np.eye(d, n_features)
    return FeatureMap(outer, matrix, fit_scaling(scaled @ matrix))


def principal_axes(points: np.ndarray, n_axes: int) -> np.ndarray:
    """First principal axes of centred points (n, d), as columns (d, n_axes), with fixed signs."""
    _, axes = np.linalg.eigh(points.T @ points / len(points))
    axes = axes[:, ::-1][:, :n_axes]
    largest = np.abs(axes).argmax(axis=0)
    return axes * np.where(axes[largest, np.arange(n_axes)] < 0, -1.0, 1.0)
