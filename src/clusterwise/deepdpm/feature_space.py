"""From the user's columns to the features that DeepDPM clusters, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from clusterwise.affine import AffineMap
from clusterwise.deepdpm.autoencoder import Autoencoder
from clusterwise.deepdpm.row_layout import Vary
from clusterwise.exceptions import ClusterwiseError

__all__ = ["LearnedSpace", "Variants", "pareto_scaled", "vary_features"]

# Draws a variant of each row (n, d) of the user's data.
Variants = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def pareto_scaled(columns: AffineMap) -> AffineMap:
    """The map in Pareto's units, from one to columns of unit variance.

    In these units a feature's standard deviation is the root of that in the data, relative to the others,
    and the variance is one on average. An isotropic prior in them is the authors' Psi, a multiple of the
    standard deviations.
    """
    spreads = columns.scale / columns.scale.max()
    return columns.stretched(np.sqrt(spreads / spreads.mean()))


@dataclass(frozen=True)
class LearnedSpace:
    """Features that an autoencoder makes of scaled columns; densities and covariances are theirs."""

    columns: AffineMap
    autoencoder: Autoencoder
    log_volume: ClassVar[float] = 0.0

    def apply(self, points: np.ndarray) -> np.ndarray:
        """Learned features (n, l) of points (n, d), each row on its own."""
        return self.autoencoder.encode(self.columns.apply(points))

    def inverse(self, features: np.ndarray) -> np.ndarray:
        """Points (n, d) that are decoded from learned features (n, l)."""
        return self.columns.inverse(self.autoencoder.decode(features))

    def covariances(self, of_features: np.ndarray) -> np.ndarray:
        """Covariances (K, l, l) of the learned features in their own units."""
        return of_features


def vary_features(columns: AffineMap, variants: Variants) -> Vary:
    """The user's variants as variants of scaled columns (n, f)."""

    def vary(features: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        points = columns.inverse(features)
        varied = np.asarray(variants(points, rng), dtype=np.float64)
        if varied.shape != points.shape or not np.isfinite(varied).all():
            raise ClusterwiseError(
                f"variants must return finite numbers of shape {points.shape}, one variant for each row; got "
                f"shape {varied.shape}."
            )
        return columns.apply(varied)

    return vary
