"""Numbers that tell a good partition from a bad one: of its clusters, of their borders, and of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from clusterwise._compiled import compiled
from clusterwise.trees.features import (
    N_RANGE_FEATURES,
    N_SPLIT_FEATURES,
    Measured,
    Nodes,
    features_of_pairs,
    features_of_ranges,
)

__all__ = [
    "BICS",
    "LOG_ROWS",
    "N_CLUSTER_FEATURES",
    "N_PARTITION_FEATURES",
    "PartitionFeatures",
    "agreements",
    "agreements_with",
    "features_of_partition",
    "most_similar",
]

N_CLUSTER_FEATURES = N_RANGE_FEATURES + N_SPLIT_FEATURES + 5
N_PARTITION_FEATURES = 27
# Places of the log number of rows, and of the two BICs, among the features of a partition.
LOG_ROWS, BICS = 7, (22, 26)
# A cluster is compared with the one that most of its neighbours outside belong to.
RIDGE = 1e-3


@dataclass(frozen=True)
class PartitionFeatures:
    """What was measured of one partition of m rows into K clusters."""

    clusters: np.ndarray  # (K, N_CLUSTER_FEATURES)
    shares: np.ndarray  # (K,) of the rows
    whole: np.ndarray  # (N_PARTITION_FEATURES,)


def features_of_partition(
    measured: Measured, labels: np.ndarray, trees: Sequence[Nodes], scores: Sequence[np.ndarray]
) -> PartitionFeatures:
    """Measure a partition, labels (m,) from 0 to K - 1 all in use.

    ``scores`` (v, 2) are what the node judge says of the nodes of each tree: their overlap, and that of the
    best cut below. A cluster is given the opinion of the node that is most like it.
    """
    m, k = len(labels), int(labels.max()) + 1
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels, minlength=k)
    ends = sizes.cumsum()
    starts = ends - sizes
    rows = [order[start:end] for start, end in zip(starts, ends, strict=True)]
    clusters = np.zeros((k, N_CLUSTER_FEATURES))
    clusters[:, :N_RANGE_FEATURES] = features_of_ranges(measured, order, starts, ends)
    clusters[:, N_RANGE_FEATURES:-5] = _borders(measured, labels, rows)
    clusters[:, -5:] = _opinions(labels, trees, scores)
    shares = sizes / m
    return PartitionFeatures(
        np.clip(np.nan_to_num(clusters), -30, 30), shares, _whole(measured, labels, sizes, clusters)
    )


def _borders(measured: Measured, labels: np.ndarray, rows: Sequence[np.ndarray]) -> np.ndarray:
    """Features of each cluster's border to the one that it is most mixed with, (K, N_SPLIT_FEATURES)."""
    k = len(rows)
    if k == 1:
        return np.zeros((1, N_SPLIT_FEATURES))
    between = _between(measured.indices, labels, k)
    between = between + between.T
    sizes = np.array([len(of_cluster) for of_cluster in rows])
    means = np.array([measured.directions[of_cluster].mean(axis=0) for of_cluster in rows])
    gaps = np.square(means[:, None] - means).sum(axis=-1)
    # Neighbours in common, for the size of the smaller one; where there are none, the nearest mean.
    mixed = between / np.minimum(sizes[:, None], sizes) - 1e-9 * gaps / max(gaps.max(), 1e-300)
    np.fill_diagonal(mixed, -np.inf)
    partner = mixed.argmax(axis=1)
    # Both halves of a pair have the same features.
    pairs = sorted({(min(a, int(b)), max(a, int(b))) for a, b in enumerate(partner)})
    found = features_of_pairs(measured, rows, pairs)
    index = {pair: i for i, pair in enumerate(pairs)}
    return found[[index[min(a, int(b)), max(a, int(b))] for a, b in enumerate(partner)]]


@compiled
def _between(indices: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Edges of the neighbour graph from cluster to cluster, (k, k)."""
    counts = np.zeros((k, k))
    for r in range(len(labels)):
        for other in indices[r]:
            if other >= 0:
                counts[labels[r], labels[other]] += 1
    return counts


def _opinions(labels: np.ndarray, trees: Sequence[Nodes], scores: Sequence[np.ndarray]) -> np.ndarray:
    """Overlap and scores of the most similar node of all trees; the same, averaged over trees, (K, 5)."""
    overlaps, own, below = [], [], []
    for nodes, of_tree in zip(trees, scores, strict=True):
        best, node = most_similar(nodes, labels)
        overlaps.append(best)
        own.append(of_tree[node, 0])
        below.append(of_tree[node, 1])
    by_tree = np.array([overlaps, own, below])  # (3, T, K)
    likest = by_tree[0].argmax(axis=0)
    top = np.take_along_axis(by_tree, likest[None, None], axis=1)[:, 0]  # (3, K)
    weights = by_tree[0] ** 4 + 1e-9
    average = (weights * by_tree[1]).sum(axis=0) / weights.sum(axis=0)
    return np.concatenate([top, [average, by_tree[0].mean(axis=0)]]).T


def most_similar(nodes: Nodes, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each cluster of labels (m,) the largest intersection over union with a node, and the node, (K,)."""
    starts = nodes.tree.starts[nodes.nodes]
    k = int(labels.max()) + 1
    best, node = _most_similar(labels[nodes.tree.order], k, starts, starts + nodes.sizes)
    return best, node


@compiled
def _most_similar(
    labels: np.ndarray, k: int, starts: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """For each cluster the range with the largest intersection over union, and that."""
    m = len(labels)
    before = np.zeros((m + 1, k))
    for r in range(m):
        before[r + 1] = before[r]
        before[r + 1, labels[r]] += 1
    best, node = np.zeros(k), np.zeros(k, dtype=np.int64)
    for i in range(len(starts)):
        size = ends[i] - starts[i]
        for c in range(k):
            common = before[ends[i], c] - before[starts[i], c]
            overlap = common / (size + before[m, c] - common)
            if overlap > best[c]:
                best[c], node[c] = overlap, i
    return best, node


def _whole(measured: Measured, labels: np.ndarray, sizes: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """Features of the partition as a whole, (N_PARTITION_FEATURES,)."""
    m, k = len(labels), len(sizes)
    shares = sizes / m
    f = np.zeros(N_PARTITION_FEATURES)
    f[0:3] = k, np.log(k), k / np.sqrt(m)
    f[3:6] = np.log(shares.min()), np.log(np.median(shares)), shares.max()
    f[6] = -(shares * np.log(shares)).sum() / np.log(k) if k > 1 else 1.0
    f[LOG_ROWS] = np.log(m)
    f[8:11] = shares @ clusters[:, 2:5]  # neighbours of the same cluster
    f[11] = clusters[:, 3].min()
    for i, (ends, lengths) in enumerate((measured.plain, measured.reachability)):
        cut = labels[ends[:, 0]] != labels[ends[:, 1]]
        inside, between = lengths[~cut], lengths[cut]
        place = 12 + 4 * i
        f[place] = np.log1p(len(between) / max(k - 1, 1))
        if len(between) and len(inside):
            f[place + 1] = between.mean() - inside.mean()
            f[place + 2] = between.min() - np.quantile(inside, 0.95)
            f[place + 3] = np.median(between) - np.quantile(inside, 0.9)
    gaussian = _gaussian(measured.directions, labels, sizes)
    f[20:24], f[26] = gaussian[:4], gaussian[4]
    opinions = clusters[:, -5:]
    f[24] = shares @ opinions[:, 3]
    f[25] = shares @ (opinions[:, 1] * opinions[:, 0])
    return np.clip(np.nan_to_num(f), -30, 100)


def _gaussian(points: np.ndarray, labels: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """How well Gaussians describe a partition of points (m, q), per row, (5,).

    Twice the gain in log density over one Gaussian if rows belong to their cluster alone, the penalty of the
    BIC, both together, a silhouette, and gain and penalty together for the mixture of the Gaussians.
    """
    m, q = points.shape
    k = len(sizes)
    base = _log_det(np.cov(points.T, bias=True).reshape(1, q, q), np.ones(1) * m)[0]
    sums = np.zeros((k, q))
    np.add.at(sums, labels, points)
    means = sums / sizes[:, None]
    centred = points - means[labels]
    scatters = np.zeros((k, q, q))
    np.add.at(scatters, labels, centred[:, :, None] * centred[:, None, :])
    covariances = scatters / sizes[:, None, None]
    shares = sizes / m
    fitted = shares @ (_log_det(covariances, sizes) - 2 * np.log(shares))
    mixed = -2 * logsumexp(_log_joint(points, means, covariances, sizes), axis=1).mean() - q
    penalty = (k * (q + q * (q + 1) / 2 + 1) - 1) * np.log(m) / m
    silhouette = 0.0
    if k > 1:
        gaps = np.sqrt(np.square(points[:, None] - means).sum(axis=-1))  # (m, k)
        own = gaps[np.arange(m), labels]
        gaps[np.arange(m), labels] = np.inf
        other = gaps.min(axis=1)
        silhouette = float(((other - own) / np.maximum(np.maximum(other, own), 1e-300)).mean())
    return np.array([fitted - base, penalty, fitted - base + penalty, silhouette, mixed - base + penalty])


def _log_joint(
    points: np.ndarray, means: np.ndarray, covariances: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
    """Log of share times Gaussian density of each cluster at each point, without constants, (m, K)."""
    m, q = points.shape
    ridged = _ridged(covariances, sizes)
    precisions = np.linalg.inv(ridged)
    squares = (points[:, :, None] * points[:, None, :]).reshape(m, q * q) @ precisions.reshape(-1, q * q).T
    shifts = np.einsum("kij,kj->ki", precisions, means)
    distances = squares - 2 * points @ shifts.T + (shifts * means).sum(axis=1)
    return np.log(sizes / m) - (np.linalg.slogdet(ridged)[1] + np.maximum(distances, 0)) / 2


def _log_det(covariances: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Log determinants (K,) of covariances (K, q, q) with a ridge."""
    return np.asarray(np.linalg.slogdet(_ridged(covariances, sizes))[1])


def _ridged(covariances: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Covariances (K, q, q) with a ridge, which few rows need most."""
    q = covariances.shape[-1]
    ridge = RIDGE + 0.02 * (q + 2) / (sizes + q + 2)
    return np.asarray(covariances + ridge[:, None, None] * np.eye(q))


def agreements(candidates: Sequence[np.ndarray]) -> np.ndarray:
    """Adjusted Rand index of each pair of partitions, (c, c)."""
    result = np.eye(len(candidates))
    for i, labels in enumerate(candidates):
        result[i, :i] = result[:i, i] = agreements_with(labels, candidates[:i])
    return result


def agreements_with(labels: np.ndarray, candidates: Sequence[np.ndarray]) -> np.ndarray:
    """Adjusted Rand index of labels (m,) with each of c partitions, (c,)."""
    width = int(labels.max()) + 1
    total = len(labels) * (len(labels) - 1) / 2
    own = _pairs(labels)
    result = np.ones(len(candidates))
    for i, candidate in enumerate(candidates):
        other = _pairs(candidate)
        expected, most = own * other / total, (own + other) / 2
        if most != expected:
            result[i] = (_pairs(labels + width * candidate) - expected) / (most - expected)
    return result


def _pairs(labels: np.ndarray) -> float:
    """Pairs of rows with the same label."""
    counts = np.bincount(labels)
    return float((counts * (counts - 1)).sum() / 2)
