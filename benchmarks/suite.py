"""The nouns of a benchmark: a data set, a method and its answer, and the suite that brings them together."""

import importlib
import pkgutil
import re
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.summary import Cell, Rows
from clusterwise.exceptions import ClusterwiseError


class BenchmarkError(ClusterwiseError):
    """A suite, method or results file is unknown or unsuitable."""


class MissingDataError(BenchmarkError):
    """Data that do not come with the repository are not there."""


@dataclass(frozen=True)
class Case:
    """One data set, with the seed that a random method is to use on it."""

    points: np.ndarray  # (n, d)
    seed: int = 0
    # One or several true partitions, each (n,); points labelled -1 in one of them are left out of its score.
    references: tuple[np.ndarray, ...] = ()
    oracle_labels: np.ndarray | None = None  # (n,) most likely component under the true parameters
    oracle_log_likelihood: float | None = None  # mean log density per point under the true parameters

    def blind(self) -> "Case":
        """The same points without the truth: what a method is shown."""
        return Case(self.points, self.seed)

    def head(self, n: int, d: int) -> "Case":
        """The first ``n`` points with their first ``d`` features."""
        oracle = None if self.oracle_labels is None else self.oracle_labels[:n]
        references = tuple(labels[:n] for labels in self.references)
        return replace(self, points=self.points[:n, :d], references=references, oracle_labels=oracle)


@dataclass(frozen=True)
class Outcome:
    """What a method makes of one data set. Label -1 means noise, which is no cluster."""

    labels: np.ndarray  # (n,) integers
    # The next two are called after the clock has stopped.
    log_likelihood: Callable[[], float] | None = None  # mean log density per point
    more: Callable[[Case], Mapping[str, Any]] | None = None  # further cells, from the case with its truth
    seconds: float | None = None  # a method's own clock, where the time of the whole call is not meant


Run = Callable[[Case], Outcome]


@dataclass(frozen=True)
class Method:
    """A way to cluster.

    ``build`` runs once in the method's process (imports, weights); what it returns runs on every data set. It
    travels to that process by its import path: a function at the top of an importable module, or a
    ``functools.partial`` of one.
    """

    name: str
    build: Callable[[], Run]
    kind: Literal["reference", "peer", "ours", "control"] = "peer"  # a control is a network without training
    sees_truth: bool = False  # it is told something, such as the number of clusters
    identity: Callable[[], str] | None = None  # what else decides its result, such as a weights file
    group: str | None = None  # methods of one group share a process, which takes seconds to start
    threads: int | None = 1  # of numerical libraries; None leaves the number to them
    fresh: bool = False  # a new process for each data set, and no first call on a few points in it
    max_points: int | None = None  # larger data sets are skipped
    time_limit: float | None = None  # seconds of CPU time, if less than the suite's
    max_sets: int | None = None  # measured on the first data sets of each kind only


@dataclass(frozen=True)
class Data:
    name: str
    draw: Callable[[int], Case]  # the same case for the same index, always
    n_sets: int = 1
    methods: tuple[str, ...] | None = None  # by name, if not all of the suite


@dataclass(frozen=True)
class Suite:
    """Data sets, methods, and what to report of them; the words of its page are in ``pages.md``."""

    data: Sequence[Data]
    methods: Sequence[Method]
    table: Mapping[str, Cell] = field(default_factory=dict)  # columns; a line by method, a table by data
    # Rows and the path of the page -> parts of the page, in place of these tables.
    report: Callable[[Rows, Path], Sequence[str]] | None = None
    metrics: tuple[str, ...] = ("ARI", "k error")  # of ``benchmarks.scores``
    columns: tuple[str, ...] = ()  # names of further cells, of those that an outcome has
    time_limit: float = 120.0  # seconds of CPU time for one method on one data set
    patience: int = 5  # time-outs in a row before a method is spared the other data sets of a kind

    def measures(self, method: Method, data: Data, index: int) -> bool:
        """Whether a method is measured on data set ``index`` of a kind."""
        wanted = data.methods is None or method.name in data.methods
        return wanted and index < data.n_sets and (method.max_sets is None or index < method.max_sets)


@cache
def _suites() -> dict[str, Callable[[bool], Suite]]:
    """All suites by name: every file in ``suites`` has a table ``SUITES`` of functions of ``quick``."""
    package = importlib.import_module("benchmarks.suites")
    modules = sorted(info.name for info in pkgutil.iter_modules(package.__path__))
    tables = (importlib.import_module(f"benchmarks.suites.{name}").SUITES for name in modules)
    return dict(ChainMap(*tables))


@cache
def introductions() -> dict[str, tuple[str, str]]:
    """Title and words of each section of ``pages.md``."""
    text = (Path(__file__).parent / "pages.md").read_text(encoding="utf-8")
    found = re.findall(r"^## (\S+): (.+)\n((?:(?!## ).*\n)*)", text, re.MULTILINE)
    return {name: (title, words.strip()) for name, title, words in found}


def suite_names() -> list[str]:
    """Names of all suites, in the order of ``pages.md``: what matters most comes first."""
    order = list(introductions())
    return sorted(_suites(), key=lambda name: (order.index(name) if name in order else len(order), name))


def find_suite(name: str, quick: bool = False) -> Suite:
    """The suite ``name``, or an error that lists them."""
    if name not in _suites():
        raise BenchmarkError(f"There is no suite {name!r}: choose one of {', '.join(suite_names())}.")
    return _suites()[name](quick)
