"""One method on one folder of Parquet files in a process of its own: ``python -m benchmarks.large_run``.

Files are made once and kept in the system's folder for temporary files. What is printed is one line of JSON:
wall and CPU seconds, peak memory, and what the labels are worth; these are looked at after the clock has
stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from benchmarks.processes import peak_memory_mb

__all__ = ["METHODS", "folder_of", "main"]

NAMES = ("GaussianSearch", "Clusterer", "DPMixture")
N_CLUSTERS, ROWS_OF_FILE, ROWS_AT_ONCE = 20, 1_000_000, 65_536


def folder_of(n: int, d: int) -> Path:
    """Twenty well-separated clusters, sizes over two orders of magnitude; made if it is not there."""
    import pyarrow
    from pyarrow import parquet

    folder = Path(tempfile.gettempdir()) / "clusterwise-large" / f"{n}x{d}"
    truth = folder.with_suffix(".npy")
    if truth.exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng([18, n, d])
    shares = 100.0 ** (np.arange(N_CLUSTERS) / (N_CLUSTERS - 1))
    centres = rng.normal(0.0, 4.0, (N_CLUSTERS, d))
    labels = []
    # At least two files, so that two workers have something to do.
    sizes = [len(part) for part in np.array_split(np.arange(n), max(2, n // ROWS_OF_FILE))]
    for number, size in enumerate(sizes):
        of_file = rng.choice(N_CLUSTERS, size, p=shares / shares.sum())
        points = (centres[of_file] + rng.normal(size=(size, d))).astype(np.float32)
        table = pyarrow.table({f"x{j}": column for j, column in enumerate(points.T)})
        parquet.write_table(table, folder / f"part-{number:04d}.parquet", row_group_size=250_000)
        labels.append(of_file.astype(np.int8))
    np.save(truth, np.concatenate(labels))
    return folder


def _labels_file(tables: Iterator[np.ndarray], out: Path) -> None:
    """Write labels as they come."""
    import pyarrow

    from clusterwise.datasets.writing import write_batches

    write_batches(out, (pyarrow.table({"label": labels.astype(np.int32)}) for labels in tables), 0)


def mini_batch_k_means(folder: Path, out: Path) -> dict[str, Any]:
    """scikit-learn's, told the number of clusters: one pass to fit, one to label."""
    from pyarrow import dataset
    from sklearn.cluster import MiniBatchKMeans

    def batches() -> Iterator[np.ndarray]:
        rows = dataset.dataset(folder).to_batches(
            batch_size=ROWS_AT_ONCE, batch_readahead=1, fragment_readahead=1
        )
        for batch in rows:
            yield np.column_stack([column.to_numpy() for column in batch.columns])

    model = MiniBatchKMeans(N_CLUSTERS, random_state=0)
    for points in batches():
        model.partial_fit(points)
    _labels_file((model.predict(points) for points in batches()), out)
    return {}


def ours(name: str, folder: Path, out: Path) -> dict[str, Any]:
    """An estimator of ours on the files."""
    import clusterwise

    model = getattr(clusterwise, name)(random_state=0).fit(folder)
    _labels_file((batch.labels for batch in model.predict_batches(folder)), out)
    return _facts(model)


def on_dask(name: str, folder: Path, out: Path) -> dict[str, Any]:
    """An estimator of ours on two workers; the clock runs from when they are there."""
    import dask.dataframe
    from distributed import Client, LocalCluster

    import clusterwise

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,  # type: ignore[no-untyped-call]
        Client(cluster),  # type: ignore[no-untyped-call]
    ):
        started = time.perf_counter()
        # One partition for each file: the blocks of one machine.
        table = dask.dataframe.read_parquet(folder, blocksize=None, split_row_groups=False)
        model = getattr(clusterwise, name)(random_state=0).fit(table)
        _labels_file(iter([model.labels_.compute()]), out)
        return _facts(model) | {"seconds": time.perf_counter() - started}


def _facts(model: Any) -> dict[str, Any]:
    if hasattr(model, "convergence_"):
        return {"r_hat": model.convergence_.r_hat["log_joint"]}
    return {}


METHODS: dict[str, Callable[[Path, Path], dict[str, Any]]] = {
    "MiniBatchKMeans, k given": mini_batch_k_means,
    **{name: partial(ours, name) for name in NAMES},
    **{f"{name}, dask": partial(on_dask, name) for name in NAMES},
}


def main() -> None:
    """Run one method and print what was measured."""
    parser = argparse.ArgumentParser(description="Measure one method on one folder of files.")
    parser.add_argument("method", choices=list(METHODS))
    parser.add_argument("rows", type=int)
    parser.add_argument("columns", type=int)
    given = parser.parse_args()
    folder = folder_of(given.rows, given.columns)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "labels.parquet"
        started, cpu = time.perf_counter(), time.process_time()
        more = METHODS[given.method](folder, out)
        measured = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - cpu, **more}
        measured["peak"] = peak_memory_mb()
        from pyarrow import parquet

        labels = parquet.read_table(out).column("label").to_numpy()
    truth = np.load(folder.with_suffix(".npy"))
    measured |= {
        "k": len(np.unique(labels)),
        "ARI": float(adjusted_rand_score(truth, labels)),
        "digest": int(
            np.uint64(np.dot(labels.astype(np.uint64) + 1, np.arange(len(labels), dtype=np.uint64)))
        ),
    }
    print(json.dumps(measured))
    sys.stdout.flush()
    os._exit(0)  # clusters of dask may take long to say good-bye


if __name__ == "__main__":
    main()
