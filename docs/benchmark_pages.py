"""Pages made from the raw results of the benchmarks while the documentation is built.

``results/NAME.md`` are the pages of the suites as they are in ``benchmarks/results``. ``results/_*.md`` are
the parts that ``benchmarks.md`` and ``more_benchmarks.md`` include: a figure, tables, and the data sets that
were won and lost.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT))  # the benchmarks are not installed

from benchmarks.page import markdown_table, plus_minus, significant  # noqa: E402
from benchmarks.peers import GIVEN_K  # noqa: E402
from benchmarks.store import Row, csv_text  # noqa: E402
from benchmarks.suite import suite_names  # noqa: E402
from benchmarks.suites.tables import BATTERIES, battery_of  # noqa: E402
from benchmarks.summary import Rows, Statistic, describe  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
PAGES = DOCS / "results"
OURS = ("Clusterer", "GaussianSearch", "DPMixture", "DeepDPM")
N_EXTREMES = 8  # data sets listed as won and as lost
# Rows of the table about mixtures, where the truth is known.
MIXTURE_METHODS = (
    "AMCP, network alone", "DAC (minimum-loss), network alone", "CHiGac, network alone",
    "NCP, network alone", "GaussianSearch", "BayesianGaussianMixture", "BayesianGaussianMixture, full",
    "GMM + BIC", "HDBSCAN",
)  # fmt: skip
# Columns and rows of the table about classes that were not trained on.
LABELLED = {
    "characters": "characters", "unseen-letters": "letters", "unseen-cells": "cells",
    "unseen-objects": "objects", "odd-digits": "odd digits",
}  # fmt: skip
LABELLED_METHODS = (
    "AMCP", "DAC", "AMCP, untrained", "HDBSCAN, defaults", "GMM + BIC", "HDBSCAN, defaults, encoded",
    "GMM + BIC, encoded", "k-means (true k)", "spectral clustering (true k)", "k-means (true k), encoded",
    "spectral clustering (true k), encoded",
)  # fmt: skip
# The same about the papers' other tables.
PAPERS = {"topics": "Reuters", "activities": "activities", "cifar": "CIFAR-10 features"}
PAPER_METHODS = (
    "CHiGac", "AMCP", "DAC", "CHiGac, untrained", "AMCP, untrained", "HDBSCAN, defaults",
    "HDBSCAN, defaults, encoded", "k-means (true k)", "k-means (true k), encoded",
)  # fmt: skip
LARGE_METHODS = ("MiniBatchKMeans, k given", "GaussianSearch", "Clusterer")
CAPTION = """\
*Mean adjusted Rand index (ARI) with its standard error over data sets, and the share of data sets on which
the number of clusters equals the number of classes. Ours in blue.*"""
TABLE_CAPTION = """\
*Mean ARI over all data sets, ours in bold; the share of data sets with the exact number of classes; median
CPU seconds; mean ARI by collection. Methods that were tried on some of the data sets only come last: compare
them by collection.*"""
NOT_MEASURED = (
    "*The suite `{name}` has no results in this checkout; `python -m benchmarks {name}` makes them.*\n"
)


# -- pages of the suites -----------------------------------------------------------------------------


def write_suite_pages() -> None:
    """Copy the pages, with links to pictures and rows that lead back to where those are; and list them."""
    measured = {path.stem for path in RESULTS.glob("*.md") if not path.stem.endswith(".quick")}
    names = sorted(measured | set(suite_names()))
    for name in names:
        text = f"# {name}\n\n{NOT_MEASURED.format(name=name)}"
        if name in measured:
            text = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
            text = re.sub(r"\]\((?=[^)/:]+\.(png|csv|csv\.gz)\))", "](../../benchmarks/results/", text)
        _write(f"{name}.md", text)
    entries = [f"{name} <{name}>" for name in names]
    lines = ["# Raw results", "", "The pages of all suites, as `python -m benchmarks NAME` writes them.", ""]
    _write("index.md", "\n".join([*lines, "```{toctree}", ":maxdepth: 1", "", *entries, "```", ""]))
    first_lines = {name: (PAGES / f"{name}.md").read_text(encoding="utf-8").split("\n")[0] for name in names}
    listed = [f"- [{name}](results/{name}.md): {first_lines[name][2:]}" for name in sorted(measured)]
    _write("_suites.md", "\n".join(listed) + "\n")


def _write(name: str, text: str) -> None:
    path = PAGES / name
    if not path.exists() or path.read_text(encoding="utf-8") != text:  # unchanged pages are not built again
        path.write_text(text, encoding="utf-8")


# -- data sets with k hidden -------------------------------------------------------------------------


class Tables:
    """Rows of the suite ``tables``; failures and time-outs count as an ARI of 0 and a wrong k."""

    def __init__(self, path: Path) -> None:
        rows = [row for row in _rows(path) if not row["status"].startswith("skipped")]
        self.rows: Sequence[Row] = [row for row in rows if row["method"] not in GIVEN_K]
        self.methods = list(dict.fromkeys(row["method"] for row in self.rows))
        present = {battery_of(row["data"]) for row in self.rows}
        self.batteries = [battery for battery in BATTERIES if battery in present]
        self.peers = [method for method in self.methods if method not in OURS]
        self.n_data = len({row["data"] for row in self.rows})

    def values(self, column: str, method: str, battery: str | None = None) -> dict[str, float]:
        """One figure of a method by data set."""
        return {
            row["data"]: float(row[column]) if row["status"] == "ok" else 0.0
            for row in self.rows
            if row["method"] == method and battery in (None, battery_of(row["data"]))
        }

    def summary(self, column: str, method: str, battery: str | None = None) -> Statistic:
        """Mean and standard error over data sets."""
        return describe(self.values(column, method, battery).values())

    def is_complete(self, method: str, battery: str | None = None) -> bool:
        """Whether a method was tried on every data set: means over other data sets are not compared."""
        tried = len(self.values("ARI", method, battery))
        return tried == len({row["data"] for row in self.rows if battery in (None, battery_of(row["data"]))})

    def ranked(self) -> list[str]:
        """Methods, the largest mean ARI first; those that were not tried on every data set come last."""
        return sorted(self.methods, key=lambda m: (not self.is_complete(m), -self.summary("ARI", m).mean))


def _two_digits(value: float) -> str:
    """A number with two decimals, a proper minus, and no minus before zero."""
    return "–" if value != value else f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def table_of_batteries(tables: Tables) -> str:
    """Mean ARI by battery, exact k, and seconds."""
    lines = []
    for method in tables.ranked():
        cells = [_two_digits(tables.summary("ARI", method, battery).mean) for battery in tables.batteries]
        everything, tried = plus_minus(tables.summary("ARI", method), 2), tables.summary("ARI", method).count
        exact = f"{100 * tables.summary('right k', method).mean:.0f} %"
        seconds = describe(float(row["cpu_seconds"]) for row in tables.rows if row["method"] == method)
        name = f"**{method}**" if method in OURS else method
        name += "" if tables.is_complete(method) else f" ({tried} of {tables.n_data} sets)"
        lines.append([name, everything, exact, significant(seconds.median, 2), *cells])
    table = markdown_table(["method", "all", "exact k", "median s", *tables.batteries], lines)
    return f"{table}\n\n{TABLE_CAPTION}"


def draw_tables(tables: Tables, path: Path) -> None:
    """Mean ARI with its standard error, and the share of data sets with the exact k."""
    names = [name for name in tables.ranked()[::-1] if tables.is_complete(name)]
    colours = ["#0072b2" if name in OURS else "#a8adb2" for name in names]
    size = (9, 0.32 * len(names) + 1)
    figure, (left, right) = plt.subplots(1, 2, figsize=size, sharey=True, layout="constrained")
    found = [tables.summary("ARI", name) for name in names]
    left.barh(names, [one.mean for one in found], xerr=[one.standard_error for one in found], color=colours)
    left.set(xlabel="mean ARI with the classes", xlim=(0, 1))
    right.barh(names, [100 * tables.summary("right k", name).mean for name in names], color=colours)
    right.set(xlabel="exact number of clusters, % of the data sets", xlim=(0, 100))
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def best_peer(tables: Tables, battery: str) -> tuple[str, float]:
    """The peer with the largest mean ARI on a battery, of those that were tried on all of it."""
    peers = [peer for peer in tables.peers if tables.is_complete(peer, battery)]
    best = max(peers, key=lambda peer: tables.summary("ARI", peer, battery).mean)
    return best, tables.summary("ARI", best, battery).mean


def batteries_by_outcome(tables: Tables, won: bool) -> str:
    """Batteries on which Clusterer is ahead of the best peer by two digits, or those on which it is not."""
    lines = []
    for battery in tables.batteries:
        own, (best, theirs) = tables.summary("ARI", "Clusterer", battery).mean, best_peer(tables, battery)
        if (round(own, 2) > round(theirs, 2)) == won:
            lines.append(f"- *{battery}*: {_two_digits(own)}; best peer {_two_digits(theirs)} ({best})")
    return "\n".join(lines) if lines else "- none"


def comparison_by_battery(tables: Tables) -> str:
    """Clusterer and the peer that is best on each battery."""
    lines = []
    for battery in tables.batteries:
        own = tables.summary("ARI", "Clusterer", battery)
        best, theirs = best_peer(tables, battery)
        difference = f"{own.mean - theirs:+.2f}".replace("-", "−")
        lines.append([battery, str(own.count), _two_digits(own.mean), best, _two_digits(theirs), difference])
    header = ["collection", "data sets", "Clusterer", "best peer there", "its ARI", "difference"]
    return markdown_table(header, lines)


def extremes(tables: Tables) -> str:
    """The data sets on which Clusterer gains most over the best peer on average, and where it loses most."""
    complete = filter(tables.is_complete, tables.peers)
    peer = max(complete, key=lambda name: tables.summary("ARI", name).mean)
    own, theirs = tables.values("ARI", "Clusterer"), tables.values("ARI", peer)
    k, k_peer = tables.values("k", "Clusterer"), tables.values("k", peer)
    true_k = tables.values("true k", "Clusterer")
    gains = sorted((own[data] - theirs[data], data) for data in own if data in theirs)
    won = sum(gain > 0.01 for gain, _ in gains)
    lost = sum(gain < -0.01 for gain, _ in gains)

    def part(chosen: Sequence[tuple[float, str]]) -> str:
        lines = [
            [
                data,
                f"{true_k[data]:.0f}",
                f"{_two_digits(own[data])} ({k[data]:.0f})",
                f"{_two_digits(theirs[data])} ({k_peer[data]:.0f})",
            ]
            for _, data in chosen
        ]
        return markdown_table(["data set", "classes", "Clusterer: ARI (k)", f"{peer}: ARI (k)"], lines)

    text = (
        f"Against {peer}, the peer with the best mean: ahead by more than 0.01 on {won} of {len(gains)} data "
    )
    text += f"sets, behind by more than 0.01 on {lost}.\n\n"
    losses = [pair for pair in gains if pair[0] < 0][:N_EXTREMES]
    wins = [pair for pair in gains[::-1] if pair[0] > 0][:N_EXTREMES]
    text += f"Largest gains:\n\n{part(wins)}\n\nLargest losses:\n\n{part(losses)}\n"
    return text


def write_tables() -> None:
    """The parts about data sets with k hidden."""
    path = RESULTS / "tables.csv.gz"
    parts: dict[str, Callable[[Tables], str]] = {
        "_tables.md": table_of_batteries,
        "_won.md": partial(batteries_by_outcome, won=True),
        "_lost.md": partial(batteries_by_outcome, won=False),
        "_batteries.md": comparison_by_battery,
        "_extremes.md": extremes,
    }
    tables = Tables(path) if path.exists() else None
    if tables is None or "Clusterer" not in tables.methods:
        for name in ("_tables_figure.md", *parts):
            _write(name, NOT_MEASURED.format(name="tables") if name == "_tables_figure.md" else "")
        return
    draw_tables(tables, PAGES / "tables_overview.png")
    picture = "![ARI and share of exact k of every method](results/tables_overview.png)"
    _write("_tables_figure.md", f"{picture}\n\n{CAPTION}\n")
    for name, make in parts.items():
        _write(name, make(tables) + "\n")


# -- parts of pages ----------------------------------------------------------------------------------


def table_below(page: str, heading: str) -> list[list[str]]:
    """Cells of the first table below a heading of a page; empty if there is none."""
    path = RESULTS / f"{page}.md"
    if not path.exists():
        return []
    _, found, rest = path.read_text(encoding="utf-8").partition(f"## {heading}\n")
    lines = re.search(r"(?:^\|.*\n)+", rest, re.MULTILINE) if found else None
    if lines is None:
        return []
    return [[cell.strip() for cell in line.strip("| \n").split("|")] for line in lines[0].splitlines()]


def _short(cell: str) -> str:
    """A mean with three digits, without its standard error."""
    number = re.match(r"[+−-]?[0-9.]+", cell)
    if number is None:
        return cell
    value = round(float(number[0].replace("−", "-")), 3)
    return f"{value:+.3f}".replace("-", "−") if value else "0.000"


def write_mixtures() -> None:
    """Gaps to the oracle on mixtures of known truth: chosen methods of two pages side by side."""
    heading = "ARI minus the oracle's, in every setting"
    found = [table for page in ("mog", "scales") if (table := table_below(page, heading))]
    if not found:
        _write("_mixtures.md", NOT_MEASURED.format(name="mog"))
        return
    by_method = [{line[0]: line[1:] for line in table[2:]} for table in found]
    header = ["method", *(name for table in found for name in table[0][1:])]
    lines = []
    for method in MIXTURE_METHODS:
        if any(method in one for one in by_method):
            cells = [
                _short(cell)
                for one, table in zip(by_method, found, strict=True)
                for cell in one.get(method, ["–"] * (len(table[0]) - 1))
            ]
            lines.append([method, *cells])
    _write("_mixtures.md", markdown_table(header, lines) + "\n")


def write_headed_tables(name: str, page: str, most: int) -> None:
    """The first tables of a page, each after its heading."""
    path = RESULTS / f"{page}.md"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    parts = re.findall(r"(?:^## (.+)\n+)?((?:^\|.*\n)+)", text, re.MULTILINE)[:most]
    tables = [f"{title}:\n\n{table}" if title else table for title, table in parts]
    _write(name, "\n".join(tables) if tables else NOT_MEASURED.format(name=page))


def large_table(rows: Rows) -> str:
    """Rows of data x seconds x memory, from the rows of the suite about large data."""
    header = ["rows", *LARGE_METHODS]
    header += [f"{name}: k, ARI" for name in LARGE_METHODS[1:]]
    lines = []
    for data in rows.names("data"):
        of_data = [rows.of(method=f"{name}, {data}", data=data).good for name in LARGE_METHODS]
        if any(len(found) == 0 for found in of_data):
            continue
        cells = [
            f"{significant(found.describe('seconds').median, 3)} s, {found.describe('peak').median:.0f} MB"
            for found in of_data
        ]
        cells += [
            f"{found.describe('k').median:.0f}, {found.describe('ARI').median:.3f}" for found in of_data[1:]
        ]
        lines.append([data.partition(" ")[0], *cells])
    return markdown_table(header, lines) if lines else NOT_MEASURED.format(name="large")


def labelled_table(suites: dict[str, Rows], methods: Sequence[str] = LABELLED_METHODS) -> str:
    """Mean NMI and, in brackets, the mean error in k, of chosen methods on every suite."""
    lines = []
    for method in methods:
        found = [rows.of(method=method) for rows in suites.values()]
        cells = [
            f"{_two_digits(one.describe('NMI (arithmetic)').mean)} ({one.describe('k error').mean:.1f})"
            if len(one.good)
            else "–"
            for one in found
        ]
        if any(map(len, found)):
            lines.append([f"**{method}**" if method in ("AMCP", "CHiGac", "DAC") else method, *cells])
    header = [f"[{(LABELLED | PAPERS)[name]}](results/{name}.md)" for name in suites]
    return markdown_table(["method", *header], lines)


def write_labelled() -> None:
    """The tables about training on labels."""
    for page, names, methods in (
        ("_labelled.md", LABELLED, LABELLED_METHODS),
        ("_papers.md", PAPERS, PAPER_METHODS),
    ):
        suites = {name: _rows(path) for name in names if (path := RESULTS / f"{name}.csv.gz").exists()}
        missing = NOT_MEASURED.format(name=next(iter(names)))
        _write(page, (labelled_table(suites, methods) if suites else missing) + "\n")


def _rows(path: Path) -> Rows:
    return Rows(csv.DictReader(csv_text(path).splitlines()))


def write_large() -> None:
    """The table of the page about large data."""
    path = RESULTS / "large.csv.gz"
    if not path.exists():
        _write("_large.md", NOT_MEASURED.format(name="large"))
        return
    _write("_large.md", large_table(_rows(path)) + "\n")


def write_pages() -> None:
    """Write everything; what has not changed is left alone."""
    PAGES.mkdir(exist_ok=True)
    write_suite_pages()
    write_tables()
    write_mixtures()
    write_headed_tables("_one_cluster.md", "one-cluster", 1)
    write_headed_tables("_table_speed.md", "table-speed", 2)
    write_labelled()
    write_large()
