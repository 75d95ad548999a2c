"""More rows than memory: time, memory and labels of files read in batches, and of two dask workers.

Every run is a process of its own. Files are made once and kept in the system's folder for temporary files.
"""

import contextlib
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics import adjusted_rand_score

import clusterwise
from benchmarks.page import NOTHING, by_data, markdown_table, median, ratio, significant
from benchmarks.processes import peak_memory_mb, timed
from benchmarks.suite import Case, Data, Method, Outcome, Run, Suite
from benchmarks.summary import Cell, Rows

REFERENCE, OURS = "MiniBatchKMeans, k given", ("GaussianSearch", "Clusterer")
N_CLUSTERS, ROWS_OF_FILE, ROWS_AT_ONCE = 20, 1_000_000, 65_536
SMALL = 2_000  # rows of the folder before
# What the process says of itself, besides the seconds.
COLUMNS = ("cpu", "sample", "passes", "rounds", "peak", "worker_peak", "k", "ARI", "digest", "r_hat")


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
    for number, size in enumerate(map(len, np.array_split(np.arange(n), n_files))):
        of_file = rng.choice(N_CLUSTERS, size, p=shares / shares.sum())
        points = (centres[of_file] + rng.normal(size=(size, d))).astype(np.float32)
        table = pyarrow.table({f"x{j}": column for j, column in enumerate(points.T)})
        parquet.write_table(table, folder / f"part-{number:04d}.parquet", row_group_size=250_000)
        labels.append(of_file.astype(np.int8))
    np.save(truth, np.concatenate(labels))
    return folder


def with_files(n: int, d: int, index: int) -> Case:
    """A case that says nothing: its files are there, and read by the method's process alone."""
    folder_of(n, d)
    return Case(np.zeros((1, 1)), index)


def watch(spent: defaultdict[str, float]) -> None:
    """Write down the time of all fits of samples, their number, and the time of all passes, from now on."""
    source_fit: Any = import_module("clusterwise.fitting.source_fit")
    fit_sample = timed(spent, "sample", source_fit._fit_sample)

    def counted(*arguments: Any) -> Any:
        spent["rounds"] += 1
        return fit_sample(*arguments)

    source_fit._fit_sample = counted
    for name in ("survey", "_review"):
        setattr(source_fit, name, timed(spent, "passes", getattr(source_fit, name)))


def _batches(folder: Path) -> Iterator[np.ndarray]:
    from pyarrow import dataset

    options = {"batch_size": ROWS_AT_ONCE, "batch_readahead": 1, "fragment_readahead": 1}
    for batch in dataset.dataset(folder).to_batches(**options):
        yield np.column_stack([column.to_numpy() for column in batch.columns])


def fitted(method: str, folder: Path, seed: int) -> tuple[Any, Iterator[np.ndarray]]:
    """A method fitted to the files of a folder, and their labels as they come."""
    name = method.removesuffix(", dask")
    if method == REFERENCE:  # one pass to fit, one to label
        model: Any = MiniBatchKMeans(N_CLUSTERS, random_state=seed)
        for points in _batches(folder):
            model.partial_fit(points)
        return model, (model.predict(points) for points in _batches(folder))
    # Short chains load all that long ones need.
    short = name == "DPMixture" and folder.name.startswith(f"{SMALL}x")
    model = getattr(clusterwise, name)(random_state=seed, **{"n_warm_up": 3, "n_draws": 3} if short else {})
    if name == method:
        return model.fit(folder), (batch.labels for batch in model.predict_batches(folder))
    import dask.dataframe

    # One partition for each file: the blocks of one machine.
    model.fit(dask.dataframe.read_parquet(folder, blocksize=None, split_row_groups=False))
    return model, (labels.compute() for labels in [model.labels_])


def read_in_batches(method: str, n: int, d: int) -> Run:
    """One method on one folder; before the clock starts it labels a small one, so that all is loaded."""
    import pyarrow
    from pyarrow import parquet

    from clusterwise._files import write_tables

    def run(case: Case) -> Outcome:
        with contextlib.ExitStack() as stack:
            out = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "labels.parquet"
            client = None
            if method.endswith(", dask"):
                from distributed import Client, LocalCluster

                cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)  # type: ignore[no-untyped-call]
                client = stack.enter_context(Client(stack.enter_context(cluster)))  # type: ignore[no-untyped-call]

            def over_all(total: Callable[[list[float]], float], figure: Callable[[], float]) -> float:
                """Of all workers."""
                return total([0.0] if client is None else list(client.run(figure).values()))

            spent = defaultdict[str, float](float)
            if method != REFERENCE:
                watch(spent)
            for folder in (folder_of(SMALL, d), folder_of(n, d)):
                spent.clear()
                cpu, started = time.process_time() + over_all(sum, time.process_time), time.perf_counter()
                model, labels_of_parts = fitted(method, folder, case.seed)
                tables = (pyarrow.table({"label": labels.astype(np.int32)}) for labels in labels_of_parts)
                timed(spent, "passes", write_tables)(out, tables, 0)
            found: dict[str, Any] = {"sample": 0.0, "passes": 0.0, "rounds": 0.0, **spent}
            seconds = time.perf_counter() - started
            found["cpu"] = time.process_time() + over_all(sum, time.process_time) - cpu
            found |= {"peak": peak_memory_mb(), "worker_peak": over_all(max, peak_memory_mb)}
            labels = parquet.read_table(out).column("label").to_numpy()
        if method == REFERENCE:
            found["passes"] = seconds  # it does nothing else
        if hasattr(model, "convergence_"):
            found["r_hat"] = model.convergence_.r_hat["log_joint"]
        digest = np.dot(labels.astype(np.uint64) + 1, np.arange(len(labels), dtype=np.uint64))
        ari = adjusted_rand_score(np.load(folder.with_suffix(".npy")), labels)
        found |= {"k": len(np.unique(labels)), "ARI": float(ari), "digest": int(digest)}
        return Outcome(np.zeros(len(case.points), dtype=np.int64), more=lambda case: found, seconds=seconds)

    return run


def _times_one_machine(rows: Rows, everything: Rows) -> str:
    """Seconds over those of the same method without workers, and whether the labels are the same."""
    (name,) = rows.names("method")
    here = everything.of(method=name.replace(", dask", "")).good
    if ", dask" not in name or not len(here) or not len(rows.good):
        return NOTHING
    ours, theirs = here.values("digest"), rows.values("digest")
    same = all(theirs[case] == digest for case, digest in ours.items() if case in theirs)
    times = rows.describe("seconds").median / here.describe("seconds").median
    return f"{significant(times)}, {'the same' if same else 'other'} labels"


TABLE: dict[str, Cell] = {
    "seconds": median("seconds"),
    "times MiniBatchKMeans": lambda rows, everything: ratio(
        "seconds", f"{REFERENCE}, {rows.names('data')[0]}"
    )(rows, everything),
    "times one machine": _times_one_machine,
    "of these, on the sample": median("sample"),
    "fits of the sample": median("rounds", 0),
    "CPU seconds": median("cpu"),
    "peak memory, MB": median("peak", 0),
    "of a worker, MB": median("worker_peak", 0),
    "k": median("k", 0),
    "ARI": median("ARI", 4),
    "R-hat of the log posterior": median("r_hat", 3),
}


def _growth(rows: Rows, method: str, sizes: dict[str, int]) -> list[str]:
    good = [rows.of(method=f"{method}, {data}").good for data in sizes]
    seconds, passes, peak = (
        [one.describe(name).median for one in good if len(one)] for name in ("seconds", "passes", "peak")
    )
    if len(seconds) < len(sizes):
        return [method, NOTHING, NOTHING, NOTHING]
    # Slopes of log time over log size by least squares.
    slopes = np.polyfit(np.log(list(sizes.values())), np.log(np.transpose([seconds, passes])), 1)[0]
    return [method, *map(significant, slopes), significant(max(peak) / min(peak))]


def large(quick: bool) -> Suite:
    rows_of_16 = (20_000, 60_000) if quick else (100_000, 1_000_000, 10_000_000)
    sizes = {f"{n:,} x 16": n for n in rows_of_16}
    plan = {name: (n, 16, [REFERENCE, *OURS]) for name, n in sizes.items()}
    plan[f"{rows_of_16[1]:,} x 16"][2].extend(f"{name}, dask" for name in OURS)
    for_chains = 5_000 if quick else 1_000_000
    plan[f"{for_chains:,} x 10"] = (for_chains, 10, ["DPMixture", "DPMixture, dask"])
    data, methods = [], []
    for kind, (n, d, names) in plan.items():
        runs = 3 if d == 16 and n <= 1_000_000 and not quick else 1
        data.append(Data(kind, partial(with_files, n, d), runs, tuple(f"{name}, {kind}" for name in names)))
        for name in names:
            own = partial(Method, f"{name}, {kind}", partial(read_in_batches, name, n, d))
            methods.append(own("peer" if name == REFERENCE else "ours", threads=None, fresh=True))

    def report(rows: Rows, page: Path) -> list[str]:
        header = ["method", "exponent of seconds", "of seconds for all rows", "most memory over least"]
        lines = [_growth(rows, method, sizes) for method in (REFERENCE, *OURS)]
        return [*by_data(rows, TABLE), "## Growth", markdown_table(header, lines)]

    return Suite(data, methods, report=report, metrics=(), columns=COLUMNS, time_limit=7200.0, patience=1)


SUITES = {"large": large}
