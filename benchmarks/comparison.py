"""The page of a suite that compares methods on several kinds of data: figures, gaps to the oracle, costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.page import NOTHING, gap, markdown_table, mean, median, method_table, ratio, sets, span
from benchmarks.scores import METRICS
from benchmarks.suite import Method
from benchmarks.summary import Cell, Rows, describe, differences, ratios
from clusterwise._files import whole_or_nothing

ORACLE = "oracle"  # the method that gaps are taken to
COLOURS = {
    "ours": ("clusterwise", "#1f5fa8"),
    "control": ("networks without training", "#8db3d9"),
    "peer": ("peers", "#c2571a"),
}


@dataclass(frozen=True)
class Comparison:
    """What is shown of methods on several kinds of data; an instance is the ``report`` of a suite."""

    methods: Sequence[Method]
    metrics: tuple[str, ...]
    headline: tuple[str, ...] = ("ARI", "k error", "log-likelihood")
    reference: str = "BayesianGaussianMixture"  # of times

    def __call__(self, rows: Rows, page: Path) -> list[str]:
        """The parts of the page; the picture is written next to it."""
        self._draw(rows, page.with_suffix(".png"))
        parts = [f"![Gaps, clusters and times]({page.stem}.png)", *self._overview(rows)]
        costs: dict[str, Cell] = {
            "seconds, median": median("seconds"),
            "10 % to 90 %": span("seconds"),
            "ratio of sums": ratio("seconds", self.reference, "sums"),
            "median ratio": ratio("seconds", self.reference),
            "10 % to 90 % of the ratios": ratio("seconds", self.reference, "span"),
            "peak memory, MB": median("peak_memory_mb"),
        }
        for name in rows.names("data"):
            of = rows.of(data=name)
            # The oracle's labels come with the data set: its time means nothing.
            without_oracle = [method for method in of.names("method") if method != ORACLE]
            parts += [f"## {name}", method_table(of, None, self._figures())]
            parts += ["Time and memory of one data set", method_table(of, without_oracle, costs)]
        return parts

    def _overview(self, rows: Rows) -> list[str]:
        """The first figure of every method on every kind of data."""
        metric, names = self.headline[0], rows.names("data")
        cell = gap(metric, ORACLE, METRICS[metric].digits)
        methods, of = rows.names("method"), [rows.of(data=name) for name in names]
        lines = [[one, *(cell(kind.of(method=one), kind) for kind in of)] for one in methods if one != ORACLE]
        heading = f"## {metric} minus the oracle's, in every setting"
        return [heading, markdown_table(["method", *names], lines)] if len(names) > 1 else []

    def _figures(self) -> dict[str, Cell]:
        """The figures that matter most, with their gaps and the time; then the others."""
        columns: dict[str, Cell] = {"sets": sets}
        for metric in self.headline:
            columns[metric] = mean(metric, METRICS[metric].digits)
            if METRICS[metric].larger_is_better:
                columns[f"{metric}, gap to the oracle"] = gap(metric, ORACLE, METRICS[metric].digits)
        times = ratio("seconds", self.reference)
        columns["time ratio"] = lambda rows, everything: (
            NOTHING if rows.names("method") == [ORACLE] else times(rows, everything)
        )
        others = [metric for metric in self.metrics if metric not in self.headline]
        return columns | {metric: mean(metric, METRICS[metric].digits) for metric in others}

    def _dots(self, of_data: Rows, method: str) -> list[tuple[float, float, float]]:
        """Gap to the oracle, error in k and time ratio, each with the ends of an interval around it."""
        first, second = self.headline[:2]
        own = of_data.of(method=method)
        gaps = differences(own.values(first), of_data.of(method=ORACLE).values(first))
        times = ratios(own.values("seconds"), of_data.of(method=self.reference).values("seconds"))[0]
        means, middle = (describe(gaps), own.describe(second)), describe(times)
        halves = [np.nan_to_num(1.96 * one.standard_error) for one in means]
        dots = [(one.mean, one.mean - h, one.mean + h) for one, h in zip(means, halves, strict=True)]
        return [*dots, (middle.median, middle.low, middle.high)]

    def _draw(self, rows: Rows, path: Path) -> None:
        """A row of panels for each kind of data, a line for each method; no reference lines."""
        from matplotlib.figure import Figure

        first, second = self.headline[:2]
        titles = (f"{first} minus the oracle's", f"mean {second}", "time ratio")
        of = {name: rows.of(data=name) for name in rows.names("data")}
        shown = [method for method in self.methods if method.kind in COLOURS]
        lines = {name: [one for one in shown if of[name].of(method=one.name)] for name in of}
        heights = [0.21 * len(methods) + 0.9 for methods in lines.values()]
        figure = Figure(figsize=(11, sum(heights) + 0.5), layout="constrained")
        sizes = {"height_ratios": heights}
        grid = figure.subplots(len(lines), 3, squeeze=False, sharey="row", gridspec_kw=sizes)
        for panels, (name, methods) in zip(grid, lines.items(), strict=True):
            dots = np.array([self._dots(of[name], method.name) for method in methods])
            for kind, (label, colour) in COLOURS.items():
                at = np.array([place for place, method in enumerate(methods) if method.kind == kind], int)
                for ax, (value, low, high) in zip(panels, dots[at].transpose(1, 2, 0), strict=True):
                    ax.hlines(at, low, high, color=colour, linewidth=2.2, alpha=0.55)
                    ax.plot(value, at, "o", color=colour, markersize=5, label=label)
            panels[0].set_yticks(range(len(methods)), [method.name for method in methods])
            panels[0].set_ylim(len(methods) - 0.4, -0.6)
            panels[0].set_ylabel(name, fontweight="bold")
            # One failed method must not hide the differences among the others.
            panels[0].set_xscale("symlog", linthresh=0.01)
            panels[1].set_xscale("symlog", linthresh=0.1)
            panels[2].set_xscale("log")
            for ax, title in zip(panels, titles, strict=True):
                ax.set_title(title, fontsize=9, loc="left")
                ax.axvline(float(title == titles[2]), color="0.35", linewidth=1, zorder=0.5)
                ax.spines[["top", "right"]].set_visible(False)
                ax.tick_params(labelsize=8)
                ax.minorticks_off()
                ax.grid(axis="x", color="0.92")
        legends = (zip(*ax.get_legend_handles_labels(), strict=True) for ax in grid.flat)
        found = {label: handle for legend in legends for handle, label in legend}
        note = f"Mean and its 95 % interval; for time, relative to {self.reference}, median and middle 80 %."
        place: Any = {"loc": "outside lower center", "ncols": 3}
        figure.legend(found.values(), found, fontsize=8, frameon=False, title=note, **place)
        with whole_or_nothing(path) as temporary:
            figure.savefig(temporary, format="png", dpi=120)
