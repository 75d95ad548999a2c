"""How probable each number of clusters is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from clusterwise.plotting.palette import BASE, QUIET
from clusterwise.plotting.plane import import_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["KPosteriorDisplay"]

SMALLEST_SHOWN = 0.01
SMALLEST_NUMBERED = 0.03
MOST_NUMBERED = 10  # figures above more bars than this would run into each other
HIGHEST_NUMBERED = 2  # these bars have theirs all the same


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

    def __init__(self, k_posterior: Mapping[int, float], n_clusters: int | None = None) -> None:
        self.k_posterior = k_posterior
        self.n_clusters = n_clusters

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Draw ``estimator.k_posterior_``."""
        return cls(estimator.k_posterior_, int(estimator.n_clusters_)).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on the given axes, or on those of a new figure."""
        if ax is None:
            _, ax = import_matplotlib("matplotlib.pyplot").subplots(figsize=(5, 3), layout="constrained")
        assert ax is not None
        shown = [k for k, probability in self.k_posterior.items() if probability >= SMALLEST_SHOWN]
        if self.n_clusters is not None:
            shown.append(self.n_clusters)
        ks = list(range(max(1, min(shown) - 1), max(shown) + 2))
        heights = [self.k_posterior.get(k, 0.0) for k in ks]
        colours = [BASE[0] if k == self.n_clusters or self.n_clusters is None else QUIET for k in ks]
        ax.bar(ks, heights, width=0.75, color=colours)
        least = SMALLEST_NUMBERED
        if len(ks) > MOST_NUMBERED:
            least = max(least, sorted(heights)[-HIGHEST_NUMBERED])
        for k, height in zip(ks, heights, strict=True):
            if height >= least or k == self.n_clusters:
                ax.annotate(f"{height:.2f}", (k, height), ha="center", va="bottom", fontsize=8)
        if len(ks) <= MOST_NUMBERED:
            ax.set_xticks(ks)
        else:
            ax.xaxis.set_major_locator(import_matplotlib("matplotlib.ticker").MaxNLocator(integer=True))
        ax.set_ylim(0, 1.08 * max(heights))
        ax.set_xlabel("number of clusters k")
        ax.set_ylabel("probability")
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_ = ax
        self.figure_ = ax.figure
        return self
