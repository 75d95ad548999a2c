"""The tree behind an answer, its chosen nodes and what the judge thinks of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from clusterwise.clusterer.condensed import stems_of
from clusterwise.clusterer.judged_tree import JudgedTree
from clusterwise.exceptions import ClusterwiseError
from clusterwise.plotting.palette import cluster_colours
from clusterwise.plotting.plane import import_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["TreeDisplay"]


class TreeDisplay:
    """Branches of a tree from the top, as wide as their shares of the rows, the darker the better judged.

    Chains of nodes that lose only a few rows are drawn as one branch. Branches that were taken for clusters
    are framed in the colour of the cluster, with the overlap with a true cluster that the judge expects.

    Parameters
    ----------
    tree : JudgedTree
        ``tree_`` of a fitted :class:`~clusterwise.Clusterer`.

    Attributes
    ----------
    ax_ : Axes
    figure_ : what ``plot`` drew on
    """

    def __init__(self, tree: JudgedTree) -> None:
        self.tree = tree

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
        pyplot, patches = import_matplotlib("matplotlib.pyplot"), import_matplotlib("matplotlib.patches")
        if ax is None:
            _, ax = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
        assert ax is not None
        tree = self.tree
        stems = stems_of(tree.nodes)
        deepest = max(stem.depth for stem in stems)
        shade = import_matplotlib("matplotlib.cm").ScalarMappable(
            import_matplotlib("matplotlib.colors").Normalize(0, 1), "Blues"
        )
        colours = cluster_colours(len(tree.chosen))
        for stem in stems:
            score = float(tree.scores[stem.best(tree.scores)])
            ax.add_patch(
                patches.Rectangle(
                    (stem.start, -stem.depth - 0.94),
                    stem.end - stem.start,
                    0.88,
                    facecolor=shade.to_rgba(score),
                    edgecolor="white",
                    linewidth=0.8,
                )
            )
        for label, node in enumerate(tree.chosen):
            stem = next(one for one in stems if node in one.nodes or one is _holder(stems, tree, node))
            width = stem.end - stem.start
            ax.add_patch(
                patches.Rectangle(
                    (stem.start, -stem.depth - 0.94),
                    width,
                    0.88,
                    fill=False,
                    edgecolor=colours[label],
                    linewidth=2.2,
                )
            )
            if width > 0.05:
                text = (
                    f"{label}\n{tree.scores[node]:.2f}"
                    if width < 0.15
                    else f"{label}: {tree.scores[node]:.2f}"
                )
                centre = (stem.start + stem.end) / 2
                ax.text(
                    centre,
                    -stem.depth - 0.5,
                    text,
                    ha="center",
                    va="center",
                    fontsize=8,
                    color=_ink(tree.scores[node]),
                )
        ax.set_xlim(0, 1)
        ax.set_ylim(-deepest - 1.1, 0.1)
        ax.set_xlabel("share of the rows")
        ax.set_yticks([])
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.set_title(f"{tree.nodes.tree.kind} tree, clusters framed", fontsize=10)
        bar = ax.figure.colorbar(shade, ax=ax, shrink=0.7)
        bar.set_label("expected overlap with a true cluster", fontsize=8)
        bar.ax.tick_params(labelsize=8)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _ink(score: float) -> str:
    """A colour that can be read on the shade of a score."""
    return "white" if score > 0.55 else "black"


def _holder(stems: list[Any], tree: JudgedTree, node: int) -> Any:
    """The smallest stem whose rows hold those of a node that is too small for a stem of its own."""
    start = tree.nodes.tree.starts[tree.nodes.nodes[node]] / tree.nodes.tree.n_rows
    holding = [stem for stem in stems if stem.start <= start + 1e-12 and start < stem.end]
    return max(holding, key=lambda stem: stem.depth) if not any(node in s.nodes for s in stems) else None
