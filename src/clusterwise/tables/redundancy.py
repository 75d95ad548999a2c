"""Features that say the same: how much each should count."""

from __future__ import annotations

import numpy as np

__all__ = ["redundancy_weights"]

# Features with correlations beyond this say the same thing.
SAME = 0.95
# Correlations cost the square of the number of features; beyond this many the projection sees to it.
MOST_FEATURES = 500


def redundancy_weights(features: np.ndarray) -> np.ndarray:
    """One over the root of how many features say the same as each, (f,); features (n, f) without gaps.

    Together they then weigh like one in distances; nothing is lost to methods that look at their differences.
    """
    n, f = features.shape
    if f < 2 or f > MOST_FEATURES or n < 3:
        return np.ones(f)
    # Ranks would be safer against outliers and ten times slower; values are clipped instead.
    clipped = np.clip(features, -4, 4)
    centred = clipped - clipped.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=0)
    centred /= np.where(lengths > 0, lengths, 1.0)
    alike = np.abs(centred.T @ centred) > SAME
    np.fill_diagonal(alike, True)
    if alike.all():  # to count all of them less changes nothing
        return np.ones(f)
    return np.asarray(1 / np.sqrt(alike.sum(axis=0)))
