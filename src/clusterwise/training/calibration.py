"""What is decided on classes that were held out: the rule of the cut, and how a partition is refined.

Encodings of classes that an encoder was trained on are tighter than those of others, so a rule for unseen
classes has to be learned on some that it has not seen. Where too few classes are held out, small encoders
are trained without some of the others in turn, and the rule is learned on what these encoders
make of the classes that they lack.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from statistics import NormalDist

import numpy as np

from clusterwise.gaussian.search import search
from clusterwise.papers.cut import Branches, CutRule, branches_of, nearest_means
from clusterwise.partition import canonical_labels
from clusterwise.training.all_cuts import AllCuts, agreement

__all__ = [
    "Encoded",
    "FittedRule",
    "divisibility",
    "fit_rule",
    "rule_facts",
    "scores_of_refining",
    "simplest",
]


@dataclass(frozen=True)
class Grid:
    """Rules that are tried, each with all thresholds."""

    smoothings: tuple[float, ...] = (0.0, 0.5, 0.8)
    size_exponents: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    rows_exponents: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75)
    network_weights: tuple[float, ...] = (0.0, 1.0)


GRID = Grid()
# Thresholds that are tried, from the smallest statistic across classes to the largest.
N_THRESHOLDS = 200
# Less than this in agreement is no reason to choose the less simple rule.
WORTH_IT = 0.005
# Intervals of P(K) of these masses should hold the true number of clusters as often, or more often.
COVERED = (0.8, 0.95)


@dataclass(frozen=True, eq=False)
class Encoded:
    """A data set of encodings with its classes, and what the network makes of it."""

    points: np.ndarray  # (m, f)
    truth: np.ndarray  # (m,)
    proposed: np.ndarray | None = None  # (m,)
    fold: int = 0  # data sets of one fold have classes in common, others need not


@dataclass(frozen=True, eq=False)
class FittedRule:
    """A rule learned from all data sets, and how well rules that were learned without a fold do on it."""

    rule: CutRule
    scores: np.ndarray  # (F,) mean agreement on each fold

    @property
    def score(self) -> float:
        """Mean agreement over the folds."""
        return float(self.scores.mean())


def fit_rule(sets: Sequence[Encoded]) -> FittedRule:
    """The rule whose cuts agree best with the classes of data sets.

    It is judged on each fold by a rule that was learned from the other folds; if there is one fold only, by
    the data sets that it was learned from.
    """
    folds = np.unique([one.fold for one in sets], return_inverse=True)[1].reshape(-1)
    grid = GRID
    weights = grid.network_weights if all(one.proposed is not None for one in sets) else (0.0,)
    cuts: dict[float, list[AllCuts]] = {}
    tried: list[_Tried] = []
    for smoothing in grid.smoothings:
        cuts[smoothing] = [
            AllCuts.of(branches_of(one.points, smoothing, one.proposed), one.truth) for one in sets
        ]
        for weight, size, rows in product(weights, grid.size_exponents, grid.rows_exponents):
            tried.append(_Tried.of(CutRule(smoothing, size, rows, weight), cuts[smoothing]))
    chosen = _best(tried, np.ones(len(sets), dtype=bool))
    scores, misses = [], np.empty(len(sets))
    for fold in range(int(folds.max()) + 1):
        here = folds == fold
        rule = _best(tried, ~here) if not here.all() else chosen
        of_rule = [cuts[rule.smoothing][i] for i in np.flatnonzero(here)]
        scores.append(np.mean([agreement(one.truth, labels_by(rule, one.branches)) for one in of_rule]))
        misses[here] = [one.miss(rule) for one in of_rule]
    return FittedRule(replace(chosen, spread=_spread(misses)), np.array(scores))


def divisibility(sets: Sequence[Encoded]) -> np.ndarray:
    """How well data sets of each fold (F,) can be divided, were the numbers of their classes known.

    By Ward's tree, of rows that have moved towards their neighbours or not, whichever is better. Where a cut
    is to be comes later: what single thresholds win or lose would drown the differences between encoders.
    """
    folds = np.unique([one.fold for one in sets], return_inverse=True)[1].reshape(-1)
    found = []
    for smoothing in (min(GRID.smoothings), max(GRID.smoothings)):
        scores = np.array(
            [AllCuts.of(branches_of(one.points, smoothing), one.truth).given_number() for one in sets]
        )
        found.append(np.array([scores[folds == fold].mean() for fold in range(int(folds.max()) + 1)]))
    return max(found, key=np.mean)


def simplest(scores: np.ndarray) -> int:
    """Which of several ways to take, the simplest first, by their scores (W, F) on folds.

    The first that is not worse than the best one by more than a standard error of the difference, or by so
    little that it does not matter: what one way seems to gain on few classes, it may lose on others (Breiman
    et al. 1984).
    """
    best = int(scores.mean(axis=1).argmax())
    n_folds = scores.shape[1]
    for way, behind in enumerate(scores[best] - scores):
        error = behind.std(ddof=1) / np.sqrt(n_folds) if n_folds > 1 else 0.0
        if behind.mean() <= max(error, WORTH_IT):
            return way
    return best


def labels_by(rule: CutRule, branches: Branches) -> np.ndarray:
    """Labels (m,) of a cut, nearest_means."""
    return nearest_means(branches.points, rule.labels(branches)[0])


@dataclass(frozen=True, eq=False)
class _Tried:
    """Agreement of a rule with all thresholds (T,) on all data sets (S, T)."""

    rule: CutRule
    thresholds: np.ndarray
    scores: np.ndarray

    @classmethod
    def of(cls, rule: CutRule, cuts: Sequence[AllCuts]) -> _Tried:
        statistics = np.concatenate([rule.statistic(one.branches) for one in cuts])
        apart = np.concatenate([one.apart for one in cuts])
        # Between mergers within classes and across: beyond the largest one nothing is divided.
        low = float(np.quantile(statistics[apart], 0.02)) if apart.any() else float(statistics.max())
        grid = np.linspace(low, float(statistics.max()) + 0.1, N_THRESHOLDS)
        return cls(rule, grid, np.stack([one.scores(rule, grid) for one in cuts]))

    def best_threshold(self, chosen: np.ndarray) -> tuple[float, float]:
        """The middle of the thresholds that are about as good as the best one, and the mean agreement there.

        ``chosen`` (S,) says which data sets count.
        """
        means = self.scores[chosen].mean(axis=0)
        best = int(means.argmax())
        bad = np.flatnonzero(means < means[best] - WORTH_IT)
        first = int(bad[bad < best].max(initial=-1)) + 1
        last = int(bad[bad > best].min(initial=len(means))) - 1
        middle = (first + last) // 2
        return float(self.thresholds[middle]), float(means[middle])


def _best(tried: Sequence[_Tried], chosen: np.ndarray) -> CutRule:
    """The best rule on the chosen data sets (S,); what makes it less simple has to be worth it."""
    best, found = -np.inf, CutRule()
    for one in tried:
        threshold, score = one.best_threshold(chosen)
        rule = one.rule
        score -= WORTH_IT * ((rule.smoothing > 0) + (rule.network_weight > 0) + (rule.rows_exponent > 0))
        if score > best:
            best, found = score, replace(rule, threshold=threshold)
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


def scores_of_refining(sets: Iterable[Encoded], rule: CutRule) -> dict[str, float]:
    """Mean agreement of the network alone, of a search from it, and of the cut.

    Which of them is best on classes that were held out is what the estimators do by default.
    """
    found: dict[str, list[float]] = {"none": [], "search": [], "cut": []}
    for one in sets:
        assert one.proposed is not None
        start = canonical_labels(one.proposed)
        found["none"].append(agreement(one.truth, start))
        points = one.points.astype(np.float64)
        best = search(points, [start], "spherical")[0]
        found["search"].append(agreement(one.truth, best.labels))
        branches = branches_of(one.points, rule.smoothing, one.proposed)
        found["cut"].append(agreement(one.truth, labels_by(rule, branches)))
    return {how: round(float(np.mean(scores)), 4) for how, scores in found.items()}


def rule_facts(rule: CutRule) -> dict[str, float]:
    """The rule as it is written into a weights file."""
    return {name: round(float(value), 6) for name, value in asdict(rule).items()}
