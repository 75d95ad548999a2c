"""Candidate partitions of a table: cuts of its trees, communities of its graph, Gaussian mixtures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from clusterwise.clusterer.communities import communities
from clusterwise.clusterer.cut import best_cut, labels_of_cut, values_below
from clusterwise.clusterer.features import Measured, Nodes, measure, nodes_of
from clusterwise.clusterer.graph import Neighbourhood, nearest, neighbour_graph, neighbourhood_of
from clusterwise.clusterer.linkages import LINKAGES, trees_of
from clusterwise.clusterer.node_judge import NodeJudge, pack_nodes
from clusterwise.clusterer.points import COLUMNS_OF_ONE_UNIT
from clusterwise.gaussian.search import likeliest_partition, search
from clusterwise.partition import canonical_labels

__all__ = ["ORIGINS", "Candidates", "MoreRows", "candidates_of", "filled"]

# How a candidate was made; the partition judge knows these by their number.
ORIGINS = (*LINKAGES, "decisions", "em", "search", "communities")
# EM is not tried from more clusters than this.
MOST_CLUSTERS_OF_EM = 40
# The whole search would take most of the time, and the judge looks beyond Gaussians anyway.
ROUNDS_OF_SEARCH = 2


@dataclass(frozen=True)
class Candidates:
    """Distinct partitions of m rows, and the trees that they come from."""

    near: Neighbourhood
    measured: Measured
    trees: tuple[Nodes, ...]
    scores: tuple[np.ndarray, ...]  # (v, 2) of each tree: overlap of a node, and of the best cut below it
    labels: tuple[np.ndarray, ...]  # (m,) each, numbered by first appearance
    origins: np.ndarray  # (c,) places in ORIGINS
    from_trees: np.ndarray  # (c,) tree that a cut belongs to, -1 for other candidates


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
    scores, whole = _judged(judge, trees)
    labels: dict[bytes, np.ndarray] = {}
    origins, from_trees = [], []
    for origin, tree, found in _proposed(near, measured, trees, scores, whole, more):
        found = canonical_labels(found)
        if found.tobytes() not in labels:
            labels[found.tobytes()] = found
            origins.append(ORIGINS.index(origin))
            from_trees.append(tree)
    return Candidates(
        near,
        measured,
        trees,
        scores,
        tuple(labels.values()),
        np.array(origins),
        np.array(from_trees),
    )


def _judged(judge: NodeJudge, trees: tuple[Nodes, ...]) -> tuple[tuple[np.ndarray, ...], list[np.ndarray]]:
    """Scores (v, 2) of the nodes of each tree, and whether a node would be left whole, (v,)."""
    with torch.inference_mode():
        judgement = judge(pack_nodes(trees))
        overlaps = torch.sigmoid(judgement.overlaps).double().numpy()
        whole = judgement.whole.double().numpy()
    ends = np.cumsum([len(nodes.nodes) for nodes in trees])[:-1]
    scores = tuple(
        np.stack([own, values_below(nodes.sizes, nodes.children, own)], axis=1)
        for nodes, own in zip(trees, np.split(overlaps, ends), strict=True)
    )
    return scores, np.split(whole, ends)


def _proposed(
    near: Neighbourhood,
    measured: Measured,
    trees: tuple[Nodes, ...],
    scores: tuple[np.ndarray, ...],
    whole: list[np.ndarray],
    more: MoreRows | None,
) -> Iterator[tuple[str, int, np.ndarray]]:
    """Origin, tree and labels (m,) of each candidate."""
    m = len(near.points)
    yield "decisions", -1, np.zeros(m, dtype=np.int64)
    cuts = []
    for i, (nodes, score, decision) in enumerate(zip(trees, scores, whole, strict=True)):
        cut = filled(near, labels_of_cut(nodes, best_cut(nodes.sizes, nodes.children, score[:, 0])))
        cuts.append(cut)
        yield nodes.tree.kind, i, cut
        # Top-down: a node above zero is left whole, and what is below it does not count.
        yield "decisions", i, filled(near, labels_of_cut(nodes, _decided(nodes, decision)))
    distinct = {labels.tobytes(): labels for labels in map(canonical_labels, cuts)}
    some = [labels for labels in distinct.values() if 1 < labels.max() + 1 <= MOST_CLUSTERS_OF_EM]
    fitted = search(measured.directions, some or [likeliest_partition(measured.directions)], max_rounds=0)
    for mixture in fitted:
        yield "em", -1, mixture.labels
    start = canonical_labels(fitted[0].labels)  # without empty clusters
    yield "search", -1, search(measured.directions, [start], max_rounds=ROUNDS_OF_SEARCH)[0].labels
    # In many columns rows have neighbours by chance, whom they do not share with each other.
    graph = near.graph if more is None else neighbour_graph(more.points)
    for labels in communities(graph, by_shared=near.points.shape[1] > COLUMNS_OF_ONE_UNIT):
        yield "communities", -1, labels if more is None else labels[more.places]


def _decided(nodes: Nodes, whole: np.ndarray) -> np.ndarray:
    """The nodes where decisions (v,) taken from the root down come to rest."""
    reached = np.zeros(len(whole), dtype=bool)
    reached[0] = True
    leaves = nodes.children.max(axis=1) < 0
    for i in range(len(whole)):  # parents come before their children
        if reached[i] and whole[i] <= 0 and not leaves[i]:
            reached[i] = False
            reached[nodes.children[i][nodes.children[i] >= 0]] = True
    return np.flatnonzero(reached)


def filled(near: Neighbourhood, labels: np.ndarray) -> np.ndarray:
    """Let rows without a label join the cluster of the nearest row that has one."""
    empty = labels < 0
    if not empty.any():
        return labels
    labels = labels.copy()
    indices, _ = nearest(near.points[empty], near.points[~empty], 1)
    labels[empty] = labels[~empty][indices[:, 0]]
    return labels
