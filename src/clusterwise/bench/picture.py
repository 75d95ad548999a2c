"""The picture of a benchmark: how far each method is from the truth, and how long it takes.

Reference lines stay in the table, where they need no explanation; the oracle is the line at zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from clusterwise.bench.registry import METHODS, METRICS, Benchmark
from clusterwise.bench.summary import Statistic, Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Dot", "draw_picture", "mean_dot", "median_dot"]

_COLOURS = {"ours": "#1f5fa8", "control": "#8db3d9", "peer": "#c2571a", "reference": "#7a7a7a"}
_NAMES = {
    "ours": "clusterwise",
    "control": "networks without training",
    "peer": "peers",
    "reference": "reference lines",
}


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


def _kind(method: str) -> str:
    return METHODS[method].kind if method in METHODS else "peer"


def _draw_dots(axes: Axes, rows: Sequence[Summary], dot_of: Callable[[Summary], Dot], title: str) -> None:
    for position, summary in enumerate(rows):
        dot, colour = dot_of(summary), _COLOURS[_kind(summary.method)]
        if np.isnan(dot.value):
            axes.annotate("failed" if summary.n_failed else "–", (0.02, position), color="0.5", fontsize=8,
                          xycoords=("axes fraction", "data"), va="center")  # fmt: skip
            continue
        axes.plot([dot.low, dot.high], [position, position], color=colour, linewidth=2.2, alpha=0.55,
                  solid_capstyle="round")  # fmt: skip
        axes.plot(dot.value, position, "o", color=colour, markersize=5.5)
    axes.set_title(title, fontsize=9, loc="left", color="0.25")
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [summary.method for summary in rows])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0, labelsize=9)
    axes.tick_params(axis="x", labelsize=8, color="0.6")
    axes.grid(axis="x", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)


def _stretch_zero(axes: Axes, linear_up_to: float) -> None:
    """Make the axis linear near zero and logarithmic beyond: one failed method must not hide the others."""
    low, high = axes.dataLim.intervalx
    if not np.isfinite([low, high]).all():
        return
    axes.set_xscale("symlog", linthresh=linear_up_to, linscale=1.0)
    sizes = [linear_up_to * 10**power for power in range(7)]
    ticks = [0.0, *sizes, *(-size for size in sizes)]
    near = sorted(tick for tick in ticks if 1.25 * min(low, 0) <= tick <= 1.25 * max(high, 0))
    if len(near) < 3:
        between = [sign * size * part for size in sizes for part in (0.3, 0.5) for sign in (-1, 1)]
        near = sorted({*near, *(t for t in between if 1.25 * min(low, 0) <= t <= 1.25 * max(high, 0))})
    axes.set_xticks(near, [f"{tick:g}".replace("-", "−") for tick in near])
    axes.minorticks_off()
    edge = 0.15 * linear_up_to
    axes.set_xlim(min(1.25 * low, -edge), max(1.25 * high, edge))


def _draw_agreement(axes: Axes, rows: Sequence[Summary], benchmark: Benchmark) -> None:
    """The first headline metric: its gap to the oracle where there is one."""
    metric = benchmark.headline[0]
    if benchmark.oracle is None:
        _draw_dots(axes, rows, lambda row: mean_dot(row.metrics[metric]), metric)
        return
    _draw_dots(axes, rows, lambda row: mean_dot(row.gaps[metric]), f"{metric} minus the oracle's")
    axes.axvline(0.0, color="0.35", linewidth=1, zorder=0.5)
    _stretch_zero(axes, 0.01)


def _draw_number(axes: Axes, rows: Sequence[Summary], oracle: Summary | None, metric: str) -> None:
    """The second headline metric, with the oracle's own value as a line."""
    better = "" if METRICS[metric].larger_is_better else ", smaller is better"
    _draw_dots(axes, rows, lambda row: mean_dot(row.metrics[metric]), f"mean {metric}{better}")
    if not METRICS[metric].larger_is_better:
        _stretch_zero(axes, 0.1)
    if oracle is not None and oracle.metrics[metric].count:
        axes.axvline(
            oracle.metrics[metric].mean, color="0.35", linewidth=1, linestyle=(0, (4, 3)), zorder=0.5
        )


def _draw_time(axes: Axes, rows: Sequence[Summary]) -> None:
    """Median ratio of times on a logarithmic axis, with the middle 80 % of the data sets."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    _draw_dots(axes, rows, lambda row: median_dot(row.time_ratios), "time ratio")
    axes.set_xscale("log")
    axes.axvline(1.0, color="0.35", linewidth=1, zorder=0.5)
    low, high = axes.get_xlim()
    steps = (1.0,) if high / low > 500 else (1.0, 3.0) if high / low > 50 else (1.0, 2.0, 5.0)
    axes.xaxis.set_major_locator(LogLocator(subs=steps))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()


def _explain(benchmark: Benchmark) -> str:
    text = (
        "Mean and its 95 % interval; for time, which is relative to "
        f"{benchmark.time_reference}, median and middle 80 % of the data sets."
    )
    return text if benchmark.oracle is None else f"{text} Dashed: the oracle."


def draw_picture(benchmark: Benchmark, summaries: Sequence[Summary], path: Path) -> None:
    """Draw a row of panels per setting: agreement, number of clusters, time. Writes a PNG to ``path``."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    shown = {
        setting: [row for row in summaries if row.setting == setting and _kind(row.method) != "reference"]
        for setting in benchmark.settings
    }
    shown = {setting: rows for setting, rows in shown.items() if rows}
    heights = [0.21 * len(rows) + 0.75 for rows in shown.values()] or [1.0]
    figure = Figure(figsize=(11, sum(heights) + 1.0), layout="constrained")
    kinds = [
        kind for kind in _COLOURS if any(_kind(row.method) == kind for rows in shown.values() for row in rows)
    ]
    handles = [
        Line2D([], [], color=_COLOURS[kind], marker="o", linewidth=2.2, label=_NAMES[kind]) for kind in kinds
    ]
    # The second line is kept free for the legend: a long title would run into it.
    figure.suptitle(f"{benchmark.title}\n", x=0.012, ha="left", fontsize=12, fontweight="bold")
    figure.supxlabel(_explain(benchmark), x=0.012, ha="left", fontsize=8, color="0.35")
    if handles:
        below_title = (0.0, 1 - 0.22 / figure.get_figheight())
        figure.legend(
            handles=handles, loc="upper left", bbox_to_anchor=below_title, ncols=3, frameon=False, fontsize=9
        )
    if shown:
        parts = figure.subfigures(len(shown), 1, squeeze=False, height_ratios=heights)[:, 0]
        for part, (setting, rows) in zip(parts, shown.items(), strict=True):
            oracle = [row for row in summaries if (row.setting, row.method) == (setting, benchmark.oracle)]
            agreement, number, seconds = part.subplots(1, 3, sharey=True)
            part.suptitle(setting, x=0.012, ha="left", fontsize=10, fontweight="bold")
            _draw_agreement(agreement, rows, benchmark)
            _draw_number(number, rows, oracle[0] if oracle else None, benchmark.headline[1])
            _draw_time(seconds, rows)
    figure.savefig(path, dpi=120, facecolor="white", format="png")
