"""Data sets with k hidden: batteries of shapes, tables, single cells, texts and learned features."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from sklearn import datasets
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize

from benchmarks.data import files_in, load_case, n_rows, sample_rows, standardized
from benchmarks.ours import ours
from benchmarks.page import NOTHING, markdown_table, percent, plus_minus, sets, significant
from benchmarks.peers import GIVEN_K, PEERS, REFERENCES, TABLES
from benchmarks.suite import Case, Data, Method, Suite
from benchmarks.summary import Cell, Rows, describe

LARGEST_OF_BATTERIES = 12_000  # rows; larger data sets of the batteries are left out
MOST_ROWS = 8_000  # of other data sets, sampled with a fixed seed
N_TOPICS = 100  # dimensions to which TF-IDF tables are brought
QUICK_ROWS = 200
PATIENCE = 1_000_000  # as sizes differ within a battery, each data set gets its try


def _toy(name: str, n: int, index: int) -> Case:
    if name == "moons":
        points, classes = datasets.make_moons(500, noise=0.05, random_state=0)
    elif name == "circles":
        points, classes = datasets.make_circles(500, noise=0.05, factor=0.5, random_state=0)
    else:
        points, classes = getattr(datasets, f"load_{name}")(return_X_y=True)
    return standardized(sample_rows(Case(points, index, (classes,)), n))


def _file(file: str, n: int, index: int) -> Case:
    case = load_case(file, n, index, "X_pca50" if file.startswith("singlecell") else "X")
    if "tfidf" in file:  # rows of unit length in the leading dimensions
        reduced = TruncatedSVD(N_TOPICS, random_state=0).fit_transform(case.points)
        return Case(normalize(reduced), case.seed, case.references)
    return standardized(case) if file.startswith(("suite", "tabular")) else case


TOYS = ("iris", "wine", "breast_cancer", "digits", "moons", "circles")
# Where the data sets of a battery are, in the directory of data or in scikit-learn.
BATTERIES = {
    "fcps": "suite/fcps", "sipu": "suite/sipu", "wut": "suite/wut", "scikit-learn": "scikit-learn",
    "tables": "tabular", "single cells": "singlecell", "texts": "text", "features": "umap",
}  # fmt: skip
QUICK = {
    "fcps/lsun", "fcps/target", "sipu/aggregation", "sipu/r15", "wut/smile", "wut/z2", "scikit-learn/iris",
    "scikit-learn/moons", "tabular/vowel", "singlecell/mouse_bladder", "text/searchsnippets_wordllama256",
    "umap/usps_umap10",
}  # fmt: skip


def data_sets(quick: bool) -> list[Data]:
    """All data sets that are there, battery by battery."""
    draws: dict[str, Callable[[int], Case]] = {}
    n = QUICK_ROWS if quick else MOST_ROWS
    for folder in BATTERIES.values():
        if folder == "scikit-learn":
            draws |= {f"{folder}/{name}": partial(_toy, name, n) for name in TOYS}
        for file in files_in(folder):
            of_suite = folder.startswith("suite")
            if not of_suite or n_rows(file) <= LARGEST_OF_BATTERIES:
                most = LARGEST_OF_BATTERIES if of_suite and not quick else n
                draws[file.removeprefix("suite/")] = partial(_file, file, most)
    return [Data(name, draw) for name, draw in draws.items() if not quick or name in QUICK]


def battery_of(data: str) -> str:
    folder = data.partition("/")[0]
    return next((name for name, path in BATTERIES.items() if path in (folder, f"suite/{folder}")), folder)


def _tried(rows: Rows, column: str, worst: float) -> list[float]:
    """A figure of all data sets that were tried; failures and time-outs count as the worst."""
    return [float(row[column]) if row["status"] == "ok" else worst for row in rows.tried]


def _error(rows: Rows, everything: Rows) -> str:
    errors = _tried(rows, "k error", math.inf)
    middle = statistics.median(errors) if errors else math.nan
    return NOTHING if math.isnan(middle) else "failed" if math.isinf(middle) else f"{middle:g}"


def _time(rows: Rows, everything: Rows) -> str:
    found = describe(float(row["cpu_seconds"]) for row in rows)
    return NOTHING if found.count == 0 else f"{significant(found.median, 2)} ({significant(found.total, 2)})"


RIGHT, ERROR = "Share of data sets with the exact number of clusters", "Error in the number of clusters"
SECONDS = "Seconds"
FIGURES: Mapping[str, tuple[str, Cell]] = {
    "Adjusted Rand index": ("Mean.", lambda rows, _: plus_minus(describe(_tried(rows, "ARI", 0.0)), 3)),
    RIGHT: ("", lambda rows, _: percent(describe(_tried(rows, "right k", 0.0)).mean)),
    ERROR: ("Median of the absolute error.", _error),
    SECONDS: ("CPU time: median, and the sum in brackets; the limit where a method did not finish.", _time),
    "Data sets": ("Finished, of those that were tried.", lambda rows, _: sets(rows.tried, rows)),
}


def figures_by_battery(rows: Rows, methods: Sequence[str], level: str, *without: str) -> list[str]:
    """A heading and a table by battery for every figure."""
    of_battery = {name: Rows(row for row in rows if battery_of(row["data"]) == name) for name in BATTERIES}
    blocks = {name: found for name, found in of_battery.items() if found} | {"all": rows}
    parts: list[str] = []
    for figure, (note, cell) in FIGURES.items():
        if figure not in without:
            lines = [[name, *(cell(of.of(method=name), of) for of in blocks.values())] for name in methods]
            table = markdown_table(["method", *blocks], lines)
            parts += [f"{level} {figure}", *filter(None, [note]), table]
    return parts


def report(rows: Rows, page: Path) -> list[str]:
    """Every figure by battery, for methods that find k and for those that are told it."""
    parts = []
    for word, without in {"hidden": (), "given": (RIGHT, ERROR)}.items():
        methods = [name for name in rows.names("method") if (name in GIVEN_K) == (word == "given")]
        found = figures_by_battery(rows, methods, "###", *without)
        parts += [f"## The number of clusters is {word}", *found] if methods else []
    return parts


def methods() -> list[Method]:
    own = map(ours, ("Clusterer", "GaussianSearch", "DPMixture", "DeepDPM"))
    return [*own, *(PEERS[name] for name in TABLES), *(REFERENCES[name] for name in GIVEN_K)]


def tables(quick: bool) -> Suite:
    metrics = ("ARI", "NMI (arithmetic)", "accuracy", "k", "true k", "k error", "right k", "n", "d")
    limit = 5.0 if quick else 180.0
    return Suite(data_sets(quick), methods(), {}, report, metrics, time_limit=limit, patience=PATIENCE)


SUITES = {"tables": tables}
