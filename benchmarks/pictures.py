"""Pictures of results: dots with intervals in lines, and curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from benchmarks.summary import Statistic
from clusterwise._files import whole_or_nothing
from clusterwise.plotting.palette import QUIET, cluster_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "Curve", "Dot", "Panel", "draw_curves", "draw_dots", "mean_dot", "median_dot", "plain_axes", "save",
]  # fmt: skip

Dot = tuple[float, float, float]  # a value and the ends of the interval around it
Panel = Mapping[str, Mapping[str, Dot]]  # dots by series and line
Curve = Sequence[tuple[float, float]]
COLOURS = {"clusterwise": "#1f5fa8", "networks without training": "#8db3d9", "peers": "#c2571a"}


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


def mean_dot(of: Statistic, width: float = 1.96, spread: str = "standard_error") -> Dot:
    """The mean and its 95 % interval, or ``width`` times another spread to either side."""
    half = np.nan_to_num(width * getattr(of, spread))
    return of.mean, of.mean - half, of.mean + half


def median_dot(of: Statistic) -> Dot:
    """The median and the middle 80 %."""
    return of.median, of.low, of.high


def _colours(panels: Sequence[Mapping[str, object]]) -> dict[str, str]:
    """A colour for each series, the same in all panels."""
    names = list(dict.fromkeys(name for series in panels for name in series))
    return dict(zip(names, cluster_colours(len(names)), strict=True)) | COLOURS


def _finish(figure: Any, axes: Sequence[Any], path: Path, note: str = "") -> None:
    found = {label: h for ax in axes for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(
        found.values(), found, loc="outside lower center", ncols=4, fontsize=8, frameon=False, title=note,
        title_fontsize=8,
    )  # fmt: skip
    save(lambda temporary: figure.savefig(temporary, format="png", dpi=120), path)


Scale = float | Literal["log"]  # linear up to this and logarithmic beyond, or logarithmic


def _scale(axes: Axes, scale: Scale, values: np.ndarray) -> None:
    """One failed method must not hide the differences among the others."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    if scale == "log" and len(values):
        axes.set_xscale("log")
        wide = np.ptp(np.log10(values)) > 2
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 3.0)))
        axes.axvline(1.0, color="0.35", linewidth=1, zorder=0.5)
    elif not isinstance(scale, str):
        axes.set_xscale("symlog", linthresh=scale)
        axes.axvline(0.0, color="0.35", linewidth=1, zorder=0.5)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".replace("-", "−")))
    axes.minorticks_off()


def draw_dots(
    blocks: Mapping[str, Mapping[str, Panel]],
    path: Path,
    scales: Mapping[str, Scale] | None = None,
    note: str = "",
) -> None:
    """Blocks below each other, each a row of panels with a line for each name; series have colours.

    ``scales`` are those of panels, by title, that are not linear.
    """
    from matplotlib.figure import Figure

    lines = {
        title: list(dict.fromkeys(line for panel in block.values() for of in panel.values() for line in of))
        for title, block in blocks.items()
    }
    heights = [0.21 * len(of) + 0.9 for of in lines.values()]
    width = max(len(block) for block in blocks.values())
    figure = Figure(figsize=(3.0 * width + 2, sum(heights) + 0.5), layout="constrained")
    parts = figure.subfigures(len(blocks), 1, squeeze=False, height_ratios=heights)[:, 0]
    colours = _colours([panel for block in blocks.values() for panel in block.values()])
    all_axes: list[Any] = []
    for part, (title, block) in zip(parts, blocks.items(), strict=True):
        part.suptitle(title, x=0.012, ha="left", fontsize=10, fontweight="bold")
        names = lines[title]
        for ax, (subtitle, panel) in zip(
            part.subplots(1, len(block), sharey=True, squeeze=False)[0], block.items(), strict=True
        ):
            drawn = []
            for place, (series, of) in enumerate(panel.items()):
                shift = 0.0 if set(panel) <= set(COLOURS) else 0.12 * (place - (len(panel) - 1) / 2)
                good = [
                    (names.index(line) + shift, *dot) for line, dot in of.items() if not math.isnan(dot[0])
                ]
                drawn += [value for _, *dot in good for value in dot]
                at, value, low, high = np.array(good).reshape(-1, 4).T
                ax.hlines(at, low, high, color=colours[series], linewidth=2.2, alpha=0.55)
                ax.plot(value, at, "o", color=colours[series], markersize=5, label=series)
            plain_axes(ax, "x")
            if subtitle in (scales or {}):
                _scale(ax, (scales or {})[subtitle], np.array(drawn))
            ax.set_title(subtitle, fontsize=9, loc="left", color="0.25")
            ax.set_yticks(range(len(names)), names)
            ax.set_ylim(len(names) - 0.4, -0.6)
            all_axes.append(ax)
    _finish(figure, all_axes, path, note)


def draw_curves(panels: Mapping[str, Mapping[str, Curve]], path: Path, y_label: str) -> None:
    """Curves (size, value) on logarithmic axes, a panel for each title, beside a line of slope 1."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.4 * len(panels), 4.2), layout="constrained")
    axes = list(figure.subplots(1, len(panels), squeeze=False)[0])
    colours = _colours(list(panels.values()))
    for ax, (title, panel) in zip(axes, panels.items(), strict=True):
        for name, curve in panel.items():
            ax.plot(*np.array(curve).reshape(-1, 2).T, "o-", ms=4, color=colours[name], label=name)
        ax.set(xscale="log", yscale="log", ylabel=y_label)
        ticks = sorted({size for curve in panel.values() for size, _ in curve})
        if ticks:
            ax.set_xticks(ticks, [f"{tick:g}" if tick < 1e4 else f"{tick / 1e3:g}k" for tick in ticks])
            top, limits = max(value for curve in panel.values() for _, value in curve), ax.get_ylim()
            line = [top * ticks[0] / ticks[-1], top]
            ax.plot([ticks[0], ticks[-1]], line, color=QUIET, zorder=0.5, label="linear")
            ax.set_ylim(limits)
        ax.minorticks_off()
        plain_axes(ax)
        ax.set_title(title, fontsize=10, loc="left")
    _finish(figure, axes, path)
