"""Which results are old, incomplete or missing, and how long measuring again would take."""

import re
from pathlib import Path

from benchmarks.page import git, markdown_table
from benchmarks.runner import is_current, version_of
from benchmarks.store import Store
from benchmarks.suite import find_suite, suite_names
from benchmarks.summary import describe


def _line(name: str, out: Path) -> tuple[list[str], float]:
    """The cells of a suite, and the minutes that measuring the rest would take."""
    suite = find_suite(name)
    stored = Store(out / f"{name}.csv.gz", (*suite.metrics, *suite.columns)).rows
    versions = {method.name: version_of(method) for method in suite.methods}
    minutes, missing, old, unknown = 0.0, 0, 0, False
    for method, data in ((method, data) for method in suite.methods for data in suite.data):
        indices = [index for index in range(data.n_sets) if suite.measures(method, data, index)]
        found = [stored.get((data.name, method.name, index)) for index in indices]
        rows = [row for row in found if row is not None]
        stale, lacking = sum(not is_current(row, versions) for row in rows), len(found) - len(rows)
        each = describe(float(row["cpu_seconds"] or "nan") for row in rows)
        missing, old = missing + lacking, old + stale
        if each.count:
            minutes += (lacking + stale) * each.mean / 60
        elif lacking + stale and not any(row["status"].startswith("skipped") for row in rows):
            unknown = True
    found_in = (re.search(r"\((?:rows of )?(\w+)", row["version"]) for row in stored.values())
    commits = sorted({found[1] for found in found_in if found})
    # How many commits have changed the package since; None for a commit that is not known here.
    ages = [git("rev-list", "--count", f"{commit}..HEAD", "--", "src") for commit in commits]
    known = [int(age) for age in ages if age is not None]
    oldest = str(max(known)) if known and len(known) == len(ages) else "?" if stored else ""
    estimate = f"{'more than ' if unknown else ''}{minutes:.1f}"
    return [name, str(len(stored)), str(missing), str(old), oldest, estimate], minutes


def status(out: Path) -> str:
    """A line for each suite, in the order of their worth, and the time of all."""
    lines, minutes = zip(*(_line(name, out) for name in suite_names()), strict=True)
    table = markdown_table(["suite", "rows", "missing", "of other code", "commits ago", "CPU minutes"], lines)
    hours = f"{sum(minutes) / 60:.1f} CPU hours, without training"
    return f"{table}\n\nMissing rows and those of other code: {hours}."
