"""The page of a suite that compares methods on several kinds of data: figures, gaps to the oracle, costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.page import Cell, gap, markdown_table, mean, median, method_table, ratio, sets, span
from benchmarks.picture import Panels, draw_picture, save
from benchmarks.scores import METRICS
from benchmarks.suite import Data, Method
from benchmarks.summary import Rows

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


@dataclass(frozen=True)
class Comparison:
    """What is shown of methods on several kinds of data; an instance is the ``report`` of a suite."""

    title: str
    data: Sequence[Data]
    methods: Sequence[Method]
    metrics: tuple[str, ...]
    headline: tuple[str, ...] = ("ARI", "k error", "log-likelihood")
    oracle: str | None = "oracle"  # the method that gaps are taken to
    reference: str = "BayesianGaussianMixture"  # of times

    def __call__(self, rows: Rows, page: Path) -> list[str]:
        """The parts of the page; pictures are written beside it."""
        introduction = INTRODUCTION.format(gaps=GAPS if self.oracle else "", reference=self.reference)
        names = [one.name for one in self.data if len(rows.of(data=one.name))]
        methods = [method.name for method in self.methods]
        panels = Panels(self.title, names, self.methods, self.headline, self.oracle, self.reference)
        save(partial(draw_picture, panels, rows), page.with_suffix(".png"))
        parts = [introduction, f"![{self.title}]({page.stem}.png)"]
        if len(names) > 1:
            parts += self._overview(rows, names, methods)
        for name in names:
            of = rows.of(data=name)
            without_oracle = [method for method in methods if method != self.oracle]
            rest = {metric: _mean(metric) for metric in self.metrics if metric not in self.headline}
            parts += [f"## {name}", method_table(of, methods, self._headline())]
            parts += ["Other metrics", method_table(of, methods, rest)] if rest else []
            medians = {metric: median(metric, METRICS[metric].digits) for metric in self.metrics}
            # The oracle's labels come with the data set: its time means nothing.
            costs = method_table(of, without_oracle, self._costs())
            parts += ["Medians", method_table(of, methods, medians), COSTS, costs]
        return parts

    def _overview(self, rows: Rows, names: Sequence[str], methods: Sequence[str]) -> list[str]:
        """The first figure of every method on every kind of data."""
        metric = self.headline[0]
        cell = _mean(metric) if self.oracle is None else gap(metric, self.oracle, METRICS[metric].digits)
        shown = [name for name in methods if name != self.oracle and len(rows.of(method=name))]
        lines = (
            [method, *(cell(rows.of(data=name, method=method), rows.of(data=name)) for name in names)]
            for method in shown
        )
        title = metric if self.oracle is None else f"{metric} minus the oracle's"
        return [f"## {title}, in every setting", markdown_table(["method", *names], lines)]

    def _headline(self) -> dict[str, Cell]:
        columns: dict[str, Cell] = {"sets": sets}
        for metric in self.headline:
            columns[metric] = _mean(metric)
            if self.oracle is not None and METRICS[metric].larger_is_better:
                columns[f"{metric}, gap to the oracle"] = gap(metric, self.oracle, METRICS[metric].digits)
        columns["time ratio"] = lambda rows, everything: (
            "–"
            if rows.names("method") == [self.oracle]
            else ratio("seconds", self.reference)(rows, everything)
        )
        return columns

    def _costs(self) -> dict[str, Cell]:
        return {
            "seconds, median": median("seconds"),
            "10 % to 90 %": span("seconds"),
            "ratio of sums": ratio("seconds", self.reference, "sums"),
            "median ratio": ratio("seconds", self.reference),
            "10 % to 90 % of the ratios": ratio("seconds", self.reference, "span"),
            "peak memory, MB": median("peak_memory_mb"),
        }


def _mean(metric: str) -> Cell:
    return mean(metric, METRICS[metric].digits)
