"""The picture of a partition: points, their confidence, and an ellipse and a number per cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from clusterwise.plotting.ellipses import Ellipse, empirical_ellipses, gaussian_ellipses
from clusterwise.plotting.palette import cluster_colour, cluster_marker
from clusterwise.plotting.plane import import_matplotlib, plane_of, points_of_fit, thin_out

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ClusterDisplay"]


# Points beyond the middle 98 % by more than this many times its width may lie outside the picture.
FAR = 2.0


def _is_near(points: np.ndarray) -> np.ndarray:
    """Which of the points (n, 2) do not lie so far out that the others would shrink to a dot."""
    with np.errstate(over="ignore"):
        low, high = np.quantile(points, [0.01, 0.99], axis=0)
        reach = np.where(high > low, FAR * (high - low), np.inf)
        return ((points >= low - reach) & (points <= high + reach)).all(axis=1)


def _tidy_axes(ax: Axes, points: np.ndarray, names: tuple[str, str]) -> None:
    ticker = import_matplotlib("matplotlib.ticker")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(ticker.MaxNLocator(nbins=5))
        formatter = ticker.ScalarFormatter(useOffset=False)
        formatter.set_powerlimits((-4, 8))
        axis.set_major_formatter(formatter)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlabel(names[0], parse_math=False)  # "cost ($) of sales ($)" is no formula
    ax.set_ylabel(names[1], parse_math=False)
    low, high = points.min(axis=0), points.max(axis=0)
    width, height = np.maximum(high / 2 - low / 2, np.finfo(float).tiny)
    # Comparable units: do not distort distances. (matplotlib's equal aspect fails for extreme spans.)
    if 1 / 3 < width / height < 3 and 1e-30 < width < 1e30:
        ax.set_aspect("equal", adjustable="datalim")
    if not names[1]:
        ax.set_yticks([])


class ClusterDisplay:
    """Scatter plot of a partition.

    Colour and number say which cluster, size and opacity how sure its membership is; each ellipse
    spans two standard deviations.

    Parameters
    ----------
    points : ndarray of shape (n, 2)
    labels : ndarray of shape (n,), int
    probabilities : ndarray of shape (n,), optional
        Confidence of each label; all the same when left out.
    ellipses : list of Ellipse, optional
    axis_names : two str
    pioneers : ndarray of int, optional
        Rows that stand for their clusters; each gets a ring.

    Attributes
    ----------
    ax_, figure_ : what ``plot`` drew on
    """

    def __init__(
        self,
        points: np.ndarray,
        labels: np.ndarray,
        *,
        probabilities: np.ndarray | None = None,
        ellipses: Sequence[Ellipse] = (),
        axis_names: tuple[str, str] = ("", ""),
        pioneers: Sequence[int] | np.ndarray = (),
    ) -> None:
        self.points = points
        self.labels = labels
        self.probabilities = np.ones(len(points)) if probabilities is None else probabilities
        self.ellipses = ellipses
        self.axis_names = axis_names
        self.pioneers = np.asarray(pioneers, dtype=np.int64)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        ax: Axes | None = None,
        column_names: Sequence[str] | None = None,
        max_points: int = 20_000,
    ) -> Self:
        """Draw a fitted estimator over the data of its ``fit``.

        Data of more than two features are drawn on their first two principal components, after the
        estimator's scaling; of tables that it prepared by itself, the features that it made of them. The
        ellipses are those of the estimator's Gaussians if the data are 2-D, else those of the points of each
        cluster; none where clusters have other shapes. Pioneers are marked where the estimator has them
        (``pioneers_``).

        Parameters
        ----------
        estimator : fitted clusterer
        X : array-like or data frame of shape (n, d)
        ax : matplotlib axes, optional
        column_names : sequence of d str, optional
            Default: the columns of the data frame, if X is one.
        max_points : int
            A random part of larger data is drawn, with some points of every cluster.
        """
        labels = np.asarray(estimator.labels_)
        points, names = points_of_fit(estimator, X)
        plane = plane_of(estimator, points, names if column_names is None else column_names)
        drawn = plane.project(points)
        covariances = estimator.covariances_ if points.shape[1] == 2 else np.empty((0, 0, 0))
        ellipses: list[Ellipse] = []
        if points.shape[1] > 1 and not estimator.gaussian_:
            ellipses = []  # of another shape
        elif covariances.shape[1:] == (2, 2):  # learned features may be of another number
            ellipses = gaussian_ellipses(estimator.means_, covariances)
        elif points.shape[1] > 1:
            near = _is_near(drawn)
            ellipses = empirical_ellipses(drawn[near], np.unique(labels[near], return_inverse=True)[1])
        else:
            # One feature: spread the points over the height, so that they do not hide each other.
            drawn[:, 1] = np.random.default_rng(0).uniform(-1, 1, len(drawn))
        display = cls(
            drawn,
            labels,
            probabilities=np.asarray(estimator.probabilities_),
            ellipses=ellipses,
            axis_names=plane.names,
            pioneers=estimator.pioneers_,
        )
        return display.plot(ax=ax, max_points=max_points)

    def plot(self, ax: Axes | None = None, *, max_points: int = 20_000) -> Self:
        """Draw on the given axes, or on those of a new figure."""
        if ax is None:
            _, ax = import_matplotlib("matplotlib.pyplot").subplots(figsize=(7, 5.5), layout="constrained")
        assert ax is not None
        rows = thin_out(self.labels, max_points)
        self._draw_points(ax, rows)
        patches = import_matplotlib("matplotlib.patches")
        for ellipse in self.ellipses:
            if np.isfinite(ellipse.half_axes).all():
                width, height = 2 * ellipse.half_axes
                style = {"fill": False, "edgecolor": "#202428", "linewidth": 0.8, "alpha": 0.7}
                ax.add_patch(
                    patches.Ellipse(tuple(ellipse.centre), width, height, angle=ellipse.angle, **style)
                )
        if len(self.pioneers) > 0:
            x, y = self.points[self.pioneers].T
            ax.scatter(x, y, s=70, facecolors="none", edgecolors="#101214", linewidths=1.2, label="pioneers")
        middles = self._middles()
        self._number_clusters(ax, middles)
        near = _is_near(self.points)
        near[middles] = True  # no cluster is left out
        _tidy_axes(ax, self.points[near], self.axis_names)
        notes = []
        if n_far := int((~near).sum()):
            low, high = self.points[near].min(axis=0), self.points[near].max(axis=0)
            margin = 0.05 * (high - low)
            ax.set(
                xlim=(low[0] - margin[0], high[0] + margin[0]), ylim=(low[1] - margin[1], high[1] + margin[1])
            )
            notes.append(f"{n_far:,} point{'s lie' if n_far > 1 else ' lies'} far outside")
        if len(rows) < len(self.labels):
            notes.append(f"{len(rows):,} of {len(self.labels):,} points drawn")
        if notes:
            place: Any = {"xycoords": "axes fraction", "ha": "right", "va": "bottom"}
            ax.annotate("; ".join(notes), (1, 0), fontsize=7, color="#606468", **place)
        self.ax_ = ax
        self.figure_ = ax.figure
        return self

    def _draw_points(self, ax: Axes, rows: np.ndarray) -> None:
        # Points of doubtful membership are smaller and fainter.
        sizes = np.clip(12_000 / len(rows), 2.0, 22.0) * (0.4 + 0.6 * self.probabilities[rows])
        opacities = 0.2 + 0.6 * self.probabilities[rows]
        colours = np.array([cluster_colour(label) for label in range(int(self.labels.max()) + 1)])
        markers = np.array([cluster_marker(label) for label in range(len(colours))])
        # All clusters of one marker at once, in random order: no cluster lies on top of the others.
        shuffled = np.random.default_rng(0).permutation(len(rows))
        for marker in dict.fromkeys(markers.tolist()):
            chosen = shuffled[markers[self.labels[rows[shuffled]]] == marker]
            x, y = self.points[rows[chosen]].T
            ax.scatter(
                x,
                y,
                s=sizes[chosen],
                c=colours[self.labels[rows[chosen]]].tolist(),
                alpha=opacities[chosen],
                marker=marker,
                linewidths=0,
                rasterized=True,
            )

    def _middles(self) -> np.ndarray:
        """The row (K,) of each cluster nearest to the median of its points."""
        middles = []
        for label in range(int(self.labels.max()) + 1):
            rows = np.flatnonzero(self.labels == label)
            points = self.points[rows]
            with np.errstate(over="ignore"):
                middles.append(rows[np.abs(points - np.median(points, axis=0)).sum(axis=1).argmin()])
        return np.array(middles)

    def _number_clusters(self, ax: Axes, middles: np.ndarray) -> None:
        """Write each cluster's number in its middle, or above a single row; no legend to look up."""
        effects = import_matplotlib("matplotlib.patheffects")
        sizes = np.bincount(self.labels, minlength=len(middles))
        for label, row in enumerate(middles):
            ax.annotate(
                str(label),
                tuple(self.points[row]),
                xytext=(0, 9 if sizes[label] == 1 else 0),
                textcoords="offset points",
                ha="center",
                va="center",
                fontsize=11 if len(middles) <= 12 else 8,
                fontweight="bold",
                color="#101214",
                path_effects=[effects.withStroke(linewidth=2.5, foreground="white")],
            )
