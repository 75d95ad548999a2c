"""What answers are worth on ordinary data: one cluster in many guises, and tables that people have."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import standardized
from benchmarks.ours import ours
from benchmarks.page import NOTHING, Cell, by_data, mean, median, method_table, percent, sets, share
from benchmarks.peers import PEERS
from benchmarks.suite import Case, Data, Method, Run, Suite
from benchmarks.summary import Rows
from benchmarks.synthetic import Word, generator_of

__all__ = ["SUITES", "one_cluster", "ordinary_tables"]

# -- one cluster -----------------------------------------------------------------------------------------

Draw = Callable[[np.random.Generator], np.ndarray]


def _gaussian(d: int, correlation: float, rng: np.random.Generator) -> np.ndarray:
    """All columns have the same correlation with each other."""
    root = np.linalg.cholesky((1 - correlation) * np.eye(d) + correlation)
    return rng.standard_normal((500, d)) @ root.T


def _box(d: int, rng: np.random.Generator) -> np.ndarray:
    return rng.random((500, d))


def _in_the_plane(correlation: float, rng: np.random.Generator) -> np.ndarray:
    return rng.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], 1000)


# Tables that are one cluster, and what their seeds depend on besides the number of features.
WIDE: dict[str, tuple[Draw, int, int]] = {
    **{
        f"Gaussian, {d} features, correlation {c}": (partial(_gaussian, d, c), d, round(100 * c))
        for d in (2, 4, 8, 16)
        for c in (0.0, 0.5, 0.9)
    },
    **{f"box, {d} features": (partial(_box, d), d, 1000) for d in (1, 2, 4, 8)},
}
IN_THE_PLANE: dict[str, Draw] = {
    **{
        f"Gaussian, 1,000 rows, correlation {c}": partial(_in_the_plane, c) for c in (0.0, 0.3, 0.5, 0.7, 0.9)
    },
    "lognormal": lambda rng: rng.lognormal(size=(1000, 2)),
    "exponential": lambda rng: rng.exponential(size=(1000, 2)),
    "Likert": lambda rng: np.clip(np.round(3 + rng.normal(size=(1000, 2))), 1, 5),
}


def _one(draw: Draw, *key: int) -> Case:
    points = draw(generator_of(*key))
    return Case(points, key[-1], (np.zeros(len(points), dtype=np.int64),))


def _one_or_warned(rows: Rows, everything: Rows) -> str:
    """Of methods whose warnings were written down."""
    good = [row for row in rows.good if row["warned"] != ""]
    told = [float(row["right k"]) == 1 or row["warned"] == "1" for row in good]
    return percent(float(np.mean(told))) if told else NOTHING


def one_cluster(quick: bool) -> Suite:
    """How often one cluster is called one, and if not, whether there is a warning."""
    own, peers = ("Clusterer", "GaussianSearch"), ("GMM + BIC", "HDBSCAN")
    data = [
        *(Data(name, partial(_one, draw, Word.ONE_CLUSTER, *key), 2 if quick else 25, (*own, *peers))
          for name, (draw, *key) in WIDE.items()),
        *(Data(name, partial(_one, draw, Word.TRUST, place), 2 if quick else 20, (*own, "AMCP", "GMM + BIC"))
          for place, (name, draw) in enumerate(IN_THE_PLANE.items())),
    ]  # fmt: skip

    def of_kind(kind: str) -> Cell:
        return lambda rows, everything: share("right k")(
            rows.of_data(name for name in WIDE if name.startswith(kind)), rows
        )

    overall: dict[str, Cell] = {"all Gaussians": of_kind("Gaussian"), "all boxes": of_kind("box")}
    columns: dict[str, Cell] = {
        "sets": sets,
        "one cluster": share("right k"),
        "one, or a warning": _one_or_warned,
        "mean k": mean("k"),
    }

    def report(rows: Rows, page: Path) -> list[str]:
        return [method_table(rows.of_data(WIDE), None, overall), *by_data(rows, columns)]

    methods = [*map(ours, (*own, "AMCP")), *(PEERS[name] for name in peers)]
    return Suite(data, methods, report=report, metrics=("right k", "k"), columns=("warned",), time_limit=60.0)


# -- ordinary tables -------------------------------------------------------------------------------------

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
    return Suite(data, methods, columns, metrics=("ARI", "k"), columns=("warned",))


SUITES = {"one-cluster": one_cluster, "ordinary-tables": ordinary_tables}
