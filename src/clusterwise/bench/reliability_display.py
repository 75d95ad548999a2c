"""Does what is said with probability p happen with frequency p?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from clusterwise.bench.calibration_metrics import ReliabilityCurve, reliability_curve
from clusterwise.exceptions import InvalidDataError
from clusterwise.plotting.palette import BASE, QUIET
from clusterwise.plotting.plane import import_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ReliabilityDisplay", "wilson_errors"]

SMALLEST_DOT, LARGEST_DOT = 8.0, 60.0  # areas, in points squared
NORMAL_95 = 1.96


def wilson_errors(accuracy: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """95 % interval of each frequency (bins,) of independent decisions, as lengths down and up, (2, bins)."""
    z2 = NORMAL_95**2 / counts
    centre = (accuracy + z2 / 2) / (1 + z2)
    half = np.sqrt(z2 * (accuracy * (1 - accuracy) + z2 / 4)) / (1 + z2)
    return np.maximum([accuracy - (centre - half), centre + half - accuracy], 0.0)


class ReliabilityDisplay:
    """Reliability diagram: observed frequency over stated probability, one dot per bin.

    The area of a dot tells the share of the decisions in its bin. Dots below the diagonal are
    overconfident, dots above it too modest. Several displays may share axes, one colour each.

    Parameters
    ----------
    curve : ReliabilityCurve
    errors : ndarray of shape (2, bins), optional
        How far the interval around each frequency reaches down and up.
    name : str, optional
        For the legend.

    Attributes
    ----------
    ax_, figure_ : what ``plot`` drew on

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> display = ReliabilityDisplay.from_predictions([0.9, 0.9, 0.6, 0.6], [1, 1, 1, 0], n_bins=10)
    >>> display.curve.accuracy
    array([0.5, 1. ])
    """

    def __init__(
        self, curve: ReliabilityCurve, *, errors: np.ndarray | None = None, name: str | None = None
    ) -> None:
        if errors is not None and errors.shape != (2, len(curve.counts)):
            raise InvalidDataError(
                f"errors must be (2, bins) with {len(curve.counts)} bins; got {errors.shape}."
            )
        self.curve = curve
        self.errors = errors
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        confidence: ArrayLike,
        correct: ArrayLike,
        *,
        n_bins: int = 15,
        bins: Literal["width", "count"] = "width",
        name: str | None = None,
        ax: Axes | None = None,
        colour: str = BASE[0],
    ) -> Self:
        """Draw decisions (m,) that were right or not and the confidence (m,) stated for each.

        The bars are 95 % intervals as if the decisions were independent. Points of one data set are not:
        for memberships take the spread over data sets and pass it as ``errors``.
        """
        curve = reliability_curve(confidence, correct, n_bins, bins)
        errors = wilson_errors(curve.accuracy, curve.counts)
        return cls(curve, errors=errors, name=name).plot(ax, colour=colour)

    def plot(self, ax: Axes | None = None, *, colour: str = BASE[0]) -> Self:
        """Draw on the given axes, or on those of a new figure."""
        if ax is None:
            _, ax = import_matplotlib("matplotlib.pyplot").subplots(figsize=(4, 4), layout="constrained")
        assert ax is not None
        if not any(line.get_gid() == "calibrated" for line in ax.lines):
            _draw_frame(ax)
        confidence, accuracy, counts = self.curve
        if self.errors is not None:
            ax.errorbar(
                confidence, accuracy, self.errors, fmt="none", ecolor=colour, elinewidth=1.2, alpha=0.5
            )
        ax.plot(confidence, accuracy, color=colour, linewidth=1.2)
        areas = SMALLEST_DOT + (LARGEST_DOT - SMALLEST_DOT) * counts / counts.sum()
        ax.scatter(confidence, accuracy, s=areas, color=colour, linewidths=0, zorder=3, clip_on=False)
        if self.name is not None:
            ax.scatter([], [], s=30, color=colour, linewidths=0, label=self.name)  # sizes say nothing here
            ax.legend(frameon=False, fontsize=8, loc="upper left")
        self.ax_ = ax
        self.figure_ = ax.figure
        return self


def _draw_frame(ax: Axes) -> None:
    (diagonal,) = ax.plot([0, 1], [0, 1], color=QUIET, linewidth=1.2, zorder=0.5)
    diagonal.set_gid("calibrated")
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    ax.set_aspect("equal")
    ax.set_xticks(np.linspace(0, 1, 6))
    ax.set_yticks(np.linspace(0, 1, 6))
    ax.set_xlabel("stated probability")
    ax.set_ylabel("how often it was so")
    ax.spines[["top", "right"]].set_visible(False)
