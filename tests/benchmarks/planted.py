"""Methods and data sets with planted behaviour, importable by the processes that the runner starts."""

from __future__ import annotations

import os
import time

import numpy as np

from benchmarks.page import mean
from benchmarks.suite import Case, Data, Method, Outcome, Run, Suite

calls: list[tuple[str, int]] = []  # what ran in this process


def _draw(k: int, index: int) -> Case:
    """Far-apart clusters of 30 points on a line; the oracle knows the labels."""
    rng = np.random.default_rng([index, k])
    labels = np.repeat(np.arange(k), 30)
    points = np.column_stack([10.0 * labels, np.zeros(len(labels))]) + rng.normal(size=(len(labels), 2))
    return Case(points, index, (labels,), labels, -1.0)


def few(index: int) -> Case:
    return _draw(2, index)


def many(index: int) -> Case:
    return _draw(5, index)


def truthful() -> Run:
    def run(case: Case) -> Outcome:
        calls.append(("truthful", case.seed))
        return Outcome(case.references[0], lambda: -1.0)

    return run


def renamed() -> Run:
    """The true partition under other names."""

    def run(case: Case) -> Outcome:
        names = np.random.default_rng(case.seed).permutation(100)
        return Outcome(names[case.references[0]], lambda: -1.5)

    return run


def halves() -> Run:
    """Right about half of the points: everything above the median is one cluster."""

    def run(case: Case) -> Outcome:
        calls.append(("halves", case.seed))
        first = case.points[:, 0]
        labels = np.where(first > np.median(first), 99, np.round(first / 10).astype(int).clip(0))
        return Outcome(labels)

    return run


def troubled() -> Run:
    """Behaves on data sets 0 and 4 and misbehaves on each other one in its own way."""

    def run(case: Case) -> Outcome:
        if len(case.points) > 64:  # not while it is warmed up
            if case.seed == 1:
                raise RuntimeError("planted crash\nwith a second line")
            if case.seed == 2:
                return Outcome(np.zeros(3, dtype=int))
            if case.seed == 3:
                while True:  # busy, so that the limit of CPU time is reached
                    sum(range(100_000))
            if case.seed == 5:
                os._exit(7)
        print("noise on standard output")
        return Outcome(np.zeros(len(case.points), dtype=int))

    return run


def hanging() -> Run:
    def run(case: Case) -> Outcome:
        if len(case.points) > 64:  # not while it is warmed up
            time.sleep(3600)
        return Outcome(np.zeros(len(case.points), dtype=int))

    return run


def telling_its_process() -> Run:
    return lambda case: Outcome(np.zeros(len(case.points), dtype=int), more=lambda true: {"pid": os.getpid()})


def unbuildable() -> Run:
    raise ImportError("planted: no such library")


METHODS = {
    "truthful": Method("truthful", truthful, kind="reference", sees_truth=True),
    "renamed": Method("renamed", renamed, kind="reference", sees_truth=True),
    # These share a process, which one of them ends now and then.
    "halves": Method("halves", halves, group="together"),
    "troubled": Method("troubled", troubled, group="together"),
    "unbuildable": Method("unbuildable", unbuildable, kind="ours", group="together"),
}


def suite(
    *methods: str, n_sets: int = 6, data: tuple[str, ...] = ("few", "many"), **options: object
) -> Suite:
    chosen = {"few": few, "many": many}
    return Suite(
        data=[Data(name, chosen[name], n_sets) for name in data],
        methods=[METHODS[name] for name in methods],
        table={"ARI": mean("ARI")},
        metrics=("ARI", "NMI (arithmetic)", "accuracy", "k error", "log-likelihood"),
        **options,  # type: ignore[arg-type]
    )
