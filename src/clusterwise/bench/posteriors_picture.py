"""Posteriors over partitions side by side, and the picture of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clusterwise.plotting.palette import BASE, QUIET, cluster_colour
from clusterwise.priors.base import LabelledSet

__all__ = ["Compared", "Forecast", "draw_posteriors", "examples"]

COLOURS = {"known": "#555555", "inferred": BASE[1], "NCP": BASE[0]}
FEWEST_CLUSTERS = 3  # of the data set that shows a clear case


@dataclass(frozen=True)
class Forecast:
    """What one posterior says of one data set."""

    k_posterior: dict[int, float]
    pairs: np.ndarray  # (n (n - 1) / 2,) probability that two points share a cluster, upper triangle by rows
    seconds: float

    @property
    def mean_k(self) -> float:
        """Expected number of clusters."""
        return sum(k * p for k, p in self.k_posterior.items())


@dataclass(frozen=True)
class Compared:
    """All posteriors of one data set."""

    n: int
    index: int
    drawn: LabelledSet
    together: np.ndarray  # like ``Forecast.pairs``: whether they do
    chains: tuple[Forecast, Forecast]  # the two halves of the true posterior
    forecasts: dict[str, Forecast]  # "known", "inferred", "NCP"


def examples(compared: Sequence[Compared]) -> list[Compared]:
    """A clear and an ambiguous data set of the largest size, by the true posterior's own confidence."""
    largest = max(one.n for one in compared)

    def confidence(one: Compared) -> float:
        return max(one.forecasts["known"].k_posterior.values())

    candidates = sorted((one for one in compared if one.n == largest), key=confidence)
    several = [one for one in candidates if one.drawn.n_clusters >= FEWEST_CLUSTERS]
    clear = (several or candidates)[-1]
    return list({one.index: one for one in (clear, candidates[0])}.values())


def draw_posteriors(compared: Sequence[Compared], names: Mapping[str, str], path: Path) -> None:
    """Pairs of points, mean numbers of clusters, and two data sets with P(K)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14.5, 4.7), layout="constrained")
    rooms: Any = figure.subfigures(1, 3, width_ratios=[1.12, 1, 1.35])
    left, middle, right = rooms
    _draw_pairs(left.subplots(), compared)
    _draw_mean_k(middle.subplots(), compared, names)
    _draw_examples(right, examples(compared), names)
    figure.savefig(path, dpi=150)


def _draw_pairs(ax: Any, compared: Sequence[Compared]) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import LinearSegmentedColormap

    known = np.concatenate([one.forecasts["known"].pairs for one in compared])
    network = np.concatenate([one.forecasts["NCP"].pairs for one in compared])
    shades = LinearSegmentedColormap.from_list("shades", colormaps["Blues"](np.linspace(0.2, 1, 256)))
    cells = ax.hexbin(
        known, network, gridsize=24, bins="log", mincnt=1, extent=(0, 1, 0, 1), cmap=shades, linewidths=0.2
    )
    ax.plot([0, 1], [0, 1], color=BASE[5], linewidth=1)
    ax.figure.colorbar(cells, ax=ax, label="pairs of points", shrink=0.8)
    ax.set_aspect("equal")
    ax.set_xlim(-0.03, 1.03)
    ax.set_ylim(-0.03, 1.03)
    ax.set_xlabel("true posterior")
    ax.set_ylabel("NCP")
    ax.set_title("Two points share a cluster", fontsize=10, loc="left")
    ax.spines[["top", "right"]].set_visible(False)


def _draw_mean_k(ax: Any, compared: Sequence[Compared], names: Mapping[str, str]) -> None:
    known = np.array([one.forecasts["known"].mean_k for one in compared])
    highest = float(known.max())
    for name, marker in (("inferred", "^"), ("NCP", "o")):
        found = np.array([one.forecasts[name].mean_k for one in compared])
        highest = max(highest, float(found.max()))
        ax.plot(
            known, found, marker, color=COLOURS[name], markersize=4.5, alpha=0.7, markeredgewidth=0,
            label=names[name],
        )  # fmt: skip
    ax.plot([0.7, highest + 0.5], [0.7, highest + 0.5], color=QUIET, linewidth=1.2, zorder=0.5)
    ax.set_aspect("equal")
    ax.set_xlabel("true posterior")
    ax.set_title("Mean number of clusters", fontsize=10, loc="left")
    ax.legend(frameon=False, fontsize=8, loc="upper left")
    ax.spines[["top", "right"]].set_visible(False)


def _draw_examples(room: Any, chosen: Sequence[Compared], names: Mapping[str, str]) -> None:
    axes = room.subplots(2, len(chosen), squeeze=False, height_ratios=[1.15, 1])
    for column, one in enumerate(chosen):
        points, labels = one.drawn.points, one.drawn.labels
        ax = axes[0, column]
        colours = [cluster_colour(int(label)) for label in labels]
        ax.scatter(points[:, 0], points[:, 1], s=13, c=colours, linewidths=0)
        ax.set_aspect("equal", adjustable="datalim")
        ax.set_xticks([])
        ax.set_yticks([])
        ax.spines[:].set_color(QUIET)
        ax.set_title(f"{one.n} points, {one.drawn.n_clusters} clusters", fontsize=10, loc="left")
        _draw_bars(axes[1, column], one, names)
    axes[1, 0].set_ylabel("probability")
    handles, labels_of = axes[1, 0].get_legend_handles_labels()
    room.legend(handles, labels_of, loc="outside lower center", ncols=3, frameon=False, fontsize=8)


def _draw_bars(ax: Any, one: Compared, names: Mapping[str, str]) -> None:
    ks = sorted({k for f in one.forecasts.values() for k, p in f.k_posterior.items() if p >= 0.005})
    width = 0.8 / len(one.forecasts)
    for place, (name, forecast) in enumerate(one.forecasts.items()):
        heights = [forecast.k_posterior.get(k, 0.0) for k in ks]
        offset = (place - (len(one.forecasts) - 1) / 2) * width
        ax.bar(np.array(ks) + offset, heights, width, color=COLOURS[name], label=names[name])
    ax.set_xticks(range(ks[0], ks[-1] + 1))
    ax.set_xlim(min(ks[0], ks[-1] - 2) - 0.6, ks[-1] + 0.6)
    ax.set_ylim(0, 1)
    ax.set_xlabel("K")
    ax.spines[["top", "right"]].set_visible(False)
