"""What follows from clusters of a sample for all rows of a source: sums over their rows, who comes first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from clusterwise.affine import FeatureSpace
from clusterwise.fitting.batches import first_rows
from clusterwise.gaussian.clusters import Clusters
from clusterwise.gaussian.niw import NormalInverseWishart, sum_by_label
from clusterwise.gaussian.quick import QuickClusters
from clusterwise.rows import Batch, RowSource

__all__ = ["BatchFeatures", "clusters_of_all_rows"]


@dataclass(frozen=True)
class BatchFeatures:
    """The task that returns features (m, f) of a batch."""

    read: Callable[[Batch], np.ndarray]
    space: FeatureSpace

    def __call__(self, batch: Batch) -> np.ndarray:
        """Features of all rows of a batch."""
        return self.space.apply(self.read(batch).astype(np.float64))


@dataclass(frozen=True)
class ClusterSums:
    """The task that labels a batch and sums up its clusters."""

    features: BatchFeatures
    quick: QuickClusters

    def __call__(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Statistics (K, p), and the number of the first row of each cluster, (K,)."""
        features, prior, k = self.features(batch), self.quick.clusters.prior, self.quick.clusters.n_clusters
        labels = self.quick.label(features).labels
        return _sums(prior, features, labels, k), first_rows(labels, batch.start, k)


def _sums(prior: NormalInverseWishart, features: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    total = np.zeros((k, prior.n_statistics))
    for start in range(0, len(features), 8192):  # T(x) of more rows would not stay in the cache
        part = slice(start, start + 8192)
        total += sum_by_label(prior.terms(features[part]), labels[part], k)
    return total


def clusters_of_all_rows(source: RowSource, features: BatchFeatures, clusters: Clusters) -> Clusters:
    """Clusters of all rows, each as clusters of a sample label it, in the order of their first rows."""
    sums, _ = _pass(source, features, clusters)
    found = Clusters(clusters.prior, sums[sums[:, 0] > 0.5])
    sums, first = _pass(source, features, found)
    in_use = np.argsort(first, kind="stable")[: np.count_nonzero(sums[:, 0] > 0.5)]
    return found.select(in_use)


def _pass(source: RowSource, features: BatchFeatures, clusters: Clusters) -> tuple[np.ndarray, np.ndarray]:
    task = ClusterSums(features, QuickClusters(clusters, source.n_rows))
    sums, first = np.zeros(clusters.statistics.shape), np.full(clusters.n_clusters, np.iinfo(np.int64).max)
    for of_batch, first_of_batch in source.map(task):
        sums += of_batch
        first = np.minimum(first, first_of_batch)
    return sums, first
