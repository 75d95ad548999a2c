"""How far answers can be trusted: one cluster in many guises, ordinary tables, and the warnings given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import standardized
from benchmarks.ours import ours
from benchmarks.page import Cell, by_data, mean, median, method_table, percent, sets, share
from benchmarks.peers import PEERS
from benchmarks.suite import Case, Data, Method, Run, Suite
from benchmarks.summary import Rows
from benchmarks.synthetic import Word, generator_of

__all__ = ["SUITES", "one_cluster", "ordinary_tables", "trust"]


def _single(points: np.ndarray, index: int) -> Case:
    return Case(points, index, (np.zeros(len(points), dtype=np.int64),))


# -- one cluster, many features --------------------------------------------------------------------------

N_POINTS, FEATURES, BOXES = 500, (2, 4, 8, 16), (1, 2, 4, 8)
ONE_CLUSTER = f"""\
Tables of {N_POINTS} rows that are one cluster: a Gaussian whose columns all have the same correlation with
each other, and rows that fill a box evenly. The figure is the share of tables of which a method says that
there is one cluster. HDBSCAN cannot say so unless it is told to allow it, and is."""


def single(d: int, correlation: float | None, index: int) -> Case:
    """One Gaussian, or uniform noise if there is no correlation to speak of."""
    kind = 1000 if correlation is None else round(100 * correlation)
    rng = generator_of(Word.ONE_CLUSTER, d, kind, index)
    if correlation is None:
        return _single(rng.random((N_POINTS, d)), index)
    covariance = (1 - correlation) * np.eye(d) + correlation
    return _single(rng.standard_normal((N_POINTS, d)) @ np.linalg.cholesky(covariance).T, index)


def one_cluster(quick: bool) -> Suite:
    """How often one cluster is called one."""
    n_sets = 2 if quick else 25
    data = [
        Data(f"Gaussian, {d} features, correlation {c}", partial(single, d, c), n_sets)
        for d in FEATURES
        for c in (0.0, 0.5, 0.9)
    ]
    data += [Data(f"box, {d} features", partial(single, d, None), n_sets) for d in BOXES]

    def of_kind(kind: str) -> Cell:
        return lambda rows, everything: share("right k")(
            rows.of_data(name for name in rows.names("data") if name.startswith(kind)), rows
        )

    def report(rows: Rows, page: Path) -> list[str]:
        overall: dict[str, Cell] = {"all Gaussians": of_kind("Gaussian"), "all boxes": of_kind("box")}
        columns: dict[str, Cell] = {"sets": sets, "one cluster": share("right k")}
        return [ONE_CLUSTER, method_table(rows, None, overall), *by_data(rows, columns)]

    methods = [ours("Clusterer"), ours("GaussianSearch"), PEERS["GMM + BIC"], PEERS["HDBSCAN"]]
    return Suite("One cluster", data, methods, report, ("right k", "k"), time_limit=60.0)


# -- one cluster, or a warning ---------------------------------------------------------------------------

TRUST_POINTS = 1_000
TRUST = f"""\
Tables of {TRUST_POINTS:,} rows and two columns that are one cluster: Gaussians of increasing correlation, and
lognormal, exponential and Likert data (whole numbers from 1 to 5), which no Gaussian describes. The figures
are the share of tables of which a method says that there is one cluster, and of which it says so or gives a
warning."""


def _gaussian(correlation: float, rng: np.random.Generator) -> np.ndarray:
    return rng.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], TRUST_POINTS)


KINDS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    **{f"Gaussian, correlation {c}": partial(_gaussian, c) for c in (0.0, 0.3, 0.5, 0.7, 0.9)},
    "lognormal": lambda rng: rng.lognormal(size=(TRUST_POINTS, 2)),
    "exponential": lambda rng: rng.exponential(size=(TRUST_POINTS, 2)),
    "Likert": lambda rng: np.clip(np.round(3 + rng.normal(size=(TRUST_POINTS, 2))), 1, 5),
}


def one_cluster_of(name: str, index: int) -> Case:
    """Table ``index`` of a kind."""
    return _single(KINDS[name](generator_of(Word.TRUST, list(KINDS).index(name), index)), index)


def _one_or_warned(rows: Rows, everything: Rows) -> str:
    good = list(rows.good)
    told = sum(float(row["right k"]) == 1 or row["warned"] == "1" for row in good)
    return percent(told / len(good) if good else float("nan"))


def trust(quick: bool) -> Suite:
    """Whether one cluster is called one, and if not, whether there is a warning."""
    data = [Data(name, partial(one_cluster_of, name), 2 if quick else 20) for name in KINDS]
    methods = [*map(ours, ("Clusterer", "GaussianSearch", "AMCP")), replace(PEERS["GMM + BIC"], max_sets=5)]
    columns: dict[str, Cell] = {
        "sets": sets,
        "one cluster": share("right k"),
        "one, or a warning": _one_or_warned,
        "mean k": mean("k"),
    }
    return Suite(
        "One cluster, or a warning", data, methods, lambda rows, page: [TRUST, *by_data(rows, columns)],
        ("right k", "k"), ("warned",), time_limit=60.0,
    )  # fmt: skip


# -- ordinary tables -------------------------------------------------------------------------------------

ORDINARY = """\
Four tables of scikit-learn and six drawn ones, three seeds each. BayesianGaussianMixture has 20
components with full covariances and sees columns as they are, or in units of their standard deviations."""
Table = tuple[np.ndarray, np.ndarray]  # points and classes


def _made(function: str, *args: Any, **options: Any) -> Table:
    from sklearn import datasets

    points, labels = getattr(datasets, function)(*args, **options)[:2]
    return points, labels


def _slanted() -> Table:
    points, labels = _made("make_blobs", 900, centers=3, random_state=170)
    return points @ np.array([[0.6, -0.6], [-0.4, 0.8]]), labels


def _colonies() -> Table:
    from clusterwise.datasets import load_demo

    return load_demo()


_blobs = partial(_made, "make_blobs")
TABLES: dict[str, Callable[[], Table]] = {
    **{name: partial(_made, f"load_{name}", return_X_y=True) for name in ("digits", "iris", "wine")},
    "breast cancer": partial(_made, "load_breast_cancer", return_X_y=True),
    "five blobs": partial(_blobs, 1000, centers=5, random_state=0),
    "six blobs, 10 features": partial(_blobs, 1000, n_features=10, centers=6, random_state=1),
    "blobs of three widths": partial(_blobs, 900, centers=3, cluster_std=[1.0, 2.5, 0.5], random_state=170),
    "slanted blobs": _slanted,
    "moons": partial(_made, "make_moons", 800, noise=0.07, random_state=0),
    "colonies": _colonies,
}


def ordinary_table(name: str, index: int) -> Case:
    """A table; ``index`` is the seed of the methods."""
    points, labels = TABLES[name]()
    return Case(points, index, (labels,))


def scaled_bayesian_mixture() -> Run:
    """The peer on columns of unit deviation."""
    inner = PEERS["BayesianGaussianMixture, full"].build()
    return lambda case: inner(standardized(case))


def ordinary_tables(quick: bool) -> Suite:
    """`cw.DPMixture` on tables that people have: time, agreement with classes, warnings."""
    names = ["iris", "moons"] if quick else list(TABLES)
    data = [Data(name, partial(ordinary_table, name), 1 if quick else 3) for name in names]
    peer = PEERS["BayesianGaussianMixture, full"]
    methods = [ours("DPMixture"), peer, Method(f"{peer.name}, scaled", scaled_bayesian_mixture)]
    columns: dict[str, Cell] = {
        "sets": sets,
        "ARI": mean("ARI"),
        "k": mean("k"),
        "median s": median("cpu_seconds"),
        "with a warning": share("warned"),
    }
    return Suite(
        "Ordinary tables", data, methods, lambda rows, page: [ORDINARY, *by_data(rows, columns)],
        ("ARI", "k"), ("warned",),
    )  # fmt: skip


SUITES = {"one-cluster": one_cluster, "trust": trust, "ordinary-tables": ordinary_tables}
