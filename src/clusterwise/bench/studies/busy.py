"""How much slower ``fit`` gets where only one core is free and torch does not know it.

A library that starts a thread for every core waits for the slowest of them at each small operation: beside a
busy core that is many times slower than one thread. Each estimator is timed with one thread on a quiet
machine, and with its default threads beside a process that keeps every core but one busy.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from clusterwise._files import whole_or_nothing
from clusterwise.bench.benchmarks import mog
from clusterwise.bench.process import MethodProcess
from clusterwise.bench.registry import Case, Method, Outcome, Study, register
from clusterwise.bench.rows import RowFile
from clusterwise.bench.studies.dp_speed import draw_mixture, n_threads
from clusterwise.bench.table import markdown_table, significant

__all__ = ["CONTENDERS", "Contender", "busy_cores", "run"]

TITLE = "Time beside a busy core"
REPEATS, QUICK_REPEATS = 5, 1
LIMIT = 300.0  # seconds for one fit
MOST = 2.0  # times slower that an estimator may get
QUIET, BUSY = "one thread, quiet", "default threads, busy"
INTRODUCTION = f"""\
Median seconds of `fit` over {{repeats}} data sets. *Quiet*: one thread, nothing else runs. *Busy*: as many
threads as libraries choose by themselves, while other processes keep {{cores}} of the {{all}} cores busy.
More than {MOST:.0f} times slower would mean that threads wait for each other."""
COLUMNS = ("estimator", "condition", "index", "version", "status", "seconds")


def fitted(name: str, **options: Any) -> Callable[[Case], Outcome]:
    """Any of our estimators."""
    import clusterwise

    estimator = getattr(clusterwise, name)

    def run(case: Case) -> Outcome:
        return Outcome(estimator(random_state=case.seed, **options).fit(case.points).labels_)

    return run


@dataclass(frozen=True)
class Contender:
    """An estimator and the data that it is timed on."""

    build: Callable[[], Callable[[Case], Outcome]]
    draw: Callable[[int], Case]
    data: str


def _plane(index: int) -> Case:
    return mog.draw_case("(3000, 12)", index).blind()


def _ten_features(index: int) -> Case:
    return draw_mixture(1000, index).blind()


CONTENDERS: dict[str, Contender] = {
    **{
        name: Contender(partial(fitted, name), _plane, "mog (3000, 12)")
        for name in ("AMCP", "DAC", "ACTST", "NCP", "CHiGac", "GaussianSearch")
    },
    **{
        name: Contender(partial(fitted, name), _ten_features, "1,000 rows, 10 features")
        for name in ("DPMixture", "DeepDPM")
    },
}

# It ends with the process that started it, even if that was killed.
_SPIN = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """Keep ``count`` cores busy."""
    processes = [subprocess.Popen([sys.executable, "-c", _SPIN]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _measure(
    name: str, contender: Contender, condition: str, repeats: int, rows: RowFile, version: str
) -> None:
    missing = [index for index in range(repeats) if (name, condition, index) not in rows]
    if not missing:
        return
    threads = 1 if condition == QUIET else None
    with (
        busy_cores(0 if condition == QUIET else max(n_threads() - 1, 1)),
        MethodProcess(Method(name, contender.build), threads) as process,
    ):
        for index in missing:
            reply = process.run(contender.draw(index), LIMIT)
            cells = (name, condition, index, version, reply.status, f"{reply.seconds:.6g}")
            rows.add(dict(zip(COLUMNS, cells, strict=True)))


def run(
    out: Path,
    quick: bool,
    write: Callable[[str], object],
    contenders: Mapping[str, Contender] = CONTENDERS,
) -> Path:
    """Measure; write the raw rows to ``busy.csv`` and the page to ``busy.md``."""
    import clusterwise

    version = f"clusterwise {clusterwise.__version__}"
    repeats = QUICK_REPEATS if quick else REPEATS
    rows = RowFile(
        out / "busy.csv", COLUMNS, 3, lambda row: row["version"] == version and row["status"] == "ok"
    )
    for name, contender in contenders.items():
        for condition in (QUIET, BUSY):
            _measure(name, contender, condition, repeats, rows, version)
        write(f"busy: {name}: {' and '.join(_cells(rows.rows(), name)[:2])} s")
    raw = rows.finish()
    page = out / "busy.md"
    table = markdown_table(
        ["estimator", "data", QUIET, BUSY, "times slower"],
        [[name, contender.data, *_cells(raw, name)] for name, contender in contenders.items()],
    )
    failures = [
        f"- {row['estimator']}, {row['condition']}: {row['status']}" for row in raw if row["status"] != "ok"
    ]
    cores = n_threads()
    introduction = INTRODUCTION.format(repeats=repeats, cores=max(cores - 1, 1), all=cores)
    parts = [f"# {TITLE}", introduction, table, *(["Not finished:", "\n".join(failures)] if failures else [])]
    with whole_or_nothing(page) as temporary:
        temporary.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    write(f"busy: raw rows in {rows.path}, page in {page}")
    return page


def _cells(rows: list[dict[str, str]], name: str) -> list[str]:
    """Median seconds of both conditions, and their ratio."""
    medians = []
    for condition in (QUIET, BUSY):
        seconds = [
            float(row["seconds"])
            for row in rows
            if (row["estimator"], row["condition"], row["status"]) == (name, condition, "ok")
        ]
        medians.append(float(np.median(seconds)) if seconds else float("nan"))
    return [*map(significant, medians), significant(medians[1] / medians[0], 2)]


register(Study("busy", TITLE, run))
