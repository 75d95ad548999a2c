"""``clusterwise cluster``: from a file to labels, a few lines of text, and a report.

A file that need not fit in memory is fitted from parts of it, and labelled batch by batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from clusterwise._files import require_table_format, require_writable, write_tables
from clusterwise._threads import redirected
from clusterwise.cli.choices import (
    Columns,
    Features,
    choose_features,
    choose_method,
    id_and_notes,
    make_estimator,
    preparation_for,
    prepares,
    require_method,
    weights_facts,
)
from clusterwise.cli.messages import MAX_LINES, one_line_warnings, progress_bar, say, say_notes
from clusterwise.exceptions import ClusterwiseError, ClusterwiseWarning
from clusterwise.fitting.protocol import Progress
from clusterwise.fitting.source_fit import survey
from clusterwise.rows import Batch, RowSource
from clusterwise.rows.arrow import open_parquet
from clusterwise.rows.source import InFeatures, PreparedSource
from clusterwise.tables.cells import distinct_names
from clusterwise.tables.readers import STDIN, format_of, read_table

__all__ = ["Task", "cluster_file", "default_output", "summary_lines"]

# Tables with fewer numbers are read at once.
MIN_NUMBERS_IN_PARTS = 20_000_000
# Rows that tell what the columns are.
ROWS_OF_PREPARATION = 10_000
RESULTS = ("label", "confidence", "outlier_score")
DIGITS = 6  # of probabilities and scores


@dataclass(frozen=True)
class Task:
    """A file and the wishes about it; ``options`` of the method by their names here, None: not set."""

    file: Path
    out: Path
    report: Path | None
    columns: Columns
    append: bool
    method: str | None
    options: Mapping[str, str | None]
    seed: int
    trusted: bool = False  # the source of the file


@dataclass(frozen=True)
class Fitted:
    """A fitted estimator; ``features`` are what it was fitted to, unless it prepared the table by itself."""

    estimator: Any
    features: Features | None
    id_name: str | None  # the column that names the rows
    notes: tuple[str, ...]
    seconds: float


def cluster_file(task: Task) -> None:
    """Read, prepare, cluster, print, write."""
    _require_possible(task)
    source = _open_in_parts(task.file, task.trusted)
    if source is not None and task.report is not None:
        raise ClusterwiseError(f"{task.file} has too many rows for a report; leave out --report.")
    with one_line_warnings(task.columns.raw) as warned:
        if source is not None:
            _label_in_parts(task, source)
            return
        table = read_table(task.file, task.trusted)
        fitted = _fit(task, lambda: table, table)
        estimator = fitted.estimator
        found = (estimator.labels_, estimator.probabilities_, estimator.outlier_scores_)
        if task.append and scipy.sparse.issparse(table):
            raise ClusterwiseError("--append needs a table; leave it out for a sparse matrix.")
        results = [_with_results(table, task, fitted.id_name, 0, *found)]
        write_tables(task.out, results, len(found[0]), formulas=task.trusted)
        rows = np.bincount(found[0], minlength=estimator.n_clusters_)
        confidence = np.bincount(found[0], found[1], minlength=estimator.n_clusters_)
        _print_summary(task, fitted, rows, confidence)
        if task.report is not None:
            _report(task, table, fitted, warned)


def default_output(file: Path) -> Path:
    """Where labels go by default: the working folder, under the name of the data."""
    if file == STDIN:
        return Path("labels.csv")
    file = file if file.name else file.resolve()  # the working folder itself
    return Path(f"{file.name.partition('.')[0] or file.stem}.labels.csv")


def _require_possible(task: Task) -> None:
    """Raise an error for what would go wrong only after the work, or would destroy the input."""
    if task.method is not None:
        require_method(task.method)
    if task.file != STDIN and not task.file.is_dir():
        format_of(task.file)
    require_table_format(task.out)
    if task.out.suffix.lower() == ".npy" and task.append:
        raise ClusterwiseError(
            f"{task.out} holds labels alone; choose another ending for --append, such as .csv."
        )
    if task.report is not None and task.report.suffix.lower() not in (".html", ".htm"):
        raise ClusterwiseError(f"the report {task.report} must end in .html; it is an HTML page.")
    for option, path in (("--out", task.out), ("--report", task.report)):
        if path is None:
            continue
        if path.exists() and task.file.exists() and path.samefile(task.file):
            raise ClusterwiseError(f"{option} would overwrite the data in {task.file}; choose another name.")
        require_writable(path)


def _fit(task: Task, sample: Callable[[], Any], rows: Any) -> Fitted:
    """The estimator that was asked for, fitted to a table or a source, whose columns are seen in a sample."""
    started = time.perf_counter()
    asked, weights = task.columns, weights_facts(task.options.get("weights"))
    options = {**task.options, "filtering": task.options.get("filtering") or weights.filtering}
    estimator = make_estimator(choose_method(task.method or weights.method, options), task.seed, options)
    features = None
    if prepares(estimator) and not asked.raw:  # and then knows how its columns are weighed
        names = rows.names if isinstance(rows, RowSource) else getattr(rows, "column_names", None)
        estimator.set_params(preparation=preparation_for(names, asked)).fit(rows)
        id_name, notes = id_and_notes(estimator.preparation_, asked)
    else:
        features = choose_features(sample(), asked, weights)
        id_name, notes = features.id_name, features.notes
        if prepares(estimator):
            estimator.set_params(preparation=None)  # which would fill in gaps
        in_parts = isinstance(rows, RowSource)
        width = features.values.shape[1]
        estimator.fit(PreparedSource(rows, features.transform, width) if in_parts else features.values)
    say_notes(notes)
    return Fitted(estimator, features, id_name, notes, time.perf_counter() - started)


# -- results ----------------------------------------------------------------------------------------


def _with_results(
    table: Any,
    task: Task,
    id_name: str | None,
    start: int,
    labels: np.ndarray,
    probabilities: np.ndarray,
    outlier_scores: np.ndarray,
) -> Any:
    """A pyarrow table: the id or the number of each row and its results, or the input with these added.

    The first row has the number ``start``.
    """
    import pyarrow

    if task.append:
        columns = {name: table.column(name) for name in table.column_names}
    elif id_name is not None:
        columns = {id_name: table.column(id_name)}
    else:
        columns = {"row": np.arange(start, start + len(labels))}
    names = distinct_names(
        [*columns, *(name if name not in columns else f"cluster_{name}" for name in RESULTS)]
    )
    results = [np.round(column, DIGITS) for column in (labels, probabilities, outlier_scores)]
    return pyarrow.table([*columns.values(), *results], names=names)


def _print_summary(task: Task, fitted: Fitted, rows: np.ndarray, confidence: np.ndarray) -> None:
    for line in summary_lines(fitted.estimator, rows, confidence, fitted.seconds):
        say(line)
    say(f"labels: {task.out}")


def summary_lines(estimator: Any, rows: np.ndarray, confidence: np.ndarray, seconds: float) -> Iterator[str]:
    """Yield what is printed about a fitted estimator; P(K) comes last, since it may take a while.

    ``rows`` (K,) are those of each cluster, ``confidence`` (K,) the sums of their labels' probabilities.
    """
    from clusterwise.report.contents import FEW_ROWS  # scikit-learn, which help does without

    n_clusters, n_rows = len(rows), int(rows.sum())
    by = [type(estimator).__name__, estimator.weights_name_, f"{seconds:.1f} s"]
    yield (
        f"{n_clusters} cluster{'s' * (n_clusters != 1)} in {n_rows:,} row{'s' * (n_rows != 1)} "
        f"({', '.join(fact for fact in by if fact is not None)})"
    )
    yield f"{'cluster':>9}{'rows':>11}{'share':>9}{'confidence':>12}"
    for label in range(min(n_clusters, MAX_LINES)):
        mean = confidence[label] / rows[label]
        yield f"{label:>9}{rows[label]:>11,}{100 * rows[label] / n_rows:>7.1f} %{mean:>12.3f}"
    if n_clusters > MAX_LINES:
        yield f"{'...':>9} and {n_clusters - MAX_LINES} more"
    yield f"mean confidence {confidence.sum() / n_rows:.3f}"
    k_posterior: dict[int, float] | None = getattr(estimator, "k_posterior_", None)
    if k_posterior is not None:
        likely = sorted(k_posterior.items(), key=lambda item: -item[1])[:5]
        numbers = ", ".join(f"{probability:.2f} for {k}" for k, probability in likely if probability >= 0.005)
        yield f"probability of k: {numbers}"
    if n_rows < FEW_ROWS:
        yield f"with only {n_rows} row{'s' * (n_rows != 1)}, take this with caution"


def _report(task: Task, table: Any, fitted: Fitted, warned: list[ClusterwiseWarning]) -> None:
    from clusterwise.report.page import in_use_line, write_report

    assert task.report is not None
    features, data = fitted.features, {"X": table, "notes": fitted.notes}
    if features is not None:
        in_use = [] if features.table is None else in_use_line(features.table.column_names)
        data = {"X": features.values, "column_names": features.names, "table": features.table}
        data["notes"] = [*in_use, *fitted.notes]
    write_report(
        fitted.estimator,
        path=task.report,
        title=f"Clusters in {task.file.name}",
        seconds=fitted.seconds,
        warned=warned,
        row_names=None if fitted.id_name is None else table.column(fitted.id_name).to_pylist(),
        row_heading=fitted.id_name or "row",
        **data,
    )
    say(f"report: {task.report}")


# -- files in parts ---------------------------------------------------------------------------------


def _open_in_parts(file: Path, trusted: bool = False) -> RowSource | None:
    """The rows of a Parquet file or directory if they are very many; None for all else."""
    if not file.is_dir() and not (file.is_file() and file.suffix.lower() in (".parquet", ".pq")):
        return None
    source = open_parquet(file, trusted)
    many = source.n_rows * source.n_features >= MIN_NUMBERS_IN_PARTS
    return source if file.is_dir() or many else None


@dataclass(frozen=True)
class LabelBatch:
    """Labels a batch of rows and adds the results to it."""

    labeller: Callable[[Batch], Any]
    task: Task
    id_name: str | None

    def __call__(self, batch: Batch) -> Any:
        """A pyarrow table with the results of a batch."""
        found = self.labeller(batch)
        results = (found.labels, found.probabilities, found.outlier_scores)
        return _with_results(batch.data, self.task, self.id_name, batch.start, *results)


def _label_in_parts(task: Task, source: RowSource) -> None:
    """Fit, and write labels batch by batch."""
    with progress_bar() as progress, redirected(progress):
        fitted = _fit(
            task, lambda: survey(source, None, ROWS_OF_PREPARATION, task.seed, progress).data, source
        )
        labeller = fitted.estimator.batch_assigner()
        if fitted.features is not None:
            labeller = InFeatures(labeller, fitted.features.transform)
        k = fitted.estimator.n_clusters_
        rows, confidence = np.zeros(k, dtype=np.int64), np.zeros(k)
        write_tables(
            task.out,
            _counted(source, LabelBatch(labeller, task, fitted.id_name), rows, confidence, progress),
            source.n_rows,
            formulas=task.trusted,
        )
    _print_summary(task, fitted, rows, confidence)


def _counted(
    source: RowSource, label: LabelBatch, rows: np.ndarray, confidence: np.ndarray, progress: Progress
) -> Iterator[Any]:
    """Yield the tables of results of all batches, and add up rows (K,) and probabilities of clusters (K,)."""
    for table in source.map(label):
        labels, probabilities = table.column(-3).to_numpy(), table.column(-2).to_numpy()
        rows += np.bincount(labels, minlength=len(rows))
        confidence += np.bincount(labels, probabilities, minlength=len(rows))
        progress("writing", int(rows.sum()), source.n_rows)
        yield table
