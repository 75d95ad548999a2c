"""Read tables from the files that users bring, and write labels to files that they can open."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clusterwise._files import whole_or_nothing
from clusterwise.datasets.delimited import read_delimited, write_delimited
from clusterwise.datasets.tables import Table, choose_columns, format_of, text_column_error, unnamed_columns
from clusterwise.exceptions import InvalidDataError, MissingDependencyError

__all__ = ["read_table", "write_labels"]


def _import_pyarrow(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            "parquet files need pyarrow, which is not installed; run: pip install 'clusterwise[frames]'"
        ) from error


def _arrow_column(column: Any, name: str) -> np.ndarray:
    """Convert one arrow column to float64 (n,), null to NaN."""
    arrow = _import_pyarrow("pyarrow")
    types, kind = arrow.types, column.type
    numeric = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    if any(is_kind(kind) for is_kind in numeric):
        # Unsafe: beyond 2**53 an integer loses digits as float64, here as in every other reader.
        return np.asarray(column.cast(arrow.float64(), safe=False).to_numpy())
    row, cell = next(((i, v) for i, v in enumerate(column.to_pylist()) if v is not None), (0, None))
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind)
    raise text_column_error(name, row, str(cell), "text" if text else f"{kind} values")


def _read_parquet(path: Path, columns: Sequence[str] | None) -> Table:
    parquet = _import_pyarrow("pyarrow.parquet")
    arrow = _import_pyarrow("pyarrow")
    try:
        frame = parquet.read_table(path)
    except (arrow.ArrowInvalid, OSError) as error:
        raise InvalidDataError(f"{path} is truncated or not a parquet file; write it again.") from error
    # pandas stores the index of a frame as columns and names them in the metadata: they are not data.
    index = (frame.schema.pandas_metadata or {}).get("index_columns", ())
    frame = frame.select([place for place, name in enumerate(frame.column_names) if name not in index])
    names = frame.column_names
    places = choose_columns(names, columns)
    if frame.num_rows == 0 or not names:
        raise InvalidDataError(f"{path} is empty; it must hold at least one row of numbers.")
    values = [_arrow_column(frame.column(place), names[place]) for place in places]
    return Table(np.column_stack(values), tuple(names[place] for place in places))


def _read_npy(path: Path, columns: Sequence[str] | None) -> Table:
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InvalidDataError(
            f"{path} is truncated, holds Python objects, or is no npy file; save a 2-D array of numbers."
        ) from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        found = array.dtype if isinstance(array, np.ndarray) else "an archive of arrays"
        raise InvalidDataError(f"{path} holds {found}, not numbers; save a 2-D array of numbers.")
    if array.ndim != 2:
        raise InvalidDataError(
            f"{path} holds an array of shape {array.shape}; save a 2-D array with one row per point."
        )
    if array.size == 0:
        raise InvalidDataError(
            f"{path} is empty (shape {array.shape}); it must hold at least one row of numbers."
        )
    names = unnamed_columns(array.shape[1])
    places = choose_columns(names, columns)
    return Table(array[:, places].astype(np.float64), tuple(names[place] for place in places))


def read_table(path: str | Path, columns: Sequence[str] | None = None) -> Table:
    """Read numbers from a csv, tsv, parquet or npy file.

    A csv may have a header or not, and commas, semicolons or tabs between its cells. Booleans
    become 0 and 1, missing cells NaN. Rows are counted from 0, without the header.

    Parameters
    ----------
    path : str or Path
        The ending of the name says what the file is.
    columns : list of str, optional
        Columns to take, in this order, by name or counted from 0; all of them when left out.
    """
    path = Path(path)
    format = format_of(path)
    if not path.is_file():
        raise InvalidDataError(f"there is no file {path}; check the name and the folder.")
    if path.stat().st_size == 0:
        raise InvalidDataError(f"{path} is empty; it must hold at least one row of numbers.")
    if format == "parquet":
        return _read_parquet(path, columns)
    if format == "npy":
        return _read_npy(path, columns)
    return read_delimited(path, columns, "\t" if format == "tsv" else None)


def write_labels(
    path: str | Path, labels: np.ndarray, probabilities: np.ndarray, outlier_scores: np.ndarray
) -> None:
    """Write one row per point: label, probability, outlier score; an npy file holds the labels alone.

    The three arrays are (n,). The file appears whole or not at all.
    """
    format = format_of(path)
    columns = {"label": labels, "probability": probabilities, "outlier_score": outlier_scores}
    with whole_or_nothing(path) as temporary:
        if format == "npy":
            np.save(temporary, labels)
        elif format == "parquet":
            arrow = _import_pyarrow("pyarrow")
            _import_pyarrow("pyarrow.parquet").write_table(arrow.table(columns), temporary)
        else:
            write_delimited(temporary, columns, "\t" if format == "tsv" else ",")
