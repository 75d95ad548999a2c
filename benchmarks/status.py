"""Which results are old, incomplete or missing, and how long measuring again would take."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

from benchmarks.page import ROOT, markdown_table
from benchmarks.runner import is_current, version_of
from benchmarks.store import Store
from benchmarks.suite import find_suite, suite_names
from benchmarks.summary import describe

__all__ = ["status"]


@cache
def _age(commit: str) -> int | None:
    """How many commits have changed the package since; None if the commit is not known here."""
    command = ["git", "-C", str(ROOT), "rev-list", "--count", f"{commit}..HEAD", "--", "src"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(found.stdout) if found.returncode == 0 else None


def _line(name: str, out: Path) -> tuple[list[str], float]:
    """The cells of a suite, and the minutes that measuring the rest would take; NaN if nothing is known."""
    suite = find_suite(name)
    store = Store(out / f"{name}.csv", (*suite.metrics, *suite.columns))
    versions = {method.name: version_of(method) for method in suite.methods}
    minutes, missing, old, unknown = 0.0, 0, 0, False
    for method in suite.methods:
        for data in suite.data:
            keys = [
                (data.name, method.name, i) for i in range(data.n_sets) if suite.measures(method, data, i)
            ]
            rows = [row for row in map(store.get, keys) if row is not None]
            stale = sum(not is_current(row, versions) for row in rows)
            each = describe(float(row["cpu_seconds"] or "nan") for row in rows).mean / 60
            todo = len(keys) - len(rows) + stale
            unknown |= todo > 0 and each != each and not any(r["status"].startswith("skipped") for r in rows)
            minutes += todo * each if each == each else 0.0
            missing, old = missing + len(keys) - len(rows), old + stale
    commits = {
        found[1] for row in store.rows() if (found := re.search(r"\((?:rows of )?(\w+)", row["version"]))
    }
    ages = [age for age in map(_age, sorted(commits)) if age is not None]
    oldest = str(max(ages)) if ages and len(ages) == len(commits) else "?" if store.rows() else ""
    estimate = f"{'more than ' if unknown else ''}{minutes:.1f}"
    return [name, str(len(store.rows())), str(missing), str(old), oldest, estimate], minutes


def status(out: Path) -> str:
    """A line for each suite, in the order of their worth, and the time of all."""
    lines = [_line(name, out) for name in suite_names()]
    total = sum(minutes for _, minutes in lines)
    header = ["suite", "rows", "missing", "of other code", "commits ago", "CPU minutes"]
    table = markdown_table(header, [cells for cells, _ in lines])
    return f"{table}\n\nMissing rows and those of other code: {total / 60:.1f} CPU hours, without training."
