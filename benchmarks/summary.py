"""From raw rows to figures: means with standard errors, medians, paired differences and ratios."""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

Row = dict[str, str]
Values = dict[tuple[str, int], float]  # by kind of data and index


@dataclass(frozen=True)
class Statistic:
    """Of the values that are there; all NaN when there are none."""

    count: int
    mean: float
    sd: float  # NaN for fewer than two values, like the next
    standard_error: float
    median: float
    low: float  # 10 % quantile
    high: float  # 90 % quantile
    total: float


def describe(values: Iterable[float]) -> Statistic:
    array = np.asarray([value for value in values if not math.isnan(value)], dtype=np.float64)
    n = len(array)
    if n == 0:
        return Statistic(0, *[math.nan] * 7)
    sd = float(array.std(ddof=1)) if n > 1 else math.nan
    low, median, high = (float(q) for q in np.quantile(array, (0.1, 0.5, 0.9)))
    return Statistic(n, float(array.mean()), sd, sd / np.sqrt(n), median, low, high, float(array.sum()))


def differences(first: Values, second: Values) -> list[float]:
    """Return first - second for every data set that both have."""
    return [first[key] - second[key] for key in first if key in second]


def ratios(first: Values, second: Values) -> tuple[list[float], float]:
    """Return first / second for every data set that both have, and the ratio of the sums over these."""
    keys = [key for key in first if key in second]
    total = sum(second[key] for key in keys)
    ratio = sum(first[key] for key in keys) / total if total > 0 else math.nan
    return [first[key] / second[key] for key in keys if second[key] > 0], ratio


class Rows(list[Row]):
    """Rows of a suite, to be narrowed down."""

    def of(self, **cells: str) -> "Rows":
        """The rows with these cells, such as a method or a kind of data."""
        return Rows(row for row in self if all(row[name] == cell for name, cell in cells.items()))

    def of_data(self, names: Iterable[str]) -> "Rows":
        chosen = set(names)
        return Rows(row for row in self if row["data"] in chosen)

    def names(self, column: str) -> list[str]:
        """Different cells of a column, in the order of the rows."""
        return list(dict.fromkeys(row[column] for row in self))

    @property
    def good(self) -> "Rows":
        return self.of(status="ok")

    @property
    def tried(self) -> "Rows":
        """Those that were not skipped."""
        return Rows(row for row in self if not row["status"].startswith("skipped"))

    def values(self, column: str) -> Values:
        """Cells of a column as numbers, of the rows that ended well."""
        return {(row["data"], int(row["index"])): float(row[column] or "nan") for row in self.good}

    def describe(self, column: str) -> Statistic:
        return describe(self.values(column).values())

    @property
    def failures(self) -> list[tuple[str, int]]:
        """Statuses other than "ok" and how often, the most frequent first."""
        return Counter(row["status"] for row in self if row["status"] != "ok").most_common()


Cell = Callable[[Rows, Rows], str]  # rows of one method, rows of all methods -> a cell of a table
