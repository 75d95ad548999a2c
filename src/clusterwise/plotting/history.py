"""How a fit went: the number of clusters over the epochs, with splits and merges, and the loss below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from clusterwise.exceptions import ClusterwiseError
from clusterwise.plotting.palette import BASE, QUIET
from clusterwise.plotting.plane import import_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from clusterwise.deepdpm.net_training import History

__all__ = ["HistoryDisplay"]


class HistoryDisplay:
    """K over the epochs, a triangle up for epochs that ended with splits and one down for merges.

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

    def __init__(self, history: History) -> None:
        self.history = history

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
            _, axes = import_matplotlib("matplotlib.pyplot").subplots(
                2, 1, sharex=True, figsize=(6, 4), height_ratios=(2, 1), layout="constrained"
            )
        assert axes is not None
        above, below = axes
        series = self.history.as_arrays()
        epochs = 1 + np.arange(len(series["n_clusters"]))
        above.step(epochs, series["n_clusters"], where="mid", color="#444444", linewidth=1.2)
        kinds = (("splits", "^", BASE[0]), ("merges", "v", BASE[5]))
        for name, marker, colour in kinds:
            at = series[name] > 0
            label = f"{name}: {int(series[name].sum())}"
            above.scatter(
                epochs[at], series["n_clusters"][at], marker=marker, color=colour, label=label, zorder=3
            )
        above.set_ylabel("clusters")
        above.set_ylim(0, None)
        above.yaxis.set_major_locator(import_matplotlib("matplotlib.ticker").MaxNLocator(integer=True))
        above.legend(frameon=False, fontsize=8, loc="lower right")
        below.plot(
            epochs, series["loss"], color=QUIET if not series["loss"].any() else BASE[2], linewidth=1.2
        )
        below.set_ylabel("loss")
        below.set_xlabel("epoch")
        for ax in axes:
            ax.spines[["top", "right"]].set_visible(False)
        self.axes_ = (above, below)
        self.figure_ = above.figure
        return self
