"""What answers are worth on ordinary data: one cluster in many guises, and tables that people have."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from sklearn import datasets

from benchmarks.data import standardized
from benchmarks.ours import ours
from benchmarks.page import NOTHING, by_data, mean, median, method_table, percent, sets, share
from benchmarks.peers import PEERS
from benchmarks.suite import Case, Data, Method, Run, Suite
from benchmarks.summary import Rows
from benchmarks.synthetic import Word, generator_of
from clusterwise.datasets import load_demo

Draw = Callable[[Generator], Any]  # (n, d)


def _gaussian(d: int, correlation: float, rng: Generator) -> np.ndarray:
    """All columns have the same correlation with each other."""
    root = np.linalg.cholesky((1 - correlation) * np.eye(d) + correlation)
    return rng.standard_normal((500, d)) @ root.T


# Tables that are one cluster, and what their seeds depend on besides the number of features.
WIDE: dict[str, tuple[Draw, int, int]] = {
    **{
        f"Gaussian, {d} features, correlation {c}": (partial(_gaussian, d, c), d, round(100 * c))
        for d in (2, 4, 8, 16)
        for c in (0.0, 0.5, 0.9)
    },
    **{f"box, {d} features": (partial(Generator.random, size=(500, d)), d, 1000) for d in (1, 2, 4, 8)},
}
IN_THE_PLANE: dict[str, Draw] = {
    **{
        f"Gaussian, 1,000 rows, correlation {c}": partial(
            Generator.multivariate_normal, mean=[0, 0], cov=[[1, c], [c, 1]], size=1000
        )
        for c in (0.0, 0.3, 0.5, 0.7, 0.9)
    },
    "lognormal": partial(Generator.lognormal, size=(1000, 2)),
    "exponential": partial(Generator.exponential, size=(1000, 2)),
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
    own, peers = ("Clusterer", "GaussianSearch"), ("GMM + BIC", "HDBSCAN")
    data = [
        *(Data(name, partial(_one, draw, Word.ONE_CLUSTER, *key), 2 if quick else 25, (*own, *peers))
          for name, (draw, *key) in WIDE.items()),
        *(Data(name, partial(_one, draw, Word.TRUST, place), 2 if quick else 20, (*own, "AMCP", "GMM + BIC"))
          for place, (name, draw) in enumerate(IN_THE_PLANE.items())),
    ]  # fmt: skip

    def of_kind(kind: str, rows: Rows, everything: Rows) -> str:
        return one(rows.of_data(name for name in WIDE if name.startswith(kind)), everything)

    overall = {"all Gaussians": partial(of_kind, "Gaussian"), "all boxes": partial(of_kind, "box")}
    one, warned = share("right k"), _one_or_warned
    columns = {"sets": sets, "one cluster": one, "one, or a warning": warned, "mean k": mean("k")}

    def report(rows: Rows, page: Path) -> list[str]:
        return [method_table(rows.of_data(WIDE), None, overall), *by_data(rows, columns)]

    methods = [*map(ours, (*own, "AMCP")), *(PEERS[name] for name in peers)]
    return Suite(data, methods, report=report, metrics=("right k", "k"), columns=("warned",), time_limit=60.0)


def _slanted() -> tuple[np.ndarray, np.ndarray]:
    points, labels = datasets.make_blobs(900, centers=3, random_state=170)
    return points @ np.array([[0.6, -0.6], [-0.4, 0.8]]), labels


_blobs = partial(partial, datasets.make_blobs)
TABLES: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {  # points and classes
    "digits": partial(datasets.load_digits, return_X_y=True),
    "iris": partial(datasets.load_iris, return_X_y=True),
    "wine": partial(datasets.load_wine, return_X_y=True),
    "breast cancer": partial(datasets.load_breast_cancer, return_X_y=True),
    "five blobs": _blobs(1000, centers=5, random_state=0),
    "six blobs, 10 features": _blobs(1000, n_features=10, centers=6, random_state=1),
    "blobs of three widths": _blobs(900, centers=3, cluster_std=[1.0, 2.5, 0.5], random_state=170),
    "slanted blobs": _slanted,
    "moons": partial(datasets.make_moons, 800, noise=0.07, random_state=0),
    "colonies": load_demo,
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
    names = ["iris", "moons"] if quick else list(TABLES)
    data = [Data(name, partial(ordinary_table, name), 1 if quick else 3) for name in names]
    peer = PEERS["BayesianGaussianMixture, full"]
    methods = [ours("DPMixture"), peer, Method(f"{peer.name}, scaled", scaled_bayesian_mixture)]
    columns = {
        "sets": sets,
        "ARI": mean("ARI"),
        "k": mean("k"),
        "median s": median("cpu_seconds"),
        "with a warning": share("warned"),
    }
    return Suite(data, methods, columns, metrics=("ARI", "k"), columns=("warned",))


SUITES = {"one-cluster": one_cluster, "ordinary-tables": ordinary_tables}
