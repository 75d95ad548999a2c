"""``clusterwise cluster`` for files that need not fit in memory: batches in, labels out as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer

from clusterwise._files import write_tables
from clusterwise.cli.methods import choose_method, make_estimator, prepares
from clusterwise.cli.progress import progress_bar
from clusterwise.cli.results import add_results
from clusterwise.cli.tables import Choice, id_and_notes, preparation_for
from clusterwise.cli.weights import choose_for, read_weights
from clusterwise.fitting.batches import survey
from clusterwise.fitting.progress import heard_by
from clusterwise.rows import Batch, RowSource
from clusterwise.rows.arrow import open_parquet
from clusterwise.rows.prepared import InFeatures, PreparedSource

__all__ = ["cluster_large", "open_large"]

# Tables with fewer numbers are read whole.
LEAST_NUMBERS = 20_000_000
# Rows that tell what the columns are.
ROWS_OF_PREPARATION = 10_000


def open_large(file: Path) -> RowSource | None:
    """The rows of a Parquet file or directory if they are very many; None for all else."""
    if not file.is_dir() and not (file.is_file() and file.suffix.lower() in (".parquet", ".pq")):
        return None
    source = open_parquet(file)
    return source if file.is_dir() or source.n_rows * source.n_features >= LEAST_NUMBERS else None


@dataclass(frozen=True)
class LabelTask:
    """Labels a batch of rows and appends the results to it."""

    labeller: Callable[[Batch], Any]
    id_name: str | None
    append: bool

    def __call__(self, batch: Batch) -> Any:
        """A pyarrow table with the results of a batch."""
        found = self.labeller(batch)
        return add_results(
            batch.data,
            self.id_name,
            self.append,
            batch.start,
            found.labels,
            found.probabilities,
            found.outlier_scores,
        )


@dataclass(frozen=True)
class Clustered:
    """What is known when all labels have been written."""

    estimator: Any
    rows: np.ndarray  # (K,) of each cluster
    confidence: np.ndarray  # (K,) sums of the probabilities of their labels
    seconds: float  # that the fit took


def cluster_large(
    source: RowSource,
    out: Path,
    choice: Choice,
    append: bool,
    method: str | None,
    options: Mapping[str, str | None],
    seed: int,
) -> Clustered:
    """Fit, and write labels batch by batch."""
    with progress_bar() as progress, heard_by(progress):
        started = time.perf_counter()
        known = read_weights(options.get("weights"))
        options = known.options_with(options)
        estimator = make_estimator(choose_method(method or known.method, options), seed, options)
        if prepares(estimator) and not choice.raw:  # and then knows how its columns are weighed
            estimator.set_params(preparation=preparation_for(source.names, choice)).fit(source)
            id_name, notes = id_and_notes(estimator.preparation_, choice)
            labeller = estimator.batch_labeller()
        else:
            sample = survey(source, None, ROWS_OF_PREPARATION, seed, progress)
            chosen = choose_for(sample.data, choice, known)
            estimator.fit(PreparedSource(source, chosen.transform, chosen.features.shape[1]))
            id_name, notes = chosen.id_name, chosen.notes
            labeller = InFeatures(estimator.batch_labeller(), chosen.transform)
        seconds = time.perf_counter() - started
        for note in notes:
            typer.echo(f"note: {note}", err=True)
        k = estimator.n_clusters_
        rows, confidence = np.zeros(k, dtype=np.int64), np.zeros(k)
        task = LabelTask(labeller, id_name, append)

        def tables() -> Iterator[Any]:
            nonlocal rows, confidence
            for table in source.map(task):
                labels, probabilities = table.column(-3).to_numpy(), table.column(-2).to_numpy()
                rows = rows + np.bincount(labels, minlength=k)
                confidence = confidence + np.bincount(labels, probabilities, minlength=k)
                progress("writing", int(rows.sum()), source.n_rows)
                yield table

        write_tables(out, tables(), source.n_rows)
    return Clustered(estimator, rows, confidence, seconds)
