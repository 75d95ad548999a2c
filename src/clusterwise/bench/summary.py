"""From raw results to figures: means with standard errors, medians, gaps to the oracle, time ratios."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clusterwise.bench.registry import METHODS, Benchmark
from clusterwise.bench.results import Key, Result

__all__ = ["Statistic", "Summary", "describe", "paired_differences", "paired_ratios", "summarize"]


@dataclass(frozen=True)
class Statistic:
    """Of the values that are there; all NaN when there are none."""

    count: int
    mean: float
    standard_error: float  # NaN for fewer than two values
    median: float
    low: float  # 10 % quantile
    high: float  # 90 % quantile


@dataclass(frozen=True)
class Summary:
    """One method in one setting."""

    setting: str
    method: str
    n_sets: int
    n_failed: int
    failures: tuple[tuple[str, int], ...]  # status and how often, most frequent first
    metrics: dict[str, Statistic]
    gaps: dict[str, Statistic]  # value minus the oracle's on the same data set
    seconds: Statistic
    time_ratios: Statistic  # to the time reference on the same data set
    total_time_ratio: float  # of the sums over the data sets that both finished
    peak_memory_mb: Statistic


def describe(values: Iterable[float]) -> Statistic:
    """Summarize the values that are not NaN."""
    array = np.asarray(list(values), dtype=np.float64)
    array = array[~np.isnan(array)]
    n = len(array)
    if n == 0:
        return Statistic(0, *[float("nan")] * 5)
    error = float(array.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    low, median, high = (float(q) for q in np.quantile(array, (0.1, 0.5, 0.9)))
    return Statistic(n, float(array.mean()), error, median, low, high)


def paired_differences(first: Mapping[int, float], second: Mapping[int, float]) -> list[float]:
    """Return first - second for every seed that both have."""
    return [first[seed] - second[seed] for seed in first if seed in second]


def paired_ratios(first: Mapping[int, float], second: Mapping[int, float]) -> tuple[list[float], float]:
    """Return first / second for every seed that both have, and the ratio of the sums over these seeds."""
    seeds = [seed for seed in first if seed in second]
    total = sum(second[seed] for seed in seeds)
    ratio = sum(first[seed] for seed in seeds) / total if total > 0 else float("nan")
    return [first[seed] / second[seed] for seed in seeds if second[seed] > 0], ratio


def _place(method: str, benchmark: Benchmark) -> tuple[bool, int]:
    names = [*benchmark.methods, *METHODS]
    return method != benchmark.oracle, names.index(method) if method in names else len(names)


def summarize(
    results: Iterable[tuple[Key, Result]], benchmark: Benchmark, metrics: Sequence[str]
) -> list[Summary]:
    """Summarize every method in every setting, the oracle first, then in the benchmark's order."""
    grouped: dict[tuple[str, str], dict[int, Result]] = {}
    for (method, setting, seed), result in results:
        grouped.setdefault((setting, method), {})[seed] = result
    finished = {
        pair: {seed: result for seed, result in group.items() if result.status == "ok"}
        for pair, group in grouped.items()
    }

    def column(setting: str, method: str | None, name: str) -> dict[int, float]:
        group = finished.get((setting, method or ""), {})
        if name == "seconds":
            return {seed: result.seconds for seed, result in group.items()}
        return {seed: result.values[name] for seed, result in group.items()}

    summaries = []
    for setting in benchmark.settings:
        methods = [method for other, method in grouped if other == setting]
        for method in sorted(methods, key=lambda name: _place(name, benchmark)):
            group, ok = grouped[setting, method], finished[setting, method]
            failures = Counter(result.status for result in group.values() if result.status != "ok")
            seconds = column(setting, method, "seconds")
            ratios, total = paired_ratios(seconds, column(setting, benchmark.time_reference, "seconds"))
            values = {name: column(setting, method, name) for name in metrics}
            oracle = {name: column(setting, benchmark.oracle, name) for name in metrics}
            summaries.append(
                Summary(
                    setting=setting,
                    method=method,
                    n_sets=len(group),
                    n_failed=failures.total(),
                    failures=tuple(failures.most_common()),
                    metrics={name: describe(values[name].values()) for name in metrics},
                    gaps={name: describe(paired_differences(values[name], oracle[name])) for name in metrics},
                    seconds=describe(seconds.values()),
                    time_ratios=describe(ratios),
                    total_time_ratio=total,
                    peak_memory_mb=describe(result.peak_memory_mb for result in ok.values()),
                )
            )
    return summaries
