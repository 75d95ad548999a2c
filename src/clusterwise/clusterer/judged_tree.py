"""A tree with the scores of its nodes and those that were taken for clusters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterwise.clusterer.features import Nodes
from clusterwise.clusterer.partitions import most_similar

__all__ = ["JudgedTree", "judged_tree"]


@dataclass(frozen=True)
class JudgedTree:
    """A tree of m rows, what a judge says of v of its nodes, and the nodes that are the K clusters."""

    nodes: Nodes
    scores: np.ndarray  # (v,) expected intersection over union with a true cluster
    chosen: np.ndarray  # (K,) the node most like each cluster, as a place among the v
    overlaps: np.ndarray  # (K,) intersection over union of that node and the cluster


def judged_tree(nodes: Nodes, scores: np.ndarray, labels: np.ndarray) -> JudgedTree:
    """Find the nodes that are most like the clusters of labels (m,), from 0 to K - 1."""
    overlaps, chosen = most_similar(nodes, labels)
    return JudgedTree(nodes, scores, chosen, overlaps)
