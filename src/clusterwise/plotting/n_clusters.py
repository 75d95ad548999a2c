"""The number of clusters in pictures: how probable each is, and how it changed during a fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from clusterwise._extras import import_extra
from clusterwise.exceptions import ClusterwiseError
from clusterwise.plotting.palette import BASE, QUIET
from clusterwise.plotting.plane import open_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from clusterwise.deepdpm.net_training import History

__all__ = ["HistoryDisplay", "KPosteriorDisplay"]

# Smallest probabilities that are drawn, and that are written above their bars.
MIN_DRAWN, MIN_NUMBERED = 0.01, 0.03
# Figures above more bars than this would run into each other; the two highest have theirs all the same.
MAX_BARS = 10


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
        """Draw ``estimator.k_posterior_``."""
        return cls(estimator.k_posterior_, int(estimator.n_clusters_)).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on the given axes, or on those of a new figure."""
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
            ax.xaxis.set_major_locator(
                import_extra("matplotlib.ticker", "pictures").MaxNLocator(integer=True)
            )
        for k, height in zip(ks, heights, strict=True):
            if height >= least or k == self.n_clusters:
                ax.annotate(f"{height:.2f}", (k, height), ha="center", va="bottom", fontsize=8)
        ax.set_ylim(0, 1.08 * max(heights))
        ax.set_xlabel("number of clusters k")
        ax.set_ylabel("probability")
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(eq=False)
class HistoryDisplay:
    """K over the epochs of a fit, a triangle up for epochs that ended with splits and one down for merges.

    Parameters
    ----------
    history : History
        ``history_`` of a fitted :class:`~clusterwise.DeepDPM`.

    Attributes
    ----------
    axes_ : tuple of two Axes
        The number of clusters, and the loss.
    figure_ : what ``plot`` drew on
    """

    history: History

    @classmethod
    def from_estimator(cls, estimator: Any, *, axes: tuple[Axes, Axes] | None = None) -> Self:
        """Draw ``estimator.history_``."""
        history = getattr(estimator, "history_", None)
        if history is None:
            raise ClusterwiseError(f"{type(estimator).__name__} has no history of its fit; DeepDPM has one.")
        return cls(history).plot(axes)

    def plot(self, axes: tuple[Axes, Axes] | None = None) -> Self:
        """Draw on two given axes, or on those of a new figure."""
        if axes is None:
            pyplot, heights = import_extra("matplotlib.pyplot", "pictures"), (2, 1)
            _, axes = pyplot.subplots(
                2, 1, sharex=True, figsize=(6, 4), height_ratios=heights, layout="constrained"
            )
        assert axes is not None
        above, below = (open_axes(ax, 6, 4) for ax in axes)
        series = self.history.as_arrays()
        epochs, ks, loss = 1 + np.arange(len(self.history)), series["n_clusters"], series["loss"]
        above.step(epochs, ks, where="mid", color="#444444", linewidth=1.2)
        for name, marker, colour in (("splits", "^", BASE[0]), ("merges", "v", BASE[5])):
            at, label = series[name] > 0, f"{name}: {int(series[name].sum())}"
            above.scatter(epochs[at], ks[at], marker=marker, color=colour, label=label, zorder=3)
        above.set_ylabel("clusters")
        above.set_ylim(0, None)
        above.yaxis.set_major_locator(import_extra("matplotlib.ticker", "pictures").MaxNLocator(integer=True))
        above.legend(frameon=False, fontsize=8, loc="lower right")
        below.plot(epochs, loss, color=BASE[2] if loss.any() else QUIET, linewidth=1.2)
        below.set_ylabel("loss")
        below.set_xlabel("epoch")
        self.axes_, self.figure_ = (above, below), above.figure
        return self
