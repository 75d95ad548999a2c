"""The nouns of a benchmark, and where methods, metrics, benchmarks and studies register once."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from clusterwise.exceptions import ClusterwiseError

if TYPE_CHECKING:
    from clusterwise.bench.summary import Summary

__all__ = [
    "BENCHMARKS",
    "METHODS",
    "METRICS",
    "Benchmark",
    "BenchmarkError",
    "Case",
    "Method",
    "Metric",
    "Outcome",
    "Study",
    "Truth",
    "discover",
    "look_up",
    "register",
]


class BenchmarkError(ClusterwiseError):
    """A benchmark, method or results file is unknown, doubled or foreign."""


@dataclass(frozen=True)
class Truth:
    """What is known about a data set beyond its points."""

    references: tuple[np.ndarray, ...]  # one or several true partitions, each (n,)
    oracle_labels: np.ndarray | None = None  # (n,) most likely component under the true parameters
    oracle_log_likelihood: float | None = None  # mean log density per point under the true parameters


@dataclass(frozen=True)
class Case:
    """One data set of a benchmark, with the seed that a random method is to use on it."""

    points: np.ndarray  # (n, d)
    seed: int
    truth: Truth | None

    def blind(self) -> Case:
        """The same points without the truth: what a method is shown."""
        return replace(self, truth=None)

    def head(self, n: int) -> Case:
        """The first ``n`` points."""
        truth = self.truth
        if truth is not None:
            truth = replace(
                truth,
                references=tuple(labels[:n] for labels in truth.references),
                oracle_labels=None if truth.oracle_labels is None else truth.oracle_labels[:n],
            )
        return replace(self, points=self.points[:n], truth=truth)


@dataclass(frozen=True)
class Outcome:
    """What a method makes of one data set. Label -1 means noise, which is no cluster."""

    labels: np.ndarray  # (n,) integers
    # Called after the clock has stopped, as not every user of a partition wants a density.
    log_likelihood: Callable[[], float] | None = None  # mean log density per point


@dataclass(frozen=True)
class Method:
    """A way to cluster.

    ``build`` runs once in the method's process (imports, weights, the estimator); what it
    returns runs on every data set. It travels to that process by its import path: a function at
    the top of an importable module, or a ``functools.partial`` of one.
    """

    name: str
    build: Callable[[], Callable[[Case], Outcome]]
    kind: Literal["reference", "peer", "ours", "control"] = "peer"  # a control is a network without training
    sees_truth: bool = False  # a reference line, not a competitor
    identity: Callable[[], str] | None = None  # what else decides its result, such as a weights file
    group: str | None = None  # methods of one group share a process, which takes seconds to start


@dataclass(frozen=True)
class Metric:
    """A figure of merit. With several true partitions the one that suits the method best counts."""

    name: str
    score: Callable[[np.ndarray, np.ndarray], float] | None  # (true, found) -> value; None: log-likelihood
    larger_is_better: bool = True
    digits: int = 4
    of_points: Callable[[np.ndarray, np.ndarray], float] | None = None  # (points, found) -> value, no truth
    everywhere: bool = True  # False: only in the benchmarks that name it


@dataclass(frozen=True)
class Benchmark:
    """Data sets by setting and index, and who is to be measured on them."""

    name: str
    title: str
    draw: Callable[[str, int], Case]  # the same case for the same setting and index, always
    settings: tuple[str, ...]
    n_sets: int  # per setting
    quick_n_sets: int
    methods: tuple[str, ...]  # in the order of the table
    fewer_sets: Mapping[str, int] = field(default_factory=dict)  # settings that get at most so many
    slow_methods: Mapping[str, int] = field(default_factory=dict)  # methods that get at most so many
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # methods of a setting, if not all
    metrics: tuple[str, ...] | None = None
    headline: tuple[str, ...] = ("ARI", "k error", "log-likelihood")
    oracle: str | None = "oracle"  # the method that gaps are taken to
    time_reference: str = "BayesianGaussianMixture"
    time_limit: float = 120.0  # seconds for one method on one data set
    second_picture: Callable[[Sequence[Summary], Path], None] | None = None  # writes a PNG, NAME-2.png

    def sets_of(self, setting: str, n_sets: int) -> int:
        """How many data sets of a setting are measured where the others get ``n_sets``."""
        return min(n_sets, self.fewer_sets.get(setting, n_sets))

    def measures(self, method: str, setting: str, index: int) -> bool:
        """Whether a method is measured on data set ``index`` of a setting."""
        in_setting = setting not in self.only or method in self.only[setting]
        return in_setting and index < self.slow_methods.get(method, index + 1)


@dataclass(frozen=True)
class Study:
    """A measurement that is no table of methods by settings.

    ``run(out, quick, write)`` leaves its files in the directory ``out``, goes on from what a killed run left
    there, gives ``write`` a line of text now and then, and returns the Markdown page.
    """

    name: str
    title: str
    run: Callable[[Path, bool, Callable[[str], object]], Path]


METHODS: dict[str, Method] = {}
METRICS: dict[str, Metric] = {}
BENCHMARKS: dict[str, Benchmark | Study] = {}  # all that ``clusterwise bench`` takes by name
Entry = TypeVar("Entry")
_HOMES: dict[type, dict[str, Any]] = {
    Method: METHODS,
    Metric: METRICS,
    Benchmark: BENCHMARKS,
    Study: BENCHMARKS,
}


def register(*entries: Method | Metric | Benchmark | Study) -> None:
    """Make entries known by their names."""
    for entry in entries:
        home = _HOMES[type(entry)]
        if entry.name in home:
            raise BenchmarkError(f"{entry.name!r} is registered twice; choose another name.")
        home[entry.name] = entry


def discover() -> None:
    """Import every file in ``methods``, ``benchmarks`` and ``studies``, so that adding one takes one file."""
    importlib.import_module("clusterwise.bench.scores")
    for room in ("methods", "benchmarks", "studies"):
        package = importlib.import_module(f"clusterwise.bench.{room}")
        for module in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
            importlib.import_module(f"{package.__name__}.{module}")


def look_up(home: Mapping[str, Entry], name: str, what: str) -> Entry:
    """Return the entry ``name``, or say which ones there are."""
    if name not in home:
        raise BenchmarkError(f"There is no {what} {name!r}: choose one of {', '.join(home)}.")
    return home[name]
