"""Excel workbooks and annotated matrices of single cells, each by a package of its own."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from clusterwise.exceptions import FirstSheetWarning, InvalidDataError
from clusterwise.tables.file_tables import import_or_say
from clusterwise.tables.text import column_names_of

__all__ = ["read_annotated", "read_workbook"]


def read_workbook(path: Path) -> Any:
    """Read the first sheet of an Excel workbook as a pyarrow table."""
    excel, arrow = import_or_say("openpyxl", "Excel files"), import_or_say("pyarrow", "Excel files")
    try:
        book = excel.load_workbook(path, read_only=True, data_only=True)
    except Exception as error:  # openpyxl passes on what zipfile and its XML parser say
        raise InvalidDataError(f"{path} is damaged or no Excel workbook; save it again as .xlsx.") from error
    sheet, *others = book.worksheets
    if others:
        titles = [each.title for each in book.worksheets]
        warnings.warn(FirstSheetWarning(file=str(path), sheets=titles), stacklevel=2)
    rows = [row for row in sheet.iter_rows(values_only=True) if any(c is not None for c in row)]
    book.close()
    if not rows:
        raise InvalidDataError(f"{path} is empty; its first sheet must hold at least one row of numbers.")
    top = [["" if cell is None else str(cell) for cell in row] for row in rows[:2]]
    names, headed = column_names_of(top)
    if headed and len(rows) == 1:
        raise InvalidDataError(f"{path} holds a header and no rows; its first sheet must hold rows below it.")
    columns = list(zip(*rows[1 if headed else 0 :], strict=True))
    return arrow.table([_workbook_column(arrow, cells) for cells in columns], names=names)


def _workbook_column(arrow: Any, cells: Any) -> Any:
    try:
        return arrow.array(cells)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError):  # cells of several kinds
        return arrow.array([None if cell is None else str(cell) for cell in cells])


def read_annotated(path: Path) -> Any:
    """Read an AnnData file: its principal components or first embedding, or X if it has none.

    A pyarrow table with the names of the cells, or X as a sparse matrix (n, d).
    """
    h5, arrow = import_or_say("h5py", "AnnData files"), import_or_say("pyarrow", "AnnData files")
    try:
        file = h5.File(path, "r")
    except OSError as error:
        raise InvalidDataError(f"{path} is damaged or no AnnData file; write it again as .h5ad.") from error
    with file:
        embeddings = {name: item for name, item in file.get("obsm", {}).items() if hasattr(item, "shape")}
        if not embeddings:
            return _annotated_x(path, file)
        name = "X_pca" if "X_pca" in embeddings else sorted(embeddings)[0]
        values = np.asarray(embeddings[name], dtype=np.float64)
        label = name.removeprefix("X_")
        columns = {f"{label}{place}": values[:, place] for place in range(values.shape[1])}
        names = _cell_names(file)
        return arrow.table({"cell": names, **columns} if len(names) == len(values) else columns)


def _annotated_x(path: Path, file: Any) -> Any:
    x = file.get("X")
    if x is None:
        raise InvalidDataError(f"{path} has neither obsm nor X; write the AnnData object again.")
    if hasattr(x, "shape"):
        return scipy.sparse.csr_array(np.asarray(x, dtype=np.float64))
    parts = tuple(np.asarray(x[part]) for part in ("data", "indices", "indptr"))
    kind = (
        scipy.sparse.csc_array
        if str(x.attrs.get("encoding-type")) == "csc_matrix"
        else scipy.sparse.csr_array
    )
    return kind(parts, shape=tuple(x.attrs["shape"])).tocsr()


def _cell_names(file: Any) -> list[str]:
    rows = file.get("obs")
    if rows is None or not hasattr(rows, "attrs"):
        return []
    index = rows.get(rows.attrs.get("_index", "_index")) if hasattr(rows, "get") else None
    if index is None or not hasattr(index, "shape"):
        return []
    return [name.decode() if isinstance(name, bytes) else str(name) for name in index[()]]
