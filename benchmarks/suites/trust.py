"""How far answers can be trusted: one cluster in many guises, ordinary tables, and the warnings given."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.page import Cell, mean, median, method_table, sets
from benchmarks.peers import PEERS
from benchmarks.scores import n_clusters
from benchmarks.suite import Case, Data, Method, Outcome, Run, Suite
from benchmarks.summary import Rows
from benchmarks.synthetic import Word, generator_of

__all__ = ["SUITES", "estimator_that_warns", "ordinary_tables", "trust"]


def estimator_that_warns(name: str) -> Run:
    """One of our estimators with its defaults; what it warned of during ``fit`` is counted."""
    import clusterwise

    kind = getattr(clusterwise, name)

    def run(case: Case) -> Outcome:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            labels = kind(random_state=case.seed).fit_predict(case.points)
        return Outcome(labels, more=lambda: {"warned": int(len(caught) > 0)})

    return run


def warned(case: Case, labels: np.ndarray, more: Mapping[str, Any]) -> Mapping[str, object]:
    """Whether there was a warning; peers give none."""
    return {"warned": more.get("warned", 0)}


def _ours(name: str) -> Method:
    return Method(name, partial(estimator_that_warns, name), kind="ours")


def one_or_warned(case: Case, labels: np.ndarray, more: Mapping[str, Any]) -> Mapping[str, object]:
    """Whether there is one cluster, or a warning."""
    seen = more.get("warned", 0)
    return {"warned": seen, "one or warned": int(seen or n_clusters(labels) == 1)}


def _share(column: str) -> Cell:
    def cell(rows: Rows, everything: Rows) -> str:
        statistic = rows.describe(column)
        return "–" if statistic.count == 0 else f"{100 * statistic.mean:.0f} %"

    return cell


# -- one cluster -----------------------------------------------------------------------------------------

N_POINTS = 1_000
CORRELATIONS = (0.0, 0.3, 0.5, 0.7, 0.9)
TRUST = f"""\
Tables of {N_POINTS:,} rows and two columns that are one cluster: Gaussians of increasing correlation, and
lognormal, exponential and Likert data (whole numbers from 1 to 5), which no Gaussian describes. The figures
are the share of tables of which a method says that there is one cluster, and of which it says so or gives a
warning."""


@dataclass(frozen=True)
class Kind:
    """Tables of one kind."""

    name: str
    draw: Callable[[np.random.Generator], np.ndarray]


def _gaussian(correlation: float, rng: np.random.Generator) -> np.ndarray:
    return rng.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], N_POINTS)


def _lognormal(rng: np.random.Generator) -> np.ndarray:
    return rng.lognormal(size=(N_POINTS, 2))


def _exponential(rng: np.random.Generator) -> np.ndarray:
    return rng.exponential(size=(N_POINTS, 2))


def _likert(rng: np.random.Generator) -> np.ndarray:
    return np.clip(np.round(3 + rng.normal(size=(N_POINTS, 2))), 1, 5)


KINDS = (
    *(Kind(f"Gaussian, correlation {c}", partial(_gaussian, c)) for c in CORRELATIONS),
    Kind("lognormal", _lognormal),
    Kind("exponential", _exponential),
    Kind("Likert", _likert),
)


def one_cluster_of(place: int, index: int) -> Case:
    """Table ``index`` of a kind."""
    points = KINDS[place].draw(generator_of(Word.TRUST, place, index))
    return Case(points, index, (np.zeros(N_POINTS, dtype=np.int64),))


def trust(quick: bool) -> Suite:
    """Whether one cluster is called one, and if not, whether there is a warning."""
    n_sets = 2 if quick else 20
    data = [Data(kind.name, partial(one_cluster_of, place), n_sets) for place, kind in enumerate(KINDS)]
    methods = [
        _ours("Clusterer"),
        _ours("GaussianSearch"),
        _ours("AMCP"),
        replace(PEERS["GMM + BIC"], max_sets=5),
    ]

    def report(rows: Rows, page: Path) -> list[str]:
        columns: dict[str, Cell] = {
            "sets": sets,
            "one cluster": _share("right k"),
            "one, or a warning": _share("one or warned"),
            "mean k": mean("k"),
        }
        parts = [TRUST]
        for kind in KINDS:
            parts += [
                f"## {kind.name}",
                method_table(rows.of(data=kind.name), [m.name for m in methods], columns),
            ]
        return parts

    return Suite(
        "One cluster, or a warning",
        data,
        methods,
        report,
        ("right k", "k"),
        columns=("warned", "one or warned"),
        score=one_or_warned,
        time_limit=60.0,
    )


# -- ordinary tables -------------------------------------------------------------------------------------

ORDINARY = """\
Four tables of scikit-learn and six drawn ones, three seeds each. BayesianGaussianMixture has 20
components with full covariances and sees columns as they are, or in units of their standard deviations."""


def _blobs(**options: Any) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import make_blobs

    points, labels = make_blobs(**options)
    return points, labels


def _table(name: str) -> tuple[np.ndarray, np.ndarray]:
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    return bunch.data, bunch.target


def _slanted() -> tuple[np.ndarray, np.ndarray]:
    points, labels = _blobs(n_samples=900, centers=3, random_state=170)
    return points @ np.array([[0.6, -0.6], [-0.4, 0.8]]), labels


def _moons() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import make_moons

    points, labels = make_moons(800, noise=0.07, random_state=0)
    return points, labels


def _colonies() -> tuple[np.ndarray, np.ndarray]:
    from clusterwise.datasets import load_demo

    return load_demo()


TABLES: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "digits": partial(_table, "digits"),
    "iris": partial(_table, "iris"),
    "wine": partial(_table, "wine"),
    "breast cancer": partial(_table, "breast_cancer"),
    "five blobs": partial(_blobs, n_samples=1000, centers=5, random_state=0),
    "six blobs, 10 features": partial(_blobs, n_samples=1000, n_features=10, centers=6, random_state=1),
    "blobs of three widths": partial(
        _blobs, n_samples=900, centers=3, cluster_std=[1.0, 2.5, 0.5], random_state=170
    ),
    "slanted blobs": _slanted,
    "moons": _moons,
    "colonies": _colonies,
}


def ordinary_table(name: str, index: int) -> Case:
    """A table; ``index`` is the seed of the methods."""
    points, labels = TABLES[name]()
    return Case(points, index, (labels,))


def scaled_bayesian_mixture() -> Run:
    """The peer on columns of unit deviation."""
    from sklearn.preprocessing import StandardScaler

    inner = PEERS["BayesianGaussianMixture, full"].build()

    def run(case: Case) -> Outcome:
        return Outcome(inner(Case(StandardScaler().fit_transform(case.points), case.seed)).labels)

    return run


def ordinary_tables(quick: bool) -> Suite:
    """`cw.DPMixture` on tables that people have: time, agreement with classes, warnings."""
    names = ["iris", "moons"] if quick else list(TABLES)
    data = [Data(name, partial(ordinary_table, name), 1 if quick else 3) for name in names]
    methods = [
        _ours("DPMixture"),
        PEERS["BayesianGaussianMixture, full"],
        Method("BayesianGaussianMixture, full, scaled", scaled_bayesian_mixture),
    ]

    def report(rows: Rows, page: Path) -> list[str]:
        columns: dict[str, Cell] = {
            "sets": sets,
            "ARI": mean("ARI"),
            "k": mean("k"),
            "median s": median("cpu_seconds"),
            "with a warning": _share("warned"),
        }
        parts = [ORDINARY]
        for name in names:
            parts += [
                f"## {name}",
                method_table(rows.of(data=name), [method.name for method in methods], columns),
            ]
        return parts

    return Suite(
        "Ordinary tables",
        data,
        methods,
        report,
        ("ARI", "k"),
        columns=("warned",),
        score=warned,
        time_limit=120.0,
    )


SUITES = {"trust": trust, "ordinary-tables": ordinary_tables}
