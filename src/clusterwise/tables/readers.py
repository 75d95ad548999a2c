"""The table of a file, whatever format it is in and whoever it is from, as a pyarrow table.

pyarrow, openpyxl and h5py read. Whatever they say of a damaged file comes out as one sentence.
"""

from __future__ import annotations

import re
import sys
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clusterwise._extras import import_extra
from clusterwise._safety import modest_size, one_sentence, require_modest_names, require_modest_size
from clusterwise.exceptions import FirstSheetWarning, InvalidDataError
from clusterwise.tables.arrays import read_annotated, read_numpy
from clusterwise.tables.cells import find_header
from clusterwise.tables.delimited import LINES_TO_SNIFF, NO_ROWS, read_text

__all__ = ["STDIN", "data_columns", "format_of", "read_table"]

STDIN = Path("-")
FORMATS = {
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
# Endings of compressed text, with what pyarrow calls them; zip archives are opened otherwise.
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".zip": "zip"}
MAX_ROWS_OF_SHEET = 2**20
TEXT_IN_MEMORY = 4  # bytes that a byte of text, or of the XML of a workbook, takes as a table


def format_of(path: str | Path) -> str:
    """The format that the ending of a file name stands for; compressed text may have a second one."""
    path = Path(path)
    ending = path.suffix.lower()
    if ending in COMPRESSIONS:
        inner = FORMATS.get(Path(path.stem).suffix.lower(), "csv")
        if inner not in ("csv", "tsv"):
            raise InvalidDataError(f"{path} is compressed; unpack it first, only text is read compressed.")
        return inner
    if ending not in FORMATS:
        ends = f"ends in {ending!r}" if ending else "has no ending"
        packed = ", ".join(COMPRESSIONS)
        raise InvalidDataError(f"{path} {ends}; use one of {', '.join(FORMATS)}, or text with {packed}.")
    return FORMATS[ending]


def read_table(path: str | Path, trusted: bool = False) -> Any:
    """A pyarrow table of the rows of a file, or a sparse matrix.

    Text (csv, tsv; also gz, bz2, zst, zip) may have a header or not, titles above it, commas, semicolons,
    tabs or bars between its cells, and be UTF-8, UTF-16, Latin-1 or Windows-1252. Parquet, Arrow and Feather
    files, numpy's npy and npz, scipy's sparse npz; Excel workbooks and AnnData files with the extras
    ``excel`` and ``h5ad``.

    Parameters
    ----------
    path : str or Path
        The ending of the name says what the file is; "-" is text on standard input.
    trusted : bool
        Whether the file comes from a source that you trust. If not, an error says so where it becomes very
        large when it is unpacked, has very many columns, or very long names.

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
            raise InvalidDataError(f"standard input is empty; {NO_ROWS}.")
        return read_text(data, "standard input", trusted=trusted)
    format = format_of(path)
    if not path.is_file():
        raise InvalidDataError(f"there is no file {path}; check the name and the folder.")
    with one_sentence(path, "file that can be opened", "check who may read it"):
        is_empty = path.stat().st_size == 0
        path.open("rb").close()
    if is_empty:
        raise InvalidDataError(f"{path} is empty; {NO_ROWS}.")
    match format:
        case "parquet" | "arrow":
            return _read_arrow(path, format, trusted)
        case "npy" | "npz":
            return read_numpy(path, trusted)
        case "xlsx":
            return _read_workbook(path, trusted)
        case "h5ad":
            return read_annotated(path, trusted)
    return read_text(_unpacked(path, trusted), str(path), "\t" if format == "tsv" else None, trusted)


def _unpacked(path: Path, trusted: bool) -> bytes:
    """The bytes of a file, without its compression."""
    kind = COMPRESSIONS.get(path.suffix.lower())
    if kind is None:
        return path.read_bytes()
    limit = modest_size(path, trusted) // TEXT_IN_MEMORY
    with one_sentence(path, f"{kind} file", "pack it again"):
        if kind == "zip":
            with (
                zipfile.ZipFile(path) as archive,
                archive.open(_only_table(path, archive.namelist())) as member,
            ):
                data = member.read(limit + 1)
        else:
            arrow = import_extra("pyarrow", "compressed files")
            with arrow.CompressedInputStream(arrow.OSFile(str(path)), kind) as stream:
                data = stream.read(limit + 1)
    require_modest_size(path, TEXT_IN_MEMORY * len(data), trusted)
    return data


def _only_table(path: Path, names: Sequence[str]) -> str:
    """The only file in a zip archive, besides what operating systems add."""
    names = [name for name in names if not re.search(r"/$|^__MACOSX/|(^|/)\.[^/]*$", name)]
    if len(names) != 1:
        raise InvalidDataError(
            f"{path} holds {len(names)} files ({', '.join(names[:3])}); pack the table alone."
        )
    if format_of(names[0]) not in ("csv", "tsv"):
        raise InvalidDataError(f"{path} holds {names[0]}; unpack it first.")
    return names[0]


# -- files of a known format --------------------------------------------------------------------------


def _read_arrow(path: Path, format: str, trusted: bool) -> Any:
    parquet = import_extra("pyarrow.parquet", f"{format} files")
    feather = import_extra("pyarrow.feather", f"{format} files")
    with one_sentence(path, f"{format} file", "write it again"):
        if format == "parquet":
            facts = parquet.read_metadata(path)
            require_modest_size(path, 8 * facts.num_rows * facts.num_columns, trusted)
        table = (parquet if format == "parquet" else feather).read_table(path)
        table.validate(full=True)  # offsets and indices are believed from here on
        names = data_columns(table.schema, path, trusted)
        table = _in_known_types(table.select(names))
    if table.num_rows == 0 or not names:
        raise InvalidDataError(f"{path} is empty; {NO_ROWS}.")
    return table


def _in_known_types(table: Any) -> Any:
    """A pyarrow table without types that pyarrow reads but cannot write as text."""
    arrow, compute = import_extra("pyarrow", "tables"), import_extra("pyarrow.compute", "tables")
    for place, field in enumerate(table.schema):
        kind = field.type
        if kind == arrow.string_view():
            kind = arrow.large_string()
        elif arrow.types.is_timestamp(kind) and kind.tz is not None:
            try:
                compute.local_timestamp(table.column(place).slice(0, 1))
            except arrow.ArrowInvalid:  # a zone that this machine does not know
                kind = arrow.timestamp(kind.unit, "UTC")
        if kind != field.type:
            table = table.set_column(place, field.name, table.column(place).cast(kind))
    return table


def data_columns(schema: Any, name: object, trusted: bool = False) -> list[str]:
    """Names of the columns of an Arrow schema that are data, no two the same.

    pandas stores the index of a frame as columns, and names them in the metadata.
    """
    with one_sentence(name, "table whose metadata can be read", "write it again"):
        index = (schema.pandas_metadata or {}).get("index_columns", ())
        names = [label for label in schema.names if label not in index]
    if len(set(names)) < len(names):
        raise InvalidDataError(f"{name} has two columns of the same name; rename one.")
    require_modest_names(name, names, trusted)
    return names


def _read_workbook(path: Path, trusted: bool) -> Any:
    """The first sheet of an Excel workbook."""
    excel, arrow = import_extra("openpyxl", "Excel files"), import_extra("pyarrow", "Excel files")
    with one_sentence(path, "Excel workbook", "save it again as .xlsx"):
        with zipfile.ZipFile(path) as archive:
            n_bytes = sum(member.file_size for member in archive.infolist())
        require_modest_size(path, TEXT_IN_MEMORY * n_bytes, trusted)
        with warnings.catch_warnings(action="ignore"):  # openpyxl has one for each cell that it does not like
            book = excel.load_workbook(path, read_only=True, data_only=True)
            sheets = [sheet.title for sheet in book.worksheets]
            rows = _rows_of_sheet(path, book.worksheets[0], trusted)
        book.close()
    if len(sheets) > 1:
        warnings.warn(FirstSheetWarning(file=str(path), sheets=sheets), stacklevel=2)
    if not rows:
        raise InvalidDataError(f"{path} is empty; its first sheet must hold at least one row of numbers.")
    header = find_header(rows[:LINES_TO_SNIFF])
    require_modest_names(path, header.names, trusted)
    rows = rows[header.n_above + header.is_row :]
    if not rows:
        raise InvalidDataError(f"{path} holds a header and no rows; its first sheet must hold rows below it.")
    columns = [_workbook_column(arrow, cells) for cells in zip(*rows, strict=True)]
    return arrow.table(columns, names=header.names)


def _rows_of_sheet(path: Path, sheet: Any, trusted: bool) -> list[tuple[Any, ...]]:
    """Rows of a sheet with anything in them, all of one length: what the sheet says of it is not believed."""
    sheet.reset_dimensions()
    rows = []
    for number, row in enumerate(sheet.iter_rows(values_only=True)):
        if number >= MAX_ROWS_OF_SHEET:
            raise InvalidDataError(
                f"{path} is damaged: a row has a number beyond those of sheets; save it again."
            )
        if any(cell is not None for cell in row):
            rows.append(row)
    width = max(map(len, rows), default=0)
    require_modest_size(path, 8 * width * len(rows), trusted)
    return [row + (None,) * (width - len(row)) for row in rows]


def _workbook_column(arrow: Any, cells: Sequence[Any]) -> Any:
    try:
        return arrow.array(cells)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError, OverflowError):  # cells of several kinds
        return arrow.array([None if cell is None else str(cell) for cell in cells])
