"""What `cw.Clusterer` says of tables without clusters, and how long it takes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.ours import ours
from benchmarks.page import NOTHING, Cell, mean, median, method_table, ratio, sets
from benchmarks.peers import PEERS
from benchmarks.scores import n_clusters
from benchmarks.suite import Case, Data, Method, Outcome, Run, Suite
from benchmarks.summary import Rows
from benchmarks.synthetic import Word, generator_of

__all__ = ["SUITES", "one_cluster", "table_speed"]

# -- one cluster -----------------------------------------------------------------------------------------

N_POINTS = 500
FEATURES = (2, 4, 8, 16)
CORRELATIONS = (0.0, 0.5, 0.9)
WIDTHS_OF_BOXES = (1, 2, 4, 8)
ONE_CLUSTER = f"""\
Tables of {N_POINTS} rows that are one cluster: a Gaussian whose columns all have the same correlation with
each other, and rows that fill a box evenly. The figure is the share of tables of which a method says that
there is one cluster. HDBSCAN cannot say so unless it is told to allow it, and is."""


def single(d: int, correlation: float | None, index: int) -> Case:
    """One Gaussian, or uniform noise if there is no correlation to speak of."""
    kind = 1000 if correlation is None else round(100 * correlation)
    rng = generator_of(Word.ONE_CLUSTER, d, kind, index)
    if correlation is None:
        points = rng.random((N_POINTS, d))
    else:
        covariance = (1 - correlation) * np.eye(d) + correlation
        points = rng.standard_normal((N_POINTS, d)) @ np.linalg.cholesky(covariance).T
    return Case(points, index, (np.zeros(N_POINTS, dtype=np.int64),))


def one_cluster(quick: bool) -> Suite:
    """How often one cluster is called one."""
    n_sets = 2 if quick else 25
    data = [
        *(
            Data(f"Gaussian, {d} features, correlation {c}", partial(single, d, c), n_sets, group="Gaussian")
            for d in FEATURES
            for c in CORRELATIONS
        ),
        *(Data(f"box, {d} features", partial(single, d, None), n_sets, group="box") for d in WIDTHS_OF_BOXES),
    ]
    methods = [ours("Clusterer"), ours("GaussianSearch"), PEERS["GMM + BIC"], PEERS["HDBSCAN"]]
    groups = {one.name: one.group for one in data}

    def share(rows: Rows, everything: Rows) -> str:
        found = rows.describe("right k")
        return NOTHING if found.count == 0 else f"{100 * found.mean:.0f} %"

    def of_group(name: str) -> Cell:
        return lambda rows, everything: share(rows.of_data(d for d, g in groups.items() if g == name), rows)

    def report(rows: Rows, page: Path) -> list[str]:
        names = [method.name for method in methods]
        columns: dict[str, Cell] = {"all Gaussians": of_group("Gaussian"), "all boxes": of_group("box")}
        parts = [ONE_CLUSTER, method_table(rows, names, columns)]
        for name in groups:
            parts += [
                f"## {name}",
                method_table(rows.of(data=name), names, {"sets": sets, "one cluster": share}),
            ]
        return parts

    return Suite("One cluster", data, methods, report, ("right k", "k"), time_limit=60.0)


# -- time ------------------------------------------------------------------------------------------------

SPEED = """\
One thread, all methods in one process on the same tables: ten Gaussian clusters, some of which touch.
MiniBatchKMeans is told the number of clusters. Run it on a machine that does nothing else."""


def clusters(n: int, d: int, index: int) -> Case:
    """Ten Gaussian clusters of n rows and d features."""
    rng = generator_of(Word.TABLE_SPEED, n, d, index)
    labels = rng.integers(0, 10, n)
    return Case(2 * rng.standard_normal((10, d))[labels] + rng.standard_normal((n, d)), index, (labels,))


def mini_batch() -> Run:
    """MiniBatchKMeans with the true number of clusters."""
    from sklearn.cluster import MiniBatchKMeans

    def run(case: Case) -> Outcome:
        k = n_clusters(case.references[0])
        return Outcome(MiniBatchKMeans(k, random_state=case.seed).fit_predict(case.points))

    return run


def table_speed(quick: bool) -> Suite:
    """Time of `cw.Clusterer` beside a sweep of Gaussian mixtures, and beside MiniBatchKMeans given k."""
    batch = Method("MiniBatchKMeans (true k)", mini_batch, kind="reference", sees_truth=True, group="speed")
    methods = [*(replace(one, group="speed") for one in (ours("Clusterer"), PEERS["GMM + BIC"])), batch]
    n_large = 20_000 if quick else 1_000_000
    small, large = "2,000 rows, 8 features", "1,000,000 rows, 16 features"
    data = [
        Data(small, partial(clusters, 2_000, 8), 2 if quick else 10, ("Clusterer", "GMM + BIC")),
        Data(large, partial(clusters, n_large, 16), 1 if quick else 3, ("Clusterer", batch.name)),
    ]

    def report(rows: Rows, page: Path) -> list[str]:
        parts = [SPEED]
        for name, reference in ((small, "GMM + BIC"), (large, batch.name)):
            columns: dict[str, Cell] = {
                "sets": sets,
                "median s": median("cpu_seconds"),
                f"times {reference}": ratio("cpu_seconds", reference),
                "ARI": mean("ARI"),
            }
            parts += [f"## {name}", method_table(rows.of(data=name), [m.name for m in methods], columns)]
        return parts

    return Suite("Time of cw.Clusterer", data, methods, report, ("ARI", "k"), time_limit=300.0)


SUITES = {"one-cluster": one_cluster, "table-speed": table_speed}
