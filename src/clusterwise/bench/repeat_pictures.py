"""Pictures of repeated runs: figures by data set, by starting point, and time by size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clusterwise._files import whole_or_nothing
from clusterwise.bench.repeats import Spread
from clusterwise.plotting.palette import cluster_colours
from clusterwise.plotting.plane import import_matplotlib

__all__ = ["draw_by_start", "draw_figures", "draw_starts", "draw_times"]

FIGURES = {"nmi": "NMI", "ari": "ARI", "acc": "ACC"}


def _subplots(*shape: int, size: tuple[float, float]) -> tuple[Any, np.ndarray]:
    figure, axes = import_matplotlib("matplotlib.figure").Figure(figsize=size, layout="constrained"), None
    axes = figure.subplots(*shape, squeeze=False)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
    return figure, axes


def _save(figure: Any, path: Path) -> None:
    with whole_or_nothing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=130)


def _methods(spreads: Sequence[Spread]) -> dict[str, str]:
    names = list(dict.fromkeys(s.method for s in spreads))
    return dict(zip(names, cluster_colours(len(names)), strict=True))


def draw_figures(spreads: Sequence[Spread], path: Path) -> None:
    """NMI, ARI and ACC of every method on every data set."""
    data = list(dict.fromkeys(s.data for s in spreads))
    colours = _methods(spreads)
    figure, axes = _subplots(1, 3, size=(11, 0.55 * len(data) + 1.6))
    for ax, (column, title) in zip(axes[0], FIGURES.items(), strict=True):
        for offset, (method, colour) in enumerate(colours.items()):
            chosen = [s for s in spreads if s.method == method]
            at = [data.index(s.data) + 0.12 * (offset - len(colours) / 2) for s in chosen]
            means, sds = zip(*(s.figures[column] for s in chosen), strict=True)
            ax.errorbar(means, at, xerr=np.nan_to_num(sds), fmt="o", ms=4, color=colour, label=method)
        ax.set_title(title, fontsize=9)
        ax.set_yticks(range(len(data)), data if ax is axes[0, 0] else [""] * len(data))
        ax.invert_yaxis()
        ax.grid(axis="x", alpha=0.3)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8)
    _save(figure, path)


def draw_by_start(spreads: Sequence[Spread], starts: Sequence[str], column: str, path: Path) -> None:
    """One figure of every variant, for each starting point."""
    variants = list(dict.fromkeys(s.method for s in spreads))
    figure, axes = _subplots(1, 1, size=(7, 0.45 * len(variants) + 1))
    for number, (start, colour) in enumerate(zip(starts, cluster_colours(len(starts)), strict=True)):
        chosen = {s.method: s.figures[column] for s in spreads if s.data == start}
        at = [index + 0.18 * (number - 1) for index in range(len(variants))]
        means, sds = zip(*(chosen[variant] for variant in variants), strict=True)
        axes[0, 0].errorbar(means, at, xerr=np.nan_to_num(sds), fmt="o", ms=5, color=colour, label=start)
    axes[0, 0].set_yticks(range(len(variants)), variants)
    axes[0, 0].invert_yaxis()
    axes[0, 0].set_xlabel(FIGURES[column])
    axes[0, 0].grid(axis="x", alpha=0.3)
    axes[0, 0].legend(fontsize=8, frameon=False)
    _save(figure, path)


def draw_starts(spreads: Sequence[Spread], starts: Mapping[str, int], path: Path) -> None:
    """NMI and K found over the number of clusters at the start, a line for each data set."""
    data = list(dict.fromkeys(s.data for s in spreads))
    figure, axes = _subplots(1, 2, size=(8, 3))
    for ax, (column, title) in zip(axes[0], {"nmi": "NMI", "k": "K found"}.items(), strict=True):
        for name, colour in zip(data, cluster_colours(len(data)), strict=True):
            chosen = [s for s in spreads if s.data == name]
            means, sds = zip(*(s.figures[column] for s in chosen), strict=True)
            at = [starts[s.method] for s in chosen]
            ax.errorbar(at, means, yerr=np.nan_to_num(sds), fmt="o-", ms=4, color=colour, label=name)
        ax.set_xscale("log")
        ax.set_xticks(list(starts.values()), [str(k) for k in starts.values()], minor=False)
        ax.set_xlabel("K at the start")
        ax.set_ylabel(title)
        ax.set_ylim(0, 1 if column == "nmi" else None)
        ax.grid(alpha=0.3)
    axes[0, 0].legend(fontsize=8, frameon=False)
    _save(figure, path)


def draw_times(rows: Mapping[tuple[str, int], Mapping[str, str]], path: Path) -> None:
    """Seconds over the number of rows, a line for each method."""
    methods = list(dict.fromkeys(method for method, _ in rows))
    figure, axes = _subplots(1, 1, size=(5, 3.5))
    for method, colour in zip(methods, cluster_colours(len(methods)), strict=True):
        good = [
            (n, float(row["seconds"]))
            for (m, n), row in rows.items()
            if m == method and row["status"] == "ok"
        ]
        if good:
            axes[0, 0].plot(*zip(*good, strict=True), "o-", ms=4, color=colour, label=method)
    axes[0, 0].set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds")
    axes[0, 0].grid(alpha=0.3, which="both")
    axes[0, 0].legend(fontsize=8, frameon=False)
    _save(figure, path)
