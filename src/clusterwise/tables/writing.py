"""Tables that are written batch by batch, and are there whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from clusterwise._files import whole_or_nothing
from clusterwise.tables.file_tables import import_or_say, output_format_of

__all__ = ["write_batches"]


def write_batches(path: str | Path, tables: Iterable[Any], n_rows: int) -> None:
    """Write pyarrow tables of the same columns, ``n_rows`` altogether, below each other; at least one."""
    format = output_format_of(path)
    with whole_or_nothing(path) as temporary:
        if format == "npy":
            _write_labels(temporary, tables, n_rows)
            return
        iterator = iter(tables)
        first = next(iterator)
        with _writer_of(format)(str(temporary), first.schema) as writer:
            writer.write_table(first)
            for table in iterator:
                writer.write_table(table)


def _writer_of(format: str) -> Callable[..., Any]:
    if format == "parquet":
        return import_or_say("pyarrow.parquet", "parquet files").ParquetWriter
    if format == "arrow":
        return import_or_say("pyarrow.ipc", "arrow files").new_file
    csv = import_or_say("pyarrow.csv", "tables")
    options = csv.WriteOptions(delimiter="\t" if format == "tsv" else ",", quoting_style="needed")
    return lambda path, schema: csv.CSVWriter(path, schema, write_options=options)


def _write_labels(path: Path, tables: Iterable[Any], n_rows: int) -> None:
    labels = np.lib.format.open_memmap(path, mode="w+", dtype=np.int32, shape=(n_rows,))
    done = 0
    for table in tables:
        labels[done : done + len(table)] = table.column("label").to_numpy()
        done += len(table)
    labels.flush()
