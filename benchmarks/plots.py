"""Two plain pictures for studies: figures in rows with error bars, and curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.picture import plain_axes, save
from clusterwise.plotting.palette import QUIET, cluster_colours

__all__ = ["Curve", "draw_curves", "draw_rows"]

Figure = tuple[float, float]  # mean and standard deviation
Curve = Sequence[tuple[float, float, float, float]]  # x, y, and the ends of the interval around y


def _panels(n: int, size: tuple[float, float]) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure as Canvas

    figure = Canvas(figsize=size, layout="constrained")
    return figure, list(figure.subplots(1, n, squeeze=False)[0])


def _colours(panels: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """A colour for each series, the same in all panels."""
    names = list(dict.fromkeys(name for series in panels.values() for name in series))
    return dict(zip(names, cluster_colours(len(names)), strict=True))


def _finish(figure: Any, axes: Sequence[Any], path: Path) -> None:
    handles = {
        label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    save(lambda temporary: figure.savefig(temporary, format="png", dpi=130), path)


def draw_rows(panels: Mapping[str, Mapping[str, Mapping[str, Figure]]], path: Path) -> None:
    """By panel, series and row: a mean and its spread. Series share the rows."""
    rows = list(
        dict.fromkeys(row for panel in panels.values() for series in panel.values() for row in series)
    )
    figure, axes = _panels(len(panels), (3.6 * len(panels) + 2, 0.5 * len(rows) + 1.6))
    colours = _colours(panels)
    for ax, (title, panel) in zip(axes, panels.items(), strict=True):
        for offset, (name, series) in enumerate(panel.items()):
            at = [rows.index(row) + 0.12 * (offset - len(panel) / 2) for row in series]
            means, spreads = zip(*series.values(), strict=True)
            ax.errorbar(
                means, at, xerr=np.nan_to_num(spreads), fmt="o", ms=4, color=colours[name], label=name
            )
        plain_axes(ax, "x")
        ax.set_title(title, fontsize=9)
        ax.set_yticks(range(len(rows)), rows if ax is axes[0] else [""] * len(rows))
        ax.invert_yaxis()
    _finish(figure, axes, path)


def draw_curves(
    panels: Mapping[str, Mapping[str, Curve]],
    path: Path,
    x_labels: Sequence[str],
    y_labels: Sequence[str],
    scale: Literal["linear", "log"] = "log",
    hollow: Mapping[str, Mapping[str, set[float]]] | None = None,
) -> None:
    """Curves with intervals over a logarithmic axis; ``hollow`` names points to be drawn as circles."""
    figure, axes = _panels(len(panels), (4.4 * len(panels), 4.2))
    colours = _colours(panels)
    for ax, (title, panel), x_label, y_label in zip(axes, panels.items(), x_labels, y_labels, strict=True):
        for name, curve in panel.items():
            if not curve:
                continue
            x, y, low, high = map(np.asarray, zip(*curve, strict=True))
            ax.plot(x, y, "o-", ms=4, linewidth=1.5, color=colours[name], label=name)
            ax.vlines(x, low, high, color=colours[name], alpha=0.5)
            empty = [at in ((hollow or {}).get(title, {}).get(name, set())) for at in x]
            ax.plot(x[empty], y[empty], "o", ms=4, color=colours[name], markerfacecolor="white")
        ticks = sorted({point[0] for curve in panel.values() for point in curve})
        ax.set(xscale="log", yscale=scale, xlabel=x_label, ylabel=y_label)
        if ticks:
            ax.set_xticks(ticks, [f"{tick:g}" if tick < 1e4 else f"{tick / 1e3:g}k" for tick in ticks])
        ax.minorticks_off()
        if scale == "log" and ticks:
            first, last = ticks[0], ticks[-1]
            top = max(point[1] for curve in panel.values() for point in curve)
            limits = ax.get_ylim()
            ax.plot([first, last], [top * first / last, top], color=QUIET, zorder=0.5, label="linear")
            ax.set_ylim(limits)
        plain_axes(ax)
        ax.set_title(title, fontsize=10, loc="left")
    _finish(figure, axes, path)
