"""The picture of a comparison: how far each method is from the truth, and how long it takes.

Reference lines stay in the table, where they need no explanation; the oracle is the line at zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.scores import METRICS
from benchmarks.suite import Method
from benchmarks.summary import Rows, Statistic, describe, differences, ratios
from clusterwise._files import whole_or_nothing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Dot", "Panels", "draw_picture", "mean_dot", "median_dot", "plain_axes", "save"]

_COLOURS = {"ours": "#1f5fa8", "control": "#8db3d9", "peer": "#c2571a"}
_NAMES = {"ours": "clusterwise", "control": "networks without training", "peer": "peers"}


def save(draw: Callable[[Path], object], path: Path) -> None:
    """Write a picture whole or not at all."""
    with whole_or_nothing(path) as temporary:
        draw(temporary)


def plain_axes(axes: Axes, grid: str = "both") -> None:
    """No frame but the axes themselves, and a faint grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, color="0.6")
    axes.grid(axis=grid, color="0.92", linewidth=0.8)  # type: ignore[arg-type]
    axes.set_axisbelow(True)


@dataclass(frozen=True)
class Dot:
    """A value and the interval around it."""

    value: float
    low: float
    high: float


def mean_dot(statistic: Statistic) -> Dot:
    """The mean and its 95 % interval."""
    half = 0.0 if np.isnan(statistic.standard_error) else 1.96 * statistic.standard_error
    return Dot(statistic.mean, statistic.mean - half, statistic.mean + half)


def median_dot(statistic: Statistic) -> Dot:
    """The median and the middle 80 %."""
    return Dot(statistic.median, statistic.low, statistic.high)


@dataclass(frozen=True)
class Panels:
    """What is drawn: a row of panels for each kind of data."""

    title: str
    data: Sequence[str]
    methods: Sequence[Method]
    headline: tuple[str, ...]
    oracle: str | None
    reference: str


def _draw_dots(axes: Axes, dots: dict[str, Dot], colours: dict[str, str], title: str) -> None:
    for position, (name, dot) in enumerate(dots.items()):
        if np.isnan(dot.value):
            axes.annotate("–", (0.02, position), color="0.5", fontsize=8, va="center",
                          xycoords=("axes fraction", "data"))  # fmt: skip
            continue
        axes.plot([dot.low, dot.high], [position, position], color=colours[name], linewidth=2.2, alpha=0.55,
                  solid_capstyle="round")  # fmt: skip
        axes.plot(dot.value, position, "o", color=colours[name], markersize=5.5)
    plain_axes(axes, "x")
    axes.set_title(title, fontsize=9, loc="left", color="0.25")
    axes.set_ylim(len(dots) - 0.4, -0.6)
    axes.set_yticks(range(len(dots)), list(dots))
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, labelsize=9)


def _stretch_zero(axes: Axes, linear_up_to: float) -> None:
    """Make the axis linear near zero and logarithmic beyond: one failed method must not hide the others."""
    low, high = axes.dataLim.intervalx
    if not np.isfinite([low, high]).all():
        return
    axes.set_xscale("symlog", linthresh=linear_up_to, linscale=1.0)
    sizes = [linear_up_to * 10**power for power in range(7)]
    between = [size * part for size in sizes for part in (0.3, 0.5)]

    def near(ticks: Sequence[float]) -> list[float]:
        both = {0.0, *ticks, *(-tick for tick in ticks)}
        return sorted(tick for tick in both if 1.25 * min(low, 0) <= tick <= 1.25 * max(high, 0))

    ticks = near(sizes) if len(near(sizes)) >= 3 else near(sizes + between)
    axes.set_xticks(ticks, [f"{tick:g}".replace("-", "−") for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(min(1.25 * low, -0.15 * linear_up_to), max(1.25 * high, 0.15 * linear_up_to))


def _logarithmic(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator

    axes.set_xscale("log")
    axes.axvline(1.0, color="0.35", linewidth=1, zorder=0.5)
    low, high = axes.get_xlim()
    steps = (1.0,) if high / low > 500 else (1.0, 3.0) if high / low > 50 else (1.0, 2.0, 5.0)
    axes.xaxis.set_major_locator(LogLocator(subs=steps))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.minorticks_off()


def _draw_setting(part: Any, panels: Panels, rows: Rows, methods: Sequence[Method]) -> None:
    of = {method.name: rows.of(method=method.name) for method in methods}
    colours = {method.name: _COLOURS[method.kind] for method in methods}
    agreement, number, seconds = part.subplots(1, 3, sharey=True)
    first, second = panels.headline[:2]
    oracle = rows.of(method=panels.oracle) if panels.oracle is not None else Rows([])
    if panels.oracle is None:
        dots = {name: mean_dot(own.describe(first)) for name, own in of.items()}
        _draw_dots(agreement, dots, colours, first)
    else:
        known = oracle.values(first)
        gaps = {name: describe(differences(own.values(first), known)) for name, own in of.items()}
        dots = {name: mean_dot(one) for name, one in gaps.items()}
        _draw_dots(agreement, dots, colours, f"{first} minus the oracle's")
        agreement.axvline(0.0, color="0.35", linewidth=1, zorder=0.5)
        _stretch_zero(agreement, 0.01)
    smaller = not METRICS[second].larger_is_better
    dots = {name: mean_dot(own.describe(second)) for name, own in of.items()}
    _draw_dots(number, dots, colours, f"mean {second}{', smaller is better' if smaller else ''}")
    if smaller:
        _stretch_zero(number, 0.1)
    if oracle.describe(second).count:
        number.axvline(oracle.describe(second).mean, color="0.35", linewidth=1, linestyle=(0, (4, 3)))
    reference = rows.of(method=panels.reference).values("seconds")
    times = {name: describe(ratios(own.values("seconds"), reference)[0]) for name, own in of.items()}
    _draw_dots(seconds, {name: median_dot(one) for name, one in times.items()}, colours, "time ratio")
    _logarithmic(seconds)


def draw_picture(panels: Panels, rows: Rows, path: Path) -> None:
    """Draw a row of panels per kind of data: agreement, number of clusters, time; a PNG at ``path``."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    shown = {
        data: [m for m in panels.methods if m.kind != "reference" and len(rows.of(data=data, method=m.name))]
        for data in panels.data
    }
    shown = {data: methods for data, methods in shown.items() if methods}
    heights = [0.21 * len(methods) + 0.75 for methods in shown.values()] or [1.0]
    figure = Figure(figsize=(11, sum(heights) + 1.0), layout="constrained")
    kinds = [kind for kind in _COLOURS if any(m.kind == kind for of in shown.values() for m in of)]
    handles = [
        Line2D([], [], color=_COLOURS[kind], marker="o", linewidth=2.2, label=_NAMES[kind]) for kind in kinds
    ]
    # The second line is kept free for the legend: a long title would run into it.
    figure.suptitle(f"{panels.title}\n", x=0.012, ha="left", fontsize=12, fontweight="bold")
    note = f"Mean and its 95 % interval; for time, relative to {panels.reference}, median and middle 80 %."
    note += "" if panels.oracle is None else " Dashed: the oracle."
    figure.supxlabel(note, x=0.012, ha="left", fontsize=8, color="0.35")
    below_title = (0.0, 1 - 0.22 / figure.get_figheight())
    figure.legend(
        handles=handles, loc="upper left", bbox_to_anchor=below_title, ncols=3, frameon=False, fontsize=9
    )
    if shown:
        parts = figure.subfigures(len(shown), 1, squeeze=False, height_ratios=heights)[:, 0]
        for part, (data, methods) in zip(parts, shown.items(), strict=True):
            part.suptitle(data, x=0.012, ha="left", fontsize=10, fontweight="bold")
            _draw_setting(part, panels, rows.of(data=data), methods)
    figure.savefig(path, dpi=120, facecolor="white", format="png")
