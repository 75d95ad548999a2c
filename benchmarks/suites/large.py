"""More rows than memory: time, memory and labels of files read in batches, and of two dask workers."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.large_run import REFERENCE, folder_of
from benchmarks.page import NOTHING, Cell, by_data, markdown_table, median, ratio, significant
from benchmarks.suite import Case, Data, Method, Outcome, Run, Suite
from benchmarks.summary import Rows, exponent

__all__ = ["SUITES"]

OURS = ("GaussianSearch", "Clusterer")
# What the process says of itself, besides the seconds.
COLUMNS = (
    "cpu", "sample", "passes", "rounds", "peak", "worker_peak", "k", "ARI", "digest", "r_hat",
)  # fmt: skip


def measured(method: str, n: int, d: int) -> Run:
    """One method on one folder, in a process that does nothing else."""

    def run(case: Case) -> Outcome:
        folder_of(n, d)
        command = [sys.executable, "-m", "benchmarks.large_run", method, str(n), str(d), str(case.seed)]
        line = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
        found: dict[str, Any] = json.loads(line)
        labels = np.zeros(len(case.points), dtype=np.int64)  # the true ones were looked at over there
        return Outcome(labels, more=lambda: found, seconds=float(found["seconds"]))

    return run


def _case(index: int) -> Case:
    return Case(np.zeros((1, 1)), index)


# -- the page ------------------------------------------------------------------------------------------


def _times_reference(rows: Rows, everything: Rows) -> str:
    return ratio("seconds", f"{REFERENCE}, {rows.names('data')[0]}")(rows, everything)


def _times_one_machine(rows: Rows, everything: Rows) -> str:
    """Seconds over those of the same method without workers, and whether the labels are the same."""
    (name,) = rows.names("method")
    here = everything.of(method=name.replace(", dask", "")).good
    if ", dask" not in name or not len(here) or not len(rows.good):
        return NOTHING
    ours, theirs = here.values("digest"), rows.values("digest")
    same = all(theirs[case] == digest for case, digest in ours.items() if case in theirs)
    times = rows.describe("seconds").median / here.describe("seconds").median
    return f"{significant(times)}, {'the same' if same else 'other'} labels"


TABLE: dict[str, Cell] = {
    "seconds": median("seconds"),
    "times MiniBatchKMeans": _times_reference,
    "times one machine": _times_one_machine,
    "of these, on the sample": median("sample"),
    "fits of the sample": median("rounds", 0),
    "CPU seconds": median("cpu"),
    "peak memory, MB": median("peak", 0),
    "of a worker, MB": median("worker_peak", 0),
    "k": median("k", 0),
    "ARI": median("ARI", 4),
    "R-hat of the log posterior": median("r_hat", 3),
}


def _growth(rows: Rows, method: str, sizes: dict[str, int]) -> list[str]:
    good = [rows.of(method=f"{method}, {data}").good for data in sizes]
    seconds, passes, peak = (
        [one.describe(name).median for one in good if len(one)] for name in ("seconds", "passes", "peak")
    )
    if len(seconds) < len(sizes):
        return [method, NOTHING, NOTHING, NOTHING]
    slopes = [significant(exponent(list(sizes.values()), values)) for values in (seconds, passes)]
    return [method, *slopes, significant(max(peak) / min(peak))]


def large(quick: bool) -> Suite:
    """Growth from 10^5 to 10^7 rows, two dask workers, and DPMixture on them."""
    rows_of_16 = (20_000, 60_000) if quick else (100_000, 1_000_000, 10_000_000)
    sizes = {f"{n:,} x 16": n for n in rows_of_16}
    on_workers = rows_of_16[1], tuple(f"{name}, dask" for name in OURS)
    plan = {
        name: (n, 16, (REFERENCE, *OURS, *(on_workers[1] if n == on_workers[0] else ())))
        for name, n in sizes.items()
    }
    for_chains = 5_000 if quick else 1_000_000
    plan[f"{for_chains:,} x 10"] = (for_chains, 10, ("DPMixture", "DPMixture, dask"))
    data, methods = [], []
    for data_name, (n, d, names) in plan.items():
        runs = 3 if d == 16 and n <= 1_000_000 and not quick else 1
        data.append(Data(data_name, _case, runs, tuple(f"{name}, {data_name}" for name in names)))
        for name in names:
            run = Method(f"{name}, {data_name}", partial(measured, name, n, d), threads=None, warm_up=False)
            methods.append(run if name == REFERENCE else replace(run, kind="ours"))

    def report(rows: Rows, page: Path) -> list[str]:
        header = ["method", "exponent of seconds", "of seconds for all rows", "most memory over least"]
        lines = [_growth(rows, method, sizes) for method in (REFERENCE, *OURS)]
        return [*by_data(rows, TABLE), "## Growth", markdown_table(header, lines)]

    return Suite(data, methods, report=report, metrics=(), columns=COLUMNS, time_limit=7200.0, patience=1)


SUITES = {"large": large}
