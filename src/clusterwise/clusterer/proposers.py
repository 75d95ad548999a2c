"""Candidate partitions of a table: cuts of its trees, communities of its graph, Gaussian mixtures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from clusterwise.clusterer.communities import communities
from clusterwise.clusterer.cut import best_cut, labels_of_cut, values_below
from clusterwise.clusterer.features import Measured, Nodes, measure, nodes_of
from clusterwise.clusterer.graph import Neighbourhood, nearest, neighbour_graph, neighbourhood_of
from clusterwise.clusterer.linkages import trees_of
from clusterwise.clusterer.node_judge import NodeJudge, pack_nodes
from clusterwise.clusterer.points import COLUMNS_OF_ONE_UNIT
from clusterwise.clusterer.tree import Tree
from clusterwise.gaussian.search import likeliest_partition, search
from clusterwise.partition import canonical_labels

__all__ = ["Candidates", "MoreRows", "candidates_of", "distinct", "filled"]

# EM is not tried from more clusters than this.
MAX_CLUSTERS_OF_EM = 40
# The whole search would take most of the time, and the judge looks beyond Gaussians anyway.
ROUNDS_OF_SEARCH = 2
# Ward's tree is also cut into these numbers of clusters.
WARD_CUTS = (2, 3, 4, 5, 7, 10)


@dataclass(frozen=True)
class Candidates:
    """Distinct partitions of m rows, and the trees that they come from."""

    near: Neighbourhood
    measured: Measured
    trees: tuple[Nodes, ...]
    scores: tuple[np.ndarray, ...]  # (v, 2) of each tree: overlap of a node, and of the best cut below it
    labels: tuple[np.ndarray, ...]  # (m,) each, numbered by first appearance


@dataclass(frozen=True)
class MoreRows:
    """More rows of a table, for the graph that communities are found in."""

    points: np.ndarray  # (s, f)
    places: np.ndarray  # (m,) where the rows that partitions are proposed of are among them


def candidates_of(points: np.ndarray, judge: NodeJudge, more: MoreRows | None = None) -> Candidates:
    """Propose partitions of points (m, f), m >= 2; deterministic."""
    near = neighbourhood_of(points)
    measured = measure(near)
    trees = tuple(nodes_of(measured, tree) for tree in trees_of(near))
    scores = _judged(judge, trees)
    proposed = _proposed(near, measured, trees, scores, more)
    return Candidates(near, measured, trees, scores, distinct(points, proposed))


def distinct(points: np.ndarray, proposed: Iterable[np.ndarray]) -> tuple[np.ndarray, ...]:
    """The different partitions among labels (m,) each, numbered by first appearance; equal rows share one."""
    first = np.unique(points, axis=0, return_index=True, return_inverse=True)
    twin = first[1][first[2].reshape(-1)]  # the first row that is equal to each one
    labels: dict[bytes, np.ndarray] = {}
    for found in proposed:
        found = canonical_labels(found[twin])
        labels.setdefault(found.tobytes(), found)
    return tuple(labels.values())


def _judged(judge: NodeJudge, trees: tuple[Nodes, ...]) -> tuple[np.ndarray, ...]:
    """Scores (v, 2) of the nodes of each tree."""
    with torch.inference_mode():
        overlaps = torch.sigmoid(judge(pack_nodes(trees)).overlaps).double().numpy()
    ends = np.cumsum([len(nodes.nodes) for nodes in trees])[:-1]
    return tuple(
        np.stack([own, values_below(nodes.sizes, nodes.children, own)], axis=1)
        for nodes, own in zip(trees, np.split(overlaps, ends), strict=True)
    )


def _proposed(
    near: Neighbourhood,
    measured: Measured,
    trees: tuple[Nodes, ...],
    scores: tuple[np.ndarray, ...],
    more: MoreRows | None,
) -> Iterator[np.ndarray]:
    """Labels (m,) of each candidate."""
    m = len(near.points)
    yield np.zeros(m, dtype=np.int64)
    cuts = [
        filled(near, labels_of_cut(nodes, best_cut(nodes.sizes, nodes.children, score[:, 0])))
        for nodes, score in zip(trees, scores, strict=True)
    ]
    yield from cuts
    ward = next(nodes.tree for nodes in trees if nodes.tree.kind == "ward")
    for k in WARD_CUTS:
        if k < m // 2:
            yield _horizontal(ward, k)
    found = {labels.tobytes(): labels for labels in map(canonical_labels, cuts)}
    some = [labels for labels in found.values() if 1 < labels.max() + 1 <= MAX_CLUSTERS_OF_EM]
    fitted = search(measured.directions, some or [likeliest_partition(measured.directions)], max_rounds=0)
    for mixture in fitted:
        yield mixture.labels
    start = canonical_labels(fitted[0].labels)  # without empty clusters
    yield search(measured.directions, [start], max_rounds=ROUNDS_OF_SEARCH)[0].labels
    # In many columns rows have neighbours by chance, whom they do not share with each other.
    graph = near.graph if more is None else neighbour_graph(more.points)
    for labels in communities(graph, by_shared=near.points.shape[1] > COLUMNS_OF_ONE_UNIT):
        yield labels if more is None else labels[more.places]


def _horizontal(tree: Tree, k: int) -> np.ndarray:
    """Labels (m,) of the k parts that a tree has before its last k - 1 merges."""
    m = tree.n_rows
    labels = np.zeros(m, dtype=np.int64)
    tops = [node for node in range(2 * m - k) if tree.parents[node] >= 2 * m - k]
    for label, node in enumerate(tops):
        labels[tree.rows(node)] = label
    return labels


def filled(near: Neighbourhood, labels: np.ndarray) -> np.ndarray:
    """Let rows without a label join the cluster of the nearest row that has one."""
    empty = labels < 0
    if not empty.any():
        return labels
    labels = labels.copy()
    indices, _ = nearest(near.points[empty], near.points[~empty], 1)
    labels[empty] = labels[~empty][indices[:, 0]]
    return labels
