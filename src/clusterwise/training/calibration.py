"""What is decided on classes that were held out: where Ward's tree is cut, and how features begin.

Encodings of classes that an encoder was trained on are tighter than those of others, so a cut for unseen
classes has to be learned on some that it has not seen. Where too few classes are held out, small encoders
are trained without some of the others in turn, and the cut is learned on what these encoders make of the
classes that they lack.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from clusterwise.nn.feature_encoder import FeatureEncoder
from clusterwise.papers.cut import WardCut, log_costs, smoothed, ward_tree
from clusterwise.papers.encoded import EncodedModel
from clusterwise.priors.labelled_rows import DrawnRows, LabelledRows
from clusterwise.training.recipe import Recipe
from clusterwise.training.sources import VALIDATION, rng_of_step

__all__ = [
    "Encoded",
    "agreement",
    "as_tensor",
    "calibration_sets",
    "divisibility",
    "encoded_sets",
    "fit_cut",
    "groups_as_sets",
    "inferred",
    "reach_of",
    "simplest",
    "spread_of",
    "validation_sets",
]

MAX_ROWS_TO_MEASURE = 5000
# Rows of the largest data sets that decisions are made on, and how many there are of each size.
MAX_TO_CALIBRATE, SETS_OF_SIZE = 1024, 6
# Rows of data sets on which beginnings are compared.
MAX_TO_COMPARE = 400
# Thresholds that are tried, and how many times as many clusters as classes a cut may have.
N_THRESHOLDS, MAX_RATIO = 200, 4
# Less than this in agreement is no reason to choose the less simple way.
WORTH_IT = 0.005
# Intervals of P(K) of these masses should hold the true number of clusters as often, or more often.
COVERED = (0.8, 0.95)


class Encoded(NamedTuple):
    """A data set of encodings with its classes."""

    points: np.ndarray  # (m, f)
    truth: np.ndarray  # (m,)
    fold: int = 0  # data sets of one fold have classes in common, others need not


# -- data sets, and what encoders make of them ---------------------------------------------------------


def as_tensor(rows: np.ndarray) -> Tensor:
    """Rows (n, d) as networks take them."""
    return torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float32))


def validation_sets(prior: LabelledRows, recipe: Recipe) -> list[DrawnRows]:
    """The sets that every validation looks at, of sizes up to ``n_points`` of the recipe, one size each."""
    rng, options = rng_of_step(recipe.seed, VALIDATION, 0), recipe.validation
    largest = min(options.n_points, len(prior.y))
    sizes = np.unique(np.maximum(2, [largest // 4, largest // 2, largest]))
    each = max(1, options.n_sets // len(sizes))
    return [prior.draw_rows(rng, each, int(size)) for size in sizes]


def calibration_sets(prior: LabelledRows, recipe: Recipe, each: int = SETS_OF_SIZE) -> list[DrawnRows]:
    """The sets that decisions are made on, ``each`` of sizes up to what a network sees at a time."""
    rng, largest = rng_of_step(recipe.seed, VALIDATION, 1), min(MAX_TO_CALIBRATE, len(prior.y))
    sizes = np.unique(np.maximum(2, [largest // 8, largest // 3, largest]))
    return [prior.draw_rows(rng, each, int(size)) for size in sizes]


def groups_as_sets(prior: LabelledRows, recipe: Recipe) -> list[DrawnRows]:
    """Groups of rows as data sets of their own, some of them if there are many; of very many rows, some."""
    found: list[DrawnRows] = []
    rng = rng_of_step(recipe.seed, VALIDATION, 2)
    groups = () if prior.groups is None else rng.permutation(np.unique(prior.groups))
    for group in groups[: 3 * SETS_OF_SIZE]:
        rows = rng.permutation(np.flatnonzero(prior.groups == group))[:MAX_TO_CALIBRATE]
        labels = np.unique(prior.y[rows], return_inverse=True)[1].reshape(1, -1)
        nothing = np.zeros_like(labels)
        if len(rows) > 1:
            found.append(DrawnRows(rows[None], labels, nothing, rows[None], nothing))
    return found


@torch.no_grad()
def encoded_sets(
    encoder: FeatureEncoder, prior: LabelledRows, sets: list[DrawnRows]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Encodings (m, f) and classes (m,) of each data set."""
    for drawn in sets:
        for index, truth in zip(drawn.index, drawn.labels, strict=True):
            yield encoder(as_tensor(prior.rows[index])).numpy().astype(np.float64), truth


@torch.no_grad()
def inferred(
    model: EncodedModel, rows: np.ndarray, sets: list[DrawnRows]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Encodings (N, e), true labels (N,) and those that the network finds (N,), of each data set."""
    for drawn in sets:
        keys, index = np.unique(drawn.index, return_inverse=True)
        encoded = model.encoder(as_tensor(rows[keys]))
        points = encoded[torch.from_numpy(index.reshape(drawn.index.shape))]
        found = model.network.infer(points, torch.ones(points.shape[:2], dtype=torch.bool), max_clusters=200)
        for of_set, truth, inference in zip(points.numpy(), drawn.labels, found, strict=True):
            yield of_set, truth, inference.labels.numpy()


@torch.no_grad()
def spread_of(encoder: FeatureEncoder, rows: np.ndarray) -> float:
    """Sum of the variances of the encodings of training rows."""
    some = rows[:: max(1, len(rows) // MAX_ROWS_TO_MEASURE)]
    return float(encoder(as_tensor(some)).var(0, correction=0).sum())


@torch.no_grad()
def reach_of(encoder: FeatureEncoder, rows: np.ndarray) -> float:
    """How far from the origin encodings of training rows reach: the 99.9th percentile of ``max |z|``."""
    some = rows[:: max(1, len(rows) // MAX_ROWS_TO_MEASURE)]
    reach = encoder(as_tensor(some)).abs().amax(1).numpy()
    return math.ceil(100 * float(np.quantile(reach, 0.999))) / 100


# -- the cut -------------------------------------------------------------------------------------------


class CutsOfSet(NamedTuple):
    """The cuts of the tree of a data set compared with its classes."""

    costs: np.ndarray  # (m - 1,) log costs of its mergers, descending
    scores: np.ndarray  # (c,) agreement with 1, 2, ..., c clusters
    n_classes: int

    @classmethod
    def of(cls, one: Encoded) -> CutsOfSet:
        """All cuts into at most a few times as many clusters as there are classes."""
        tree, n_classes = ward_tree(smoothed(one.points)), len(np.unique(one.truth))
        most = min(len(one.truth), MAX_RATIO * n_classes + 1)
        scores = [agreement(one.truth, tree.level(k)) for k in range(1, most + 1)]
        return cls(log_costs(tree)[::-1], np.array(scores), n_classes)

    def at(self, thresholds: np.ndarray) -> np.ndarray:
        """Agreement at thresholds (t,); of too many clusters it is that of the most that were compared."""
        n_clusters = 1 + (self.costs > thresholds[:, None]).sum(axis=1)
        return self.scores[np.minimum(n_clusters, len(self.scores)) - 1]

    def miss(self, threshold: float) -> float:
        """How far a threshold would have to move for as many clusters as classes."""
        costs = np.concatenate([[np.inf], self.costs, [-np.inf]])
        above, below = costs[self.n_classes - 1], costs[self.n_classes]
        return float(max(below - threshold, threshold - above, 0.0))


def fit_cut(sets: Sequence[Encoded]) -> WardCut:
    """The cut that agrees best with the classes of data sets.

    Its threshold is in the middle of those that are about as good as the best one. Its spread is such that
    intervals of P(K) hold the truth as often as they should.
    """
    cuts = [CutsOfSet.of(one) for one in sets]
    lowest = min(float(one.costs[min(len(one.scores), len(one.costs)) - 1]) for one in cuts)
    thresholds = np.linspace(lowest, max(float(one.costs[0]) for one in cuts) + 0.1, N_THRESHOLDS)
    means = np.mean([one.at(thresholds) for one in cuts], axis=0)
    best = int(means.argmax())
    bad = np.flatnonzero(means < means[best] - WORTH_IT)
    first = int(bad[bad < best].max(initial=-1)) + 1
    last = int(bad[bad > best].min(initial=len(means))) - 1
    threshold = float(thresholds[(first + last) // 2])
    misses, normal = [one.miss(threshold) for one in cuts], NormalDist()
    spreads = [
        float(np.quantile(misses, mass, method="higher")) / normal.inv_cdf((1 + mass) / 2) for mass in COVERED
    ]
    return WardCut(threshold, max(spreads))


def agreement(truth: np.ndarray, labels: np.ndarray) -> float:
    """NMI + ARI of two partitions (m,), less the logarithm of how many times too many or too few clusters.

    NMI alone likes many small clusters, and their number is what users ask for.
    """
    counts = np.zeros((int(labels.max()) + 1, int(truth.max()) + 1))
    np.add.at(counts, (labels, truth), 1)
    own, classes, m = counts.sum(axis=1), counts.sum(axis=0), len(truth)
    joint, found, true = (float(_plogp(n / m).sum()) for n in (counts, own, classes))
    nmi = 1.0 if found + true > -1e-12 else 2 * (found + true - joint) / (found + true)
    together, first, second = (float((n * (n - 1)).sum()) for n in (counts, own, classes))
    chance, best = first * second / max(m * (m - 1), 1), (first + second) / 2
    ari = 1.0 if best - chance < 1e-9 * m * m else (together - chance) / (best - chance)
    n_clusters, n_classes = np.count_nonzero(own), np.count_nonzero(classes)
    return nmi + ari - abs(math.log(n_clusters / n_classes))


def _plogp(p: np.ndarray) -> np.ndarray:
    values: np.ndarray = p * np.log(np.maximum(p, 1e-300))
    return values


# -- beginnings ----------------------------------------------------------------------------------------


def divisibility(sets: Sequence[Encoded]) -> np.ndarray:
    """How well data sets of each fold (F,) can be divided, were the numbers of their classes known.

    Where a cut is to be comes later: what single thresholds win or lose would drown the differences between
    encoders.
    """
    folds = np.unique([one.fold for one in sets], return_inverse=True)[1].reshape(-1)
    scores = []
    for one in sets:
        tree = ward_tree(smoothed(one.points))
        scores.append(agreement(one.truth, tree.level(len(np.unique(one.truth)))))
    return np.asarray(np.bincount(folds, scores) / np.bincount(folds))


def simplest(scores: np.ndarray) -> int:
    """Which of several ways to take, the simplest first, by their scores (W, F) on folds.

    The first that is not worse than the best one by more than a standard error of the difference, or by so
    little that it does not matter: what one way seems to gain on few classes, it may lose on others (Breiman
    et al. 1984).
    """
    behind = scores[scores.mean(axis=1).argmax()] - scores
    n_folds = scores.shape[1]
    errors = behind.std(axis=1, ddof=1) / math.sqrt(n_folds) if n_folds > 1 else np.zeros(len(scores))
    return int((behind.mean(axis=1) <= np.maximum(errors, WORTH_IT)).argmax())
