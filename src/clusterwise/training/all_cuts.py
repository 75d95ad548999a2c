"""How well the cuts of a tree agree with classes, at all thresholds at once.

A branch is divided if the statistics of its merger and of all above it are over the threshold, so each merger
has a level, the smallest of these, and a cut divides the mergers whose level is above its threshold. What
dividing one of them adds to the entropies and to the counts of pairs depends on that merger alone: sums
along the levels give the agreement of every cut.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from clusterwise._compiled import compiled
from clusterwise.papers.cut import Branches, CutRule, sums_below

__all__ = ["AllCuts", "agreement"]


def agreement(truth: np.ndarray, labels: np.ndarray) -> float:
    """NMI + ARI of two partitions (m,), less the logarithm of how many times too many or too few clusters.

    NMI alone likes many small clusters, and their number is what users ask for.
    """
    counts = np.zeros((int(labels.max()) + 1, int(truth.max()) + 1))
    np.add.at(counts, (labels, truth), 1)
    counts = counts[counts.sum(axis=1) > 0]
    sums = np.array([[x.sum()] for x in _additive(counts)])
    return float(_agreement(sums, counts.sum(axis=0), np.array([len(counts)]))[0])


def _additive(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """n log n and n^2 of clusters with counts (c, C): summed over classes, and of all their rows."""
    sizes = counts.sum(axis=1)

    def information(n: np.ndarray) -> np.ndarray:
        return np.asarray(n * np.log(np.maximum(n, 1)))

    squares = np.square(counts).sum(axis=1)
    return information(counts).sum(axis=1), information(sizes), squares, np.square(sizes)


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
    chance, most = first * second / every, (first + second) / 2
    same = most - chance < 1e-9 * every
    ari = np.where(same, 1.0, (joint_squares - m - chance) / np.where(same, 1.0, most - chance))
    return np.asarray(nmi + ari - np.abs(np.log(n_clusters / len(classes))))


@compiled
def _lowest_above(statistics: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """The smallest of the statistics (m - 1,) of each merger and of all above it; ``parents`` (m - 1,)."""
    levels = statistics.copy()
    for i in range(len(levels) - 2, -1, -1):  # parents come later than their children
        levels[i] = min(levels[i], levels[parents[i]])
    return levels


@dataclass(frozen=True, eq=False)
class AllCuts:
    """A tree, the classes of its rows, and what dividing each merger adds."""

    branches: Branches
    truth: np.ndarray  # (m,)
    apart: np.ndarray  # (m - 1,) whether most pairs across a merger are of different classes
    classes: np.ndarray  # (C,) sizes
    root: np.ndarray  # (4, 1) sums of a single cluster
    added: np.ndarray  # (4, m - 1)

    @classmethod
    def of(cls, branches: Branches, truth: np.ndarray) -> AllCuts:
        """Measure the mergers of a tree whose rows have the classes ``truth`` (m,)."""
        tree, m = branches.tree, len(truth)
        counts = sums_below(tree, np.eye(int(truth.max()) + 1)[truth])
        values = np.stack(_additive(counts))
        left, right = tree.children[m:].T
        same = (counts[left] * counts[right]).sum(axis=1)
        return cls(
            branches,
            truth,
            same < 0.5 * tree.sizes[left] * tree.sizes[right],
            counts[-1],
            values[:, -1:],
            values[:, left] + values[:, right] - values[:, m:],
        )

    def levels(self, rule: CutRule) -> np.ndarray:
        """Thresholds (m - 1,) below which each merger is divided, less that of the rule."""
        tree = self.branches.tree
        return _lowest_above(rule.statistic(self.branches), tree.parents[tree.n_rows :] - tree.n_rows)

    def scores(self, rule: CutRule, offsets: np.ndarray) -> np.ndarray:
        """Agreement of the cuts at so much above the rule's threshold, (c,)."""
        levels = self.levels(rule)
        order = np.argsort(-levels, kind="stable")
        sums = self.root + np.concatenate([np.zeros((4, 1)), self.added[:, order].cumsum(axis=1)], axis=1)
        divided = np.searchsorted(-levels[order], -offsets)
        return _agreement(sums[:, divided], self.classes, divided + 1.0)

    def miss(self, rule: CutRule) -> float:
        """How far the threshold of the rule would have to move for a cut with as many clusters as classes."""
        n_classes = int((self.classes > 0).sum())
        levels = np.concatenate([[np.inf], np.sort(self.levels(rule))[::-1], [-np.inf]])
        # With t between these two, n_classes - 1 mergers have a level above it.
        above, below = levels[n_classes - 1], levels[n_classes]
        return float(max(below, -above, 0.0))

    def given_number(self) -> float:
        """NMI + ARI of the tree's partition into as many clusters as there are classes."""
        n_divided = int((self.classes > 0).sum()) - 1
        # The last mergers are the highest ones.
        sums = self.root + self.added[:, len(self.truth) - 1 - n_divided :].sum(axis=1, keepdims=True)
        return float(_agreement(sums, self.classes, np.array([n_divided + 1.0]))[0])
