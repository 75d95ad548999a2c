"""More rows than memory: time, memory and labels of files read in batches, and of two dask workers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.large_run import METHODS, folder_of
from benchmarks.page import Cell, markdown_table, median, method_table, ratio, significant
from benchmarks.processes import n_threads
from benchmarks.suite import Case, Data, Method, Outcome, Run, Suite
from benchmarks.summary import Rows, exponent

__all__ = ["SUITES"]

REFERENCE = "MiniBatchKMeans, k given"
OURS = ("GaussianSearch", "Clusterer")
LARGE = """\
Folders of Parquet files, float32, with {k} well-separated Gaussian clusters whose sizes span two orders of
magnitude. Each method runs in a process of its own, reads the same files in batches, finds the clusters and
writes a file of labels; all of that is timed. Before the clock starts the same process (with dask, the same
workers) labels a folder of 2,000 rows: imports and the loading of compiled code are not part of the times.
*MiniBatchKMeans* of scikit-learn is told the number of clusters and makes one pass to fit and one to label;
ours find the number: they fit a sample of bounded size, whatever the number of rows, and look at all rows in
three passes. {threads} cores; medians over the runs. Memory is the peak of the process, interpreter and
libraries included; for dask that of the client and that of the larger worker."""
GROWTH = """\
Exponents b of n^b, by least squares on logarithms; below 1 time grows more slowly than the number of rows.
*Seconds* are those of the whole run. A large part of them, at few rows most, is the fit of the sample, which
takes as long for any number of rows, and a closer look at a bounded number of rows far out; *seconds for all
rows* are those of the passes alone: reading and checking, reviewing, labels."""


# Runs of each method, by rows; more have one.
RUNS = {100_000: 3, 1_000_000: 3}


def measured(method: str, n: int, d: int) -> Run:
    """One method on one folder, in a process that does nothing else."""

    def run(case: Case) -> Outcome:
        folder_of(n, d)
        command = [sys.executable, "-m", "benchmarks.large_run", method, str(n), str(d), str(case.seed)]
        line = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
        found: dict[str, Any] = json.loads(line)
        return Outcome(
            np.zeros(len(case.points), dtype=np.int64), more=lambda: found, seconds=float(found["seconds"])
        )

    return run


def score(case: Case, labels: np.ndarray, more: Mapping[str, Any]) -> Mapping[str, object]:
    """What the process said."""
    return {name: more.get(name, "") for name in COLUMNS}


COLUMNS = (
    "cpu", "sample", "passes", "rounds", "peak", "worker_peak", "k", "ARI", "digest", "r_hat",
)  # fmt: skip


def _case(index: int) -> Case:
    return Case(np.zeros((1, 1)), index)


def large(quick: bool) -> Suite:
    """Growth from 10^5 to 10^7 rows, two dask workers, and DPMixture on them."""
    sizes = (20_000, 60_000) if quick else (100_000, 1_000_000, 10_000_000)
    for_dask = sizes[-1] if quick else 1_000_000
    for_chains = 5_000 if quick else 1_000_000
    plan: dict[str, tuple[int, int, tuple[str, ...]]] = {}
    for n in sizes:
        on_workers = tuple(f"{name}, dask" for name in OURS) if n == for_dask else ()
        plan[f"{n:,} x 16"] = (n, 16, (REFERENCE, *OURS, *on_workers))
    plan[f"{for_chains:,} x 10"] = (for_chains, 10, ("DPMixture", "DPMixture, dask"))
    data, methods = [], []
    for name, (n, d, names) in plan.items():
        assert set(names) <= set(METHODS)
        runs = 1 if "DPMixture" in names else RUNS.get(n, 1)
        data.append(Data(name, _case, runs, tuple(f"{method}, {name}" for method in names)))
        for method in names:
            kind = "peer" if method == REFERENCE else "ours"
            build = partial(measured, method, n, d)
            methods.append(
                Method(f"{method}, {name}", build, kind=kind, threads=None, warm_up=False)  # type: ignore[arg-type]
            )

    def report(rows: Rows, page: Path) -> list[str]:
        parts = [LARGE.format(k=20, threads=n_threads())]
        for name, (_, _, names) in plan.items():
            columns: dict[str, Cell] = {
                "seconds": median("seconds"),
                "times MiniBatchKMeans": ratio("seconds", f"{REFERENCE}, {name}"),
                "of these, on the sample": median("sample"),
                "fits of the sample": median("rounds", 0),
                "CPU seconds": median("cpu"),
                "peak memory, MB": median("peak", 0),
                "of a worker, MB": median("worker_peak", 0),
                "k": median("k", 0),
                "ARI": median("ARI", 4),
            }
            if "DPMixture" in names:
                columns["R-hat of the log posterior"] = median("r_hat", 3)
            of_data = rows.of(data=name)
            parts += [f"## {name}", method_table(of_data, of_data.names("method"), columns)]
            parts += _equal_labels(of_data, name, names)
        lines = [_growth(rows, method, sizes) for method in (REFERENCE, *OURS)]
        header = ["method", "exponent of seconds", "of seconds for all rows", "most memory over least"]
        return [*parts, "## Growth", GROWTH, markdown_table(header, lines)]

    return Suite(
        "More rows than memory", data, methods, report, (), COLUMNS, score, time_limit=7200.0, patience=1
    )


def _equal_labels(rows: Rows, data: str, names: tuple[str, ...]) -> list[str]:
    """Whether two workers give the labels of one machine, and how long they take beside it."""
    lines = []
    for name in names:
        here, there = (rows.of(method=f"{one}, {data}").good for one in (name, f"{name}, dask"))
        if len(here) == 0 or len(there) == 0:
            continue
        digests, others = here.values("digest"), there.values("digest")
        same = all(others[case] == digest for case, digest in digests.items() if case in others)
        times = there.describe("seconds").median / here.describe("seconds").median
        lines.append(
            f"{name}, dask: {'the same' if same else 'other'} labels as on one machine, in "
            f"{significant(times)} times its seconds."
        )
    return ["\n".join(f"- {line}" for line in lines)] if lines else []


def _growth(rows: Rows, method: str, sizes: tuple[int, ...]) -> list[str]:
    good = [rows.of(method=f"{method}, {n:,} x 16").good for n in sizes]
    if not all(len(found) > 0 for found in good):
        return [method, "", "", ""]
    seconds, passes, peak = (
        [found.describe(name).median for found in good] for name in ("seconds", "passes", "peak")
    )
    slopes = [significant(exponent(sizes, values), 3) for values in (seconds, passes)]
    return [method, *slopes, significant(max(peak) / min(peak), 3)]


SUITES = {"large": large}
