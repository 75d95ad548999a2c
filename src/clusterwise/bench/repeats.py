"""Runs of methods on real data, several seeds each, one row of a CSV for every run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from clusterwise._files import whole_or_nothing
from clusterwise.bench.process import MethodProcess
from clusterwise.bench.real_data import load_case
from clusterwise.bench.registry import Case, Method, Outcome
from clusterwise.bench.rows import RowFile
from clusterwise.bench.table import markdown_table
from clusterwise.metrics import matched_accuracy

__all__ = ["COLUMNS", "Run", "Spread", "mean_and_sd", "measure", "spread_table", "write_page"]

COLUMNS = (
    "data", "method", "n", "seed", "status", "seconds", "peak_memory_mb", "k", "nmi", "ari", "acc",
)  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One method, by the name in the tables, on one data set with one seed."""

    data: str  # name in the tables
    file: str
    method: str
    build: Callable[[], Callable[[Case], Outcome]]
    seed: int
    n: int | None = None  # rows, all of them by default
    sees_truth: bool = False
    limit: float = 600.0

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What tells this run from others."""
        return self.data, self.method, "all" if self.n is None else str(self.n), self.seed


def measure(runs: Sequence[Run], path: Path, write: Callable[[str], object]) -> list[dict[str, str]]:
    """Do the runs that ``path`` does not know yet; return the rows of all, in the order of ``runs``."""
    rows = RowFile(path, COLUMNS, 4, lambda row: row["status"] in ("ok", "timeout"))
    for number, run in enumerate(runs, 1):
        if run.key in rows:
            continue
        case = load_case(run.file, run.n, run.seed)
        with MethodProcess(Method(run.method, run.build, sees_truth=run.sees_truth)) as process:
            reply = process.run(case, run.limit)
        row: dict[str, Any] = dict(zip(COLUMNS[:4], run.key, strict=True))
        row |= {"status": reply.status, "seconds": f"{reply.seconds:.6g}"}
        row |= {"peak_memory_mb": f"{reply.peak_memory_mb:.5g}"} | _scores(case, reply.labels)
        rows.add(row)
        write(f"{number} of {len(runs)}: {run.data}, {run.method}, seed {run.seed}: {_summary(row)}")
    rows.finish()
    found = [rows.get(run.key) for run in runs]
    return [row for row in found if row is not None]


def _scores(case: Case, labels: np.ndarray | None) -> dict[str, object]:
    if labels is None or case.truth is None:
        return dict.fromkeys(("k", "nmi", "ari", "acc"), "nan")
    (true,) = case.truth.references
    return {
        "k": len(np.unique(labels[labels >= 0])),
        "nmi": f"{normalized_mutual_info_score(true, labels):.5f}",
        "ari": f"{adjusted_rand_score(true, labels):.5f}",
        "acc": f"{matched_accuracy(true, labels):.5f}",
    }


def _summary(row: dict[str, Any]) -> str:
    if row["status"] != "ok":
        return str(row["status"])
    return f"K {row['k']}, NMI {row['nmi']}, {float(row['seconds']):.1f} s"


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of each figure over the seeds."""

    data: str
    method: str
    n_runs: int
    figures: dict[str, tuple[float, float]]  # by column
    status: str  # "ok", or that of a run that failed


def mean_and_sd(rows: Iterable[dict[str, str]]) -> list[Spread]:
    """One entry for each data set and method, in the order in which they come."""
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in rows:
        groups.setdefault((row["data"], row["method"]), []).append(row)
    spreads = []
    for (data, method), of in groups.items():
        good = [row for row in of if row["status"] == "ok"]
        figures = {}
        for name in ("nmi", "ari", "acc", "k", "seconds"):
            values = np.array([float(row[name]) for row in good])
            sd = float(values.std(ddof=1)) if len(values) > 1 else float("nan")
            figures[name] = (float(values.mean()) if len(values) else float("nan"), sd)
        failed = [row["status"] for row in of if row["status"] != "ok"]
        spreads.append(Spread(data, method, len(good), figures, failed[0] if failed else "ok"))
    return spreads


def _cell(value: tuple[float, float], digits: int) -> str:
    mean, sd = value
    if np.isnan(mean):
        return "–"
    return f"{mean:.{digits}f}" if np.isnan(sd) else f"{mean:.{digits}f} ± {sd:.{digits}f}"


def spread_table(spreads: Sequence[Spread]) -> str:
    """Markdown table of methods by figures."""
    return markdown_table(
        ["method", "runs", "NMI", "ARI", "ACC", "K", "seconds"],
        [
            [
                s.method if s.status == "ok" else f"{s.method} ({s.status})",
                str(s.n_runs),
                *(_cell(s.figures[name], 3) for name in ("nmi", "ari", "acc")),
                _cell(s.figures["k"], 1),
                _cell(s.figures["seconds"], 1),
            ]
            for s in spreads
        ],
    )


def write_page(page: Path, parts: Sequence[str]) -> Path:
    """Write a Markdown page whole or not at all."""
    with whole_or_nothing(page) as temporary:
        temporary.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page
