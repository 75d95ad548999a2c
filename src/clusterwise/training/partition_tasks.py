"""Training data of the partition judge: candidate partitions of tables drawn from the broad prior."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import torch
from sklearn.cluster import KMeans
from torch import nn

from clusterwise.clusterer.features import (
    PartitionFeatures,
    agreements,
    agreements_with,
    features_of_partition,
)
from clusterwise.clusterer.graph import neighbour_graph
from clusterwise.clusterer.judges import (
    Judges,
    Parameters,
    PartitionScores,
    probabilities_of_k,
    rank,
)
from clusterwise.clusterer.proposers import PROPOSERS, distinct
from clusterwise.exceptions import ClusterwiseError
from clusterwise.pretrained.lookup import get_parameters
from clusterwise.priors.broad import BroadPrior
from clusterwise.tables import TablePreparation
from clusterwise.training.callbacks import Callback, Measured
from clusterwise.training.node_judge import draw_points, points_of
from clusterwise.training.partition_judge import (
    CandidateTask,
    Judgement,
    PartitionJudge,
    pack_candidates,
)
from clusterwise.training.real_tables import RealSet, draw_parts, real_sets
from clusterwise.training.recipe import Recipe
from clusterwise.training.sources import TRAINING, make_shards, read_shard, rng_of_step

__all__ = ["PartitionSource", "partition_source"]

TABLES_TO_STANDARDIZE, REAL_TABLES_TO_STANDARDIZE = 300, 2  # the latter of each real data set
# Share of the candidates of a table that a training step may leave out.
MAX_DROPPED = 0.6
# Tried for P(K): see ``probabilities_of_k``.
TEMPERATURES = tuple(np.geomspace(0.7, 5.0, 16).tolist())
SPREADS = tuple(np.geomspace(0.005, 0.3, 14).tolist())
SAME_LOSS = 0.01  # nats a table
# Real tables with fewer rows teach nothing.
MIN_REAL_ROWS = 20


# Points (n, f), labels (n,), a kind, and a generator for what else is drawn for a table.
TableOfPoints = tuple[np.ndarray, np.ndarray, str, np.random.Generator]


def _candidates(node_judge: Parameters, tables: Iterable[TableOfPoints]) -> Mapping[str, np.ndarray]:
    """Candidates of some tables, one after the other, with their scores."""
    parts: dict[str, list[np.ndarray]] = {}
    for points, truth, kind, rng in tables:
        graph = neighbour_graph(points)
        graph = replace(graph, trees=Judges(node_judge, {}).score_trees(graph))
        proposed = distinct(points, (labels for propose in PROPOSERS.values() for labels in propose(graph)))
        candidates = distinct(points, (*proposed, *_others(rng, points, proposed)))
        features = [features_of_partition(graph, labels) for labels in candidates]
        known = truth >= 0
        of_table: dict[str, np.ndarray] = {
            "clusters": np.concatenate([one.clusters for one in features]).astype(np.float16),
            "shares": np.concatenate([one.shares for one in features]).astype(np.float32),
            "sizes": np.array([len(one.shares) for one in features]),
            "partition": np.stack([one.partition for one in features]).astype(np.float32),
            "agreements": agreements(candidates).ravel().astype(np.float32),
            "scores": agreements_with(truth[known], [one[known] for one in candidates]),
            "lengths": np.array([len(features)]),
            "n_clusters": np.array([truth.max() + 1]),
            "kinds": np.array([kind]),
        }
        for key, values in of_table.items():
            parts.setdefault(key, []).append(values)
    return {key: np.concatenate(values) for key, values in parts.items()}


def _artificial(prior: BroadPrior, seed: int, numbers: range) -> Iterator[TableOfPoints]:
    for number in numbers:
        yield *draw_points(prior, seed, number), np.random.default_rng([seed, number, 1])


def _real(one: RealSet, seed: int, n: int) -> Iterator[TableOfPoints]:
    """Tables of a real data set; what is left of some has too few rows or columns, and is left out."""
    for rows, labels, rng in draw_parts(one, seed, n):
        is_table = isinstance(rows, pyarrow.Table)
        try:
            features = TablePreparation(include=rows.column_names).fit_transform(rows) if is_table else rows
        except ClusterwiseError:
            continue
        if len(features) >= MIN_REAL_ROWS and (features != features[0]).any():
            order, points = points_of(features, is_table)
            yield points, labels[order], one.family, rng


def _others(
    rng: np.random.Generator, points: np.ndarray, candidates: Sequence[np.ndarray]
) -> Iterator[np.ndarray]:
    """Candidates of other kinds, as users may propose them: k-means, and changes of the given ones."""
    if rng.random() < 0.5:
        return
    k = 2 + int(rng.geometric(0.2)) % 20
    if rng.random() < 0.5 and 2 * k < len(points):
        yield KMeans(k, n_init=1, random_state=int(rng.integers(2**31 - 1))).fit_predict(points)
    several = [one for one in candidates if one.max() > 1]
    if several:
        labels = several[int(rng.integers(len(several)))]
        one, other = rng.choice(int(labels.max()) + 1, 2, replace=False)
        yield np.where(labels == one, other, labels)  # two clusters in one
    labels = candidates[int(rng.integers(len(candidates)))]
    inside = labels == labels[int(rng.integers(len(labels)))]
    direction = points @ rng.standard_normal(points.shape[1])
    beyond = inside & (direction > np.median(direction[inside]))
    yield np.where(beyond, labels.max() + 1, labels)  # a cluster cut in two
    moved = rng.random(len(labels)) < rng.uniform(0.01, 0.2)
    yield np.where(moved, rng.permutation(labels), labels)  # rows in wrong clusters


@dataclass(frozen=True)
class _Table:
    """The candidates of one table."""

    features: list[PartitionFeatures]
    agreements: np.ndarray
    scores: np.ndarray
    n_clusters: int


@dataclass(frozen=True)
class PartitionSource:
    """Candidates of many tables; see ``Source``."""

    recipe: Recipe
    shards: Sequence[Mapping[str, np.ndarray]]
    n_validation: int
    real: Sequence[Mapping[str, np.ndarray]] = ()  # of each real data set

    @cached_property
    def tables(self) -> list[_Table]:
        """The candidates of each table."""
        return [table for shard in self.shards for table in _tables_of(shard)]

    @cached_property
    def real_tables(self) -> list[list[_Table]]:
        """The candidates of each table of each real data set."""
        return [_tables_of(shard) for shard in self.real]

    def start(self, model: nn.Module) -> None:
        assert isinstance(model, PartitionJudge)
        some = [table for tables in self.real_tables for table in tables[:REAL_TABLES_TO_STANDARDIZE]]
        model.standardize(_packed([*self.tables[:TABLES_TO_STANDARDIZE], *some]))

    def task(self, step: int) -> CandidateTask:
        rng = rng_of_step(self.recipe.seed, TRAINING, step)
        return _packed([_some(rng, self._draw(rng)) for _ in range(self.recipe.tables.per_batch)])

    def _draw(self, rng: np.random.Generator) -> _Table:
        """A table to train on; all real data sets come as often, whatever their size."""
        tables = self.tables[min(self.n_validation, len(self.tables) - 1) :]
        if self.real and rng.random() < self.recipe.real.share:
            tables = self.real_tables[int(rng.integers(len(self.real)))]
        return tables[int(rng.integers(len(tables)))]

    def pack(self, numbers: Sequence[int] | np.ndarray | range) -> CandidateTask:
        """The candidates of some tables with their scores."""
        return _packed([self.tables[number] for number in numbers])

    def validation(self) -> Callback:
        return Measured(self.recipe, self.measure)

    def measure(self, model: nn.Module) -> dict[str, float]:
        """ARI and error on k of the chosen candidates; ARI of the best ones; calibration error of P(K)."""
        task = self.pack(range(min(self.n_validation, len(self.tables))))
        assert task.qualities is not None and task.true_n_clusters is not None
        with torch.inference_mode():
            judged = model(task)
        rows, chosen = torch.arange(len(task.present)), _answers(judged, task)
        best = task.qualities.masked_fill(~task.present, -1).amax(dim=1)
        errors = (task.n_clusters[rows, chosen] - task.true_n_clusters).abs().double()
        assert isinstance(model, PartitionJudge)
        confidence, right = _most_likely_k(judged.numbers.exp().numpy(), task, float(model.spread))
        return {
            "ari": float(task.qualities[rows, chosen].mean()),
            "best_ari": float(best.mean()),
            "k_mae": float(errors.mean()),
            "right_k": float((errors == 0).double().mean()),
            "calibration_error": expected_calibration_error(confidence, right),
        }

    def finish(self, model: nn.Module) -> dict[str, Any]:
        """Calibrate P(K) on one half of the validation tables, measure it on the other, and calibrate on all.

        Also: the largest share of features out of range in training tables, the 99.9th percentile.
        """
        assert isinstance(model, PartitionJudge)
        half = self.n_validation // 2
        first, second = self.pack(range(half)), self.pack(range(half, self.n_validation))
        _calibrate(model, first)
        with torch.inference_mode():
            numbers = model(second).numbers.exp().numpy()
        confidence, right = _most_likely_k(numbers, second, float(model.spread))
        _calibrate(model, self.pack(range(self.n_validation)))
        parts = [
            model.out_of_range(self.pack(range(start, min(start + 100, len(self.tables)))))
            for start in range(0, len(self.tables), 100)
        ]
        return {
            "max_out_of_range": float(np.quantile(torch.cat(parts).numpy(), 0.999)),
            "temperature": float(model.temperature),
            "spread": float(model.spread),
            "calibration_error": expected_calibration_error(confidence, right),
        }


def _some(rng: np.random.Generator, table: _Table) -> _Table:
    """A table with part of its candidates, so that none of them can be counted on to be there."""
    kept = np.flatnonzero(rng.random(len(table.features)) >= rng.uniform(0.0, MAX_DROPPED))
    if len(kept) < 2:
        return table
    return _Table(
        [table.features[i] for i in kept],
        table.agreements[np.ix_(kept, kept)],
        table.scores[kept],
        table.n_clusters,
    )


def _packed(tables: Sequence[_Table]) -> CandidateTask:
    """The candidates of tables with their scores."""
    task = pack_candidates(
        [one.features for one in tables],
        [one.agreements for one in tables],
    )
    scores = np.zeros(task.present.shape, dtype=np.float32)
    for row, one in zip(scores, tables, strict=True):
        row[: len(one.scores)] = one.scores
    return replace(
        task,
        qualities=torch.from_numpy(scores),
        true_n_clusters=torch.tensor([one.n_clusters for one in tables]),
    )


def _answers(judged: Judgement, task: CandidateTask) -> torch.Tensor:
    """Places (B,) of the candidates that ``Clusterer`` answers with."""
    found = []
    for b, there in enumerate(task.present):
        scores = PartitionScores(
            torch.sigmoid(judged.qualities[b, there]).double().numpy(),
            judged.choice[b, there].double().exp().numpy(),
            judged.numbers[b, there].double().exp().numpy(),
            task.agreements[b, there][:, there].numpy(),
            task.n_clusters[b, there].numpy(),
            0.0,
        )
        found.append(int(rank(scores)[0]))
    return torch.tensor(found)


def _calibrate(model: PartitionJudge, task: CandidateTask) -> None:
    """Give P(K) the temperature and the spread with which the true numbers are likeliest.

    Among pairs that are level in that, the one whose confidence is right most often as it says.
    """
    assert task.true_n_clusters is not None
    truth = task.true_n_clusters.numpy() - 1
    losses, errors = {}, {}
    for temperature in TEMPERATURES:
        model.temperature.fill_(temperature)
        with torch.inference_mode():
            numbers = model(task).numbers.exp().double().numpy()
        for spread in SPREADS:
            found = _k_probabilities(numbers, task, spread)
            pair = temperature, spread
            losses[pair] = -np.log(found[np.arange(len(truth)), truth] + 1e-12).mean()
            errors[pair] = expected_calibration_error(found.max(axis=1), found.argmax(axis=1) == truth)
    level = [pair for pair, loss in losses.items() if loss <= min(losses.values()) + SAME_LOSS]
    temperature, spread = min(level, key=lambda pair: errors[pair])
    model.temperature.fill_(temperature)
    model.spread.fill_(spread)


def _k_probabilities(numbers: np.ndarray, task: CandidateTask, spread: float) -> np.ndarray:
    """P(K) of each data set, (B, K), from the probabilities of its candidates, (B, C)."""
    pairs = zip(numbers, task.n_clusters.numpy(), task.present.numpy(), strict=True)
    return np.stack([probabilities_of_k(p[there], k[there], spread) for p, k, there in pairs])


def _most_likely_k(numbers: np.ndarray, task: CandidateTask, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """Probability of the likeliest k of each data set, (B,), and whether it is the true one."""
    assert task.true_n_clusters is not None
    found = _k_probabilities(numbers, task, spread)
    return found.max(axis=1), found.argmax(axis=1) + 1 == task.true_n_clusters.numpy()


def expected_calibration_error(confidence: np.ndarray, right: np.ndarray, n_bins: int = 10) -> float:
    """Mean gap between confidence (n,) and accuracy in bins of equal width."""
    bins = np.minimum((confidence * n_bins).astype(np.int64), n_bins - 1)
    gaps = [
        (bins == i).mean() * abs(confidence[bins == i].mean() - right[bins == i].mean())
        for i in np.unique(bins)
    ]
    return float(sum(gaps))


def _tables_of(shard: Mapping[str, np.ndarray]) -> list[_Table]:
    tables = []
    clusters = np.split(shard["clusters"], shard["sizes"].cumsum()[:-1])
    shares = np.split(shard["shares"], shard["sizes"].cumsum()[:-1])
    start, corner = 0, 0
    for length, n_clusters in zip(shard["lengths"], shard["n_clusters"], strict=True):
        end = start + length
        features = [
            PartitionFeatures(clusters[i].astype(np.float32), shares[i], shard["partition"][i])
            for i in range(start, end)
        ]
        square = shard["agreements"][corner : corner + length**2].reshape(length, length)
        tables.append(_Table(features, square, shard["scores"][start:end], int(n_clusters)))
        start, corner = end, corner + length**2
    return tables


def partition_source(
    recipe: Recipe, directory: Path, verbose: bool, is_over: Callable[[], bool]
) -> PartitionSource | None:
    """Make the candidates of a recipe's tables, or read them; see ``source_of_tables``."""
    prior = BroadPrior(**{key: value for key, value in recipe.prior.items() if key != "name"})
    judge = get_parameters(recipe.tables.node_judge, "node-judge")[2]

    def make(numbers: range) -> Mapping[str, np.ndarray]:
        return _candidates(judge, _artificial(prior, recipe.seed, numbers))

    paths = make_shards(directory, recipe.tables.n_tables, make, verbose, is_over)
    if paths is None:
        return None
    real = []
    for one in real_sets(recipe.real.without) if recipe.real.share else []:
        folder = directory.with_name(f"{directory.name}-real-{recipe.real.per_set}") / one.name
        n, of_set = recipe.real.per_set, partial(_real, one, recipe.seed)
        found = make_shards(folder, 1, lambda _: _candidates(judge, of_set(n)), False, is_over)  # noqa: B023
        if found is None:
            return None
        real += found
        if verbose:
            print(f"real tables: {one.name}", file=sys.stderr, flush=True)
    shards, of_sets = [read_shard(path) for path in paths], [read_shard(path) for path in real]
    return PartitionSource(recipe, shards, recipe.tables.n_validation, of_sets)
