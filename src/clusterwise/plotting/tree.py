"""The tree behind an answer, its chosen nodes and the score of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from clusterwise._extras import import_extra
from clusterwise.clusterer.condensed import stems_of
from clusterwise.clusterer.judged_tree import JudgedTree
from clusterwise.exceptions import ClusterwiseError
from clusterwise.plotting.palette import cluster_colour
from clusterwise.plotting.plane import open_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["TreeDisplay"]


@dataclass(eq=False)
class TreeDisplay:
    """Branches of a tree from the top, as wide as their shares of the rows, darker for higher scores.

    Chains of nodes that lose only a few rows are drawn as one branch. Branches that were taken for clusters
    are framed in the colour of the cluster, with their score: the expected overlap with a true cluster.

    Parameters
    ----------
    tree : JudgedTree
        ``tree_`` of a fitted :class:`~clusterwise.Clusterer`.

    Attributes
    ----------
    ax_ : Axes
    figure_ : what ``plot`` drew on
    """

    tree: JudgedTree

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Draw ``estimator.tree_``."""
        tree = getattr(estimator, "tree_", None)
        if tree is None:
            raise ClusterwiseError(
                f"{type(estimator).__name__} has no tree to draw; Clusterer has one for at least eight rows."
            )
        return cls(tree).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on given axes, or on those of a new figure."""
        ax = open_axes(ax, 7, 3.6)
        tree, branches = self.tree, stems_of(self.tree.nodes)
        shade = import_extra("matplotlib.cm", "pictures").ScalarMappable(
            import_extra("matplotlib.colors", "pictures").Normalize(0, 1), "Blues"
        )
        for branch in branches:
            score = float(tree.scores[branch.best(tree.scores)])
            _draw_box(ax, branch, facecolor=shade.to_rgba(score), edgecolor="white", linewidth=0.8)
        for label, node in enumerate(tree.chosen):
            branch = _branch_of(branches, tree, node)
            _draw_box(ax, branch, fill=False, edgecolor=cluster_colour(label), linewidth=2.2)
            score, width = float(tree.scores[node]), branch.end - branch.start
            if width > 0.05:
                text = f"{label}\n{score:.2f}" if width < 0.15 else f"{label}: {score:.2f}"
                ink: Any = {"color": "white" if score > 0.55 else "black", "fontsize": 8}
                ax.text(branch.start + width / 2, -branch.depth - 0.5, text, ha="center", va="center", **ink)
        ax.set_xlim(0, 1)
        ax.set_ylim(-max(branch.depth for branch in branches) - 1.1, 0.1)
        ax.set_xlabel("share of the rows")
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_title(f"{tree.nodes.tree.kind} tree, clusters framed", fontsize=10)
        bar = ax.figure.colorbar(shade, ax=ax, shrink=0.7)
        bar.set_label("expected overlap with a true cluster", fontsize=8)
        bar.ax.tick_params(labelsize=8)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _draw_box(ax: Axes, branch: Any, **style: Any) -> None:
    patches, corner = import_extra("matplotlib.patches", "pictures"), (branch.start, -branch.depth - 0.94)
    ax.add_patch(patches.Rectangle(corner, branch.end - branch.start, 0.88, **style))


def _branch_of(branches: list[Any], tree: JudgedTree, node: int) -> Any:
    """The branch of a node, or the smallest one whose rows hold those of a node without one of its own."""
    for branch in branches:
        if node in branch.nodes:
            return branch
    start = tree.nodes.tree.starts[tree.nodes.nodes[node]] / tree.nodes.tree.n_rows
    holding = [branch for branch in branches if branch.start <= start + 1e-12 and start < branch.end]
    return max(holding, key=lambda branch: branch.depth)
