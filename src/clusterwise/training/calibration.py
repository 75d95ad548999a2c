"""What is decided on classes that were held out: the rule of the cut, and how a partition is refined.

Encodings of classes that an encoder was trained on are tighter than those of others, so a rule for unseen
classes has to be learned on some that it has not seen. Where there are too few classes to hold any out for
good, small encoders are trained without two of them in turn, and the rule is learned on what these encoders
make of the classes that they lack.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from sklearn.metrics import normalized_mutual_info_score

from clusterwise.partition import canonical_labels
from clusterwise.search.climb import climb
from clusterwise.search.evidence import Sample
from clusterwise.search.settings import DEFAULT
from clusterwise.trees.learned_cut import Branches, CutRule, branches_of, pairs_united, settled

__all__ = ["Encoded", "agreement", "divisibility", "fit_rule", "rule_facts", "scores_of_refining"]

SMOOTHINGS = (0.0, 0.5, 0.8)
SIZE_EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0)
NETWORK_WEIGHTS = (0.0, 1.0)
# Thresholds that are tried: so many between the smallest and the largest statistic near the truth, then as
# many between the best one's neighbours.
N_THRESHOLDS = 12
# Thresholds about that of the rule, for single data sets.
OFFSETS = np.linspace(-2.0, 2.0, 21)
# Less than this in agreement is no reason to choose the less simple rule.
WORTH_IT = 0.005


@dataclass(frozen=True, eq=False)
class Encoded:
    """A data set of encodings with its classes, and what the network makes of it."""

    points: np.ndarray  # (m, f)
    truth: np.ndarray  # (m,)
    proposed: np.ndarray | None = None  # (m,)


@dataclass(frozen=True, eq=False)
class Tree:
    """The tree of a data set, and what a cut of it should be."""

    branches: Branches
    truth: np.ndarray
    apart: np.ndarray  # (m - 1,) share of pairs across each merger that are of different classes


def fit_rule(sets: Sequence[Encoded]) -> tuple[CutRule, float]:
    """The rule whose cuts agree best with the classes of data sets, see ``agreement``, and its mean NMI."""
    chosen, best = CutRule(), -np.inf
    with_network = all(one.proposed is not None for one in sets)
    for smoothing in SMOOTHINGS:
        trees = [_tree(one, smoothing) for one in sets]
        for weight in NETWORK_WEIGHTS if with_network else NETWORK_WEIGHTS[:1]:
            for exponent in SIZE_EXPONENTS:
                rule, score = _best_threshold(trees, CutRule(smoothing, exponent, weight))
                cost = WORTH_IT * ((smoothing > 0) + (weight > 0))
                if score - cost > best:
                    chosen, best, of_best = rule, score - cost, trees
    return replace(chosen, spread=_spread(of_best, chosen)), float(
        np.mean([normalized_mutual_info_score(t.truth, labels_by(chosen, t.branches)) for t in of_best])
    )


def divisibility(sets: Sequence[Encoded]) -> float:
    """How well the best rule divides data sets into their classes, by ``agreement``."""
    rule, _ = fit_rule(sets)
    cuts = (labels_by(rule, branches_of(one.points, rule.smoothing, one.proposed)) for one in sets)
    return float(np.mean([agreement(one.truth, cut) for one, cut in zip(sets, cuts, strict=True)]))


def labels_by(rule: CutRule, branches: Branches) -> np.ndarray:
    """Labels (m,) of a cut, settled."""
    return settled(branches.points, rule.labels(branches)[0])


def _tree(one: Encoded, smoothing: float) -> Tree:
    branches = branches_of(one.points, smoothing, one.proposed)
    return Tree(branches, one.truth, 1 - pairs_united(branches.tree, one.truth))


def _best_threshold(trees: Sequence[Tree], rule: CutRule) -> tuple[CutRule, float]:
    statistics = np.concatenate([replace(rule, threshold=0.0).statistic(t.branches) for t in trees])
    apart = np.concatenate([t.apart for t in trees]) > 0.5
    # Between mergers within classes and across: beyond the largest one nothing is divided.
    low = float(np.quantile(statistics[apart], 0.02)) if apart.any() else float(statistics.max())
    found: dict[float, float] = {}
    grid = np.linspace(low, float(statistics.max()) + 0.1, N_THRESHOLDS)
    for _ in range(2):
        for threshold in map(float, grid):
            if threshold not in found:
                found[threshold] = _agreement(trees, replace(rule, threshold=threshold))
        best = max(found, key=lambda one: found[one])
        step = grid[1] - grid[0]
        grid = np.linspace(best - step, best + step, N_THRESHOLDS)
    # The middle of the thresholds that are about as good.
    good = [one for one in found if found[one] >= found[best] - WORTH_IT and abs(one - best) <= step]
    middle = float(np.mean(good))
    value = _agreement(trees, replace(rule, threshold=middle))
    if value < found[best] - WORTH_IT:
        middle, value = best, found[best]
    return replace(rule, threshold=middle), value


def _agreement(trees: Sequence[Tree], rule: CutRule) -> float:
    return float(np.mean([agreement(one.truth, rule.labels(one.branches)[0]) for one in trees]))


def agreement(truth: np.ndarray, labels: np.ndarray) -> float:
    """NMI + ARI of two partitions (m,), less the logarithm of how many times too many or too few clusters.

    NMI alone likes many small clusters, and their number is what users ask for. From one table of counts;
    scikit-learn takes ten times as long.
    """
    k, m = int(labels.max()) + 1, len(labels)
    counts = np.bincount(truth * k + labels, minlength=(int(truth.max()) + 1) * k).reshape(-1, k) / m
    rows, columns = counts.sum(axis=1), counts.sum(axis=0)

    def entropy(p: np.ndarray) -> float:
        p = p[p > 0]
        return float(-(p * np.log(p)).sum())

    of_rows, of_columns = entropy(rows), entropy(columns)
    mutual = of_rows + of_columns - entropy(counts.reshape(-1))
    nmi = 1.0 if of_rows + of_columns == 0 else 2 * mutual / (of_rows + of_columns)

    def pairs(p: np.ndarray) -> float:
        return float((p * (p * m - 1)).sum())

    both, first, second, every = pairs(counts), pairs(rows), pairs(columns), m - 1.0
    chance = first * second / every
    most = (first + second) / 2
    ari = 1.0 if most == chance else (both - chance) / (most - chance)
    return nmi + ari - abs(math.log(len(columns[columns > 0]) / len(rows[rows > 0])))


def _spread(trees: Sequence[Tree], rule: CutRule) -> float:
    """Standard deviation of the thresholds that suit single data sets best, about that of the rule."""
    offsets = []
    for one in trees:
        scores = [_agreement([one], replace(rule, threshold=rule.threshold + offset)) for offset in OFFSETS]
        good = OFFSETS[np.array(scores) >= max(scores) - 1e-9]
        offsets.append(good[np.abs(good).argmin()])  # the nearest of those that are as good
    return float(np.sqrt(np.mean(np.square(offsets))))


def scores_of_refining(sets: Iterable[Encoded], rule: CutRule) -> dict[str, float]:
    """Mean NMI of the network alone, of EM and a search from it, and of the cut.

    Which of them is best on classes that were held out is what the estimators do by default.
    """
    found: dict[str, list[float]] = {"none": [], "em": [], "search": [], "cut": []}
    for one in sets:
        assert one.proposed is not None
        found["none"].append(normalized_mutual_info_score(one.truth, one.proposed))
        sample = Sample(one.points.astype(np.float64), "spherical", DEFAULT)
        start = canonical_labels(one.proposed)
        for how in ("em", "search"):
            state = climb(sample, [start], with_moves=how == "search")[0]
            found[how].append(normalized_mutual_info_score(one.truth, state.memberships.argmax(axis=0)))
        branches = branches_of(one.points, rule.smoothing, one.proposed)
        found["cut"].append(normalized_mutual_info_score(one.truth, labels_by(rule, branches)))
    return {how: round(float(np.mean(scores)), 4) for how, scores in found.items()}


def rule_facts(rule: CutRule) -> dict[str, float]:
    """The rule as it is written into a weights file."""
    return {name: round(float(value), 6) for name, value in asdict(rule).items()}
