"""One method on one folder of Parquet files in a process of its own: ``python -m benchmarks.large_run``.

Files are made once and kept in the system's folder for temporary files. Before the clock starts the method
labels a small folder, with dask on the same workers, so that imports and the loading of compiled code are not
part of what is measured. What is printed is one line of JSON: wall and CPU seconds, those spent on the
sample, peak memory, and what the labels are worth; these are looked at after the clock has stopped.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from benchmarks.processes import peak_memory_mb

__all__ = ["METHODS", "REFERENCE", "folder_of", "main"]

REFERENCE = "MiniBatchKMeans, k given"
NAMES = ("GaussianSearch", "Clusterer", "DPMixture")
N_CLUSTERS, ROWS_OF_FILE, ROWS_AT_ONCE = 20, 1_000_000, 65_536
SMALL = 2_000  # rows of the folder before


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
    # At least two files, so that two workers have something to do; of the small folder each gets some.
    n_files = 8 if n == SMALL else max(2, n // ROWS_OF_FILE)
    sizes = [len(part) for part in np.array_split(np.arange(n), n_files)]
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


@dataclass
class Clock:
    """What one run has taken, from ``start`` to ``stop``; of the workers, too, if there are any."""

    workers: Any = None  # a client of dask
    sample: float = 0.0  # wall seconds spent on fits of the sample
    passes: float = 0.0  # and on passes over all rows
    rounds: int = 0  # how many fits of the sample there were

    def start(self) -> None:
        """Forget what was before."""
        self.sample, self.passes, self.rounds = 0.0, 0.0, 0
        self._cpu, self._seconds = self._cpu_now(), time.perf_counter()

    def stop(self) -> dict[str, float]:
        """What has passed."""
        seconds = time.perf_counter() - self._seconds
        peaks = [] if self.workers is None else list(self.workers.run(peak_memory_mb).values())
        return {
            "seconds": seconds,
            "passes": self.passes,
            "cpu": self._cpu_now() - self._cpu,
            "sample": self.sample,
            "rounds": self.rounds,
            "peak": peak_memory_mb(),
            "worker_peak": max(peaks, default=0.0),
        }

    def _cpu_now(self) -> float:
        others = [] if self.workers is None else self.workers.run(time.process_time).values()
        return time.process_time() + sum(others)

    def timed(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, with its time written down as that of the sample, or of a pass."""

        def measured(*arguments: Any) -> Any:
            started = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                setattr(self, kind, getattr(self, kind) + time.perf_counter() - started)
                self.rounds += kind == "sample"

        return measured

    def watch(self) -> None:
        """Write down the time of all fits of samples, and of all passes, from now on."""
        pipelined: Any = import_module("clusterwise.estimators.pipelined")
        batches: Any = import_module("clusterwise.pipeline.batches")
        fit_batches = pipelined.fit_batches

        def watched(source: Any, read: Any, fit: Any, *more: Any) -> Any:
            return fit_batches(source, read, self.timed("sample", fit), *more)

        pipelined.fit_batches = watched
        for name in ("survey", "_review"):
            setattr(batches, name, self.timed("passes", getattr(batches, name)))


def mini_batch_k_means(small: Path, folder: Path, out: Path, seed: int) -> dict[str, Any]:
    """scikit-learn's, told the number of clusters: one pass to fit, one to label."""
    from pyarrow import dataset
    from sklearn.cluster import MiniBatchKMeans

    def batches(folder: Path) -> Iterator[np.ndarray]:
        rows = dataset.dataset(folder).to_batches(
            batch_size=ROWS_AT_ONCE, batch_readahead=1, fragment_readahead=1
        )
        for batch in rows:
            yield np.column_stack([column.to_numpy() for column in batch.columns])

    clock = Clock()
    for one in (small, folder):
        clock.start()
        model = MiniBatchKMeans(N_CLUSTERS, random_state=seed)
        for points in batches(one):
            model.partial_fit(points)
        _labels_file((model.predict(points) for points in batches(one)), out)
    measured = clock.stop()
    return measured | {"passes": measured["seconds"]}  # it does nothing else


def _model(name: str, seed: int, short: bool) -> Any:
    """An estimator of ours with its defaults; chains that are ``short`` load all that long ones need."""
    import clusterwise

    steps = {"n_warm_up": 3, "n_draws": 3} if short and name == "DPMixture" else {}
    return getattr(clusterwise, name)(random_state=seed, **steps)


def ours(name: str, small: Path, folder: Path, out: Path, seed: int) -> dict[str, Any]:
    """An estimator of ours on the files."""
    clock = Clock()
    clock.watch()
    for one in (small, folder):
        clock.start()
        model = _model(name, seed, one is small).fit(one)
        clock.timed("passes", _labels_file)((batch.labels for batch in model.predict_batches(one)), out)
    return clock.stop() | _facts(model)


def on_dask(name: str, small: Path, folder: Path, out: Path, seed: int) -> dict[str, Any]:
    """An estimator of ours on two workers."""
    import dask.dataframe
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,  # type: ignore[no-untyped-call]
        Client(cluster) as client,  # type: ignore[no-untyped-call]
    ):
        clock = Clock(client)
        clock.watch()
        for one in (small, folder):
            clock.start()
            # One partition for each file: the blocks of one machine.
            table = dask.dataframe.read_parquet(one, blocksize=None, split_row_groups=False)
            model = _model(name, seed, one is small).fit(table)
            clock.timed("passes", _labels_file)((labels.compute() for labels in [model.labels_]), out)
        return clock.stop() | _facts(model)


def _facts(model: Any) -> dict[str, Any]:
    if hasattr(model, "convergence_"):
        return {"r_hat": model.convergence_.r_hat["log_joint"]}
    return {}


METHODS: dict[str, Callable[[Path, Path, Path, int], dict[str, Any]]] = {
    REFERENCE: mini_batch_k_means,
    **{name: partial(ours, name) for name in NAMES},
    **{f"{name}, dask": partial(on_dask, name) for name in NAMES},
}


def main(method: str, n: int, d: int, seed: int = 0) -> None:
    """Run one method and print what was measured."""
    from pyarrow import parquet

    folder, small = folder_of(n, d), folder_of(SMALL, d)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "labels.parquet"
        measured = METHODS[method](small, folder, out, seed)
        labels = parquet.read_table(out).column("label").to_numpy()
    digest = np.dot(labels.astype(np.uint64) + 1, np.arange(len(labels), dtype=np.uint64))
    ari = adjusted_rand_score(np.load(folder.with_suffix(".npy")), labels)
    measured |= {"k": len(np.unique(labels)), "ARI": float(ari), "digest": int(digest)}
    print(json.dumps(measured), flush=True)
    os._exit(0)  # clusters of dask may take long to say good-bye


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
