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

import numpy as np

from clusterwise.partition import canonical_labels
from clusterwise.search.climb import climb
from clusterwise.search.evidence import Sample
from clusterwise.search.settings import DEFAULT
from clusterwise.training.all_cuts import AllCuts, agreement
from clusterwise.trees.learned_cut import Branches, CutRule, branches_of, settled

__all__ = ["Encoded", "divisibility", "fit_rule", "rule_facts", "scores_of_refining"]

SMOOTHINGS = (0.0, 0.5, 0.8)
SIZE_EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0)
ROWS_EXPONENTS = (0.0, 0.25, 0.5, 0.75)
NETWORK_WEIGHTS = (0.0, 1.0)
# Thresholds that are tried, from the smallest statistic across classes to the largest.
N_THRESHOLDS = 200
# Thresholds about that of the rule, for single data sets.
OFFSETS = np.linspace(-2.0, 2.0, 81)
# Less than this in agreement is no reason to choose the less simple rule.
WORTH_IT = 0.005


@dataclass(frozen=True, eq=False)
class Encoded:
    """A data set of encodings with its classes, and what the network makes of it."""

    points: np.ndarray  # (m, f)
    truth: np.ndarray  # (m,)
    proposed: np.ndarray | None = None  # (m,)


def fit_rule(sets: Sequence[Encoded]) -> tuple[CutRule, float]:
    """The rule whose cuts agree best with the classes of data sets, and its mean ``agreement``."""
    chosen, best, of_best = CutRule(), -np.inf, list[AllCuts]()
    weights = NETWORK_WEIGHTS if all(one.proposed is not None for one in sets) else NETWORK_WEIGHTS[:1]
    for smoothing in SMOOTHINGS:
        cuts = [AllCuts.of(branches_of(one.points, smoothing, one.proposed), one.truth) for one in sets]
        for weight, size, rows in product(weights, SIZE_EXPONENTS, ROWS_EXPONENTS):
            rule, score = _best_threshold(cuts, CutRule(smoothing, size, rows, weight))
            score -= WORTH_IT * ((smoothing > 0) + (weight > 0) + (rows > 0))
            if score > best:
                chosen, best, of_best = rule, score, cuts
    chosen = replace(chosen, spread=_spread(of_best, chosen))
    found = [agreement(one.truth, labels_by(chosen, one.branches)) for one in of_best]
    return chosen, float(np.mean(found))


def divisibility(sets: Sequence[Encoded]) -> float:
    """How well the best rule divides data sets into their classes, by ``agreement``."""
    return fit_rule(sets)[1]


def labels_by(rule: CutRule, branches: Branches) -> np.ndarray:
    """Labels (m,) of a cut, settled."""
    return settled(branches.points, rule.labels(branches)[0])


def _best_threshold(cuts: Sequence[AllCuts], rule: CutRule) -> tuple[CutRule, float]:
    """The middle of the thresholds that are about as good as the best one, and the mean agreement there."""
    statistics = np.concatenate([rule.statistic(one.branches) for one in cuts])
    apart = np.concatenate([one.apart for one in cuts])
    # Between mergers within classes and across: beyond the largest one nothing is divided.
    low = float(np.quantile(statistics[apart], 0.02)) if apart.any() else float(statistics.max())
    grid = np.linspace(low, float(statistics.max()) + 0.1, N_THRESHOLDS)
    means = np.mean([one.scores(rule, grid) for one in cuts], axis=0)
    best = int(means.argmax())
    bad = np.flatnonzero(means < means[best] - WORTH_IT)
    first = int(bad[bad < best].max(initial=-1)) + 1
    last = int(bad[bad > best].min(initial=len(grid))) - 1
    middle = (first + last) // 2
    return replace(rule, threshold=float(grid[middle])), float(means[middle])


def _spread(cuts: Sequence[AllCuts], rule: CutRule) -> float:
    """Standard deviation of the thresholds that suit single data sets best, about that of the rule."""
    offsets = []
    for one in cuts:
        scores = one.scores(rule, OFFSETS)
        good = OFFSETS[scores >= scores.max() - 1e-9]
        offsets.append(good[np.abs(good).argmin()])  # the nearest of those that are as good
    return float(np.sqrt(np.mean(np.square(offsets))))


def scores_of_refining(sets: Iterable[Encoded], rule: CutRule) -> dict[str, float]:
    """Mean agreement of the network alone, of EM and a search from it, and of the cut.

    Which of them is best on classes that were held out is what the estimators do by default.
    """
    found: dict[str, list[float]] = {"none": [], "em": [], "search": [], "cut": []}
    for one in sets:
        assert one.proposed is not None
        start = canonical_labels(one.proposed)
        found["none"].append(agreement(one.truth, start))
        sample = Sample(one.points.astype(np.float64), "spherical", DEFAULT)
        for how in ("em", "search"):
            state = climb(sample, [start], with_moves=how == "search")[0]
            found[how].append(agreement(one.truth, state.memberships.argmax(axis=0)))
        branches = branches_of(one.points, rule.smoothing, one.proposed)
        found["cut"].append(agreement(one.truth, labels_by(rule, branches)))
    return {how: round(float(np.mean(scores)), 4) for how, scores in found.items()}


def rule_facts(rule: CutRule) -> dict[str, float]:
    """The rule as it is written into a weights file."""
    return {name: round(float(value), 6) for name, value in asdict(rule).items()}
