"""Data sets with k hidden: batteries of shapes, tables, single cells, texts and learned features.

Every method sees the same points, and none is told the number of clusters but those in a block of their own.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from benchmarks.data import files_in, load_case, n_rows, sample_rows, standardized
from benchmarks.ours import ours
from benchmarks.page import NOTHING, Cell, markdown_table, plus_minus, significant
from benchmarks.peers import GIVEN_K, PEERS, REFERENCES, TABLES
from benchmarks.suite import Case, Data, Method, Suite
from benchmarks.summary import Rows, Statistic, describe

__all__ = ["SUITES", "tables"]

LARGEST_OF_BATTERIES = 12_000  # rows; larger data sets of the batteries are left out
MOST_ROWS = 8_000  # of other data sets, sampled with a fixed seed
N_TOPICS = 100  # dimensions to which TF-IDF tables are brought
TIME_LIMIT = 180.0
QUICK_ROWS, QUICK_TIME_LIMIT = 200, 5.0
INTRODUCTION = f"""\
Data sets with classes or reference partitions, which no method is told. *fcps*, *sipu* and *wut* are
batteries of the clustering-data-v1 suite with at most {LARGEST_OF_BATTERIES:,} rows; *scikit-learn* are iris,
wine, breast cancer, digits, moons and circles; *tables*, *single cells* (50 principal components of
log-normalized counts), *texts* (word vectors; TF-IDF brought to {N_TOPICS} dimensions by a truncated SVD,
rows of unit length) and *features* (UMAP of images, MoCo) have at most {MOST_ROWS:,} random rows. Batteries,
scikit-learn's data and tables are standardized, feature by feature, for all methods alike; the others are
taken as they are.

Where there are several reference partitions, a figure is taken against each and the best counts; points that
a reference marks as noise are left out of its score. Noise that a method finds counts as one more cluster in
ARI and as none in k. Methods with *true k* are told the number of clusters of the first reference.

One run for each data set, one thread, at most {TIME_LIMIT:.0f} s of CPU time. **A method that fails or takes
longer scores ARI 0 and a wrong k**; data sets on which a method was not tried (MeanShift above 2,000 rows,
spectral clustering above 3,000) are left out, and the number of data sets says so. ± is one standard error
over the data sets of a column. Leiden and Louvain are scikit-network's, on the graph of 15 neighbours; its
Leiden does not always end and is given 20 s, a hundred times what it needs otherwise. The classes of a table
need not be clusters: what counts is the comparison of methods."""


# -- data --------------------------------------------------------------------------------------------


def _toy(name: str, index: int) -> Case:
    from sklearn import datasets

    if name == "moons":
        points, classes = datasets.make_moons(500, noise=0.05, random_state=0)
    elif name == "circles":
        points, classes = datasets.make_circles(500, noise=0.05, factor=0.5, random_state=0)
    else:
        points, classes = getattr(datasets, f"load_{name}")(return_X_y=True)
    return Case(points, index, (classes,))


def _topics(case: Case) -> Case:
    """Rows of unit length in the leading dimensions of a TF-IDF table."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import normalize

    reduced = TruncatedSVD(N_TOPICS, random_state=0).fit_transform(case.points)
    return Case(normalize(reduced), case.seed, case.references)


def _file(file: str, n: int, points: str, prepare: Callable[[Case], Case] | None, index: int) -> Case:
    case = load_case(file, n, index, points)
    return case if prepare is None else prepare(case)


def _in_file(file: str, battery: str, n: int) -> Data:
    prepare: Callable[[Case], Case] | None = None
    if battery in ("fcps", "sipu", "wut", "tables"):
        prepare = standardized
    elif "tfidf" in file:
        prepare = _topics
    points = "X_pca50" if battery == "single cells" else "X"
    return Data(file.removeprefix("suite/"), partial(_file, file, n, points, prepare), group=battery)


def _small(name: str, n: int, index: int) -> Case:
    return standardized(sample_rows(_toy(name, index), n))


TOYS = ("iris", "wine", "breast_cancer", "digits", "moons", "circles")
FOLDERS = {
    "fcps": "suite/fcps",
    "sipu": "suite/sipu",
    "wut": "suite/wut",
    "tables": "tabular",
    "single cells": "singlecell",
    "texts": "text",
    "features": "umap",
}
BATTERIES = ("fcps", "sipu", "wut", "scikit-learn", "tables", "single cells", "texts", "features")
QUICK = {
    "fcps/lsun", "fcps/target", "sipu/aggregation", "sipu/r15", "wut/smile", "wut/z2", "scikit-learn/iris",
    "scikit-learn/moons", "tabular/vowel", "singlecell/mouse_bladder", "text/searchsnippets_wordllama256",
    "umap/usps_umap10",
}  # fmt: skip


def data_sets(quick: bool) -> list[Data]:
    """All data sets that are there, battery by battery."""
    found: list[Data] = []
    for battery in BATTERIES:
        n = QUICK_ROWS if quick else MOST_ROWS
        if battery == "scikit-learn":
            of = [Data(f"scikit-learn/{name}", partial(_small, name, n), group=battery) for name in TOYS]
        elif FOLDERS[battery].startswith("suite"):
            files = [file for file in files_in(FOLDERS[battery]) if n_rows(file) <= LARGEST_OF_BATTERIES]
            of = [_in_file(file, battery, n if quick else LARGEST_OF_BATTERIES) for file in files]
        else:
            of = [_in_file(file, battery, n) for file in files_in(FOLDERS[battery])]
        found += [data for data in of if not quick or data.name in QUICK]
    return found


# -- methods -----------------------------------------------------------------------------------------


def methods() -> list[Method]:
    """Ours, peers that find k, and those that are told it."""
    import clusterwise

    own = [ours("GaussianSearch"), ours("DPMixture"), ours("DeepDPM")]
    if "Clusterer" in clusterwise.__all__:
        own.insert(0, ours("Clusterer"))
    return [*own, *(PEERS[name] for name in TABLES), *(REFERENCES[name] for name in GIVEN_K)]


# -- the page ----------------------------------------------------------------------------------------


def _tried(rows: Rows, column: str, worst: float) -> Statistic:
    """A figure over all data sets that were tried; failures and time-outs count as the worst."""
    values = [
        float(row[column]) if row["status"] == "ok" else worst
        for row in rows
        if not row["status"].startswith("skipped")
    ]
    return describe(values)


def _ari(rows: Rows, everything: Rows) -> str:
    return plus_minus(_tried(rows, "ARI", 0.0), 3)


def _right(rows: Rows, everything: Rows) -> str:
    found = _tried(rows, "right k", 0.0)
    return NOTHING if found.count == 0 else f"{100 * found.mean:.0f} %"


def _error(rows: Rows, everything: Rows) -> str:
    tried = [row for row in rows if not row["status"].startswith("skipped")]
    errors = sorted(float(row["k error"]) if row["status"] == "ok" else math.inf for row in tried)
    if not errors:
        return NOTHING
    middle = statistics.median(errors)
    return "failed" if math.isinf(middle) else f"{middle:g}"


def _seconds(rows: Rows, everything: Rows) -> str:
    found = describe(float(row["cpu_seconds"]) for row in rows)
    return NOTHING if found.count == 0 else f"{significant(found.median, 2)} ({significant(found.total, 2)})"


def _count(rows: Rows, everything: Rows) -> str:
    tried = [row for row in rows if not row["status"].startswith("skipped")]
    good = len(rows.good)
    return str(good) if good == len(tried) else f"{good} of {len(tried)}"


FIGURES: Mapping[str, tuple[str, Cell]] = {
    "Adjusted Rand index": ("Mean.", _ari),
    "Share of data sets with the exact number of clusters": ("", _right),
    "Error in the number of clusters": ("Median of the absolute error.", _error),
    "Seconds": (
        "CPU time: median, and the sum in brackets; the limit where a method did not finish.",
        _seconds,
    ),
    "Data sets": ("Finished, of those that were tried.", _count),
}


def _by_battery(rows: Rows, names: list[str], battery_of: Mapping[str, str], cell: Cell) -> str:
    batteries = [battery for battery in BATTERIES if battery in battery_of.values()]
    lines = []
    for name in names:
        of = rows.of(method=name)
        parts = [of.of_data(data for data, group in battery_of.items() if group == b) for b in batteries]
        lines.append([name, *(cell(part, rows) for part in parts), cell(of, rows)])
    return markdown_table(["method", *batteries, "all"], lines)


def _battery(data: str) -> str:
    folder = data.partition("/")[0]
    return next((name for name, path in FOLDERS.items() if path in (folder, f"suite/{folder}")), folder)


def report(rows: Rows, page: Path) -> list[str]:
    """Every figure by battery, for methods that find k and for those that are told it."""
    battery_of = {name: _battery(name) for name in rows.names("data")}
    found = [name for name in rows.names("method") if name not in GIVEN_K]
    told = [name for name in rows.names("method") if name in GIVEN_K]
    order = [method.name for method in methods()]
    parts = [INTRODUCTION]
    for title, names in (
        ("The number of clusters is hidden", found),
        ("The number of clusters is given", told),
    ):
        names.sort(key=lambda name: order.index(name) if name in order else len(order))
        if not names:
            continue
        parts.append(f"## {title}")
        for figure, (note, cell) in FIGURES.items():
            if names is told and cell in (_right, _error):
                continue
            parts += [f"### {figure}", *([note] if note else []), _by_battery(rows, names, battery_of, cell)]
    return parts


def tables(quick: bool) -> Suite:
    """The suite."""
    return Suite(
        title="Data sets with k hidden",
        data=data_sets(quick),
        methods=methods(),
        report=report,
        metrics=("ARI", "NMI (arithmetic)", "accuracy", "k", "true k", "k error", "right k", "n", "d"),
        time_limit=QUICK_TIME_LIMIT if quick else TIME_LIMIT,
        patience=1_000_000,  # sizes differ within a battery: each data set gets its try
    )


SUITES = {"tables": tables}
