"""The page of a suite that compares methods on several kinds of data: figures, gaps to the oracle, costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.page import NOTHING, Cell, gap, markdown_table, mean, median, method_table, ratio, sets, span
from benchmarks.pictures import Dot, Scale, draw_dots, mean_dot, median_dot
from benchmarks.scores import METRICS
from benchmarks.suite import Method
from benchmarks.summary import Rows, Statistic, describe, differences, ratios

__all__ = ["Comparison"]

INTRODUCTION = """\
Mean ± standard error over data sets. {gaps}Time ratios are medians, to {reference} on the same data set, and
methods take turns. Slow methods are measured on the first sets only: of these, compare gaps and not means.
Noise points (label −1) count as one more cluster in agreement scores and not at all in the number of
clusters."""
GAPS = "A gap is the value minus the oracle's on the same data set. "
COSTS = """\
Time and memory of one data set. Memory is the peak of the method's process while it worked, interpreter and
libraries included (median over data sets); networks share one, peers too."""
SERIES = {"ours": "clusterwise", "control": "networks without training", "peer": "peers"}


def _mean(metric: str) -> Cell:
    return mean(metric, METRICS[metric].digits)


@dataclass(frozen=True)
class Comparison:
    """What is shown of methods on several kinds of data; an instance is the ``report`` of a suite."""

    methods: Sequence[Method]
    metrics: tuple[str, ...]
    headline: tuple[str, ...] = ("ARI", "k error", "log-likelihood")
    oracle: str | None = "oracle"  # the method that gaps are taken to
    reference: str = "BayesianGaussianMixture"  # of times

    def __call__(self, rows: Rows, page: Path) -> list[str]:
        """The parts of the page; pictures are written beside it."""
        introduction = INTRODUCTION.format(gaps=GAPS if self.oracle else "", reference=self.reference)
        names = rows.names("data")
        self._draw(rows, page.with_suffix(".png"))
        parts = [introduction, f"![Gaps, clusters and times]({page.stem}.png)"]
        parts += self._overview(rows) if len(names) > 1 else []
        rest = {metric: _mean(metric) for metric in self.metrics if metric not in self.headline}
        medians = {metric: median(metric, METRICS[metric].digits) for metric in self.metrics}
        costs: dict[str, Cell] = {
            "seconds, median": median("seconds"),
            "10 % to 90 %": span("seconds"),
            "ratio of sums": ratio("seconds", self.reference, "sums"),
            "median ratio": ratio("seconds", self.reference),
            "10 % to 90 % of the ratios": ratio("seconds", self.reference, "span"),
            "peak memory, MB": median("peak_memory_mb"),
        }
        for name in names:
            of = rows.of(data=name)
            # The oracle's labels come with the data set: its time means nothing.
            without_oracle = [method for method in of.names("method") if method != self.oracle]
            parts += [f"## {name}", method_table(of, None, self._headline())]
            parts += ["Other metrics", method_table(of, None, rest)] if rest else []
            parts += ["Medians", method_table(of, None, medians)]
            parts += [COSTS, method_table(of, without_oracle, costs)]
        return parts

    def _overview(self, rows: Rows) -> list[str]:
        """The first figure of every method on every kind of data."""
        metric, names = self.headline[0], rows.names("data")
        cell = _mean(metric) if self.oracle is None else gap(metric, self.oracle, METRICS[metric].digits)
        lines = (
            [method, *(cell(rows.of(data=name, method=method), rows.of(data=name)) for name in names)]
            for method in rows.names("method")
            if method != self.oracle
        )
        title = metric if self.oracle is None else f"{metric} minus the oracle's"
        return [f"## {title}, in every setting", markdown_table(["method", *names], lines)]

    def _headline(self) -> dict[str, Cell]:
        columns: dict[str, Cell] = {"sets": sets}
        for metric in self.headline:
            columns[metric] = _mean(metric)
            if self.oracle is not None and METRICS[metric].larger_is_better:
                columns[f"{metric}, gap to the oracle"] = gap(metric, self.oracle, METRICS[metric].digits)
        times = ratio("seconds", self.reference)
        columns["time ratio"] = lambda rows, everything: (
            NOTHING if rows.names("method") == [self.oracle] else times(rows, everything)
        )
        return columns

    def _draw(self, rows: Rows, path: Path) -> None:
        """A row of panels for each kind of data: agreement, number of clusters, time; no reference lines."""
        first, second = self.headline[:2]
        gaps = first if self.oracle is None else f"{first} minus the oracle's"
        number, times = f"mean {second}", "time ratio"
        blocks: dict[str, dict[str, dict[str, dict[str, Dot]]]] = {}  # by data, panel, series and method
        for name in rows.names("data"):
            of_data = rows.of(data=name)
            oracle = None if self.oracle is None else of_data.of(method=self.oracle).values(first)
            reference = of_data.of(method=self.reference).values("seconds")
            titles = (gaps, number, times)
            panels = blocks[name] = {title: {one: {} for one in SERIES.values()} for title in titles}
            for method in self.methods:
                own = of_data.of(method=method.name)
                if method.kind == "reference" or not len(own):
                    continue
                known: Statistic = own.describe(first)
                if oracle is not None:
                    known = describe(differences(own.values(first), oracle))
                series = SERIES[method.kind]
                panels[gaps][series][method.name] = mean_dot(known)
                panels[number][series][method.name] = mean_dot(own.describe(second))
                seconds = describe(ratios(own.values("seconds"), reference)[0])
                panels[times][series][method.name] = median_dot(seconds)
        note = f"Mean and its 95 % interval; for time, relative to {self.reference}, median and middle 80 %."
        scales: dict[str, Scale] = {times: "log"}
        if not METRICS[second].larger_is_better:
            scales[number] = 0.1
        if self.oracle is not None:
            scales[gaps] = 0.01
        draw_dots(blocks, path, scales, note)
