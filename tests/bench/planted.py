"""Methods and data sets with planted behaviour, importable by the processes that the judge starts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from clusterwise.bench import Benchmark, Case, Method, Outcome, Truth

SETTINGS = ("few", "many")
calls: list[tuple[str, int]] = []  # what ran in this process


def draw(setting: str, index: int) -> Case:
    """2 or 5 far-apart clusters of 30 points on a line; the oracle knows the labels."""
    k = 2 if setting == "few" else 5
    rng = np.random.default_rng([index, k])
    labels = np.repeat(np.arange(k), 30)
    points = np.column_stack([10.0 * labels, np.zeros(len(labels))]) + rng.normal(size=(len(labels), 2))
    return Case(points, index, Truth((labels,), labels, -1.0))


def truthful() -> Callable[[Case], Outcome]:
    def run(case: Case) -> Outcome:
        calls.append(("truthful", case.seed))
        return Outcome(case.truth.references[0], lambda: -1.0)

    return run


def renamed() -> Callable[[Case], Outcome]:
    """The true partition under other names."""

    def run(case: Case) -> Outcome:
        names = np.random.default_rng(case.seed).permutation(100)
        return Outcome(names[case.truth.references[0]], lambda: -1.5)

    return run


def halves() -> Callable[[Case], Outcome]:
    """Right about half of the points: everything above the median is one cluster."""

    def run(case: Case) -> Outcome:
        calls.append(("halves", case.seed))
        first = case.points[:, 0]
        labels = np.where(first > np.median(first), 99, np.round(first / 10).astype(int).clip(0))
        return Outcome(labels)

    return run


def troubled() -> Callable[[Case], Outcome]:
    """Behaves on data sets 0 and 4 and misbehaves on each other one in its own way."""

    def run(case: Case) -> Outcome:
        if len(case.points) > 64:  # not while it is warmed up
            if case.seed == 1:
                raise RuntimeError("planted crash\nwith a second line")
            if case.seed == 2:
                return Outcome(np.zeros(3, dtype=int))
            if case.seed == 3:
                time.sleep(3600)
            if case.seed == 5:
                os.write(2, b"planted last words\n")
                os._exit(7)
        print("noise on standard output")
        return Outcome(np.zeros(len(case.points), dtype=int))

    return run


def unbuildable() -> Callable[[Case], Outcome]:
    raise ImportError("planted: no such library")


METHODS = {
    "truthful": Method("truthful", truthful, kind="reference", sees_truth=True),
    "renamed": Method("renamed", renamed, kind="reference", sees_truth=True),
    # These share a process, which one of them ends now and then.
    "halves": Method("halves", halves, group="together"),
    "troubled": Method("troubled", troubled, group="together"),
    "unbuildable": Method("unbuildable", unbuildable, kind="ours", group="together"),
}


def benchmark(*methods: str, settings: tuple[str, ...] = SETTINGS) -> Benchmark:
    return Benchmark(
        "planted",
        "Planted differences",
        draw,
        settings,
        n_sets=6,
        quick_n_sets=2,
        methods=methods,
        oracle="truthful",
        time_reference="halves",
    )
