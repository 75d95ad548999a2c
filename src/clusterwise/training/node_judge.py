"""The judge of tree branches: how well does each match a true cluster? Its network, loss and training data.

``clusterer.judges`` has the same network in numpy, for fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from clusterwise.affine import fit_column_map
from clusterwise.clusterer.branches import (
    N_RANGE_FEATURES,
    N_SPLIT_FEATURES,
    Branches,
    best_cut,
    best_overlaps,
    measure_branches,
    values_below,
)
from clusterwise.clusterer.graph import neighbour_graph
from clusterwise.clusterer.judges import FARTHEST_FEATURE
from clusterwise.clusterer.trees import LINKAGES, trees_of
from clusterwise.neighbours import fit_projection, standardized
from clusterwise.papers.model import TrainedModel
from clusterwise.priors.broad import BroadPrior
from clusterwise.priors.broad.labelled_table import LabelledTable
from clusterwise.rows.sorted_rows import sorted_order
from clusterwise.tables import TablePreparation
from clusterwise.training.callbacks import Callback, Measured
from clusterwise.training.recipe import Recipe
from clusterwise.training.sources import TRAINING, make_shards, read_shard, rng_of_step

__all__ = [
    "NodeJudge",
    "NodeJudgeConfig",
    "NodeSource",
    "NodeTask",
    "draw_points",
    "node_source",
    "points_of",
]

# Weight of a node in the loss in addition to its share of the rows.
MIN_WEIGHT = 0.05
# Trees of a table are alike; a step takes this many trees, of as many tables as it happens.
TYPES = {
    "features": np.float32,
    "parents": np.int64,
    "children": np.int64,
    "sizes": np.int64,
    "shares": np.float32,
    "overlaps": np.float32,
}
ROWS_TO_STANDARDIZE = 200_000


@dataclass(frozen=True)
class NodeJudgeConfig:
    """Sizes of the network."""

    width: int = 64
    n_rounds: int = 2  # of messages along the tree, before the first score and after it
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
    """Scores of V branches."""

    overlaps: Tensor  # (V,) logits of the intersection over union
    first: Tensor  # (V,) first logits of them


class _Exchange(nn.Module):
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
    """A network on trees: features of branches -> scores, whatever k and the number of columns."""

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
        self.before = nn.ModuleList(_Exchange(width) for _ in range(config.n_rounds))
        self.after = nn.ModuleList(_Exchange(width) for _ in range(config.n_rounds))
        self.first_scores = nn.Linear(4, width)
        self.first_head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))

    def standardize(self, features: Tensor) -> None:
        """Take centres and spreads from features (V, f) of training data."""
        self.centres.copy_(features.mean(dim=0))
        self.spreads.copy_(features.std(dim=0).clamp_min(1e-3))

    def forward(self, task: NodeTask) -> Judgement:
        """Scores of the branches of some trees."""
        features = ((task.features - self.centres) / self.spreads).clamp(-FARTHEST_FEATURE, FARTHEST_FEATURE)
        states = self.embed(features)
        siblings = _siblings(task.parents, task.children)
        for exchange in self.before:
            states = exchange(states, task.parents, siblings, task.children)
        first = self.first_head(states)[:, 0]
        states = states + self.first_scores(_first_scores(first.detach(), task))
        for exchange in self.after:
            states = exchange(states, task.parents, siblings, task.children)
        return Judgement(self.head(states)[:, 0], first)

    def loss(self, task: NodeTask, generator: torch.Generator) -> Tensor:
        """Cross-entropy of overlaps, nodes by their size."""
        assert task.overlaps is not None
        judged = self(task)
        weights = MIN_WEIGHT + task.shares
        weights = weights / weights.sum()
        final = binary_cross_entropy_with_logits(judged.overlaps, task.overlaps, weights, reduction="sum")
        first = binary_cross_entropy_with_logits(judged.first, task.overlaps, weights, reduction="sum")
        return final + 0.5 * first


def _siblings(parents: Tensor, children: Tensor) -> Tensor:
    of_parent = children[parents.clamp_min(0)]
    own = torch.arange(len(parents))
    siblings = torch.where(of_parent[:, 0] == own, of_parent[:, 1], of_parent[:, 0])
    return torch.where(parents >= 0, siblings, -1)


def _first_scores(first: Tensor, task: NodeTask) -> Tensor:
    """First score of each node, of the best cut below it, their difference, and the parent's, (V, 4)."""
    scores = torch.sigmoid(first)
    found = values_below(task.sizes.numpy(), task.children.numpy(), scores.double().numpy())
    below = torch.from_numpy(found.astype(np.float32))
    above = torch.where(task.parents >= 0, scores[task.parents.clamp_min(0)], 0.0)
    return torch.stack([scores, below, scores - below, above], dim=1)


def draw_points(prior: BroadPrior, seed: int, number: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Table number ``number``: points (n, f) ready for distances, labels (n,), -1 for noise, and its kind."""
    table = prior.draw_table(np.random.default_rng([seed, number]))
    points = _prepared(table) if table.framed else table.points
    order, ready = points_of(points, table.framed)
    return ready, table.labels[order], table.kind


def points_of(features: np.ndarray, is_prepared: bool) -> tuple[np.ndarray, np.ndarray]:
    """The order (n,) of rows (n, d), and points (n, f) ready for distances in that order, as in a fit."""
    order = sorted_order(features)
    rows = features[order]
    scaled = fit_column_map(rows, joint=True).apply(rows) if is_prepared else standardized(rows)
    return order, fit_projection(scaled).apply(scaled)


def _prepared(table: LabelledTable) -> np.ndarray:
    """Features (n, f) of a table that comes as a data frame, as ``Clusterer`` makes them."""
    columns = {
        f"column {j}": [f"level {level:g}" for level in column] if j in table.categories else column
        for j, column in enumerate(table.points.T)
    }
    preparation = TablePreparation(include=list(columns))  # a prior has no ids
    features: np.ndarray = preparation.fit_transform(pyarrow.table(columns))
    return features


def _nodes(prior: BroadPrior, seed: int, numbers: range) -> Mapping[str, np.ndarray]:
    """The nodes of all trees of some tables, one tree after the other."""
    parts = [part for number in numbers for part in _of_table(*draw_points(prior, seed, number)[:2])]
    stacked = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return stacked | {"lengths": np.array([len(part["sizes"]) for part in parts])}


def _of_table(points: np.ndarray, labels: np.ndarray) -> Iterator[dict[str, np.ndarray]]:
    graph = neighbour_graph(points)
    for tree in trees_of(graph):
        yield _of_tree(measure_branches(graph, tree), labels)


def _of_tree(nodes: Branches, labels: np.ndarray) -> dict[str, np.ndarray]:
    overlaps = best_overlaps(nodes, labels)
    return {
        "features": nodes.features.astype(np.float16),
        "parents": nodes.parents.astype(np.int16),
        "children": nodes.children.astype(np.int16),
        "sizes": nodes.sizes.astype(np.int16),
        "shares": (nodes.sizes / len(labels)).astype(np.float32),
        "overlaps": overlaps.astype(np.float32),
    }


@dataclass(frozen=True)
class NodeSource:
    """Trees of many tables; see ``Source``."""

    recipe: Recipe
    shards: Sequence[Mapping[str, np.ndarray]]
    n_validation: int  # trees of the first tables, which are not trained on

    @cached_property
    def trees(self) -> list[tuple[int, int, int]]:
        """Shard, first and last node of each tree."""
        return [
            (i, int(end - length), int(end))
            for i, shard in enumerate(self.shards)
            for length, end in zip(shard["lengths"], shard["lengths"].cumsum(), strict=True)
        ]

    def start(self, model: nn.Module) -> None:
        assert isinstance(model, NodeJudge)
        rng = rng_of_step(self.recipe.seed, TRAINING, 0)
        some = self.pack(rng.choice(len(self.trees), min(len(self.trees), 1500), replace=False))
        model.standardize(some.features[:ROWS_TO_STANDARDIZE])

    def task(self, step: int) -> NodeTask:
        rng = rng_of_step(self.recipe.seed, TRAINING, step)
        first = min(self.n_validation, len(self.trees) - 1)
        return self.pack(rng.integers(first, len(self.trees), self.recipe.tables.per_batch))

    def pack(self, trees: np.ndarray) -> NodeTask:
        """The nodes of some trees, given by their numbers."""
        columns: dict[str, list[np.ndarray]] = {key: [] for key in TYPES}
        offset = 0
        for number in trees:
            i, start, end = self.trees[number]
            for key in TYPES:
                values = self.shards[i][key][start:end].astype(TYPES[key])
                if key in ("parents", "children"):
                    values = np.where(values >= 0, values + offset, -1)
                columns[key].append(values)
            offset += end - start
        return NodeTask(**{key: torch.from_numpy(np.concatenate(c)) for key, c in columns.items()})

    def validation(self) -> Callback:
        return Measured(self.recipe, self.measure)

    def measure(self, model: nn.Module) -> dict[str, float]:
        """Value of the network's cuts, that of the best cuts, and the share of cuts with the same k."""
        rows = [self._cut(model, number) for number in range(min(self.n_validation, len(self.trees)))]
        cut, best, right, squares = np.mean(rows, axis=0)
        return {"cut": cut, "best_cut": best, "right_k": right, "squared_error": squares}

    def _cut(self, model: nn.Module, number: int) -> tuple[float, float, float, float]:
        task = self.pack(np.array([number]))
        with torch.inference_mode():
            scores = torch.sigmoid(model(task).overlaps).double().numpy()
        assert task.overlaps is not None
        truth = task.overlaps.double().numpy()
        sizes, children = task.sizes.numpy(), task.children.numpy()
        found, best = best_cut(sizes, children, scores), best_cut(sizes, children, truth)
        error = np.average((scores - truth) ** 2, weights=sizes)

        def value(cut: np.ndarray) -> float:
            return float((sizes[cut] * truth[cut]).sum() / sizes[0])

        return value(found), value(best), float(len(found) == len(best)), float(error)

    def finish(self, model: nn.Module) -> dict[str, Any]:
        return {}


def node_source(
    recipe: Recipe, directory: Path, verbose: bool, is_over: Callable[[], bool]
) -> NodeSource | None:
    """Draw the tables of a recipe, or read them; see ``source_of_tables``."""
    prior = BroadPrior(**{key: value for key, value in recipe.prior.items() if key != "name"})
    make = partial(_nodes, prior, recipe.seed)
    paths = make_shards(directory, recipe.tables.n_tables, make, verbose, is_over)
    if paths is None:
        return None
    n_validation = recipe.tables.n_validation * len(LINKAGES)
    return NodeSource(recipe, [read_shard(path) for path in paths], n_validation)
