"""Training data of the node judge: trees of tables drawn from the broad prior."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import torch
from torch import nn

from clusterwise.affine import fit_column_map
from clusterwise.clusterer.cut import best_cut, best_overlaps
from clusterwise.clusterer.features import Nodes, measure, nodes_of
from clusterwise.clusterer.graph import neighbourhood_of
from clusterwise.clusterer.linkages import LINKAGES, trees_of
from clusterwise.clusterer.node_judge import NodeJudge, NodeTask
from clusterwise.clusterer.points import reduced, standardized
from clusterwise.gaussian.sorted_rows import sorted_order
from clusterwise.priors.broad import BroadPrior
from clusterwise.priors.broad.labelled_table import LabelledTable
from clusterwise.tables import TablePreparation
from clusterwise.training.callbacks import Callback, Measured
from clusterwise.training.recipe import Recipe
from clusterwise.training.sources import TRAINING, make_shards, read_shard, rng_of_step

__all__ = ["NodeSource", "draw_points", "node_source"]

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


def draw_points(prior: BroadPrior, seed: int, number: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Table number ``number``: points (n, f) ready for distances, labels (n,), -1 for noise, and its kind."""
    table = prior.draw_table(np.random.default_rng([seed, number]))
    points = _prepared(table) if table.framed else table.points
    order = sorted_order(points)  # as ``prepare`` does
    points = points[order]
    scaled = fit_column_map(points, joint=True).apply(points) if table.framed else standardized(points)
    return reduced(scaled), table.labels[order], table.kind


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
    near = neighbourhood_of(points)
    measured = measure(near)
    for tree in trees_of(near):
        yield _of_tree(nodes_of(measured, tree), labels)


def _of_tree(nodes: Nodes, labels: np.ndarray) -> dict[str, np.ndarray]:
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
