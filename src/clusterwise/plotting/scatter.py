"""The picture of a partition: points, their confidence, and an ellipse and a number per cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from clusterwise.plotting.plane import (
    cluster_colours,
    cluster_marker,
    import_matplotlib,
    open_axes,
    points_of_fit,
    project,
    subsample,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ClusterDisplay"]


# Points beyond the middle 98 % by more than this many times its width may lie outside the picture.
FAR = 2.0


@dataclass(eq=False)
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
    gaussians : pair of ndarray, of shapes (m, 2) and (m, 2, 2), optional
        Means and covariances of the ellipses.
    axis_names : two str
    pioneers : ndarray of int, optional
        Rows that stand for their clusters; each gets a ring.

    Attributes
    ----------
    ax_, figure_ : what ``plot`` drew on
    """

    points: np.ndarray
    labels: np.ndarray
    probabilities: np.ndarray | None = None
    gaussians: tuple[np.ndarray, np.ndarray] | None = None
    axis_names: tuple[str, str] = ("", "")
    pioneers: Sequence[int] | np.ndarray = ()

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
        """A drawing of a fitted estimator over the data of its ``fit``.

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
        names = names if column_names is None else tuple(column_names)
        drawn, axis_names = project(points, names, per_feature=estimator.per_feature_)
        gaussians = None
        if points.shape[1] == 1:  # spread over the height, so that points do not hide each other
            drawn[:, 1] = np.random.default_rng(0).uniform(-1, 1, len(drawn))
        elif estimator.gaussian_:
            gaussians = _gaussians_of(drawn, labels)
            if points.shape[1] == 2 and estimator.covariances_.shape[1:] == (2, 2):  # of no learned features
                gaussians = estimator.means_, estimator.covariances_
        display = cls(
            drawn,
            labels,
            probabilities=np.asarray(estimator.probabilities_),
            gaussians=gaussians,
            axis_names=axis_names,
            pioneers=estimator.pioneers_,
        )
        return display.plot(ax=ax, max_points=max_points)

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""
        return int(self.labels.max()) + 1

    def plot(self, ax: Axes | None = None, *, max_points: int = 20_000) -> Self:
        """This display, drawn on the given axes, or on those of a new figure."""
        ax = open_axes(ax, 7, 5.5)
        rows = subsample(self.labels, max_points)
        self._draw_points(ax, rows)
        self._draw_ellipses(ax)
        if len(self.pioneers) > 0:
            x, y = self.points[np.asarray(self.pioneers)].T
            ax.scatter(x, y, s=70, facecolors="none", edgecolors="#101214", linewidths=1.2, label="pioneers")
        medoids = self._medoids()
        self._number_clusters(ax, medoids)
        inside = _is_inside(self.points)
        inside[medoids] = True  # no cluster is left out
        low, high = self.points[inside].min(axis=0), self.points[inside].max(axis=0)
        _tidy_axes(ax, low, high, self.axis_names)
        notes = []
        if n_far := int((~inside).sum()):
            (left, bottom), (right, top) = low - 0.05 * (high - low), high + 0.05 * (high - low)
            ax.set(xlim=(left, right), ylim=(bottom, top))
            notes.append(f"{n_far:,} point{'s lie' if n_far > 1 else ' lies'} far outside")
        if len(rows) < len(self.labels):
            notes.append(f"{len(rows):,} of {len(self.labels):,} points drawn")
        place: Any = {"xycoords": "axes fraction", "ha": "right", "va": "bottom"}
        ax.annotate("; ".join(notes), (1, 0), fontsize=7, color="#606468", **place)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_points(self, ax: Axes, rows: np.ndarray) -> None:
        # Points of uncertain membership are smaller and fainter.
        sure = np.ones(len(rows)) if self.probabilities is None else self.probabilities[rows]
        sizes, opacities = np.clip(12_000 / len(rows), 2.0, 22.0) * (0.4 + 0.6 * sure), 0.2 + 0.6 * sure
        colours = np.array(cluster_colours(self.n_clusters))
        markers = np.array([cluster_marker(label) for label in range(self.n_clusters)])
        # All clusters of one marker at once, in random order: no cluster lies on top of the others.
        shuffled = np.random.default_rng(0).permutation(len(rows))
        for marker in dict.fromkeys(markers.tolist()):
            chosen = shuffled[markers[self.labels[rows[shuffled]]] == marker]
            x, y = self.points[rows[chosen]].T
            style = {"marker": marker, "linewidths": 0, "rasterized": True}
            c = colours[self.labels[rows[chosen]]].tolist()
            ax.scatter(x, y, s=sizes[chosen], c=c, alpha=opacities[chosen], **style)

    def _draw_ellipses(self, ax: Axes) -> None:
        patches = import_matplotlib("patches")
        style = {"fill": False, "edgecolor": "#202428", "linewidth": 0.8, "alpha": 0.7}
        for mean, covariance in zip(*self.gaussians or ((), ()), strict=True):
            variances, directions = np.linalg.eigh(covariance)
            height, width = 4 * np.sqrt(np.maximum(variances, 0.0))
            angle = np.degrees(np.arctan2(directions[1, 1], directions[0, 1]))
            if np.isfinite([width, height]).all():
                ax.add_patch(patches.Ellipse(tuple(mean), width, height, angle=angle, **style))

    def _medoids(self) -> np.ndarray:
        """The row (K,) of each cluster nearest to the median of its points."""
        medoids = np.empty(self.n_clusters, dtype=np.int64)
        for label in range(self.n_clusters):
            rows = np.flatnonzero(self.labels == label)
            points = self.points[rows]
            with np.errstate(over="ignore"):
                medoids[label] = rows[np.abs(points - np.median(points, axis=0)).sum(axis=1).argmin()]
        return medoids

    def _number_clusters(self, ax: Axes, medoids: np.ndarray) -> None:
        """Write each cluster's number in its middle, or above a single row; no legend to look up."""
        effects = import_matplotlib("patheffects")
        sizes = np.bincount(self.labels)
        style: Any = {"ha": "center", "va": "center", "fontweight": "bold", "color": "#101214"}
        style |= {"fontsize": 11 if len(medoids) <= 12 else 8, "textcoords": "offset points"}
        style["path_effects"] = [effects.withStroke(linewidth=2.5, foreground="white")]
        for label, row in enumerate(medoids):
            above = 9 if sizes[label] == 1 else 0
            ax.annotate(str(label), tuple(self.points[row]), xytext=(0, above), **style)


def _is_inside(points: np.ndarray) -> np.ndarray:
    """Which of the points (n, 2) do not lie so far out that the others would shrink to a dot."""
    with np.errstate(over="ignore"):
        low, high = np.quantile(points, [0.01, 0.99], axis=0)
        reach = np.where(high > low, FAR * (high - low), np.inf)
        return ((points >= low - reach) & (points <= high + reach)).all(axis=1)


def _gaussians_of(points: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means (m, 2) and covariances (m, 2, 2) of the points (n, 2) of each cluster that has an area.

    Points far outside do not count.
    """
    inside = _is_inside(points)
    clusters = [points[inside & (labels == label)] for label in range(int(labels.max()) + 1)]
    clusters = [members for members in clusters if len(members) >= 3 and np.ptp(members, axis=0).any()]
    means = np.array([members.mean(axis=0) for members in clusters]).reshape(-1, 2)
    covariances = [np.cov(members.T, bias=True) for members in clusters]
    return means, np.array(covariances).reshape(-1, 2, 2)


def _tidy_axes(ax: Axes, low: np.ndarray, high: np.ndarray, names: tuple[str, str]) -> None:
    """Few ticks without offsets, and the names (2) of axes that show points from low (2,) to high (2,)."""
    ticker = import_matplotlib("ticker")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(ticker.MaxNLocator(nbins=5))
        formatter = ticker.ScalarFormatter(useOffset=False)
        formatter.set_powerlimits((-4, 8))
        axis.set_major_formatter(formatter)
    ax.set_xlabel(names[0], parse_math=False)  # "cost ($) of sales ($)" is no formula
    ax.set_ylabel(names[1], parse_math=False)
    width, height = np.maximum(high / 2 - low / 2, np.finfo(float).tiny)
    # Comparable units: do not distort distances. (matplotlib's equal aspect fails for extreme spans.)
    if 1 / 3 < width / height < 3 and 1e-30 < width < 1e30:
        ax.set_aspect("equal", adjustable="datalim")
    if not names[1]:
        ax.set_yticks([])
