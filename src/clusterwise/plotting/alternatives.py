"""Alternatives to an answer, in pictures: other numbers of clusters, other nodes of the tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from clusterwise.clusterer.branches import Branches, ClusterTree
from clusterwise.exceptions import ClusterwiseError
from clusterwise.plotting.plane import BASE, QUIET, cluster_colour, import_matplotlib, open_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["KPosteriorDisplay", "TreeDisplay"]

# Smallest probabilities that are drawn, and that are written above their bars.
MIN_DRAWN, MIN_NUMBERED = 0.01, 0.03
# Figures above more bars than this would run into each other; the two highest have theirs all the same.
MAX_BARS = 10
# A part of a tree that is smaller than this share of all rows falls off its chain instead of making a branch.
MIN_SHARE = 0.01


@dataclass(eq=False)
class KPosteriorDisplay:
    """Bars of P(K), the number that was chosen in colour.

    Parameters
    ----------
    k_posterior : mapping from k to its probability
    n_clusters : int, optional
        The number of clusters in the partition.

    Attributes
    ----------
    ax_, figure_ : what ``plot`` drew on
    """

    k_posterior: Mapping[int, float]
    n_clusters: int | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """A drawing of ``estimator.k_posterior_``."""
        return cls(estimator.k_posterior_, int(estimator.n_clusters_)).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """This display, drawn on the given axes, or on those of a new figure."""
        ax = open_axes(ax, 5, 3)
        drawn = [k for k, probability in self.k_posterior.items() if probability >= MIN_DRAWN]
        drawn += [] if self.n_clusters is None else [self.n_clusters]
        ks = list(range(max(1, min(drawn) - 1), max(drawn) + 2))
        heights = [self.k_posterior.get(k, 0.0) for k in ks]
        colours = [BASE[0] if self.n_clusters in (None, k) else QUIET for k in ks]
        ax.bar(ks, heights, width=0.75, color=colours)
        if len(ks) <= MAX_BARS:
            least = MIN_NUMBERED
            ax.set_xticks(ks)
        else:
            least = max(MIN_NUMBERED, sorted(heights)[-2])
            ax.xaxis.set_major_locator(import_matplotlib("ticker").MaxNLocator(integer=True))
        for k, height in zip(ks, heights, strict=True):
            if height >= least or k == self.n_clusters:
                ax.annotate(f"{height:.2f}", (k, height), ha="center", va="bottom", fontsize=8)
        ax.set_ylim(0, 1.08 * max(heights))
        ax.set_xlabel("number of clusters k")
        ax.set_ylabel("probability")
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(eq=False)
class TreeDisplay:
    """Branches of a tree from the top, as wide as their shares of the rows, darker for higher scores.

    Chains of nodes that lose only a few rows are drawn as one branch. Branches that were taken for clusters
    are framed in the colour of the cluster, with their score: the expected overlap with a true cluster.

    Parameters
    ----------
    tree : ClusterTree
        ``tree_`` of a fitted :class:`~clusterwise.Clusterer`.

    Attributes
    ----------
    ax_ : Axes
    figure_ : what ``plot`` drew on
    """

    tree: ClusterTree

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """A drawing of ``estimator.tree_``."""
        tree = getattr(estimator, "tree_", None)
        if tree is None:
            raise ClusterwiseError(
                f"{type(estimator).__name__} has no tree to draw; Clusterer has one for at least eight rows."
            )
        return cls(tree).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """This display, drawn on the given axes, or on those of a new figure."""
        ax = open_axes(ax, 7, 3.6)
        tree, branches = self.tree, chains_of(self.tree.scored.branches)
        shade = import_matplotlib("cm").ScalarMappable(import_matplotlib("colors").Normalize(0, 1), "Blues")
        for branch in branches:
            score = float(tree.scored.scores[branch.best(tree.scored.scores)])
            _draw_box(ax, branch, facecolor=shade.to_rgba(score), edgecolor="white", linewidth=0.8)
        for label, node in enumerate(tree.chosen):
            branch = _branch_of(branches, tree, node)
            _draw_box(ax, branch, fill=False, edgecolor=cluster_colour(label), linewidth=2.2)
            score, width = float(tree.scored.scores[node]), branch.end - branch.start
            if width > 0.05:
                text = f"{label}\n{score:.2f}" if width < 0.15 else f"{label}: {score:.2f}"
                ink: Any = {"color": "white" if score > 0.55 else "black", "fontsize": 8}
                ax.text(branch.start + width / 2, -branch.depth - 0.5, text, ha="center", va="center", **ink)
        ax.set_xlim(0, 1)
        ax.set_ylim(-max(branch.depth for branch in branches) - 1.1, 0.1)
        ax.set_xlabel("share of the rows")
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_title(f"{tree.scored.tree.kind} tree, clusters framed", fontsize=10)
        bar = ax.figure.colorbar(shade, ax=ax, shrink=0.7)
        bar.set_label("expected overlap with a true cluster", fontsize=8)
        bar.ax.tick_params(labelsize=8)
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(frozen=True)
class DrawnChain:
    """Nodes from one branching to the next, by places among the scored branches."""

    nodes: tuple[int, ...]  # from the top
    parent: int  # chain that it branches off, -1 for the first
    depth: int  # branchings above it
    start: float  # first and last row of its top node, as shares of all rows from left to right
    end: float

    def best(self, scores: np.ndarray) -> int:
        """The node of the chain with the largest of scores (v,)."""
        return max(self.nodes, key=lambda node: float(scores[node]))


def chains_of(branches: Branches) -> list[DrawnChain]:
    """The tree without small parts: chains of nodes that end where two sizeable parts come apart."""
    m = branches.tree.n_rows
    least = max(2.0, MIN_SHARE * m)
    chains: list[DrawnChain] = []
    to_do = [(0, -1, 0)]
    while to_do:
        node, parent, depth = to_do.pop()
        nodes = [node]
        while True:
            large = [int(c) for c in branches.children[nodes[-1]] if c >= 0 and branches.sizes[c] >= least]
            if len(large) != 1:
                break
            nodes.append(large[0])
        start = branches.tree.starts[branches.nodes[node]]
        chains.append(DrawnChain(tuple(nodes), parent, depth, start / m, (start + branches.sizes[node]) / m))
        to_do += [(child, len(chains) - 1, depth + 1) for child in reversed(large)]
    return chains


def _draw_box(ax: Axes, branch: Any, **style: Any) -> None:
    patches, corner = import_matplotlib("patches"), (branch.start, -branch.depth - 0.94)
    ax.add_patch(patches.Rectangle(corner, branch.end - branch.start, 0.88, **style))


def _branch_of(branches: list[Any], tree: ClusterTree, node: int) -> Any:
    """The branch of a node, or the smallest one whose rows hold those of a node without one of its own."""
    for branch in branches:
        if node in branch.nodes:
            return branch
    layout = tree.scored.tree
    start = layout.starts[tree.scored.branches.nodes[node]] / layout.n_rows
    holding = [branch for branch in branches if branch.start <= start + 1e-12 and start < branch.end]
    return max(holding, key=lambda branch: branch.depth)
