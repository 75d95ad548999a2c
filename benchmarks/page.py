"""Tables and the Markdown page of a suite."""

import importlib.metadata
import math
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from benchmarks.suite import Suite, introductions
from benchmarks.summary import Cell, Rows, Statistic, describe, differences, ratios
from clusterwise._files import whole_or_nothing

ROOT = Path(__file__).resolve().parents[1]
NOTHING = "–"


def plus_minus(found: Statistic, digits: int, sign: str = "-", spread: str = "standard_error") -> str:
    """Write mean ± standard error, or ``spread="sd"``; with ``sign="+"`` positive means have one, too."""
    if found.count == 0:
        return NOTHING
    mean, error = f"{found.mean:{sign}.{digits}f}".replace("-", "−"), getattr(found, spread)
    return mean if math.isnan(error) else f"{mean} ± {error:.{digits}f}"


def significant(value: float, digits: int = 3) -> str:
    """Write a positive number with this many significant digits and no exponent."""
    if math.isnan(value):
        return NOTHING
    if value <= 0:
        return "0"
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(value)))}f}"


def percent(value: float) -> str:
    return NOTHING if math.isnan(value) else f"{100 * value:.0f} %"


def sets(rows: Rows, everything: Rows) -> str:
    """Number of data sets, and how many of them ended well."""
    return str(len(rows)) if len(rows.good) == len(rows) else f"{len(rows.good)} of {len(rows)}"


def mean(column: str, digits: int = 4, spread: str = "standard_error") -> Cell:
    """Mean ± standard error of a column."""
    return lambda rows, everything: plus_minus(rows.describe(column), digits, spread=spread)


def share(column: str) -> Cell:
    """Mean of a column of zeros and ones, as a percentage."""
    return lambda rows, everything: percent(rows.describe(column).mean)


def median(column: str, digits: int | None = None, scale: float = 1.0) -> Cell:
    """Median of a column: with this many decimals, or three significant digits."""

    def cell(rows: Rows, everything: Rows) -> str:
        value = scale * rows.describe(column).median
        if math.isnan(value) or digits is None:
            return significant(value)
        return f"{value:.{digits}f}".replace("-", "−")

    return cell


def _low_to_high(found: Statistic, scale: float = 1.0) -> str:
    low, high = significant(scale * found.low, 2), significant(scale * found.high, 2)
    return NOTHING if found.count == 0 else f"{low} to {high}"


def span(column: str, scale: float = 1.0) -> Cell:
    """10 % to 90 % of a column."""
    return lambda rows, everything: _low_to_high(rows.describe(column), scale)


def gap(column: str, to: str, digits: int = 4) -> Cell:
    """Mean difference ± standard error to another method on the same data sets."""

    def cell(rows: Rows, everything: Rows) -> str:
        if rows.names("method") == [to]:
            return NOTHING
        found = differences(rows.values(column), everything.of(method=to).values(column))
        return plus_minus(describe(found), digits, "+")

    return cell


def ratio(column: str, to: str, of: str = "median", inverse: bool = False) -> Cell:
    """Ratio to another method on the same data sets: the median one, their "span", or that of the "sums"."""

    def cell(rows: Rows, everything: Rows) -> str:
        pair = rows.values(column), everything.of(method=to).values(column)
        found, total = ratios(*(reversed(pair) if inverse else pair))
        if of == "span" or not found:
            return _low_to_high(describe(found))
        return significant(total if of == "sums" else describe(found).median)

    return cell


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a table with the first column to the left and the others to the right."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (header, *rows)]
    widths = [max(3, *(len(row[column]) for row in cells)) for column in range(len(header))]
    marks = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(
        "| " + " | ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) + " |"
        for row in (cells[0], marks, *cells[1:])
    )


def method_table(rows: Rows, methods: Iterable[str] | None, columns: Mapping[str, Cell]) -> str:
    """A line for each method that has rows, of those named or of all; a column for each cell."""
    of = {name: rows.of(method=name) for name in (rows.names("method") if methods is None else methods)}
    lines = [[name, *(cell(of[name], rows) for cell in columns.values())] for name in of if of[name]]
    return markdown_table(["method", *columns], lines)


def by_data(rows: Rows, columns: Mapping[str, Cell]) -> list[str]:
    """A heading and a table for each kind of data."""
    names = rows.names("data")
    return [p for one in names for p in (f"## {one}", method_table(rows.of(data=one), None, columns))]


@cache
def git(*words: str) -> str | None:
    """What git says of this checkout; None if it does not know, or is not there."""
    command = ["git", "-C", str(ROOT), *words]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def commit() -> str:
    """The last commit that changed the code, with a plus sign if the code differs from it, or "unknown"."""
    # What shows results does not change them; networks for two features are named in each row's version.
    without = ("pretrained/*-2d.*", "cli", "report", "plotting")
    code = ("--", "src", "benchmarks/*.py", *(f":(exclude)src/clusterwise/{one}" for one in without))
    last, changed = git("log", "-1", "--format=%h", "--abbrev=9", *code), git("status", "--porcelain", *code)
    return "unknown" if last is None else last + ("+" if changed else "")


def introduction(name: str) -> tuple[str, str]:
    """Title and words of a suite's page, from ``pages.md``; ``{NAME}`` there is for the words of another."""
    title, words = introductions().get(name, (name, ""))
    return title, re.sub(r"^\{(\S+)\}$", lambda found: introduction(found[1])[1], words, flags=re.MULTILINE)


def write_page(page: Path, name: str, suite: Suite, rows: Rows) -> Path:
    """Write a Markdown page whole or not at all: words, figures, what went wrong, versions, raw rows."""
    title, words = introduction(name)
    figures = by_data(rows, suite.table) if suite.report is None else suite.report(rows, page)
    parts = [f"# {title}", *filter(None, [words]), *figures]
    wrong = [
        f"- {method}, {data}: {count} × {status}"
        for method in rows.names("method")
        for data in rows.of(method=method).names("data")
        for status, count in rows.of(method=method, data=data).failures[:3]
    ]
    parts += ["## Not finished", "\n".join(wrong)] if wrong else []
    of_version = {one: rows.of(version=one).names("method") for one in rows.names("version")}
    versions = [f"- {version}: {'; '.join(methods)}" for version, methods in of_version.items()]
    packages = ("numpy", "scipy", "scikit-learn", "scikit-network", "torch", "numba")
    others = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)
    parts += ["## Versions and raw rows", "Methods were measured with:", "\n".join(versions)]
    parts.append(f"Page written at commit {commit()}; python {platform.python_version()}, {others}.")
    parts.append(f"Raw rows: [{page.stem}.csv.gz]({page.stem}.csv.gz).")
    with whole_or_nothing(page) as temporary:
        temporary.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page
