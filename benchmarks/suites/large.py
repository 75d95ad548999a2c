"""More rows than memory: time, memory and labels of files read in batches, and of two dask workers."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.page import Cell, markdown_table, median, method_table, ratio, significant
from benchmarks.processes import peak_memory_mb
from benchmarks.suite import Case, Data, Method, Outcome, Run, Suite
from benchmarks.suites.growth import n_threads
from benchmarks.summary import Rows, exponent

__all__ = ["SUITES", "folder_of"]

REFERENCE = "MiniBatchKMeans, k given"
OURS = ("GaussianSearch", "Clusterer")
N_CLUSTERS, ROWS_OF_FILE, ROWS_AT_ONCE = 20, 1_000_000, 65_536
COLUMNS = ("cpu", "peak", "k", "ARI", "digest", "r_hat")
LARGE = """\
Folders of Parquet files, float32, with {k} well-separated Gaussian clusters whose sizes span two orders of
magnitude. Each method runs in a process of its own, reads the same files in batches, finds the clusters and
writes a file of labels; all of that is timed. *MiniBatchKMeans* of scikit-learn is told the number of
clusters and makes one pass to fit and one to label; ours find the number. {threads} cores. Memory is the
peak of the process, interpreter and libraries included; for dask it is that of the client, without its
workers."""


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


# -- methods: from a folder to batches of labels, and what else is known -------------------------------

Found = tuple[Iterator[np.ndarray], Any]


def mini_batch_k_means(folder: Path) -> Found:
    """scikit-learn's, told the number of clusters: one pass to fit, one to label."""
    from pyarrow import dataset
    from sklearn.cluster import MiniBatchKMeans

    def batches() -> Iterator[np.ndarray]:
        options = {"batch_size": ROWS_AT_ONCE, "batch_readahead": 1, "fragment_readahead": 1}
        for batch in dataset.dataset(folder).to_batches(**options):
            yield np.column_stack([column.to_numpy() for column in batch.columns])

    model = MiniBatchKMeans(N_CLUSTERS, random_state=0)
    for points in batches():
        model.partial_fit(points)
    return (model.predict(points) for points in batches()), model


def from_files(name: str, folder: Path) -> Found:
    """An estimator of ours on the files."""
    import clusterwise

    model = getattr(clusterwise, name)(random_state=0).fit(folder)
    return (batch.labels for batch in model.predict_batches(folder)), model


def on_dask(name: str, folder: Path) -> Found:
    """An estimator of ours on two workers."""
    import dask.dataframe

    import clusterwise

    # One partition for each file: the blocks of one machine.
    table = dask.dataframe.read_parquet(folder, blocksize=None, split_row_groups=False)
    model = getattr(clusterwise, name)(random_state=0).fit(table)
    return iter([model.labels_.compute()]), model


def measured(fit: Callable[[Path], Found], n: int, d: int, workers: int = 0) -> Run:
    """Time from files to a file of labels; with dask from when the workers are there."""

    def timed(folder: Path, out: Path) -> dict[str, Any]:
        import pyarrow

        from clusterwise.datasets.writing import write_batches

        started, cpu = time.perf_counter(), time.process_time()
        labels, model = fit(folder)
        write_batches(out, (pyarrow.table({"label": of.astype(np.int32)}) for of in labels), 0)
        found: dict[str, Any] = {
            "seconds": time.perf_counter() - started,
            "cpu": time.process_time() - cpu,
            "peak": peak_memory_mb(),
        }
        if hasattr(model, "convergence_"):
            found["r_hat"] = float(model.convergence_.r_hat["log_joint"])
        return found

    def run(case: Case) -> Outcome:
        from pyarrow import parquet
        from sklearn.metrics import adjusted_rand_score

        folder = folder_of(n, d)
        with tempfile.TemporaryDirectory() as directory, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = Path(directory) / "labels.parquet"
            if workers:
                from distributed import Client, LocalCluster

                options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
                with LocalCluster(**options) as cluster, Client(cluster):  # type: ignore[no-untyped-call]
                    found = timed(folder, out)
            else:
                found = timed(folder, out)
            labels = parquet.read_table(out).column("label").to_numpy()
        places = np.arange(len(labels), dtype=np.uint64)
        found |= {
            "k": len(np.unique(labels)),
            "ARI": float(adjusted_rand_score(np.load(folder.with_suffix(".npy")), labels)),
            "digest": int(np.dot(labels.astype(np.uint64) + 1, places)),
        }
        nothing = np.zeros(len(case.points), dtype=np.int64)
        return Outcome(nothing, more=lambda: found, seconds=found.pop("seconds"))

    return run


# -- the suite -----------------------------------------------------------------------------------------


def _case(index: int) -> Case:
    return Case(np.zeros((1, 1)), index)


def large(quick: bool) -> Suite:
    """Growth from 10^5 to 10^7 rows, two dask workers, and DPMixture on them."""
    sizes = (20_000, 60_000) if quick else (100_000, 1_000_000, 10_000_000)
    for_dask, for_chains = (sizes[-1], 5_000) if quick else (1_000_000, 1_000_000)
    plan: dict[str, tuple[int, int, tuple[str, ...], tuple[str, ...]]]
    plan = {f"{n:,} x 16": (n, 16, OURS, OURS if n == for_dask else ()) for n in sizes}
    plan[f"{for_chains:,} x 10"] = (for_chains, 10, ("DPMixture",), ("DPMixture",))
    data, methods = [], []
    method = partial(Method, kind="ours", threads=None, warm_up=False)
    for name, (n, d, alone, dask) in plan.items():
        of = [method(f"{one}, {name}", partial(measured, partial(from_files, one), n, d)) for one in alone]
        of += [
            method(f"{one}, dask, {name}", partial(measured, partial(on_dask, one), n, d, 2)) for one in dask
        ]
        if d == 16:
            peer = partial(measured, mini_batch_k_means, n, d)
            of.insert(0, method(f"{REFERENCE}, {name}", peer, kind="peer"))
        methods += of
        data.append(Data(name, _case, 1, tuple(one.name for one in of)))

    def report(rows: Rows, page: Path) -> list[str]:
        parts = [LARGE.format(k=N_CLUSTERS, threads=n_threads())]
        for name, (_, d, _, dask) in plan.items():
            columns: dict[str, Cell] = {
                "seconds": median("seconds"),
                "times MiniBatchKMeans": ratio("seconds", f"{REFERENCE}, {name}"),
                "CPU seconds": median("cpu"),
                "peak memory, MB": median("peak"),
                "k": median("k", 0),
                "ARI": median("ARI", 4),
            }
            if d == 10:
                columns["R-hat of the log posterior"] = median("r_hat", 3)
            of = rows.of(data=name)
            parts += [f"## {name}", method_table(of, None, columns)]
            for one in dask:  # whether two workers give the labels of one machine
                pair = [
                    of.of(method=f"{which}, {name}").good.names("digest") for which in (one, f"{one}, dask")
                ]
                same = "the same" if pair[0] == pair[1] else "other"
                parts += [f"{one} gives {same} labels on dask."] if all(pair) else []
        lines = [_growth(rows, method, sizes) for method in (REFERENCE, *OURS)]
        header = ["method", "exponent of seconds", "exponent of CPU seconds", "most memory over least"]
        return [*parts, "## Growth", markdown_table(header, lines)]

    return Suite("More rows than memory", data, methods, report, (), COLUMNS, time_limit=7200.0, patience=1)


def _growth(rows: Rows, method: str, sizes: tuple[int, ...]) -> list[str]:
    good = [list(rows.of(method=f"{method}, {n:,} x 16").good) for n in sizes]
    if not all(good):
        return [method, "", "", ""]
    seconds, cpu, peak = ([float(found[0][name]) for found in good] for name in ("seconds", "cpu", "peak"))
    slopes = [significant(exponent(sizes, values), 3) for values in (seconds, cpu)]
    return [method, *slopes, significant(max(peak) / min(peak), 3)]


SUITES = {"large": large}
