"""The course of a fit in pictures: what each step took, and how many clusters there were after each epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from clusterwise.exceptions import ClusterwiseError
from clusterwise.plotting.plane import (
    BASE,
    QUIET,
    cluster_colour,
    import_matplotlib,
    open_axes,
    points_of_fit,
    project,
    subsample,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from clusterwise.deepdpm.method import History

__all__ = ["MAX_PANELS", "PANEL", "HistoryDisplay", "StepsDisplay", "panel_grid"]

LEFT = "#70767C"  # points that no step has taken yet
PANEL = 2.1  # inches
MAX_PANELS = 24


def panel_grid(n_panels: int) -> tuple[int, int]:
    """Rows and columns that so many panels are arranged in."""
    n_columns = min(n_panels, 6 if n_panels > 12 else 4)
    return math.ceil(n_panels / n_columns), n_columns


@dataclass(eq=False)
class StepsDisplay:
    """Small multiples of the path that a cluster-wise method took, one panel per step.

    In colour: the points that the step took, in the colour of the cluster that most of them ended
    in. Dark grey: points still left. Light grey: points taken before. A cross marks the anchor.

    Parameters
    ----------
    points : ndarray of shape (n, 2)
    labels : ndarray of shape (n,), int
    steps : sequence of steps with ``members`` (n,) bool and ``anchor``, a row or None
    sampled : ndarray of shape (n,), bool, optional
        Rows that the network saw; the others are not drawn, since no step could take them.

    Attributes
    ----------
    axes_ : ndarray of axes, one per panel
    figure_ : the figure
    """

    points: np.ndarray
    labels: np.ndarray
    steps: Sequence[Any]
    sampled: np.ndarray | None = None

    def __post_init__(self) -> None:
        if not len(self.steps):
            raise ClusterwiseError("there are no steps to draw: this method finds all clusters at once.")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        figure: Figure | None = None,
        max_panels: int = MAX_PANELS,
        max_points: int = 3000,
    ) -> Self:
        """A drawing of ``estimator.steps_`` over the data of its ``fit``; :meth:`plot` has the options."""
        points, _ = project(points_of_fit(estimator, X)[0], per_feature=estimator.per_feature_)
        steps = tuple(estimator.steps_)
        sampled = np.any([step.members for step in steps], axis=0) if steps else None
        display = cls(points, np.asarray(estimator.labels_), steps, sampled)
        return display.plot(figure, max_panels=max_panels, max_points=max_points)

    def plot(
        self, figure: Figure | None = None, *, max_panels: int = MAX_PANELS, max_points: int = 3000
    ) -> Self:
        """This display, drawn on the given figure, or on a new one.

        Beyond ``max_panels`` steps the last panel says how many more there were; of more than
        ``max_points`` points a random part is drawn.
        """
        n_panels = min(len(self.steps), max_panels)
        n_rows, n_columns = panel_grid(n_panels)
        if figure is None:
            size = (PANEL * n_columns, PANEL * n_rows)
            figure = import_matplotlib("pyplot").figure(figsize=size, layout="constrained")
        assert figure is not None
        axes = figure.subplots(n_rows, n_columns, squeeze=False, sharex=True, sharey=True).ravel()
        n = len(self.labels)
        sampled = np.arange(n) if self.sampled is None else np.flatnonzero(self.sampled)
        rows = sampled[subsample(self.labels[sampled], max_points)]
        taken = np.zeros(n, dtype=bool)
        for number, (ax, step) in enumerate(zip(axes, self.steps, strict=False), start=1):
            members = np.asarray(step.members, dtype=bool)
            self._draw_panel(ax, rows, members, taken)
            if step.anchor is not None:
                x, y = self.points[step.anchor]
                ax.plot([x], [y], marker="x", color="#101214", markersize=6, markeredgewidth=1.5)
            n_members = int(members.sum())
            ax.set_title(f"{number}: {n_members:,} point{'s' * (n_members != 1)}", fontsize=8)
            taken |= members
        for ax in axes[n_panels:]:
            ax.set_visible(False)
        if more := len(self.steps) - n_panels:
            axes[n_panels - 1].set_xlabel(f"and {more} more step{'s' * (more != 1)}", fontsize=8)
        self.axes_, self.figure_ = axes[:n_panels], figure
        return self

    def _draw_panel(self, ax: Axes, rows: np.ndarray, members: np.ndarray, taken: np.ndarray) -> None:
        colour = cluster_colour(int(np.bincount(self.labels[members]).argmax())) if members.any() else QUIET
        layers = (taken & ~members, QUIET, 1.5), (~taken & ~members, LEFT, 1.5), (members, colour, 4.0)
        for chosen, shade, size in layers:
            x, y = self.points[rows[chosen[rows]]].T
            ax.scatter(x, y, s=size, c=shade, linewidths=0, rasterized=True)
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_color(QUIET)


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
        """A drawing of ``estimator.history_``."""
        history = getattr(estimator, "history_", None)
        if history is None:
            raise ClusterwiseError(f"{type(estimator).__name__} has no history of its fit; DeepDPM has one.")
        return cls(history).plot(axes)

    def plot(self, axes: tuple[Axes, Axes] | None = None) -> Self:
        """This display, drawn on two given axes, or on those of a new figure."""
        if axes is None:
            pyplot, heights = import_matplotlib("pyplot"), (2, 1)
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
        above.yaxis.set_major_locator(import_matplotlib("ticker").MaxNLocator(integer=True))
        above.legend(frameon=False, fontsize=8, loc="lower right")
        below.plot(epochs, loss, color=BASE[2] if loss.any() else QUIET, linewidth=1.2)
        below.set_ylabel("loss")
        below.set_xlabel("epoch")
        self.axes_, self.figure_ = (above, below), above.figure
        return self
