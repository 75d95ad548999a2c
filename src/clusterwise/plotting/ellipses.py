"""One ellipse per cluster: where about nine tenths of a Gaussian cluster lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterwise.plotting.plane import principal_directions

__all__ = ["Ellipse", "diagonal_ellipses", "empirical_ellipses"]

N_SDS = 2.0


@dataclass(frozen=True)
class Ellipse:
    """Centre (2,), half axes (2,) and the angle of the first one in degrees."""

    centre: np.ndarray
    half_axes: np.ndarray
    angle: float = 0.0


def diagonal_ellipses(means: np.ndarray, variances: np.ndarray) -> list[Ellipse]:
    """Return the 2-sd ellipses of diagonal Gaussians with means and variances (K, 2)."""
    return [Ellipse(mean, N_SDS * sds) for mean, sds in zip(means, np.sqrt(variances), strict=True)]


def empirical_ellipses(points: np.ndarray, labels: np.ndarray) -> list[Ellipse]:
    """Return the 2-sd ellipse of the points (n, 2) of each cluster; none for clusters below 3 points."""
    ellipses = []
    for label in range(int(labels.max()) + 1):
        members = points[labels == label]
        if len(members) < 3:
            continue
        centre = members.mean(axis=0)
        largest = np.abs(members - centre).max()
        if largest == 0:
            continue
        variances, directions = principal_directions((members - centre) / largest)
        angle = float(np.degrees(np.arctan2(directions[1, 0], directions[0, 0])))
        ellipses.append(Ellipse(centre, N_SDS * largest * np.sqrt(variances), angle))
    return ellipses
