"""The clusters of a trained clustering net: its outputs that are in use, and the rows that they weigh."""

from __future__ import annotations

import numpy as np

from clusterwise.deepdpm.nets import NetWeights
from clusterwise.gaussian.clusters import Clusters
from clusterwise.gaussian.niw import NormalInverseWishart
from clusterwise.gaussian.order import by_first_appearance
from clusterwise.gaussian.rows import Rows

__all__ = ["outputs_in_use", "weighted_rows"]


def weighted_rows(
    rows: Rows, weights: NetWeights, prior: NormalInverseWishart
) -> tuple[np.ndarray, np.ndarray]:
    """Memberships (n, K) of all rows, and the statistics (K, p) that they weigh."""
    k = weights.n_clusters
    membership, statistics = np.empty((len(rows), k)), np.zeros((k, prior.n_statistics))
    for part, points in rows.chunks(prior.n_statistics):
        membership[part] = weights.memberships(points)
        statistics += membership[part].T @ prior.lift(points)
    return membership, statistics


def outputs_in_use(
    rows: Rows, order: np.ndarray | None, weights: NetWeights, prior: NormalInverseWishart
) -> tuple[NetWeights, Clusters, np.ndarray]:
    """Keep the outputs that some row prefers, in the order of first appearance.

    Returns also the memberships (n, K) of all rows, and the clusters of the rows that they weigh. ``order``
    (n,) has the places of the rows in the input; None: as they came.
    """
    while True:
        membership, statistics = weighted_rows(rows, weights, prior)
        in_use = by_first_appearance(membership.argmax(axis=1), weights.n_clusters, order)
        if np.array_equal(in_use, np.arange(weights.n_clusters)):
            return weights, Clusters(prior, statistics), membership
        # A row between two outputs prefers the first of them: look again after they changed places.
        weights = weights.select(in_use)
