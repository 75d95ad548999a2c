"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import csv
import errno
import glob
import io
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from clusterwise._extras import import_extra
from clusterwise._safety import without_formulas
from clusterwise.exceptions import InvalidDataError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["require_table_format", "require_writable", "whole_or_nothing", "write_tables"]

TABLE_FORMATS = (".csv", ".tsv", ".parquet", ".arrow", ".npy")


def require_writable(path: Path) -> None:
    """Raise an OSError that names ``path`` if ``whole_or_nothing`` cannot write there; nothing is made."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file in it", str(path))
    folder = path.parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is not a folder; choose another place", str(path))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, f"{folder} cannot be written to; choose another place", str(path))


@contextlib.contextmanager
def whole_or_nothing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path next to ``path`` and move it there only if the block succeeds.

    Those that earlier runs left behind, because they were killed, are removed.
    """
    path = Path(path)
    require_writable(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path)
        handle, temporary = _locked_temporary(path)
    except OSError as error:  # it names a temporary file that the user knows nothing of
        raise type(error)(error.errno, f"cannot be written ({error.strerror})", str(path)) from error
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        if handle is not None:
            os.close(handle)


def _locked_temporary(path: Path) -> tuple[int | None, Path]:
    """A new file next to ``path``, locked by its handle while this process lives; no handle on Windows."""
    while True:
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name}.", suffix=f".part{path.suffix}"
        )
        if fcntl is None:
            os.close(handle)
            return None, Path(name)
        with contextlib.suppress(OSError):  # file systems without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.exists(name):  # nobody took it for abandoned before it was locked
            return handle, Path(name)
        os.close(handle)


def _remove_abandoned(path: Path) -> None:
    """Remove temporary files for ``path`` that no living process has locked."""
    if fcntl is None:
        return
    for other in path.parent.glob(f".{glob.escape(path.name)}.*.part{glob.escape(path.suffix)}"):
        with contextlib.suppress(OSError), other.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            other.unlink()


def require_table_format(path: Path) -> None:
    """Raise an error if no table can be written to a file of that name."""
    ending = path.suffix.lower()
    if ending not in TABLE_FORMATS:
        ends = f"ends in {ending!r}" if ending else "has no ending"
        raise InvalidDataError(f"{path} {ends}; results are written to one of {', '.join(TABLE_FORMATS)}.")


def write_tables(path: str | Path, tables: Iterable[Any], n_rows: int, formulas: bool = False) -> None:
    """Write pyarrow tables of the same columns, ``n_rows`` altogether, below each other; at least one.

    As csv, tsv, parquet, arrow, or their labels alone as npy; the file is there whole or not at all. In text,
    which people open with a spreadsheet, cells that would be formulas get an apostrophe, unless ``formulas``.
    """
    path = Path(path)
    require_table_format(path)
    with whole_or_nothing(path) as temporary:
        if path.suffix.lower() == ".npy":
            _write_labels(temporary, tables, n_rows)
            return
        is_text = path.suffix.lower() in (".csv", ".tsv")
        iterator = iter(map(without_formulas, tables) if is_text and not formulas else tables)
        first = next(iterator)
        if is_text:
            _require_flat(path, first.schema)
        with _table_writer(temporary, path.suffix.lower(), first.schema) as writer:
            writer.write_table(first)
            for table in iterator:
                writer.write_table(table)


@contextlib.contextmanager
def _table_writer(path: Path, ending: str, schema: Any) -> Iterator[Any]:
    """A writer of tables; floats in text keep every digit."""
    if ending in (".parquet", ".arrow"):
        parquet, arrow = import_extra("pyarrow.parquet", "files"), import_extra("pyarrow.ipc", "files")
        with (parquet.ParquetWriter if ending == ".parquet" else arrow.new_file)(str(path), schema) as writer:
            yield writer
        return
    text, header = import_extra("pyarrow.csv", "csv files"), io.StringIO()
    delimiter = "\t" if ending == ".tsv" else ","
    # Every name that holds a sign of the format is quoted; Python leaves a carriage return as it is.
    dialect = "unix" if any("\r" in name for name in schema.names) else "excel"
    csv.writer(header, dialect, delimiter=delimiter, lineterminator="\n").writerow(schema.names)
    options = text.WriteOptions(include_header=False, delimiter=delimiter)  # it would quote every name
    with open(path, "wb") as file:
        file.write(header.getvalue().encode("utf-8"))
        with text.CSVWriter(file, schema, write_options=options) as writer:
            yield writer


def _require_flat(path: Path, schema: Any) -> None:
    """Raise an error if a column holds lists or bytes, which text has no way to write."""
    kinds = import_extra("pyarrow.types", "files")
    for field in schema:
        if kinds.is_nested(field.type) or kinds.is_binary(field.type) or kinds.is_large_binary(field.type):
            raise InvalidDataError(
                f"{path} cannot hold column {field.name!r}, which is of type {field.type}; write .parquet."
            )


def _write_labels(path: Path, tables: Iterable[Any], n_rows: int) -> None:
    labels = np.lib.format.open_memmap(path, mode="w+", dtype=np.int32, shape=(n_rows,))
    done = 0
    for table in tables:
        labels[done : done + len(table)] = table.column("label").to_numpy()
        done += len(table)
    labels.flush()
