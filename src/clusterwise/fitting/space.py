"""Where the clusters are, with the way there from the user's columns, and back."""

from __future__ import annotations

from typing import Protocol

import numpy as np

__all__ = ["FARTHEST", "FeatureSpace"]

# Points farther out than this count as lying there: their squared distances must not overflow.
FARTHEST = 1e140


class FeatureSpace(Protocol):
    """A map from the user's d columns to f features of about unit spread, and back."""

    @property
    def log_volume(self) -> float:
        """A log density in data units is that of the features minus this."""

    def apply(self, points: np.ndarray) -> np.ndarray:
        """Features (n, f) of points (n, d), each row on its own."""

    def undo(self, features: np.ndarray) -> np.ndarray:
        """Points (n, d) with the given features (n, f)."""

    def undo_covariances(self, covariances: np.ndarray) -> np.ndarray:
        """Covariances (K, f, f) of features in the units that the user sees."""
