"""The answer of an encoder network: Ward's tree of its encodings, cut at a height that was learned.

Rows move towards their neighbours first, which averages out what is each one's own. Ward's tree merges the
two branches that add least to the squared deviations from the means; the cut undoes all mergers whose log
cost is above a threshold, as DP-means does with a penalty that is given (Kulis & Jordan 2012). The threshold
is learned on labelled data sets of classes that the encoder does not know. How much the best one differs from
one of these to the next says what else may be true: cuts at other thresholds, as a normal distribution has
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor

from clusterwise.clusterer.trees import Tree, tree_of_merges, ward_linkage
from clusterwise.papers.model import Inference
from clusterwise.partition import canonical_labels

__all__ = ["WardCut", "smoothed", "ward_tree"]

# How far rows move towards their neighbours, towards how many, and how often.
SMOOTHING, NEIGHBOURS, ROUNDS = 0.8, 10, 3
# Rounds of k-means after a cut; most partitions no longer change after a few.
MAX_ROUNDS = 20


@dataclass(frozen=True)
class WardCut:
    """A cut that was learned; it goes into the header of a weights file."""

    threshold: float  # log of what a merger may add to the squared deviations
    spread: float  # standard deviation of the thresholds that suit single data sets

    def infer(
        self,
        points: Tensor,
        mask: Tensor,
        seeds: Sequence[int] | None = None,
        max_clusters: int = 100,
        n_draws: int = 0,
    ) -> list[Inference]:
        """Partitions of B data sets of encodings (B, N, f); see ``AmortizedModel``. Draws are other cuts."""
        found = []
        for rows, present in zip(points.numpy(force=True), mask.numpy(force=True), strict=True):
            own = self._cuts(rows[present].astype(np.float64), max_clusters, n_draws)
            partitions, counts, cap_reached = own
            padded = np.zeros((len(partitions), len(rows)), dtype=np.int64)
            padded[:, present] = partitions
            answer, *draws = torch.from_numpy(padded)
            shares = tuple((counts / counts.sum()).tolist()) if draws else ()
            found.append(
                Inference(answer, cap_reached=cap_reached, draws=tuple(draws), draw_probabilities=shares)
            )
        return found

    def _cuts(
        self, points: np.ndarray, max_clusters: int, n_others: int
    ) -> tuple[list[np.ndarray], np.ndarray, bool]:
        """Partitions (m,) of points (m, f), the answer first; how often each came out; whether a cap acted.

        The others are cuts at equally likely thresholds.
        """
        if len(points) < 2:
            return [np.zeros(len(points), dtype=np.int64)], np.ones(1), False
        points = smoothed(points)
        tree = ward_tree(points)
        normal = NormalDist(self.threshold, max(self.spread, 1e-9))
        others = [normal.inv_cdf((i + 0.5) / n_others) for i in range(n_others)]
        numbers = [n_clusters_at(tree, threshold) for threshold in (self.threshold, *others)]
        counts = Counter(min(k, max_clusters) for k in numbers)
        labels = [nearest_means(points, tree.level(k)) for k in counts]
        return labels, np.array(list(counts.values()), dtype=float), numbers[0] > max_clusters


def ward_tree(points: np.ndarray) -> Tree:
    """Ward's tree of points (m, f), m >= 2."""
    return tree_of_merges("ward", *ward_linkage(np.ascontiguousarray(points)))


def log_costs(tree: Tree) -> np.ndarray:
    """Log of what each merger adds to the squared deviations from the means, (m - 1,), ascending."""
    halves = np.square(tree.heights[tree.n_rows :]) / 2
    costs: np.ndarray = np.log(np.maximum(halves, np.finfo(np.float64).tiny))
    return costs


def n_clusters_at(tree: Tree, threshold: float) -> int:
    """Number of clusters of the cut at a threshold."""
    return 1 + int(np.count_nonzero(log_costs(tree) > threshold))


def smoothed(points: np.ndarray) -> np.ndarray:
    """Points (m, f) moved towards the means of their neighbours, which are smoothed as well.

    Each neighbour counts by its distance in units of how far both have theirs. What rows of a class have in
    common stays, what is each one's own averages out.
    """
    m = len(points)
    if m < 3:
        return points
    n_near = min(NEIGHBOURS, m - 1)
    norms = np.square(points).sum(axis=1)
    squares = np.maximum(norms[:, None] - 2 * points @ points.T + norms, 0.0)
    np.fill_diagonal(squares, np.inf)
    near = np.argpartition(squares, n_near - 1, axis=1)[:, :n_near]
    of_near = np.take_along_axis(squares, near, axis=1)
    reach = np.sqrt(of_near.max(axis=1))
    scale = np.maximum(reach[:, None] * reach[near], np.finfo(np.float64).tiny)
    graph = np.zeros((m, m))
    np.put_along_axis(graph, near, np.exp(-of_near / scale), axis=1)
    graph = np.maximum(graph, graph.T)
    graph /= graph.sum(axis=1, keepdims=True)
    moved = points
    for _ in range(ROUNDS):
        moved = (1 - SMOOTHING) * points + SMOOTHING * (graph @ moved)
    return moved


def nearest_means(points: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Labels (m,) after rounds of k-means: a cut leaves rows where the first mergers put them."""
    labels = canonical_labels(labels)
    for _ in range(MAX_ROUNDS):
        members = np.eye(int(labels.max()) + 1)[labels]
        means = members.T @ points / members.sum(axis=0)[:, None]
        nearest = (np.square(means).sum(axis=1) - 2 * points @ means.T).argmin(axis=1)
        nearest = canonical_labels(nearest)
        if np.array_equal(nearest, labels):
            break
        labels = nearest
    return labels
