"""Which kinds of files there are, the packages that they need, and how results are written."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from clusterwise._extras import import_extra
from clusterwise._files import whole_or_nothing
from clusterwise.exceptions import InvalidDataError

__all__ = [
    "COMPRESSIONS",
    "STDIN",
    "format_of",
    "output_format_of",
    "write_tables",
]

Format = Literal["csv", "tsv", "parquet", "arrow", "npy", "npz", "xlsx", "h5ad"]

STDIN = Path("-")
FORMATS: dict[str, Format] = {
    ".csv": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".npy": "npy",
    ".npz": "npz",
    ".xlsx": "xlsx",
    ".h5ad": "h5ad",
}
OUTPUT_FORMATS = (".csv", ".tsv", ".parquet", ".arrow", ".npy")
# Endings of compressed text, with what pyarrow calls them; zip archives are opened otherwise.
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".zip": "zip"}


def format_of(path: str | Path) -> Format:
    """The format that the ending of a file name stands for; compressed text may have a second one."""
    path = Path(path)
    ending = path.suffix.lower()
    if ending in COMPRESSIONS:
        inner = FORMATS.get(Path(path.stem).suffix.lower(), "csv")
        if inner in ("csv", "tsv"):
            return inner
        raise InvalidDataError(f"{path} is compressed; unpack it first, only text is read compressed.")
    if ending not in FORMATS:
        packed = ", ".join(COMPRESSIONS)
        raise InvalidDataError(
            f"{path} {_ends(ending)}; use one of {', '.join(FORMATS)}, or text with {packed}."
        )
    return FORMATS[ending]


def output_format_of(path: str | Path) -> Format:
    """The format to write a file in, by the ending of its name."""
    ending = Path(path).suffix.lower()
    if ending not in OUTPUT_FORMATS:
        raise InvalidDataError(
            f"{path} {_ends(ending)}; results are written to one of {', '.join(OUTPUT_FORMATS)}."
        )
    return FORMATS[ending]


def _ends(ending: str) -> str:
    return f"ends in {ending!r}" if ending else "has no ending"


def write_tables(path: str | Path, tables: Iterable[Any], n_rows: int) -> None:
    """Write pyarrow tables of the same columns, ``n_rows`` altogether, below each other; at least one.

    As csv, tsv, parquet, arrow, or their labels alone as npy; the file is there whole or not at all.
    """
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


def _writer_of(format: Format) -> Callable[..., Any]:
    if format == "parquet":
        return import_extra("pyarrow.parquet", "parquet files").ParquetWriter
    if format == "arrow":
        return import_extra("pyarrow.ipc", "arrow files").new_file
    return partial(_csv_writer, delimiter="\t" if format == "tsv" else ",")


@contextmanager
def _csv_writer(path: str, schema: Any, delimiter: str) -> Iterator[Any]:
    """A writer of text; floats keep every digit."""
    text = import_extra("pyarrow.csv", "csv files")
    header = io.StringIO()  # pyarrow would put every name in quotes
    csv.writer(header, delimiter=delimiter, lineterminator="\n").writerow(schema.names)
    options = text.WriteOptions(include_header=False, delimiter=delimiter)
    with open(path, "wb") as file:
        file.write(header.getvalue().encode("utf-8"))
        with text.CSVWriter(file, schema, write_options=options) as writer:
            yield writer


def _write_labels(path: Path, tables: Iterable[Any], n_rows: int) -> None:
    labels = np.lib.format.open_memmap(path, mode="w+", dtype=np.int32, shape=(n_rows,))
    done = 0
    for table in tables:
        labels[done : done + len(table)] = table.column("label").to_numpy()
        done += len(table)
    labels.flush()
