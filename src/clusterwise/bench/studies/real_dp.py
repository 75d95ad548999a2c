"""Dirichlet-process mixtures on UMAP features of images, beside the figures published for the DPM sampler."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score

from clusterwise._files import whole_or_nothing
from clusterwise.bench.progress import Progress
from clusterwise.bench.real_data import data_directory, load_case
from clusterwise.bench.registry import BenchmarkError, Case, Study, register
from clusterwise.bench.rows import RowFile, write_csv
from clusterwise.bench.table import markdown_table, significant
from clusterwise.bench.worker import one_line
from clusterwise.metrics import matched_accuracy, nmi

__all__ = ["DATA_SETS", "PUBLISHED", "VARIANTS", "Published", "run"]

TITLE = "Dirichlet-process mixtures on UMAP features"
SEEDS, QUICK_SEEDS = 2, 1
QUICK_ROWS = 5_000
INFERRED_ROWS = 10_000  # with inferred hyper-parameters K grows with the rows, and the time with K
INTRODUCTION = """\
Ten UMAP features of images, published by the authors of DeepDPM; ten classes each, which no method is told.
Mean ± standard deviation over seeds, as in their tables. DPMixture runs one chain of its default length
instead of two; *weak prior* is `DPMixture(prior="weak")`. With its default, inferred hyper-parameters it is
fitted to at most 10,000 random rows and labels the others by `predict`. BayesianGaussianMixture has 50
components, at most 100 iterations, and the components that some point prefers count as clusters. NMI
(arithmetic mean of the entropies, as in their tables, and geometric) and ARI compare with the classes, and
so does ACC, under the best one-to-one matching: classes without a cluster of their own, and clusters without
a class, are wrong.
Seconds are wall times with the threads that the machine gave.

*DPM sampler* is the published sub-cluster sampler on the same features, over 10 runs (slides of DeepDPM,
Tables 1 and 2). The copy of Table 1 at hand has no names beside its rows. They are read in the order of Table
2, by which the sampler is the fourth; an accuracy of 0.83 on USPS fits its 8.5 clusters, that of the fifth
row, 0.90, hardly could. UMAP drew the classes apart before any of these methods began."""


class Published(NamedTuple):
    """Mean and standard deviation of published figures."""

    k: tuple[float, float]
    nmi: tuple[float, float]
    ari: tuple[float, float]
    acc: tuple[float, float]


PUBLISHED = {
    "MNIST": Published((11.3, 0.82), (0.92, 0.01), (0.91, 0.04), (0.93, 0.05)),
    "USPS": Published((8.5, 0.85), (0.87, 0.01), (0.82, 0.02), (0.83, 0.03)),
    "Fashion-MNIST": Published((12.4, 0.97), (0.67, 0.01), (0.49, 0.02), (0.59, 0.03)),
}
DATA_SETS = {  # name -> file in the directory of real data
    "MNIST": "umap/mnist_umap10",
    "USPS": "umap/usps_umap10",
    "Fashion-MNIST": "umap/fashion_umap",
}

Found = tuple[np.ndarray, float]  # labels (n,) and the mean number of clusters over the draws


def _dp_mixture(points: np.ndarray, seed: int, n_rows: int | None = None, **options: Any) -> Found:
    from clusterwise.estimators import DPMixture

    chosen = np.arange(len(points))
    if n_rows is not None and n_rows < len(points):
        chosen = np.random.default_rng(seed).choice(len(points), n_rows, replace=False)
    model = DPMixture(n_chains=1, random_state=seed, **options).fit(points[chosen])
    return model.predict(points), sum(k * p for k, p in model.k_posterior_.items())


def _variational(points: np.ndarray, seed: int) -> Found:
    from sklearn.mixture import BayesianGaussianMixture

    labels = BayesianGaussianMixture(n_components=50, random_state=seed).fit_predict(points)
    return labels, float("nan")


VARIANTS: dict[str, Callable[[np.ndarray, int], Found]] = {
    "DPMixture, weak prior": partial(_dp_mixture, prior="weak"),
    "DPMixture": partial(_dp_mixture, n_rows=INFERRED_ROWS),
    "BayesianGaussianMixture": _variational,
}
FIGURES = ("k", "expected_k", "nmi_arithmetic", "nmi_geometric", "ari", "acc")
COLUMNS = ("data", "method", "n_rows", "seed", "version", "status", "seconds", *FIGURES)


def _measure(variant: Callable[[np.ndarray, int], Found], case: Case, seed: int) -> dict[str, object]:
    """Cells of one run; an error is a status."""
    assert case.truth is not None
    (classes,) = case.truth.references
    row: dict[str, object] = dict.fromkeys(COLUMNS, "")
    begin = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            labels, expected_k = variant(case.points, seed)
        seconds = time.perf_counter() - begin
        figures = {
            "k": float(len(np.unique(labels))),
            "expected_k": expected_k,
            "nmi_arithmetic": nmi(classes, labels, "arithmetic"),
            "nmi_geometric": nmi(classes, labels),
            "ari": adjusted_rand_score(classes, labels),
            "acc": matched_accuracy(classes, labels),
        }
    except Exception as error:  # whatever a method raises is its result
        return row | {"status": one_line(error), "seconds": f"{time.perf_counter() - begin:.4g}"}
    cells = {name: f"{value:.6g}" for name, value in figures.items()}
    return row | {"status": "ok", "seconds": f"{seconds:.4g}", **cells}


def _version(method: str) -> str:
    import sklearn

    from clusterwise import __version__

    return f"clusterwise {__version__}" if "DPMixture" in method else f"scikit-learn {sklearn.__version__}"


def run(
    out: Path,
    quick: bool,
    write: Callable[[str], object],
    variants: Mapping[str, Callable[[np.ndarray, int], Found]] = VARIANTS,
) -> Path:
    """Measure, then write ``umap.csv`` and ``umap.md`` from ``umap.raw.csv``."""
    directory = data_directory()
    present = [name for name, file in DATA_SETS.items() if (directory / f"{file}.npz").is_file()]
    for name, file in DATA_SETS.items():
        if name not in present:
            write(f"umap: no {name}, there is no {file}.npz in {directory}")
    if not present:
        raise BenchmarkError(f"None of the data sets is in {directory}; fetch them first.")
    versions = {method: _version(method) for method in variants}

    def is_current(row: dict[str, str]) -> bool:
        return row["status"] == "ok" and versions.get(row["method"], row["version"]) == row["version"]

    rows = RowFile(out / "umap.raw.csv", COLUMNS, 4, is_current)
    n_seeds = QUICK_SEEDS if quick else SEEDS
    progress = Progress("umap", n_seeds * len(present) * len(variants), write)
    done = 0
    asked: list[tuple[str, str, int]] = []
    for seed in range(n_seeds):
        for name in present:
            case = load_case(DATA_SETS[name], QUICK_ROWS if quick else None)  # the same rows for all seeds
            for method, variant in variants.items():
                key = (name, method, len(case.points), seed)
                asked.append(key[:3])
                known = key in rows
                if not known:
                    row = _measure(variant, case, seed)
                    row |= dict(zip(COLUMNS, key, strict=False)) | {"version": versions[method]}
                    rows.add(row)
                    if row["status"] != "ok":
                        write(f"umap: {method}, {name}, seed {seed}: {row['status']}")
                done += 1
                progress.step(done, not known)
    page = _publish(out, rows.finish(), list(dict.fromkeys(asked)))
    write(f"umap: raw rows in {rows.path}, page in {page}")
    return page


# -- the page ----------------------------------------------------------------------------------------


def _spread(values: Sequence[float], digits: int) -> str:
    """Mean ± standard deviation."""
    if not values or np.isnan(values).any():
        return "–"
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


def _printed(figure: tuple[float, float], digits: int = 2) -> str:
    return f"{figure[0]:.{digits}f} ± {figure[1]:.2f}"


def _publish(out: Path, rows: Sequence[dict[str, str]], asked: Sequence[tuple[str, str, int]]) -> Path:
    """Write the table and the page, of this run's sizes only: a quick run may lie in the same file."""
    by_key: dict[tuple[str, str, int], list[dict[str, str]]] = {key: [] for key in asked}
    for row in rows:
        key = (row["data"], row["method"], int(row["n_rows"]))
        if row["status"] == "ok" and key in by_key:
            by_key[key].append(row)
    if not any(by_key.values()):
        raise BenchmarkError("Every method failed on every data set; see the statuses above.")
    names = ("seconds", *FIGURES)
    columns = [f"{name}_{what}" for name in names for what in ("mean", "sd")]
    write_csv(
        out / "umap.csv",
        ("data", "method", "n_rows", "runs", *columns),
        ((*key, len(of_key), *_summary(of_key, names)) for key, of_key in by_key.items() if of_key),
    )
    parts = [f"# {TITLE}", INTRODUCTION]
    header = ["method", "runs", "K", "mean K of the draws", "NMI", "NMI, geometric", "ARI", "ACC", "seconds"]
    for name, n_rows in dict.fromkeys((key[0], key[2]) for key in by_key):
        chosen = {key[1]: of_key for key, of_key in by_key.items() if (key[0], key[2]) == (name, n_rows)}
        table = [_line(method, of_key) for method, of_key in chosen.items()]
        if name in PUBLISHED:
            k, mutual, rand, accuracy = PUBLISHED[name]
            table.append(
                ["DPM sampler, published", "10", _printed(k, 1), "–", _printed(mutual), "–",
                 _printed(rand), _printed(accuracy), "–"]
            )  # fmt: skip
        parts += [f"## {name}, {n_rows:,} rows", markdown_table(header, table)]
    page = out / "umap.md"
    with whole_or_nothing(page) as temporary:
        temporary.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def _summary(rows: Sequence[dict[str, str]], names: Sequence[str]) -> list[str]:
    cells = []
    for name in names:
        values = [float(row[name]) for row in rows]
        deviation = np.std(values, ddof=1) if len(values) > 1 else float("nan")
        cells += [f"{np.mean(values):.6g}", f"{deviation:.3g}"]
    return cells


def _line(method: str, rows: Sequence[dict[str, str]]) -> list[str]:
    values = {name: [float(row[name]) for row in rows] for name in ("seconds", *FIGURES)}
    digits = {"k": 1, "expected_k": 1, "nmi_arithmetic": 3, "nmi_geometric": 3, "ari": 3, "acc": 3}
    cells = [_spread(values[name], digits[name]) for name in FIGURES]
    return [method, str(len(rows)), *cells, significant(float(np.mean(values["seconds"]))) if rows else "–"]


register(Study("umap", TITLE, run))
