"""The cluster-by-cluster path as small multiples: what each step took, what was gone, what was left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from clusterwise._extras import import_extra
from clusterwise.exceptions import ClusterwiseError
from clusterwise.plotting.palette import QUIET, cluster_colour
from clusterwise.plotting.plane import points_of_fit, project, thin_out

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["StepsDisplay"]

LEFT = "#70767C"  # points that no step has taken yet


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
        max_panels: int = 24,
        max_points: int = 3000,
    ) -> Self:
        """Draw ``estimator.steps_`` over the data of its ``fit``; see :meth:`plot` for the options."""
        points, _ = project(points_of_fit(estimator, X)[0], per_feature=estimator.per_feature_)
        sampled = np.asarray(estimator.network_labels_) >= 0
        display = cls(points, np.asarray(estimator.labels_), tuple(estimator.steps_), sampled)
        return display.plot(figure, max_panels=max_panels, max_points=max_points)

    def plot(self, figure: Figure | None = None, *, max_panels: int = 24, max_points: int = 3000) -> Self:
        """Draw on the given figure, or on a new one.

        Beyond ``max_panels`` steps the last panel says how many more there were; of more than
        ``max_points`` points a random part is drawn.
        """
        n_panels = min(len(self.steps), max_panels)
        n_columns = min(n_panels, 6 if n_panels > 12 else 4)
        n_rows = math.ceil(n_panels / n_columns)
        if figure is None:
            size = (2.1 * n_columns, 2.1 * n_rows)
            figure = import_extra("matplotlib.pyplot", "pictures").figure(figsize=size, layout="constrained")
        assert figure is not None
        axes = figure.subplots(n_rows, n_columns, squeeze=False, sharex=True, sharey=True).ravel()
        n = len(self.labels)
        sampled = np.arange(n) if self.sampled is None else np.flatnonzero(self.sampled)
        rows = sampled[thin_out(self.labels[sampled], max_points)]
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
