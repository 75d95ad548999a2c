"""From timings at growing sizes to exponents, tables and a picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from clusterwise.bench.table import markdown_table, significant
from clusterwise.plotting.palette import BASE, QUIET, cluster_colours

__all__ = ["Axis", "Point", "Stages", "draw_growth", "exponent", "exponents", "growth_page"]

Axis = Literal["N", "K"]


@dataclass(frozen=True)
class Point:
    """Some runs of one method on data of one size."""

    method: str
    n: int
    k: int
    seconds: tuple[float, ...]  # of the runs that ended well
    found_k: tuple[int, ...]
    peak_memory_mb: float
    status: str  # "ok", or what went wrong

    @property
    def median(self) -> float:
        """Median time; NaN if no run ended well."""
        return float(np.median(self.seconds)) if self.seconds else float("nan")

    @property
    def is_right(self) -> bool:
        """Whether the number of clusters is right within a tenth: a wrong one says nothing about time."""
        return bool(self.found_k) and abs(float(np.median(self.found_k)) - self.k) <= 0.1 * self.k

    def size(self, axis: Axis) -> int:
        """The number that grows."""
        return self.n if axis == "N" else self.k


@dataclass(frozen=True)
class Stages:
    """Seconds of one fit by stages."""

    method: str
    n: int
    k: int
    seconds: dict[str, float]


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Slope of log time over log size by least squares; NaN for fewer than two sizes.

    >>> round(exponent([10, 100, 1000], [2.0, 20.0, 200.0]), 6)
    1.0
    """
    if len(set(sizes)) < 2:
        return float("nan")
    return float(np.polynomial.Polynomial.fit(np.log(sizes), np.log(seconds), 1).convert().coef[1])


def _of(points: Sequence[Point], method: str, axis: Axis) -> list[Point]:
    """The points of a method that ended well, by size."""
    return sorted((p for p in points if p.method == method and p.seconds), key=lambda p: p.size(axis))


def exponents(points: Sequence[Point], axis: Axis) -> dict[str, tuple[float, float]]:
    """Exponent of each method over all sizes where it found the clusters, and over the upper half of them."""
    found = {}
    for method in dict.fromkeys(point.method for point in points):
        chosen = [(point.size(axis), point.median) for point in _of(points, method, axis) if point.is_right]
        found[method] = (_exponent_of(chosen), _exponent_of(chosen[len(chosen) // 2 :]))
    return found


def _exponent_of(measured: Sequence[tuple[float, float]]) -> float:
    """Exponent over pairs of a size and a time; not a number where there are none."""
    return exponent(*zip(*measured, strict=True)) if measured else math.nan


# -- the page ----------------------------------------------------------------------------------------


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}".replace("-", "−")


def _cell(point: Point | None, axis: Axis) -> str:
    if point is None:
        return "–"
    if not point.seconds:
        return point.status.split(":")[0]
    text = significant(point.median)
    if axis == "N":
        return text
    low, high = min(point.found_k), max(point.found_k)
    return f"{text} ({low})" if low == high else f"{text} ({low} to {high})"


def _times(points: Sequence[Point], axis: Axis) -> str:
    sizes = sorted({point.size(axis) for point in points})
    at = {(point.method, point.size(axis)): point for point in points}
    slopes = exponents(points, axis)
    header = ["method", *(f"{axis} = {size:,}" for size in sizes), "exponent", "upper half"]
    return markdown_table(
        header,
        (
            [method, *(_cell(at.get((method, size)), axis) for size in sizes), *map(_number, slopes[method])]
            for method in slopes
        ),
    )


def _memory(points: Sequence[Point]) -> str:
    sizes = sorted({point.n for point in points})
    at = {(point.method, point.n): point for point in points}
    rows = []
    for method in dict.fromkeys(point.method for point in points):
        known = [at.get((method, size)) for size in sizes]
        rows.append([method, *(significant(p.peak_memory_mb) if p and p.seconds else "–" for p in known)])
    return markdown_table(["method", *(f"N = {size:,}" for size in sizes)], rows)


def _stage_table(stages: Sequence[Stages]) -> str:
    names = list(dict.fromkeys(name for one in stages for name in one.seconds))
    rows = []
    for one in stages:
        total = sum(one.seconds.values())
        shares = [one.seconds.get(name, 0.0) / total for name in names]
        rows.append(
            [
                one.method,
                f"{one.n:,}",
                str(one.k),
                significant(total),
                *(f"{100 * share:.0f} %" for share in shares),
            ]
        )
    return markdown_table(["method", "N", "k", "seconds", *names], rows)


def _dominant(one: Stages) -> str:
    total = sum(one.seconds.values())
    name, seconds = max(one.seconds.items(), key=lambda item: item[1])
    where = f"{one.method}, N = {one.n:,}, k = {one.k}"
    return f"- {where}: {name}, {100 * seconds / total:.0f} % of {significant(total)} s."


def growth_page(
    title: str,
    introduction: str,
    by_n: Sequence[Point],
    by_k: Sequence[Point],
    stages: Sequence[Stages],
    notes: Mapping[str, str],
) -> str:
    """Return the Markdown page; ``notes`` says what each method is and was measured with."""
    parts = [f"# {title}", introduction, f"![{title}](growth.png)"]
    parts += ["## Seconds against the number of points", _times(by_n, "N")]
    parts += [
        "## Seconds against the number of clusters",
        "In brackets: how many clusters the method found.",
        _times(by_k, "K"),
    ]
    parts += [
        "## Peak memory",
        "In MB, of the method's own process while it worked: interpreter, libraries and data included. The "
        "figure at the smallest N is what they take by themselves.",
        _memory(by_n),
    ]
    if stages:
        parts += ["## What dominates", "\n".join(map(_dominant, stages)), _stage_table(stages)]
    failures = [
        f"- {p.method}, N = {p.n:,}, k = {p.k}: {p.status}"
        for p in dict.fromkeys([*by_n, *by_k])
        if p.status != "ok"
    ]
    if failures:
        parts += ["## Not finished", "\n".join(failures)]
    parts += ["## Methods", "\n".join(f"- {name}: {note}" for name, note in notes.items())]
    return "\n\n".join(parts) + "\n"


# -- the picture -------------------------------------------------------------------------------------


def _plain_ticks(ax: Any, axis: Axis, sizes: Sequence[int]) -> None:
    """The measured sizes below, and plain numbers at the side."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    if axis == "N":  # powers of ten are enough
        ticks = [size for size in sizes if math.log10(size) % 1 == 0] or sizes
        ax.set_xticks(ticks, [f"$10^{{{math.log10(tick):.0f}}}$" for tick in ticks])
    else:
        ax.set_xticks(sizes, [str(size) for size in sizes])
    ax.minorticks_off()
    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(LogLocator(subs=(1,) if high / low > 200 else (1, 2, 5)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _draw_axis(ax: Any, points: Sequence[Point], axis: Axis, title: str) -> None:
    ends: list[tuple[int, float]] = []
    hollow = False
    slopes = exponents(points, axis)
    for (method, (slope, upper)), colour in zip(slopes.items(), BASE, strict=False):
        chosen = _of(points, method, axis)
        sizes, medians = [p.size(axis) for p in chosen], [p.median for p in chosen]
        label = method if math.isnan(slope) else f"{method}: {_number(slope)}, {_number(upper)}"
        ax.plot(sizes, medians, "o-", color=colour, markersize=4, linewidth=1.5, label=label)
        for point in chosen:
            ax.plot([point.size(axis)] * 2, [min(point.seconds), max(point.seconds)], color=colour, alpha=0.5)
            if not point.is_right:
                ax.plot(
                    point.size(axis), point.median, "o", color=colour, markerfacecolor="white", markersize=4
                )
                hollow = True
        ends += zip(sizes, medians, strict=True)
    ax.set_xscale("log")
    ax.set_yscale("log")
    if ends:
        first, last = min(size for size, _ in ends), max(size for size, _ in ends)
        top = max(seconds for _, seconds in ends)
        limits = ax.get_ylim()
        ax.plot(
            [first, last], [top * first / last, top], color=QUIET, linewidth=1.2, zorder=0.5, label="linear"
        )
        ax.set_ylim(limits)
        if hollow:
            ax.plot(
                [], [], "o", color="0.4", markerfacecolor="white", markersize=4, label="K missed by over 10 %"
            )
        _plain_ticks(ax, axis, sorted({size for size, _ in ends}))
    ax.set_title(title, fontsize=10, loc="left")
    ax.set_xlabel("number of points N" if axis == "N" else "number of clusters K")
    ax.set_ylabel("seconds")
    ax.legend(
        frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16),
        title="exponent, over all sizes and over their upper half", title_fontsize=8, alignment="left",
    )  # fmt: skip
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.93", linewidth=0.8)
    ax.set_axisbelow(True)


def _draw_stages(ax: Any, stages: Sequence[Stages]) -> None:
    names = list(dict.fromkeys(name for one in stages for name in one.seconds))
    left = np.zeros(len(stages))
    totals = np.array([sum(one.seconds.values()) for one in stages])
    for name, colour in zip(names, [*cluster_colours(len(names) - 1), QUIET], strict=True):
        shares = np.array([one.seconds.get(name, 0.0) for one in stages]) / totals
        ax.barh(range(len(stages)), shares, left=left, color=colour, height=0.6, label=name)
        left += shares
    labels = [
        f"{one.method}\nN = {one.n:,}, k = {one.k}\n{significant(t)} s"
        for one, t in zip(stages, totals, strict=True)
    ]
    ax.set_yticks(range(len(stages)), labels, fontsize=8)
    ax.set_ylim(len(stages) - 0.5, -0.5)
    ax.set_xlim(0, 1)
    ax.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    ax.set_title("where the time of fit goes", fontsize=10, loc="left")
    ax.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.4, -0.08), ncols=2)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)


def draw_growth(by_n: Sequence[Point], by_k: Sequence[Point], stages: Sequence[Stages], path: Path) -> None:
    """Time over N, time over K, and the stages of a fit."""
    from matplotlib.figure import Figure

    n_panels = 3 if stages else 2
    figure = Figure(figsize=(4.6 * n_panels, 4.8), layout="constrained")
    axes = figure.subplots(1, n_panels)
    _draw_axis(axes[0], by_n, "N", f"{by_n[0].k} clusters")
    _draw_axis(axes[1], by_k, "K", f"{by_k[0].n:,} points")
    if stages:
        _draw_stages(axes[2], stages)
    figure.savefig(path, dpi=150)
