"""Rows for the judges to look at, so that small clusters are among them."""

from __future__ import annotations

import numpy as np

from clusterwise.clusterer.graph import CORE_NEIGHBOUR, nearest
from clusterwise.clusterer.points import fit_projection

__all__ = ["with_small_clusters"]

# Rows that are searched for groups far from the context, and those of them that are looked at closely.
MOST_SEARCHED, MOST_FAR = 100_000, 5_000
# Farther from the context than this many times what is usual there, and this many times nearer to each other.
FAR, TIGHT = 3.0, 3.0
# Share of the context that is kept for such rows.
SHARE = 0.1


def with_small_clusters(features: np.ndarray, shown: np.ndarray, seed: int) -> np.ndarray:
    """Rows (m,) to look at of features (n, f), with some of groups that a uniform choice has missed.

    A few hundred rows among a million have hardly one in a context of two thousand. Rows that lie far from
    all of it, but close to each other, are such a group; single rows far out are not.
    """
    n, m = len(features), len(shown)
    if n <= m or m <= 2 * CORE_NEIGHBOUR:
        return shown
    rng = np.random.default_rng(seed)
    searched = np.arange(n) if n <= MOST_SEARCHED else np.sort(rng.choice(n, MOST_SEARCHED, replace=False))
    projection = fit_projection(features[shown])
    points, known = projection.apply(features[searched]), projection.apply(features[shown])
    usual = nearest(known, known, CORE_NEIGHBOUR + 1)[1][:, -1]
    indices, distances = nearest(points, known, 1)
    far = np.flatnonzero(distances[:, 0] > FAR * usual[indices[:, 0]])
    if len(far) > MOST_FAR:
        far = np.sort(rng.choice(far, MOST_FAR, replace=False))
    if len(far) <= CORE_NEIGHBOUR:
        return shown
    among = nearest(points[far], points[far], CORE_NEIGHBOUR + 1)[1][:, -1]
    grouped = searched[far[among < distances[far, 0] / TIGHT]]
    most = int(SHARE * m)
    if len(grouped) > most:
        grouped = rng.choice(grouped, most, replace=False)
    if len(grouped) == 0:
        return shown
    kept = np.sort(rng.choice(m, m - len(grouped), replace=False))
    return np.union1d(shown[kept], grouped)
