"""Data sets whose clusters are known."""

from __future__ import annotations

import numpy as np

from clusterwise.gaussian.mixture import Sample
from clusterwise.gaussian.niw import CovarianceType

__all__ = ["heaps", "sample_of"]


def sample_of(points: np.ndarray, covariance_type: CovarianceType = "full") -> Sample:
    """Points centred and brought to unit spread."""
    points = points - points.mean(axis=0)
    return Sample(points / np.sqrt(np.square(points).mean()), covariance_type)


def heaps(sizes: list[int], gap: float, d: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Round clusters of unit width in a row, ``gap`` apart: points, sorted by one feature, and labels."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    points = rng.standard_normal((len(labels), d))
    points[:, 0] += gap * labels
    order = np.lexsort(points.T[::-1])
    return points[order], labels[order]
