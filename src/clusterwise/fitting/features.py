"""The one place that scales, pads or projects the user's features to those that the weights take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from sklearn.utils.extmath import randomized_svd

from clusterwise._arrays import Scaling, fit_scaling
from clusterwise.fitting.space import FARTHEST

__all__ = ["FeatureMap", "fit_feature_map", "pad_features", "principal_axes"]

# Exact principal axes cost the cube of the number of features; beyond this many they are approximated.
MOST_FEATURES_FOR_EXACT_AXES = 500


@dataclass(frozen=True)
class FeatureMap:
    """An affine map from d features in the user's units to f = min(d, w) of unit spread, and back.

    w is the number of features that the network takes. Where d < w the network sees zeros next to
    the features, and all else (summaries, densities, distances) goes without them.
    """

    outer: Scaling  # on the d features of the user
    matrix: np.ndarray | None  # (d, f) with orthonormal columns; None where d <= w
    inner: Scaling  # on the f features of the network

    def apply(self, points: np.ndarray) -> np.ndarray:
        """Map points (n, d) to the network's features (n, f); each row on its own."""
        with np.errstate(over="ignore"):  # a new point may lie as far out as it likes
            scaled = self.outer.apply(np.ascontiguousarray(points))
        np.minimum(np.maximum(scaled, -FARTHEST, out=scaled), FARTHEST, out=scaled)
        if self.matrix is not None:
            # No matrix product: each row must come out the same whatever the other rows are.
            scaled = np.stack([(scaled * axis).sum(axis=1) for axis in self.matrix.T], axis=1)
        return self.inner.apply(scaled)

    def undo(self, features: np.ndarray) -> np.ndarray:
        """Map the network's features (n, f) back to the user's units (n, d)."""
        scaled = self.inner.undo(features)
        if self.matrix is not None:
            scaled = scaled @ self.matrix.T
        return self.outer.undo(scaled)

    def undo_covariances(self, covariances: np.ndarray) -> np.ndarray:
        """Covariances (K, f, f) of the network's features, as covariances (K, d, d) in the user's units."""
        scaled = covariances * self.inner.scale[:, None] * self.inner.scale
        if self.matrix is not None:
            scaled = self.matrix @ scaled @ self.matrix.T
        # One factor at a time: the square of a scale beyond 1e154 would overflow before its turn.
        return scaled * self.outer.scale[:, None] * self.outer.scale

    @property
    def log_volume(self) -> float:
        """Log volume element of the map's inverse; a projection's density is one over its plane."""
        if self.matrix is None:
            return self.outer.log_volume + self.inner.log_volume
        # A common scale also acts on the plane; per-feature scales have no single effect there.
        return float(np.log(self.outer.scale).mean() * len(self.inner.scale)) + self.inner.log_volume


def fit_feature_map(
    points: np.ndarray, n_features: int, scaling: Literal["joint", "feature"] = "joint"
) -> FeatureMap:
    """Fit the map from points (n, d) to at most ``n_features`` features.

    More features are projected on their first principal components; fewer stay what they are, see
    ``pad_features``.
    """
    d = points.shape[1]
    outer = fit_scaling(points, per_feature=scaling == "feature")
    if d <= n_features:
        # Together with the zeros of the padding the features have unit spread.
        return FeatureMap(outer, None, Scaling(np.zeros(d), np.full(d, np.sqrt(d / n_features))))
    scaled = FeatureMap(outer, principal_axes(outer.apply(points), n_features), _identity(n_features))
    return FeatureMap(outer, scaled.matrix, fit_scaling(scaled.apply(points)))


def _identity(n_features: int) -> Scaling:
    return Scaling(np.zeros(n_features), np.ones(n_features))


def pad_features(features: np.ndarray, n_features: int) -> np.ndarray:
    """Append zeros to features (n, f), as many as are missing for a network that takes ``n_features``."""
    n_missing = n_features - features.shape[1]
    return np.pad(features, ((0, 0), (0, n_missing))) if n_missing > 0 else features


def principal_axes(points: np.ndarray, n_axes: int) -> np.ndarray:
    """First principal axes of centred points (n, d), as columns (d, n_axes), with fixed signs.

    Where n < n_axes the axes that no point reaches are zero.
    """
    d = points.shape[1]
    if d <= MOST_FEATURES_FOR_EXACT_AXES:
        _, axes = np.linalg.eigh(points.T @ points / len(points))
        axes = axes[:, ::-1][:, :n_axes]
    else:
        axes = randomized_svd(points, n_axes, n_iter=7, random_state=0)[2].T
        axes = np.pad(axes, ((0, 0), (0, n_axes - axes.shape[1])))
    # Of entries that are equal up to rounding the first decides, not the rounding.
    sizes = np.abs(axes)
    largest = (sizes > (1 - 1e-6) * sizes.max(axis=0)).argmax(axis=0)
    return axes * np.where(axes[largest, np.arange(n_axes)] < 0, -1.0, 1.0)
