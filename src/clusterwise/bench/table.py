"""The Markdown page of a benchmark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from clusterwise.bench.registry import METRICS, Benchmark
from clusterwise.bench.summary import Statistic, Summary

__all__ = ["markdown_page", "markdown_table", "plus_minus", "significant"]

_NOTHING = "–"


def plus_minus(statistic: Statistic, digits: int, signed: bool = False) -> str:
    """Write mean ± standard error."""
    if statistic.count == 0:
        return _NOTHING
    mean = f"{statistic.mean:{'+' if signed else ''}.{digits}f}".replace("-", "−")
    if math.isnan(statistic.standard_error):
        return mean
    return f"{mean} ± {statistic.standard_error:.{digits}f}"


def _median(statistic: Statistic, digits: int) -> str:
    return _NOTHING if statistic.count == 0 else f"{statistic.median:.{digits}f}".replace("-", "−")


def significant(value: float, digits: int = 3) -> str:
    """Write a positive number with so many significant digits and no exponent."""
    if math.isnan(value):
        return _NOTHING
    if value <= 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(value)))
    return f"{value:.{decimals}f}"


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a table with the first column to the left and the others to the right."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (header, *rows)]
    widths = [max(3, *(len(row[column]) for row in cells)) for column in range(len(header))]
    marks = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(
        "| " + " | ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) + " |"
        for row in (cells[0], marks, *cells[1:])
    )


def _digits(metric: str) -> int:
    return METRICS[metric].digits


def _sets(summary: Summary) -> str:
    if summary.n_failed:
        return f"{summary.n_sets - summary.n_failed} of {summary.n_sets}"
    return str(summary.n_sets)


def _headline(summaries: Sequence[Summary], benchmark: Benchmark, names: Sequence[str]) -> str:
    header, rows = ["method", "sets"], [[row.method, _sets(row)] for row in summaries]
    for name in names:
        header.append(name)
        for row, cells in zip(summaries, rows, strict=True):
            cells.append(plus_minus(row.metrics[name], _digits(name)))
        if benchmark.oracle is not None and METRICS[name].larger_is_better:
            header.append("gap to the oracle")
            for row, cells in zip(summaries, rows, strict=True):
                gap = row.method != benchmark.oracle
                cells.append(plus_minus(row.gaps[name], _digits(name), signed=True) if gap else _NOTHING)
    header.append("time ratio")
    for row, cells in zip(summaries, rows, strict=True):
        cells.append(_NOTHING if row.method == benchmark.oracle else significant(row.time_ratios.median, 2))
    return markdown_table(header, rows)


def _overview(summaries: Sequence[Summary], settings: Sequence[str], metric: str, gaps: bool) -> str:
    """One metric of every method in every setting."""
    cells = {
        (row.method, row.setting): plus_minus((row.gaps if gaps else row.metrics)[metric], _digits(metric))
        for row in summaries
    }
    methods = dict.fromkeys(row.method for row in summaries)
    return markdown_table(
        ["method", *settings],
        [[method, *(cells.get((method, setting), _NOTHING) for setting in settings)] for method in methods],
    )


def _rest(summaries: Sequence[Summary], names: Sequence[str]) -> str:
    return markdown_table(
        ["method", *names],
        [
            [row.method, *(plus_minus(row.metrics[name], _digits(name)) for name in names)]
            for row in summaries
        ],
    )


def _medians(summaries: Sequence[Summary], names: Sequence[str]) -> str:
    return markdown_table(
        ["method", *names],
        [[row.method, *(_median(row.metrics[name], _digits(name)) for name in names)] for row in summaries],
    )


def _costs(summaries: Sequence[Summary]) -> str:
    return markdown_table(
        [
            "method",
            "seconds, mean",
            "± standard error",
            "median",
            "ratio of sums",
            "median ratio",
            "10 % to 90 % of the ratios",
            "peak memory, MB",
        ],
        [
            [
                row.method,
                significant(row.seconds.mean),
                significant(row.seconds.standard_error, 2),
                significant(row.seconds.median),
                significant(row.total_time_ratio),
                significant(row.time_ratios.median),
                f"{significant(row.time_ratios.low, 2)} to {significant(row.time_ratios.high, 2)}"
                if row.time_ratios.count
                else _NOTHING,
                significant(row.peak_memory_mb.median),
            ]
            for row in summaries
        ],
    )


def _failures(summaries: Sequence[Summary]) -> str:
    lines = [
        f"- {row.method}, {row.setting}: {count} × {status}"
        for row in summaries
        for status, count in row.failures[:3]
    ]
    return "\n".join(lines)


def _versions(versions: Mapping[str, Iterable[str]]) -> str:
    measured = [(method, text) for text, methods in versions.items() for method in methods]
    lines = [f"- {text}: {', '.join(sorted(methods))}" for text, methods in versions.items()]
    if len(measured) > len({method for method, _ in measured}):
        lines += ["", "Some methods were measured with several versions: their figures mix them."]
    return "\n".join(lines)


def markdown_page(
    benchmark: Benchmark,
    summaries: Sequence[Summary],
    metrics: Sequence[str],
    versions: Mapping[str, Iterable[str]],
    pictures: Sequence[str] = (),
) -> str:
    """Return the page: per setting the headline, the other metrics, medians, time and memory.

    ``versions`` says which methods were measured with which versions of everything.
    """
    headline = [name for name in benchmark.headline if name in metrics]
    rest = [name for name in metrics if name not in headline]
    parts = [
        f"# {benchmark.title}",
        "Mean ± standard error over data sets. "
        + ("A gap is the value minus the oracle's on the same data set. " if benchmark.oracle else "")
        + f"Time ratios are medians, to {benchmark.time_reference} on the same data set, and methods take "
        "turns. Slow methods are measured on the first sets only: of these, compare gaps and not means. "
        "Noise points (label −1) count as one more cluster in agreement scores and not at all in the number "
        "of clusters.",
    ]
    parts += [f"![{benchmark.title}]({picture})" for picture in pictures]
    settings = [name for name in benchmark.settings if any(row.setting == name for row in summaries)]
    if len(settings) > 1 and headline:
        gaps = benchmark.oracle is not None
        shown = [row for row in summaries if not gaps or row.method != benchmark.oracle]
        title = f"{headline[0]} minus the oracle's" if gaps else headline[0]
        parts += [f"## {title}, in every setting", _overview(shown, settings, headline[0], gaps)]
    for setting in benchmark.settings:
        chosen = [summary for summary in summaries if summary.setting == setting]
        if not chosen:
            continue
        parts += [f"## {setting}", _headline(chosen, benchmark, headline)]
        if rest:
            parts += ["Other metrics", _rest(chosen, rest)]
        parts += ["Medians", _medians(chosen, metrics)]
        parts += [
            "Time and memory of one data set. Memory is the peak of the method's process while it worked, "
            "interpreter and libraries included (median over data sets); networks share one, peers too.",
            # The oracle's labels come with the data set: its time means nothing.
            _costs([summary for summary in chosen if summary.method != benchmark.oracle]),
        ]
    failures = _failures(summaries)
    if failures:
        parts += ["## Failures", "Means leave these data sets out.", failures]
    parts += ["## Versions", _versions(versions)]
    return "\n\n".join(parts) + "\n"
