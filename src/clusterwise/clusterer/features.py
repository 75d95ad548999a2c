"""Numbers that tell a good partition from a bad one, from its labels and the graph of the rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clusterwise.clusterer.branches import (
    MAX_FEATURE,
    N_RANGE_FEATURES,
    N_SPLIT_FEATURES,
    OrderedRows,
    most_similar_branches,
)
from clusterwise.clusterer.graph import Graph
from clusterwise.clusterer.trees import LINKAGES
from clusterwise.gaussian.mixture import expect
from clusterwise.gaussian.niw import sum_by_label

__all__ = [
    "BICS",
    "LOG_ROWS",
    "MODULARITIES",
    "N_CLUSTER_FEATURES",
    "N_PARTITION_FEATURES",
    "PartitionFeatures",
    "agreements",
    "agreements_with",
    "features_of_partition",
    "gaussian_fit",
]

N_BRANCH_FEATURES = 5
N_CLUSTER_FEATURES = N_RANGE_FEATURES + N_SPLIT_FEATURES + N_BRANCH_FEATURES
N_TREES = len(LINKAGES)
N_PARTITION_FEATURES = 42 + 2 * N_TREES
# Places of the log number of rows, of the two BICs, and of the modularities, among these features.
LOG_ROWS, BICS, MODULARITIES = 7, (22, 26), (28, 29)
RESOLUTIONS = (0.3, 1.0)  # of these
N_VOTERS = (5, 15)  # neighbours whose majority is asked
RIDGE = 1e-3


@dataclass(frozen=True)
class PartitionFeatures:
    """What was measured of one partition of m rows into K clusters."""

    clusters: np.ndarray  # (K, N_CLUSTER_FEATURES)
    shares: np.ndarray  # (K,) of the rows
    partition: np.ndarray  # (N_PARTITION_FEATURES,)


def features_of_partition(graph: Graph, labels: np.ndarray) -> PartitionFeatures:
    """What the judge of partitions is told of labels (m,), from 0 to K - 1 all in use.

    A cluster has the scores of the branch of the graph's trees that is most like it among its features.
    """
    m, k = len(labels), int(labels.max()) + 1
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels, minlength=k)
    bounds = np.concatenate([[0], sizes.cumsum()])
    sums = sum_by_label(graph.moments, labels, k)
    pairs, pair_of = _neighbouring(graph, labels, sums)
    ranges, splits = _features_of_clusters(graph, order, bounds, pairs)
    clusters = np.zeros((k, N_CLUSTER_FEATURES))
    clusters[:, :N_RANGE_FEATURES] = ranges
    if k > 1:
        clusters[:, N_RANGE_FEATURES:-N_BRANCH_FEATURES] = splits[pair_of]
    by_tree = _similar_branches(graph, labels)
    clusters[:, -N_BRANCH_FEATURES:] = _scores_of_similar_branches(by_tree)
    return PartitionFeatures(
        np.clip(np.nan_to_num(clusters), -MAX_FEATURE, MAX_FEATURE),
        sizes / m,
        _features_of_all(graph, labels, sums, clusters, by_tree),
    )


def _features_of_clusters(
    graph: Graph, order: np.ndarray, bounds: np.ndarray, pairs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Features of the K clusters of a partition and of pairs of them.

    Cluster c has the rows ``order[bounds[c]:bounds[c + 1]]``. Returns (K, N_RANGE_FEATURES), and for each of
    ``pairs`` (p, 2) what parting the union of two clusters is like, (p, N_SPLIT_FEATURES).
    """
    ordered = OrderedRows(graph, order)
    starts, ends = bounds[:-1], bounds[1:]
    segments = np.stack([starts, ends, ends, ends], axis=1)
    ranges = ordered.ranges(segments, ordered.edges(segments))
    a, b = pairs.T
    segments = np.stack([starts[a], ends[a], starts[b], ends[b]], axis=1)
    splits = ordered.splits(segments, ordered.edges(segments))
    return ranges, np.clip(np.nan_to_num(splits), -MAX_FEATURE, MAX_FEATURE)


def _neighbouring(graph: Graph, labels: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (p, 2) of clusters, each with the one that it is most mixed with, and each one's pair, (K,).

    ``sums`` (K, p) are those of T(x) over the rows of each cluster; see ``gaussian.niw``.
    """
    k, sizes = len(sums), sums[:, 0]
    if k == 1:
        return np.empty((0, 2), dtype=np.int64), np.zeros(1, dtype=np.int64)
    of_neighbours = np.append(labels, k)[graph.neighbours]  # a neighbour that is missing is of none
    between = np.bincount((labels[:, None] * (k + 1) + of_neighbours).ravel(), minlength=k * (k + 1))
    between = between.reshape(k, k + 1)[:, :k]
    between = between + between.T
    means = sums[:, 1 : graph.directions.shape[1] + 1] / sizes[:, None]
    gaps = np.square(means[:, None] - means).sum(axis=-1)
    # Neighbours in common, for the size of the smaller one; where there are none, the nearest mean.
    mixed = between / np.minimum(sizes[:, None], sizes) - 1e-9 * gaps / max(gaps.max(), 1e-300)
    np.fill_diagonal(mixed, -np.inf)
    partner = mixed.argmax(axis=1)
    own = np.arange(k)
    # Both halves of a pair have the same features.
    names, pair_of = np.unique(np.minimum(own, partner) * k + np.maximum(own, partner), return_inverse=True)
    return np.stack([names // k, names % k], axis=1), pair_of.reshape(-1)


def _similar_branches(graph: Graph, labels: np.ndarray) -> np.ndarray:
    """Overlap of each cluster with the branch of each tree most like it, its score, the best below it.

    Shape (3, T, K) for T trees.
    """
    overlaps, own, below = [], [], []
    for tree in graph.trees:
        best, branch = most_similar_branches(tree.branches, labels)
        overlaps.append(best)
        own.append(tree.scores[branch])
        below.append(tree.below[branch])
    return np.array([overlaps, own, below])


def _scores_of_similar_branches(by_tree: np.ndarray) -> np.ndarray:
    """Overlap and scores (3, T, K) of the most similar branch of all trees; averages over trees, (K, 5)."""
    best_tree = by_tree[0].argmax(axis=0)
    top = np.take_along_axis(by_tree, best_tree[None, None], axis=1)[:, 0]  # (3, K)
    weights = by_tree[0] ** 4 + 1e-9
    average = (weights * by_tree[1]).sum(axis=0) / weights.sum(axis=0)
    return np.concatenate([top, [average, by_tree[0].mean(axis=0)]]).T


def _modularities(graph: Graph, labels: np.ndarray, k: int) -> np.ndarray:
    """Share of the edges within clusters, and the modularities at the ``RESOLUTIONS``, (1 + r,)."""
    adjacency = graph.adjacency
    degrees = np.diff(adjacency.indptr)
    within = float((np.repeat(labels, degrees) == labels[adjacency.indices]).mean())
    expected = np.square(np.bincount(labels, weights=degrees, minlength=k) / max(degrees.sum(), 1)).sum()
    return np.array([within, *(within - resolution * expected for resolution in RESOLUTIONS)])


def _features_of_all(
    graph: Graph, labels: np.ndarray, sums: np.ndarray, clusters: np.ndarray, by_tree: np.ndarray
) -> np.ndarray:
    """Features of the partition as a whole, (N_PARTITION_FEATURES,)."""
    m, k = len(labels), len(sums)
    shares = sums[:, 0] / m
    f = np.zeros(N_PARTITION_FEATURES)
    f[0:3] = k, np.log(k), k / np.sqrt(m)
    f[3:6] = np.log(shares.min()), np.log(np.median(shares)), shares.max()
    f[6] = -(shares * np.log(shares)).sum() / np.log(k) if k > 1 else 1.0
    f[LOG_ROWS] = np.log(m)
    f[8:11] = shares @ clusters[:, 2:5]  # neighbours of the same cluster
    f[11] = clusters[:, 3].min()
    for i, edges in enumerate((graph.plain, graph.reachability)):
        cut = labels[edges.ends[:, 0]] != labels[edges.ends[:, 1]]
        inside, between = edges.log_lengths[~cut], edges.log_lengths[cut]  # both grow
        place = 12 + 4 * i
        f[place] = np.log1p(len(between) / max(k - 1, 1))
        if len(between) and len(inside):
            f[place + 1] = between.mean() - inside.mean()
            f[place + 2] = between[0] - _quantile(inside, 0.95)
            f[place + 3] = _quantile(between, 0.5) - _quantile(inside, 0.9)
    gaussian = gaussian_fit(graph, labels, sums)
    f[20:24], f[26] = gaussian[:4], gaussian[4]
    f[30:38] = [*_predictability(graph, labels, sums), *gaussian[5:]]
    f[38:42] = graph.shape_of_table
    scores = clusters[:, -N_BRANCH_FEATURES:]
    f[24] = shares @ scores[:, 3]
    f[25] = shares @ (scores[:, 1] * scores[:, 0])
    f[27:30] = _modularities(graph, labels, k)
    similar = np.zeros((2, N_TREES))  # overlaps and scores of each tree
    similar[:, : by_tree.shape[1]] = by_tree[:2] @ shares
    f[42:] = similar.ravel()
    return np.clip(np.nan_to_num(f), -30, 100)


def _predictability(graph: Graph, labels: np.ndarray, sums: np.ndarray) -> list[float]:
    """How well labels are predicted by the majority of few and of many neighbours and linearly, (5,).

    Cohen's kappas, and the recall of the worst cluster by many neighbours and linearly. Refitting a partition
    by a classifier tells one that follows the data from one that cuts through them.
    """
    k, sizes = len(sums), sums[:, 0]
    if k == 1:
        return [1.0] * 5
    predicted = [_majorities(graph.neighbours[:, :n], labels, k) for n in N_VOTERS]
    by_neighbours = [_kappa(labels, one, sizes) for one in predicted]
    recalls = np.bincount(labels[predicted[1] == labels], minlength=k) / sizes
    linear = _linear_discriminants(graph, sums).argmax(axis=0)
    linear_recalls = np.bincount(labels[linear == labels], minlength=k) / sizes
    worst = [float(recalls.min()), float(linear_recalls.min())]
    return [*by_neighbours, _kappa(labels, linear, sizes), *worst]


def _majorities(neighbours: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Commonest of the k labels among the neighbours (m, j) of each row, nearest first, (m,)."""
    there = neighbours >= 0
    of_neighbours = np.arange(len(labels))[:, None] * k + labels[neighbours]
    # A little more for nearer ones: so no two labels have as much, whatever they are called.
    weights = 1 + np.ldexp(0.25, -np.arange(neighbours.shape[1])) * there
    votes = np.bincount(of_neighbours[there], weights[there], minlength=len(labels) * k)
    return np.asarray(votes.reshape(-1, k).argmax(axis=1))


def _kappa(labels: np.ndarray, predicted: np.ndarray, sizes: np.ndarray) -> float:
    """Agreement of two labellings beyond chance, at most 1."""
    m = len(labels)
    chance = float((np.bincount(predicted, minlength=len(sizes)) * sizes).sum()) / m**2
    return float(((labels == predicted).mean() - chance) / max(1 - chance, 1e-9))


def _linear_discriminants(graph: Graph, sums: np.ndarray) -> np.ndarray:
    """Log of share times density, without constants, of Gaussians with one covariance, (K, m)."""
    points, sizes = graph.directions, sums[:, 0]
    q, m = points.shape[1], len(points)
    means = sums[:, 1 : q + 1] / sizes[:, None]
    within = (_covariances(sums, q) * (sizes / m)[:, None, None]).sum(axis=0)
    within = within + RIDGE * np.eye(q)
    weights = np.linalg.solve(within, means.T)  # (q, K)
    constants = np.log(sizes / m) - (weights * means.T).sum(axis=0) / 2
    return np.asarray(weights.T @ points.T + constants[:, None])


def _quantile(grown: np.ndarray, q: float) -> float:
    """Quantile of numbers that grow, between two of them where it lies there."""
    place = q * (len(grown) - 1)
    low = int(place)
    high = min(low + 1, len(grown) - 1)
    return float(grown[low] + (place - low) * (grown[high] - grown[low]))


def gaussian_fit(graph: Graph, labels: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Eight numbers on how well Gaussians describe a partition, the first three and the fifth per row.

    Twice the gain in log density over one Gaussian if rows belong to their cluster alone, the penalty of the
    BIC, both together, a silhouette, and gain and penalty together for the mixture of the Gaussians; how far
    this agrees with the labels, the share of rows nearer to another mean, and of the variance in clusters.
    """
    points, moments = graph.directions, graph.moments
    m, q = points.shape
    k, sizes = len(sums), sums[:, 0]
    base = _log_det(_covariances(sums.sum(axis=0, keepdims=True), q), np.full(1, m))[0]
    means, covariances = sums[:, 1 : q + 1] / sizes[:, None], _covariances(sums, q)
    shares = sizes / m
    fitted = shares @ (_log_det(covariances, sizes) - 2 * np.log(shares))
    memberships, log_density = expect(_log_joint(moments, means, covariances, sizes))
    mixed = -2 * log_density.mean() - q
    penalty = (k * (q + q * (q + 1) / 2 + 1) - 1) * np.log(m) / m
    silhouettes = _silhouettes(points, labels, means) if k > 1 else np.zeros(1)
    kappa = _kappa(labels, memberships.argmax(axis=0), sizes) if k > 1 else 1.0
    within = np.einsum("k,kii->", shares, covariances) / max(points.var(axis=0).sum(), 1e-300)
    return np.array(
        [
            *(fitted - base, penalty, fitted - base + penalty, silhouettes.mean(), mixed - base + penalty),
            *(kappa, (silhouettes < 0).mean(), within),
        ]
    )


def _silhouettes(points: np.ndarray, labels: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Silhouettes (m,) of points (m, q), by their distances to the means (K, q)."""
    rows = np.arange(len(points))
    gaps = np.square(means).sum(axis=1)[:, None] - 2 * means @ points.T + np.square(points).sum(axis=1)
    own = np.sqrt(np.maximum(gaps[labels, rows], 0))
    gaps[labels, rows] = np.inf
    other = np.sqrt(np.maximum(gaps.min(axis=0), 0))
    return np.asarray((other - own) / np.maximum(np.maximum(other, own), 1e-300))


def _covariances(sums: np.ndarray, q: int) -> np.ndarray:
    """Covariances (K, q, q) of clusters with sums (K, p) of T(x); see ``gaussian.niw``."""
    moments = sums / sums[:, :1]
    covariances = np.empty((len(sums), q, q))
    upper, right = np.triu_indices(q)
    covariances[:, upper, right] = moments[:, q + 1 :]
    covariances[:, right, upper] = moments[:, q + 1 :]
    means = moments[:, 1 : q + 1]
    return np.asarray(covariances - means[:, :, None] * means[:, None, :])


def _log_joint(
    moments: np.ndarray, means: np.ndarray, covariances: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
    """Log of share times Gaussian density of each cluster at each point, without constants, (K, m).

    ``moments`` (m, p) are the points' T(x); see ``gaussian.niw``.
    """
    q = means.shape[1]
    ridged = _ridged(covariances, sizes)
    precisions = np.linalg.inv(ridged)
    shifts = np.einsum("kij,kj->ki", precisions, means)
    upper, right = np.triu_indices(q)
    eta = np.empty((len(means), moments.shape[1]))
    eta[:, 0] = (
        np.log(sizes / len(moments)) - (np.linalg.slogdet(ridged)[1] + (shifts * means).sum(axis=1)) / 2
    )
    eta[:, 1 : q + 1] = shifts
    eta[:, q + 1 :] = precisions[:, upper, right] * np.where(upper == right, -0.5, -1.0)
    return np.asarray(eta @ moments.T)


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
