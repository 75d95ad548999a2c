"""The picture of AMCP's ablations, after its Figure 2: quality and time against T and against each choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from clusterwise.bench.methods.amcp import ABLATIONS, BASE, EM_STEPS, with_em_steps
from clusterwise.bench.picture import Dot, mean_dot, median_dot
from clusterwise.bench.summary import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_ablations"]

_PANELS: dict[str, Callable[[Summary], Dot]] = {
    "ARI minus the oracle's": lambda row: mean_dot(row.gaps["ARI"]),
    "log-likelihood minus the oracle's": lambda row: mean_dot(row.gaps["log-likelihood"]),
    "seconds": lambda row: median_dot(row.seconds),
}
_STEPS = [with_em_steps(n) for n in EM_STEPS]
_CHOICES = [name for name in ABLATIONS if name not in _STEPS]
_POSITIONS = dict(
    zip([*_STEPS, *_CHOICES], [*EM_STEPS, *np.arange(len(_CHOICES)) + EM_STEPS[-1] + 1.5], strict=True)
)
_COLOURS = {True: "#1f5fa8", False: "#c2571a"}  # steps of EM, other choices


def _tick(name: str) -> str:
    """What is said on the axis: T, or what was changed."""
    said = name.split(", ", 1)[1]
    return said.removeprefix("T = ") if name in _STEPS[1:] else said.replace(", ", ",\n")


def _draw_panel(axes: Axes, rows: dict[str, Summary], dot_of: Callable[[Summary], Dot]) -> None:
    dots = {name: dot_of(rows[name]) for name in _POSITIONS if name in rows}
    for name, dot in dots.items():
        colour = _COLOURS[name in _STEPS]
        axes.plot([_POSITIONS[name]] * 2, [dot.low, dot.high], color=colour, linewidth=2.2, alpha=0.55,
                  solid_capstyle="round")  # fmt: skip
        axes.plot(_POSITIONS[name], dot.value, "o", color=colour, markersize=5)
    steps = [name for name in _STEPS if name in dots]
    places, values = [_POSITIONS[name] for name in steps], [dots[name].value for name in steps]
    axes.plot(places, values, color=_COLOURS[True], linewidth=1)
    if BASE in dots:
        axes.axhline(dots[BASE].value, color="0.35", linewidth=1, linestyle=(0, (4, 3)), zorder=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, color="0.6")
    axes.grid(axis="y", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)


def draw_ablations(summaries: Sequence[Summary], path: Path) -> None:
    """Draw a column of panels per setting: ARI, log-likelihood, time. Writes a PNG to ``path``."""
    from matplotlib.figure import Figure

    settings = list(dict.fromkeys(row.setting for row in summaries))
    figure = Figure(figsize=(3.2 * len(settings) + 0.6, 8.0), layout="constrained")
    panels = figure.subplots(len(_PANELS), max(len(settings), 1), sharex=True, squeeze=False)
    for column, setting in enumerate(settings):
        rows = {row.method: row for row in summaries if row.setting == setting}
        for axes, (title, dot_of) in zip(panels[:, column], _PANELS.items(), strict=True):
            _draw_panel(axes, rows, dot_of)
            if column == 0:
                axes.set_ylabel(title, fontsize=9, color="0.25")
        panels[0, column].set_title(setting, fontsize=10, fontweight="bold", loc="left")
        panels[-1, column].set_ylim(bottom=0.0)
        panels[-1, column].set_xticks(list(_POSITIONS.values()), map(_tick, _POSITIONS))
        for label in panels[-1, column].get_xticklabels()[len(_STEPS) :]:
            label.set(rotation=90)
    figure.suptitle("AMCP: EM steps T, and one choice changed at T = 3", x=0.012, ha="left", fontsize=12,
                    fontweight="bold")  # fmt: skip
    figure.supxlabel(
        "Mean and its 95 % interval; seconds: median and middle 80 % of the data sets. Dashed: T = 3 with "
        "the regular E-step, free proportions, earlier clusters updated and a learned first cluster.",
        x=0.012, ha="left", fontsize=8, color="0.35",
    )  # fmt: skip
    figure.savefig(path, dpi=150, facecolor="white", format="png")
