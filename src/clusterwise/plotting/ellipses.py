"""One ellipse per cluster: where about nine tenths of a Gaussian cluster lie."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

__all__ = ["Ellipse", "empirical_ellipses", "gaussian_ellipses"]

N_SDS = 2.0


@dataclass(frozen=True)
class Ellipse:
    """Centre (2,), half axes (2,) and the angle of the first one in degrees."""

    centre: np.ndarray
    half_axes: np.ndarray
    angle: float = 0.0


def gaussian_ellipses(means: np.ndarray, covariances: np.ndarray) -> list[Ellipse]:
    """Return the 2-sd ellipses of Gaussians with means (K, 2) and covariances (K, 2, 2)."""
    return [_ellipse(mean, covariance) for mean, covariance in zip(means, covariances, strict=True)]


def empirical_ellipses(points: np.ndarray, labels: np.ndarray) -> list[Ellipse]:
    """Return the 2-sd ellipse of the points (n, 2) of each cluster; none for clusters below 3 points."""
    ellipses = []
    for label in range(int(labels.max()) + 1):
        members = points[labels == label]
        centre = members.mean(axis=0)
        largest = np.abs(members - centre).max()
        if len(members) >= 3 and largest > 0:
            scaled = (members - centre) / largest  # squares of huge values would overflow
            ellipse = _ellipse(centre, scaled.T @ scaled / len(scaled))
            ellipses.append(replace(ellipse, half_axes=largest * ellipse.half_axes))
    return ellipses


def _ellipse(centre: np.ndarray, covariance: np.ndarray) -> Ellipse:
    largest = np.abs(covariance).max()
    unit = largest if largest > 0 else 1.0
    variances, directions = np.linalg.eigh(covariance / unit)
    half_axes = N_SDS * np.sqrt(unit) * np.sqrt(np.maximum(variances[::-1], 0.0))
    angle = float(np.degrees(np.arctan2(directions[1, 1], directions[0, 1])))
    return Ellipse(centre, half_axes, angle)
