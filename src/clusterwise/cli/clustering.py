"""``clusterwise cluster``: from a file to labels, a few lines of text, and a report."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import typer

from clusterwise._files import require_table_format, require_writable, write_tables
from clusterwise.cli.large import cluster_large, open_large
from clusterwise.cli.messages import one_line_warnings
from clusterwise.cli.methods import choose_method, make_estimator, prepares, require_method
from clusterwise.cli.results import STDIN, result_table
from clusterwise.cli.tables import Choice, Chosen, id_and_notes, preparation_for
from clusterwise.cli.weights import choose_for, read_weights
from clusterwise.exceptions import ClusterwiseError
from clusterwise.tables.readers import format_of, read_table

__all__ = ["cluster_file", "default_output", "summary_lines"]

MAX_LINES = 30


def default_output(file: Path) -> Path:
    """Where labels go by default: the working folder, under the name of the data."""
    if file == STDIN:
        return Path("labels.csv")
    file = file if file.name else file.resolve()  # the working folder itself
    return Path(f"{file.name.partition('.')[0] or file.stem}.labels.csv")


def _check(file: Path, out: Path, report: Path | None, method: str | None, append: bool) -> None:
    """Raise an error for what would go wrong only after the work, or would destroy the input."""
    if method is not None:
        require_method(method)
    if file != STDIN and not file.is_dir():
        format_of(file)
    require_table_format(out)
    if out.suffix.lower() == ".npy" and append:
        raise ClusterwiseError(f"{out} holds labels alone; choose another ending for --append, such as .csv.")
    if report is not None and report.suffix.lower() not in (".html", ".htm"):
        raise ClusterwiseError(f"the report {report} must end in .html; it is an HTML page.")
    for option, path in (("--out", out), ("--report", report)):
        if path is not None and path.exists() and file.exists() and path.samefile(file):
            raise ClusterwiseError(f"{option} would overwrite the data in {file}; choose another name.")
        if path is not None:
            require_writable(path)


def summary_lines(estimator: Any, rows: np.ndarray, confidence: np.ndarray, seconds: float) -> Iterator[str]:
    """Yield what is printed about a fitted estimator; P(K) comes last, since it may take a while.

    ``rows`` (K,) are those of each cluster, ``confidence`` (K,) the sums of their labels' probabilities.
    """
    from clusterwise.report.contents import FEW_ROWS  # scikit-learn, which help does without

    n_clusters, n_rows = int(estimator.n_clusters_), int(rows.sum())
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
        shown = ", ".join(f"{probability:.2f} for {k}" for k, probability in likely if probability >= 0.005)
        yield f"probability of k: {shown}"
    if n_rows < FEW_ROWS:
        yield f"with only {n_rows} row{'s' * (n_rows != 1)}, take this with caution"


def _described(table: Any, chosen: Chosen | None, notes: Sequence[str]) -> dict[str, Any]:
    """What a report knows of the data: a table that the estimator prepared, or features that it was given."""
    if chosen is None:
        return {"X": table, "notes": notes}
    from clusterwise.report.page import in_use_line

    in_use = [] if chosen.table is None else in_use_line(chosen.table.column_names)
    data = {"X": chosen.features, "column_names": chosen.names, "table": chosen.table}
    return {**data, "notes": [*in_use, *notes]}


def cluster_file(
    file: Path,
    out: Path,
    report: Path | None,
    choice: Choice,
    append: bool,
    method: str | None,
    options: Mapping[str, str | None],
    seed: int,
) -> None:
    """Read, prepare, cluster, print, write; ``options`` of the method by their names here, None: not set."""
    _check(file, out, report, method, append)
    source = open_large(file) if file != STDIN else None
    if source is not None:
        if report is not None:
            raise ClusterwiseError(f"{file} has too many rows for a report; leave out --report.")
        with one_line_warnings(choice.raw):
            cluster = cluster_large(source, out, choice, append, method, options, seed)
            for line in summary_lines(cluster.estimator, cluster.rows, cluster.confidence, cluster.seconds):
                typer.echo(line)
        typer.echo(f"labels: {out}")
        return
    with one_line_warnings(choice.raw) as heard:
        table = read_table(file)
        started = time.perf_counter()
        known = read_weights(options.get("weights"))
        options = known.options_with(options)
        estimator = make_estimator(choose_method(method or known.method, options), seed, options)
        if prepares(estimator) and not choice.raw:  # and then knows how its columns are weighed
            names = None if scipy.sparse.issparse(table) else table.column_names
            estimator.set_params(preparation=preparation_for(names, choice)).fit(table)
            chosen = None  # the estimator chose
            id_name, notes = id_and_notes(estimator.preparation_, choice)
        else:
            chosen = choose_for(table, choice, known)
            if prepares(estimator):
                estimator.set_params(preparation=None)  # which would fill in gaps
            estimator.fit(chosen.features)
            id_name, notes = chosen.id_name, chosen.notes
        seconds = time.perf_counter() - started
        for note in notes:
            typer.echo(f"note: {note}", err=True)
        write_tables(out, [result_table(table, id_name, estimator, append)], len(estimator.labels_))
        labels, k = estimator.labels_, estimator.n_clusters_
        confidence = np.bincount(labels, estimator.probabilities_, minlength=k)
        for line in summary_lines(estimator, np.bincount(labels, minlength=k), confidence, seconds):
            typer.echo(line)
        typer.echo(f"labels: {out}")
        if report is not None:
            from clusterwise.report.page import write_report

            write_report(
                estimator,
                path=report,
                title=f"Clusters in {file.name}",
                seconds=seconds,
                warned=[f"{warning.finding()}." for warning in heard],
                row_names=None if id_name is None else table.column(id_name).to_pylist(),
                row_heading=id_name or "row",
                **_described(table, chosen, notes),
            )
            typer.echo(f"report: {report}")
