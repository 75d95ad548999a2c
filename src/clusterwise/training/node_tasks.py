"""Training data of the node judge: trees of tables drawn from the broad prior, made once and kept on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import adjusted_rand_score

from clusterwise._files import whole_or_nothing
from clusterwise.models.node_judge import NodeJudge, NodeTask
from clusterwise.priors.broad import BroadPrior
from clusterwise.training.shards import Shards, batch_of_step
from clusterwise.trees.cut import best_overlaps, decisions
from clusterwise.trees.features import Nodes, measure, nodes_of
from clusterwise.trees.linkages import LINKAGES, trees_of
from clusterwise.trees.neighbourhood import neighbourhood_of
from clusterwise.trees.points import reduced, standardized

__all__ = ["NodeTasks", "judged_trees", "table_of"]


def table_of(prior: BroadPrior, seed: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Table number ``number``: points (n, f) ready for distances, and labels (n,), -1 for noise."""
    table = prior.draw_table(np.random.default_rng([seed, number]))
    return reduced(standardized(table.points)), table.labels


def judged_trees(points: np.ndarray) -> list[Nodes]:
    """All trees of points (n, f), with what was measured of their nodes."""
    near = neighbourhood_of(points)
    measured = measure(near)
    return [nodes_of(measured, tree) for tree in trees_of(near)]
