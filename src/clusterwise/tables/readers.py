"""The table of a file, whatever format it is in, as a pyarrow table.

pyarrow, openpyxl and h5py read. What is ours is to find out how a text was written: its encoding, its
separator, and in which line the table begins. What its cells mean is found out later, as for data frames: see
``columns``.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import re
import sys
import warnings
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from clusterwise._extras import import_extra
from clusterwise.exceptions import FirstSheetWarning, GuessedEncodingWarning, InvalidDataError
from clusterwise.tables.cells import MISSING_WORDS, Header, distinct_names, find_header, parse_numbers

__all__ = ["STDIN", "format_of", "read_table", "read_text"]

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
NO_ROWS = "it must hold at least one row of numbers"
SEPARATORS = (",", ";", "\t", "|")
LINES_TO_SNIFF = 50
MAX_BLOCK = 1 << 28  # bytes that pyarrow guesses the types of columns from
NULLS = sorted({form for word in MISSING_WORDS for form in (word, word.upper(), word.title())} | {" ", "NaN"})


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


def read_table(path: str | Path) -> Any:
    """A pyarrow table of the rows of a file, or a sparse matrix.

    Text (csv, tsv; also gz, bz2, zst, zip) may have a header or not, titles above it, commas, semicolons,
    tabs or bars between its cells, and be UTF-8, UTF-16, Latin-1 or Windows-1252. Parquet, Arrow and Feather
    files, numpy's npy and npz, scipy's sparse npz; Excel workbooks and AnnData files with the extras
    ``excel`` and ``h5ad``.

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
            raise InvalidDataError(f"standard input is empty; {NO_ROWS}.")
        return read_text(data, "standard input")
    format = format_of(path)
    if not path.is_file():
        raise InvalidDataError(f"there is no file {path}; check the name and the folder.")
    if path.stat().st_size == 0:
        raise InvalidDataError(f"{path} is empty; {NO_ROWS}.")
    match format:
        case "parquet" | "arrow":
            return _read_arrow(path, format)
        case "npy" | "npz":
            return _read_numpy(path)
        case "xlsx":
            return _read_workbook(path)
        case "h5ad":
            return _read_annotated(path)
    return read_text(_unpacked(path), str(path), "\t" if format == "tsv" else None)


# -- text -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """The way in which a text was written."""

    separator: str
    header: Header  # its rows are lines
    decimal: str


def read_text(data: bytes, name: str, separator: str | None = None) -> Any:
    """A pyarrow table of delimited text (bytes of a file); the separator is found if it is not given."""
    arrow, reader = import_extra("pyarrow", "csv files"), import_extra("pyarrow.csv", "csv files")
    data = _as_utf8(data, name)
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    lines = list(itertools.islice(io.BytesIO(data), LINES_TO_SNIFF))
    layout = find_layout([line.decode("utf-8") for line in lines], name, separator)
    data = data[sum(map(len, lines[: layout.header.n_above])) :]
    separator = layout.separator
    if separator == " ":  # any number of them
        data = re.sub(rb"[ \t]+", b"\t", re.sub(rb"(?m)^[ \t]+|[ \t]+(?=\r?$)", b"", data))
        separator = "\t"
    wrong: list[Any] = []

    def skip(row: Any) -> str:
        wrong.append(row)
        return "skip"

    read = reader.ReadOptions(
        use_threads=False,
        column_names=layout.header.names,
        skip_rows_after_names=int(layout.header.is_row),
        block_size=min(MAX_BLOCK, max(1 << 20, len(data))),
    )
    parse = reader.ParseOptions(
        delimiter=separator,
        newlines_in_values=True,
        invalid_row_handler=skip,
    )
    convert = reader.ConvertOptions(
        check_utf8=False, null_values=NULLS, strings_can_be_null=True, decimal_point=layout.decimal
    )
    try:
        table = reader.read_csv(arrow.BufferReader(data), read, parse, convert)
    except arrow.ArrowInvalid as error:
        reason = str(error).splitlines()[0][:200]
        raise InvalidDataError(f"{name} is not valid csv ({reason}); save it again as csv.") from error
    if wrong:
        raise _ragged(data.decode("utf-8"), name, separator, layout.header.n_above, wrong[0])
    if table.num_rows == 0:
        raise InvalidDataError(f"{name} holds a header and no rows; {NO_ROWS}.")
    return table


def _ragged(text: str, name: str, separator: str, n_above: int, row: Any) -> InvalidDataError:
    """The error for a row with another number of cells than there are columns."""
    rows = csv.reader(io.StringIO(text), delimiter=separator)
    next(cells for cells in rows if cells and len(cells) != row.expected_columns)
    remedy = "give every line the same number"
    if row.expected_columns == 1 and row.actual_columns > 1:
        remedy = "delete what stands above the names of the columns"
    elif text.count('"') % 2:
        remedy = "close or delete the quotation mark that is left open"
    count = f"{row.actual_columns} cell{'s' * (row.actual_columns != 1)}"
    return InvalidDataError(
        f"line {rows.line_num + n_above} of {name} has {count} where the first has {row.expected_columns}; "
        f"{remedy}."
    )


def _as_utf8(data: bytes, name: str) -> bytes:
    """Text in UTF-8 without a byte order mark; one byte for each letter is found, and a warning says so."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return data.decode("utf-16").encode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidDataError(f"{name} is damaged UTF-16 text; save it as UTF-8.") from error
    if 4 * data[:1000].count(0) > len(data[:1000]):  # Latin letters in UTF-16: every second byte is zero
        is_little = data[1:1000:2].count(0) > data[:1000:2].count(0)
        text = data.decode("utf-16-le" if is_little else "utf-16-be", errors="replace")
        if not {"\0", "\ufffd"} & set(text):
            return text.encode("utf-8")
    if b"\0" in data:
        raise InvalidDataError(
            f"{name} is not text; its name should say what it is, such as .parquet or .npy."
        )
    try:
        data.decode("utf-8")
        return data.removeprefix(b"\xef\xbb\xbf")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
    # Windows has letters, the sign of the euro among them, where Latin-1 has signs that no table holds.
    text, encoding = data.decode("latin-1"), "Latin-1"
    if any("\x80" <= sign < "\xa0" for sign in set(text)):
        with contextlib.suppress(UnicodeDecodeError):
            text, encoding = data.decode("cp1252"), "Windows-1252"
    warnings.warn(GuessedEncodingWarning(file=name, line=line, encoding=encoding), stacklevel=2)
    return text.encode("utf-8")


def find_layout(lines: Sequence[str], name: str = "the text", separator: str | None = None) -> Layout:
    """The layout of a text, from its first lines.

    Above a table may stand blank lines, comments, titles, and the line ``sep=;`` by which Excel is told the
    separator. numpy.savetxt writes the names of columns in a comment.
    """
    start = 0
    while start < len(lines) and re.match(r'(?i)\s*$|#|"?sep=[^\r\n]"?,*\s*$', lines[start]):
        start += 1
    if start == len(lines):
        raise InvalidDataError(f"{name} is empty; {NO_ROWS}.")
    separator = separator or _find_separator(lines[start:])
    rows = _rows_of(lines[start:], separator)
    header = find_header(rows)
    header = Header(start + header.n_above, header.names, header.is_row)
    if start and lines[start - 1].startswith("#"):
        comment = _rows_of([lines[start - 1].lstrip("# ")], separator)[0]
        if len(comment) == len(rows[0]) > 1:
            header = Header(start, distinct_names(comment), False)
    cells = [cell.strip() for row in rows for cell in row]
    commas = sum(re.fullmatch(r"[+-]?\d*,\d+", cell) is not None for cell in cells)
    points = sum(re.fullmatch(r"[+-]?\d*[.]\d+", cell) is not None for cell in cells)
    return Layout(separator, header, "," if commas > points and separator != "," else ".")


def _rows_of(lines: Sequence[str], separator: str) -> list[list[str]]:
    if separator == " ":
        return [line.split() for line in lines]
    csv.field_size_limit(sys.maxsize)
    return list(csv.reader(lines, delimiter=separator))


def _find_separator(lines: Sequence[str]) -> str:
    """The separator that cuts most lines into equally many cells; a space for columns of numbers.

    In a file with decimal commas both may do so; semicolons and tabs are never part of a number.
    """
    text = re.sub(r'"(?:[^"]|"")*"', "q", "".join(lines))  # quoted cells may hold separators and line ends
    lines = [line for line in text.splitlines() if line.strip()]
    regular: dict[str, tuple[int, int]] = {}
    for separator in SEPARATORS:
        count, n_lines = Counter(line.count(separator) for line in lines).most_common(1)[0]
        regular[separator] = (n_lines if count else 0, count)
        if separator in ";\t" and regular[separator][0] > 0.8 * len(lines):
            return separator
    best = max(SEPARATORS, key=lambda separator: regular[separator])
    rows = [line.split() for line in lines]
    is_even = len({len(row) for row in rows}) == 1 < len(rows[0])
    if regular[best][0] == len(lines) or not is_even:
        return best
    cells = [cell for row in rows[1:] or rows for cell in row]
    return " " if all(parse_numbers([cell]) is not None for cell in cells) else best


def _unpacked(path: Path) -> bytes:
    """The bytes of a file, without its compression."""
    kind = COMPRESSIONS.get(path.suffix.lower())
    if kind is None:
        return path.read_bytes()
    try:
        if kind == "zip":
            with zipfile.ZipFile(path) as archive:
                return archive.read(_only_table(path, archive.namelist()))
        arrow = import_extra("pyarrow", "compressed files")
        with arrow.CompressedInputStream(arrow.OSFile(str(path)), kind) as stream:
            return stream.read()
    except (OSError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidDataError(f"{path} is truncated or not {kind}; pack it again.") from error


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


def _read_arrow(path: Path, format: str) -> Any:
    arrow = import_extra("pyarrow", f"{format} files")
    reader = import_extra("pyarrow.parquet" if format == "parquet" else "pyarrow.feather", f"{format} files")
    try:
        table = reader.read_table(path)
    except (arrow.ArrowInvalid, OSError) as error:
        raise InvalidDataError(f"{path} is truncated or not a {format} file; write it again.") from error
    # pandas stores the index of a frame as columns and names them in the metadata: they are not data.
    index = (table.schema.pandas_metadata or {}).get("index_columns", ())
    names = [name for name in table.column_names if name not in index]
    if len(set(names)) < len(names):
        raise InvalidDataError(f"{path} has two columns of the same name; rename one.")
    if table.num_rows == 0 or not names:
        raise InvalidDataError(f"{path} is empty; {NO_ROWS}.")
    return table.select(names)


def _read_numpy(path: Path) -> Any:
    try:
        with path.open("rb") as file:  # numpy leaves a damaged archive open
            array = np.load(file, allow_pickle=False)
            if not isinstance(array, np.ndarray):
                if {"format", "shape", "data"} <= set(array.files):
                    array = scipy.sparse.load_npz(path).tocsr().astype(np.float64)
                else:
                    array = _array_of_archive(path, {name: array[name] for name in array.files})
    except InvalidDataError:
        raise
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise InvalidDataError(
            f"{path} is truncated, holds Python objects, or is no numpy file; save a 2-D array of numbers."
        ) from error
    if array.dtype.kind not in "biuf":
        raise InvalidDataError(f"{path} holds {array.dtype}, not numbers; save a 2-D array of numbers.")
    if len(array.shape) != 2:
        raise InvalidDataError(
            f"{path} holds an array of shape {array.shape}; save a 2-D array with one row per point."
        )
    if 0 in array.shape:
        raise InvalidDataError(f"{path} is empty (shape {array.shape}); {NO_ROWS}.")
    if scipy.sparse.issparse(array):
        return array
    arrow = import_extra("pyarrow", "tables")
    array = array.astype(np.float64) if array.dtype.kind == "f" else array
    return arrow.table(list(map(arrow.array, array.T)), names=distinct_names([""] * array.shape[1]))


def _array_of_archive(path: Path, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The array called X, or the only one that is a table."""
    tables = [array for name, array in arrays.items() if name == "X"]
    tables = tables or [array for array in arrays.values() if array.ndim == 2]
    if len(tables) != 1:
        raise InvalidDataError(
            f"{path} holds {len(tables)} tables ({', '.join(list(arrays)[:5])}); call the one to use X."
        )
    return tables[0]


def _read_workbook(path: Path) -> Any:
    """The first sheet of an Excel workbook."""
    excel, arrow = import_extra("openpyxl", "Excel files"), import_extra("pyarrow", "Excel files")
    try:
        book = excel.load_workbook(path, read_only=True, data_only=True)
    except Exception as error:  # openpyxl passes on what zipfile and its XML parser say
        raise InvalidDataError(f"{path} is damaged or no Excel workbook; save it again as .xlsx.") from error
    sheets = [sheet.title for sheet in book.worksheets]
    if len(sheets) > 1:
        warnings.warn(FirstSheetWarning(file=str(path), sheets=sheets), stacklevel=2)
    rows = [row for row in book.worksheets[0].iter_rows(values_only=True) if any(c is not None for c in row)]
    book.close()
    if not rows:
        raise InvalidDataError(f"{path} is empty; its first sheet must hold at least one row of numbers.")
    header = find_header(rows[:LINES_TO_SNIFF])
    rows = rows[header.n_above + header.is_row :]
    if not rows:
        raise InvalidDataError(f"{path} holds a header and no rows; its first sheet must hold rows below it.")
    columns = [_workbook_column(arrow, cells) for cells in zip(*rows, strict=True)]
    return arrow.table(columns, names=header.names)


def _workbook_column(arrow: Any, cells: Sequence[Any]) -> Any:
    try:
        return arrow.array(cells)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError):  # cells of several kinds
        return arrow.array([None if cell is None else str(cell) for cell in cells])


def _read_annotated(path: Path) -> Any:
    """The principal components of an AnnData file or its first embedding, or X if it has none.

    A pyarrow table with the names of the cells, or X as a sparse matrix (n, d).
    """
    h5, arrow = import_extra("h5py", "AnnData files"), import_extra("pyarrow", "AnnData files")
    try:
        file = h5.File(path, "r")
    except OSError as error:
        raise InvalidDataError(f"{path} is damaged or no AnnData file; write it again as .h5ad.") from error
    with file:
        embeddings = {name: item for name, item in file.get("obsm", {}).items() if hasattr(item, "shape")}
        if not embeddings:
            return _annotated_x(path, file)
        name = "X_pca" if "X_pca" in embeddings else min(embeddings)
        values = np.asarray(embeddings[name], dtype=np.float64)
        columns = {f"{name.removeprefix('X_')}{place}": column for place, column in enumerate(values.T)}
        rows: Any = file.get("obs", {})
        index: Any = rows.get(rows.attrs.get("_index", "_index")) if hasattr(rows, "attrs") else None
        if hasattr(index, "shape") and len(index) == len(values):
            columns = {
                "cell": [cell.decode() if isinstance(cell, bytes) else cell for cell in index],
                **columns,
            }
        return arrow.table(columns)


def _annotated_x(path: Path, file: Any) -> Any:
    x = file.get("X")
    if x is None:
        raise InvalidDataError(f"{path} has neither obsm nor X; write the AnnData object again.")
    if hasattr(x, "shape"):
        return scipy.sparse.csr_array(np.asarray(x, dtype=np.float64))
    parts = tuple(np.asarray(x[part]) for part in ("data", "indices", "indptr"))
    by_columns = str(x.attrs.get("encoding-type")) == "csc_matrix"
    kind = scipy.sparse.csc_array if by_columns else scipy.sparse.csr_array
    return kind(parts, shape=tuple(x.attrs["shape"])).tocsr()
