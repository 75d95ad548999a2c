"""Read tables from the files that users bring, and write results to files that they can open."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from clusterwise._files import whole_or_nothing
from clusterwise.exceptions import InvalidDataError
from clusterwise.tables.delimited import read_delimited, write_delimited
from clusterwise.tables.file_tables import (
    COMPRESSIONS,
    format_of,
    import_or_say,
    output_format_of,
    unnamed_columns,
)
from clusterwise.tables.spreadsheets import read_annotated, read_workbook

__all__ = ["STDIN", "read_table", "write_table"]

STDIN = Path("-")


def _unpacked(path: Path) -> bytes:
    """The bytes of a file, without its compression."""
    kind = COMPRESSIONS.get(path.suffix.lower())
    if kind is None:
        return path.read_bytes()
    try:
        if kind == "zip":
            with zipfile.ZipFile(path) as archive:
                names = [name for name in archive.namelist() if _is_content(name)]
                if len(names) != 1:
                    raise InvalidDataError(
                        f"{path} holds {len(names)} files ({', '.join(names[:3])}); pack the table alone."
                    )
                if format_of(names[0]) not in ("csv", "tsv"):
                    raise InvalidDataError(f"{path} holds {names[0]}; unpack it first.")
                return archive.read(names[0])
        arrow = import_or_say("pyarrow", "compressed files")
        with arrow.CompressedInputStream(arrow.OSFile(str(path)), kind) as stream:
            return stream.read()
    except (OSError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidDataError(f"{path} is truncated or not {kind}; pack it again.") from error


def _is_content(name: str) -> bool:
    """Whether a name in a zip archive is that of a file and not what an operating system adds."""
    return not name.endswith("/") and not name.startswith("__MACOSX/") and not Path(name).name.startswith(".")


def _read_arrow(path: Path, format: str) -> Any:
    arrow = import_or_say("pyarrow", f"{format} files")
    reader = import_or_say("pyarrow.parquet" if format == "parquet" else "pyarrow.feather", f"{format} files")
    try:
        frame = reader.read_table(path)
    except (arrow.ArrowInvalid, OSError) as error:
        raise InvalidDataError(f"{path} is truncated or not a {format} file; write it again.") from error
    # pandas stores the index of a frame as columns and names them in the metadata: they are not data.
    index = (frame.schema.pandas_metadata or {}).get("index_columns", ())
    names = [name for name in frame.column_names if name not in index]
    if len(set(names)) < len(names):
        raise InvalidDataError(f"{path} has two columns of the same name; rename one.")
    frame = frame.select(names)
    if frame.num_rows == 0 or not names:
        raise InvalidDataError(f"{path} is empty; it must hold at least one row of numbers.")
    return frame


def _read_numpy(path: Path) -> Any:
    try:
        with path.open("rb") as file:  # numpy leaves a damaged archive open
            loaded = np.load(file, allow_pickle=False)
            if not isinstance(loaded, np.ndarray) and {"format", "shape", "data"} <= set(loaded.files):
                return _sparse(path)
            if not isinstance(loaded, np.ndarray):
                loaded = _array_of_archive(path, {name: loaded[name] for name in loaded.files})
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        if isinstance(error, InvalidDataError):
            raise
        raise InvalidDataError(
            f"{path} is truncated, holds Python objects, or is no numpy file; save a 2-D array of numbers."
        ) from error
    if loaded.dtype.kind not in "biuf":
        raise InvalidDataError(f"{path} holds {loaded.dtype}, not numbers; save a 2-D array of numbers.")
    if loaded.ndim != 2:
        raise InvalidDataError(
            f"{path} holds an array of shape {loaded.shape}; save a 2-D array with one row per point."
        )
    if loaded.size == 0:
        raise InvalidDataError(
            f"{path} is empty (shape {loaded.shape}); it must hold at least one row of numbers."
        )
    arrow = import_or_say("pyarrow", "tables")
    if loaded.dtype.kind == "f":
        loaded = loaded.astype(np.float64)
    return arrow.table(list(map(arrow.array, loaded.T)), names=unnamed_columns(loaded.shape[1]))


def _sparse(path: Path) -> Any:
    """The matrix in a file that scipy.sparse.save_npz has written, such as one of TF-IDF weights."""
    matrix = scipy.sparse.load_npz(path).tocsr()
    if 0 in matrix.shape:
        raise InvalidDataError(
            f"{path} is empty (shape {matrix.shape}); it must hold at least one row of numbers."
        )
    return matrix.astype(np.float64)


def _array_of_archive(path: Path, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The array called X, or the only one that is a table."""
    if "X" in arrays:
        return arrays["X"]
    tables = [array for array in arrays.values() if array.ndim == 2]
    if len(tables) != 1:
        raise InvalidDataError(
            f"{path} holds {len(tables)} tables ({', '.join(list(arrays)[:5])}); call the one to use X."
        )
    return tables[0]


def read_table(path: str | Path) -> Any:
    """Read a table from a file.

    Text (csv, tsv; also gz, bz2, zst, zip) may have a header or not, commas, semicolons, tabs or bars
    between its cells, decimal commas, separators of thousands, and be UTF-8, UTF-16, Latin-1 or
    Windows-1252. Parquet, Arrow and Feather files, numpy's npy and npz, scipy's sparse npz; Excel workbooks
    and AnnData files with the extras ``excel`` and ``h5ad``.

    Parameters
    ----------
    path : str or Path
        The ending of the name says what the file is; "-" is text on standard input.

    Returns
    -------
    pyarrow.Table
        Which ``clusterwise.TablePreparation`` takes, and ``.to_pandas()`` turns into a data frame. A sparse
        matrix for an AnnData file without embeddings, and for one that scipy has saved.
    """
    path = Path(path)
    if path == STDIN:
        data = sys.stdin.buffer.read()
        if not data.strip():
            raise InvalidDataError("standard input is empty; it must hold at least one row of numbers.")
        return read_delimited(data, "standard input")
    format = format_of(path)
    if not path.is_file():
        raise InvalidDataError(f"there is no file {path}; check the name and the folder.")
    if path.stat().st_size == 0:
        raise InvalidDataError(f"{path} is empty; it must hold at least one row of numbers.")
    if format in ("parquet", "arrow"):
        return _read_arrow(path, format)
    if format in ("npy", "npz"):
        return _read_numpy(path)
    if format == "xlsx":
        return read_workbook(path)
    if format == "h5ad":
        return read_annotated(path)
    return read_delimited(_unpacked(path), str(path), "\t" if format == "tsv" else None)


def write_table(path: str | Path, table: Any) -> None:
    """Write a pyarrow table as csv, tsv, parquet or arrow, whole or not at all."""
    format = output_format_of(path)
    with whole_or_nothing(path) as temporary:
        if format == "parquet":
            import_or_say("pyarrow.parquet", "parquet files").write_table(table, temporary)
        elif format == "arrow":
            import_or_say("pyarrow.feather", "arrow files").write_feather(table, temporary)
        elif format == "npy":
            np.save(temporary, table.column("label").to_numpy())
        else:
            write_delimited(temporary, table, "\t" if format == "tsv" else ",")
