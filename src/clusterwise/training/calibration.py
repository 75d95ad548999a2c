"""What is decided on classes that were held out: the rule of the cut, and how a partition is refined.

Encodings of classes that an encoder was trained on are tighter than those of others, so a rule for unseen
classes has to be learned on some that it has not seen. Where too few classes are held out, small encoders
are trained without some of the others in turn, and the rule is learned on what these encoders
make of the classes that they lack.

A branch of a tree is divided if the statistics of its merger and of all above it are over the threshold, so
each merger has a level, the smallest of these, and a cut divides the mergers whose level is above its
threshold. What dividing one of them adds to the entropies and to the counts of pairs depends on that merger
alone: sums along the levels give the agreement of every cut with the classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from clusterwise._compiled import compiled
from clusterwise.gaussian.search import search
from clusterwise.nn.feature_encoder import FeatureEncoder
from clusterwise.papers.cut import CutRule, WardBranches, branches_of, nearest_means, sums_below
from clusterwise.papers.encoded import EncodedModel
from clusterwise.partition import canonical_labels
from clusterwise.priors.labelled_rows import DrawnRows, LabelledRows
from clusterwise.training.recipe import Recipe
from clusterwise.training.sources import VALIDATION, rng_of_step

__all__ = [
    "AllCuts",
    "Encoded",
    "agreement",
    "as_tensor",
    "calibration_sets",
    "divisibility",
    "encoded_sets",
    "fit_rule",
    "groups_as_sets",
    "inferred",
    "reach_of",
    "scores_of_refining",
    "simplest",
    "spread_of",
    "validation_sets",
]

MAX_ROWS_TO_MEASURE = 5000
# Rows of the largest data sets that decisions are made on, and how many there are of each size.
MAX_TO_CALIBRATE, SETS_OF_SIZE = 1024, 6
# Rows of data sets on which ways to refine are compared: a search among a thousand takes long.
MAX_TO_COMPARE = 400
# Rules that are tried, each with all thresholds.
SMOOTHINGS = (0.0, 0.5, 0.8)
SIZE_EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0)
ROWS_EXPONENTS = (0.0, 0.25, 0.5, 0.75)
# Thresholds that are tried, from the smallest statistic across classes to the largest.
N_THRESHOLDS = 200
# Less than this in agreement is no reason to choose the less simple rule.
WORTH_IT = 0.005
# Intervals of P(K) of these masses should hold the true number of clusters as often, or more often.
COVERED = (0.8, 0.95)


class Encoded(NamedTuple):
    """A data set of encodings with its classes, and what the network makes of it."""

    points: np.ndarray  # (m, f)
    truth: np.ndarray  # (m,)
    proposed: np.ndarray | None = None  # (m,)
    fold: int = 0  # data sets of one fold have classes in common, others need not


# -- data sets, and what encoders and networks make of them --------------------------------------------


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


# -- agreement of partitions and of all cuts -----------------------------------------------------------


def agreement(truth: np.ndarray, labels: np.ndarray) -> float:
    """NMI + ARI of two partitions (m,), less the logarithm of how many times too many or too few clusters.

    NMI alone likes many small clusters, and their number is what users ask for.
    """
    counts = np.zeros((int(labels.max()) + 1, int(truth.max()) + 1))
    np.add.at(counts, (labels, truth), 1)
    counts = counts[counts.sum(axis=1) > 0]
    sums = _additive(counts).sum(axis=1, keepdims=True)
    return float(_agreement(sums, counts.sum(axis=0), np.array([len(counts)]))[0])


def _additive(counts: np.ndarray) -> np.ndarray:
    """n log n and n^2 of clusters with counts (c, C): summed over classes, and of all their rows; (4, c)."""
    n = np.column_stack([counts, counts.sum(axis=1)])
    information, squares = n * np.log(np.maximum(n, 1)), np.square(n)
    return np.stack([of for x in (information, squares) for of in (x[:, :-1].sum(axis=1), x[:, -1])])


def _agreement(sums: np.ndarray, classes: np.ndarray, n_clusters: np.ndarray) -> np.ndarray:
    """Agreement of c partitions by their sums (4, c), with the sizes of the classes (C,)."""
    joint, own, joint_squares, own_squares = sums
    classes = classes[classes > 0]
    m = float(classes.sum())
    of_truth = math.log(m) - float((classes * np.log(classes)).sum()) / m
    of_labels = math.log(m) - own / m
    mutual = of_truth + of_labels - (math.log(m) - joint / m)
    entropies = of_truth + of_labels
    nmi = np.where(entropies < 1e-12, 1.0, 2 * mutual / np.maximum(entropies, 1e-12))
    first, second, every = float(np.square(classes).sum()) - m, own_squares - m, max(m * (m - 1), 1.0)
    chance, best = first * second / every, (first + second) / 2
    same = best - chance < 1e-9 * every
    ari = np.where(same, 1.0, (joint_squares - m - chance) / np.where(same, 1.0, best - chance))
    return np.asarray(nmi + ari - np.abs(np.log(n_clusters / len(classes))))


@compiled
def _lower_to_parents(levels: np.ndarray, parents: np.ndarray) -> None:
    """Lower statistics (m - 1,) of mergers to the smallest of all above them; ``parents`` (m - 1,)."""
    for i in range(len(levels) - 2, -1, -1):  # parents come later than their children
        levels[i] = min(levels[i], levels[parents[i]])


class AllCuts:
    """The cuts of a tree compared with the classes ``truth`` (m,) of its rows, all at once."""

    def __init__(self, branches: WardBranches, truth: np.ndarray) -> None:
        tree, m = branches.tree, len(truth)
        counts = sums_below(tree, np.eye(int(truth.max()) + 1)[truth])
        values = _additive(counts)
        left, right = tree.children[m:].T
        same = (counts[left] * counts[right]).sum(axis=1)
        self.branches, self.truth = branches, truth
        # Whether most pairs across a merger are of different classes.
        self.apart = same < 0.5 * tree.sizes[left] * tree.sizes[right]  # (m - 1,)
        self.classes = counts[-1]  # (C,) sizes
        self.n_classes = int((counts[-1] > 0).sum())
        self.root = values[:, -1:]  # (4, 1) sums of a single cluster
        self.added = values[:, left] + values[:, right] - values[:, m:]  # (4, m - 1)

    def levels(self, rule: CutRule) -> np.ndarray:
        """Thresholds (m - 1,) below which each merger is divided, less that of the rule."""
        tree = self.branches.tree
        levels = rule.statistic(self.branches).copy()
        _lower_to_parents(levels, tree.parents[tree.n_rows :] - tree.n_rows)
        return levels

    def in_order(self, order: np.ndarray) -> np.ndarray:
        """Agreement with 1, 2, ..., m clusters, (m,), if mergers are divided in this order (m - 1,)."""
        sums = self.root + np.concatenate([np.zeros((4, 1)), self.added[:, order].cumsum(axis=1)], axis=1)
        return _agreement(sums, self.classes, np.arange(1.0, sums.shape[1] + 1))

    def scores(self, rule: CutRule, offsets: np.ndarray) -> np.ndarray:
        """Agreement of the cuts at so much above the rule's threshold, (c,)."""
        levels = self.levels(rule)
        order = np.argsort(-levels, kind="stable")
        return self.in_order(order)[np.searchsorted(-levels[order], -offsets)]

    def miss(self, rule: CutRule) -> float:
        """How far the threshold of the rule would have to move for a cut with as many clusters as classes."""
        levels = np.concatenate([[np.inf], np.sort(self.levels(rule))[::-1], [-np.inf]])
        # With t between these two, n_classes - 1 mergers have a level above it.
        above, below = levels[self.n_classes - 1], levels[self.n_classes]
        return float(max(below, -above, 0.0))

    def given_number(self) -> float:
        """Agreement of the tree's partition into as many clusters as there are classes."""
        highest_first = np.arange(self.added.shape[1])[::-1]
        return float(self.in_order(highest_first)[self.n_classes - 1])


# -- the rule ------------------------------------------------------------------------------------------


class _Tried(NamedTuple):
    """Agreement (S, T) of a rule with thresholds (T,) on all data sets."""

    rule: CutRule
    thresholds: np.ndarray
    scores: np.ndarray


def fit_rule(sets: Sequence[Encoded]) -> tuple[CutRule, np.ndarray]:
    """The rule whose cuts agree best with the classes of data sets, and its mean agreement on each fold (F,).

    It is judged on each fold by a rule that was learned from the other folds; if there is one fold only, by
    the data sets that it was learned from.
    """
    folds = _folds(sets)
    cuts = {s: [AllCuts(branches_of(one.points, s), one.truth) for one in sets] for s in SMOOTHINGS}
    tried = [
        _try(CutRule(smoothing, size, rows), cuts[smoothing])
        for smoothing, size, rows in product(SMOOTHINGS, SIZE_EXPONENTS, ROWS_EXPONENTS)
    ]
    chosen = _best(tried, np.ones(len(sets), dtype=bool))
    scores, misses = [], np.empty(len(sets))
    for fold in range(int(folds.max()) + 1):
        here = folds == fold
        rule = _best(tried, ~here) if not here.all() else chosen
        of_rule = [cuts[rule.smoothing][i] for i in np.flatnonzero(here)]
        scores.append(np.mean([agreement(one.truth, _labels(rule, one.branches)) for one in of_rule]))
        misses[here] = [one.miss(rule) for one in of_rule]
    return replace(chosen, spread=_spread(misses)), np.array(scores)


def _folds(sets: Sequence[Encoded]) -> np.ndarray:
    """Numbers (S,) of the folds of data sets, 0 .. F-1."""
    return np.unique([one.fold for one in sets], return_inverse=True)[1].reshape(-1)


def _labels(rule: CutRule, branches: WardBranches) -> np.ndarray:
    """Labels (m,) of a cut, after some rounds of k-means."""
    return nearest_means(branches.points, rule.labels(branches)[0])


def _try(rule: CutRule, cuts: Sequence[AllCuts]) -> _Tried:
    """Agreement of all cuts of a rule."""
    statistics = np.concatenate([rule.statistic(one.branches) for one in cuts])
    apart = np.concatenate([one.apart for one in cuts])
    # Between mergers within classes and across: beyond the largest one nothing is divided.
    low = float(np.quantile(statistics[apart], 0.02)) if apart.any() else float(statistics.max())
    grid = np.linspace(low, float(statistics.max()) + 0.1, N_THRESHOLDS)
    return _Tried(rule, grid, np.stack([one.scores(rule, grid) for one in cuts]))


def _best(tried: Sequence[_Tried], chosen: np.ndarray) -> CutRule:
    """The best rule on the chosen data sets (S,) of bool; what makes it less simple has to be worth it.

    Its threshold is in the middle of those that are about as good as the best one.
    """
    best, found = -np.inf, CutRule()
    for rule, thresholds, scores in tried:
        means = scores[chosen].mean(axis=0)
        place = int(means.argmax())
        bad = np.flatnonzero(means < means[place] - WORTH_IT)
        first = int(bad[bad < place].max(initial=-1)) + 1
        last = int(bad[bad > place].min(initial=len(means))) - 1
        middle = (first + last) // 2
        score = float(means[middle]) - WORTH_IT * ((rule.smoothing > 0) + (rule.rows_exponent > 0))
        if score > best:
            best, found = score, replace(rule, threshold=float(thresholds[middle]))
    return found


def _spread(misses: np.ndarray) -> float:
    """Standard deviation of a threshold, such that intervals of P(K) hold the truth as often as they should.

    ``misses`` (S,) are how far the threshold of a rule would have to move for the true number of clusters, on
    data sets that the rule was not learned from.
    """
    normal = NormalDist()
    return max(
        float(np.quantile(misses, mass, method="higher")) / normal.inv_cdf((1 + mass) / 2) for mass in COVERED
    )


# -- encoders and ways to refine -----------------------------------------------------------------------


def divisibility(sets: Sequence[Encoded]) -> np.ndarray:
    """How well data sets of each fold (F,) can be divided, were the numbers of their classes known.

    By Ward's tree, of rows that have moved towards their neighbours or not, whichever is better. Where a cut
    is to be comes later: what single thresholds win or lose would drown the differences between encoders.
    """
    folds, found = _folds(sets), []
    for smoothing in (min(SMOOTHINGS), max(SMOOTHINGS)):
        scores = [AllCuts(branches_of(one.points, smoothing), one.truth).given_number() for one in sets]
        found.append(np.bincount(folds, scores) / np.bincount(folds))
    return max(found, key=np.mean)


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


def scores_of_refining(sets: Iterable[Encoded], rule: CutRule) -> dict[str, float]:
    """Mean agreement of the network alone, of a search from it, and of the cut.

    Which of them is best on classes that were held out is what the estimators do by default.
    """
    found: dict[str, list[float]] = {"none": [], "search": [], "cut": []}
    for one in sets:
        assert one.proposed is not None
        start = canonical_labels(one.proposed)
        found["none"].append(agreement(one.truth, start))
        best = search(one.points, [start], "spherical")[0]
        found["search"].append(agreement(one.truth, best.labels))
        found["cut"].append(agreement(one.truth, _labels(rule, branches_of(one.points, rule.smoothing))))
    return {how: round(float(np.mean(scores)), 4) for how, scores in found.items()}
