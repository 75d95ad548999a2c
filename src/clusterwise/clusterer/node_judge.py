"""The judge of tree nodes: how well does a node match a true cluster, and should it be left whole?

Scoring proposed clusters by their predicted overlap with a true one is known from face clustering (Yang et
al., CVPR 2019). Here a node also sees its parent, sibling and children, and, after a first opinion of all
nodes, the best cut below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from clusterwise.clusterer.cut import values_below
from clusterwise.clusterer.features import N_RANGE_FEATURES, N_SPLIT_FEATURES, Nodes
from clusterwise.papers.model import TrainedModel

__all__ = ["Judgement", "NodeJudge", "NodeJudgeConfig", "NodeTask", "pack_nodes"]

# Standardized features beyond this say no more than this.
FARTHEST_FEATURE = 6.0
# Weight of a node in the loss in addition to its share of the rows.
LEAST_WEIGHT = 0.05


@dataclass(frozen=True)
class NodeJudgeConfig:
    """Sizes of the network."""

    width: int = 64
    n_rounds: int = 2  # of messages along the tree, before the first opinion and after it
    n_features: int = N_RANGE_FEATURES + N_SPLIT_FEATURES


@dataclass(frozen=True)
class NodeTask:
    """The V nodes of some trees, one tree after the other, each node after its parent."""

    features: Tensor  # (V, f)
    parents: Tensor  # (V,) index of the parent, -1 for a root
    children: Tensor  # (V, 2) indices, -1 where a child is too small to be judged
    sizes: Tensor  # (V,) rows below
    shares: Tensor  # (V,) of all rows of the data set
    overlaps: Tensor | None = None  # (V,) intersection over union with the best-matching true cluster


@dataclass(frozen=True)
class Judgement:
    """What the network says about V nodes."""

    overlaps: Tensor  # (V,) logits of the intersection over union
    first: Tensor  # (V,) logits of the first opinion


def pack_nodes(trees: Sequence[Nodes]) -> NodeTask:
    """Put the nodes of the trees of one data set behind each other."""
    offsets = np.cumsum([0] + [len(one.nodes) for one in trees[:-1]])

    def shifted(indices: np.ndarray, offset: int) -> np.ndarray:
        return np.where(indices >= 0, indices + offset, -1)

    pairs = list(zip(trees, offsets, strict=True))
    sizes = np.concatenate([one.sizes for one in trees])
    return NodeTask(
        torch.from_numpy(np.concatenate([one.features for one in trees]).astype(np.float32)),
        torch.from_numpy(np.concatenate([shifted(one.parents, offset) for one, offset in pairs])),
        torch.from_numpy(np.concatenate([shifted(one.children, offset) for one, offset in pairs])),
        torch.from_numpy(sizes),
        torch.from_numpy((sizes / trees[0].tree.n_rows).astype(np.float32)),
    )


class _Round(nn.Module):
    """One exchange of messages between a node, its parent, its sibling and its children."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.absent = nn.Parameter(torch.zeros(3, width))
        self.mix = nn.Sequential(nn.Linear(5 * width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, states: Tensor, parents: Tensor, siblings: Tensor, children: Tensor) -> Tensor:
        """Update states (V, w)."""
        seen = self.norm(states)
        # The last rows stand for a parent, a sibling, a child that is not there.
        table = torch.cat([seen, self.absent])
        v = len(states)

        def state_of(indices: Tensor, absent: int) -> Tensor:
            return table.index_select(0, torch.where(indices >= 0, indices, v + absent))

        left, right = state_of(children[:, 0], 2), state_of(children[:, 1], 2)
        messages = [seen, state_of(parents, 0), state_of(siblings, 1), left + right, left.maximum(right)]
        mixed: Tensor = self.mix(torch.cat(messages, dim=1))
        return states + mixed


class NodeJudge(TrainedModel):
    """A network on trees: features of nodes -> opinions, whatever k and the number of columns."""

    method: ClassVar[str] = "node-judge"
    config_class: ClassVar[type[NodeJudgeConfig]] = NodeJudgeConfig
    centres: Tensor
    spreads: Tensor

    def __init__(self, config: NodeJudgeConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.register_buffer("centres", torch.zeros(config.n_features))
        self.register_buffer("spreads", torch.ones(config.n_features))
        self.embed = nn.Sequential(nn.Linear(config.n_features, width), nn.GELU(), nn.Linear(width, width))
        self.before = nn.ModuleList(_Round(width) for _ in range(config.n_rounds))
        self.after = nn.ModuleList(_Round(width) for _ in range(config.n_rounds))
        self.opinions = nn.Linear(4, width)
        self.first_head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))

    def standardize(self, features: Tensor) -> None:
        """Take centres and spreads from features (V, f) of training data."""
        self.centres.copy_(features.mean(dim=0))
        self.spreads.copy_(features.std(dim=0).clamp_min(1e-3))

    def forward(self, task: NodeTask) -> Judgement:
        """Judge the nodes of some trees."""
        features = ((task.features - self.centres) / self.spreads).clamp(-FARTHEST_FEATURE, FARTHEST_FEATURE)
        states = self.embed(features)
        siblings = _siblings(task.parents, task.children)
        for exchange in self.before:
            states = exchange(states, task.parents, siblings, task.children)
        first = self.first_head(states)[:, 0]
        states = states + self.opinions(_opinions(first.detach(), task))
        for exchange in self.after:
            states = exchange(states, task.parents, siblings, task.children)
        return Judgement(self.head(states)[:, 0], first)

    def loss(self, task: NodeTask, generator: torch.Generator) -> Tensor:
        """Cross-entropy of overlaps, nodes by their size."""
        assert task.overlaps is not None
        judged = self(task)
        weights = LEAST_WEIGHT + task.shares
        weights = weights / weights.sum()
        final = binary_cross_entropy_with_logits(judged.overlaps, task.overlaps, weights, reduction="sum")
        first = binary_cross_entropy_with_logits(judged.first, task.overlaps, weights, reduction="sum")
        return final + 0.5 * first


def _siblings(parents: Tensor, children: Tensor) -> Tensor:
    of_parent = children[parents.clamp_min(0)]
    own = torch.arange(len(parents))
    siblings = torch.where(of_parent[:, 0] == own, of_parent[:, 1], of_parent[:, 0])
    return torch.where(parents >= 0, siblings, -1)


def _opinions(first: Tensor, task: NodeTask) -> Tensor:
    """First opinion of each node, of the best cut below it, their difference, and the parent's, (V, 4)."""
    scores = torch.sigmoid(first)
    found = values_below(task.sizes.numpy(), task.children.numpy(), scores.double().numpy())
    below = torch.from_numpy(found.astype(np.float32))
    above = torch.where(task.parents >= 0, scores[task.parents.clamp_min(0)], 0.0)
    return torch.stack([scores, below, scores - below, above], dim=1)
