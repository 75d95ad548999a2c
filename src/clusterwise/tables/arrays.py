"""The tables of array files: numpy's npy and npz, scipy's sparse npz, and AnnData's h5ad.

Sizes, shapes and indices are checked before numbers are used: compiled code believes them.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from clusterwise._extras import import_extra
from clusterwise._safety import (
    IF_TRUSTED,
    MAX_COLUMNS_SPARSE,
    one_sentence,
    require_modest_names,
    require_modest_size,
)
from clusterwise.exceptions import InvalidDataError
from clusterwise.tables.cells import distinct_names
from clusterwise.tables.delimited import NO_ROWS

__all__ = ["arrays_in", "read_annotated", "read_numpy"]

PARTS = ("data", "indices", "indptr")


def read_numpy(path: Path, trusted: bool) -> Any:
    """A pyarrow table of an array, or a sparse matrix."""
    with one_sentence(path, "numpy file without Python objects", "save a 2-D array of numbers"):
        with path.open("rb") as file:
            is_array = file.read(6) == np.lib.format.MAGIC_PREFIX
        if not is_array:
            found = _array_of_archive(path, arrays_in(path, trusted), trusted)
        else:  # a map is as long as the header says, or fails
            found = np.load(path, mmap_mode="r", allow_pickle=False)
    return found if scipy.sparse.issparse(found) else _as_table(path, found, trusted)


def arrays_in(path: Path, trusted: bool = False) -> dict[str, np.ndarray]:
    """All arrays of an npz file by their names; of a member no more is read than the archive says it has."""
    with one_sentence(path, "npz file without Python objects", "save arrays with numpy.savez"):
        with zipfile.ZipFile(path) as archive:
            require_modest_size(path, sum(member.file_size for member in archive.infolist()), trusted)
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            # What does not begin like an array comes as bytes.
            return {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}


def _array_of_archive(path: Path, arrays: dict[str, np.ndarray], trusted: bool) -> Any:
    """A sparse matrix, the array called X, or the only one that is a table."""
    if {"format", "shape", "data"} <= set(arrays):
        return _sparse_of_archive(path, arrays, trusted)
    tables = [array for name, array in arrays.items() if name == "X"]
    tables = tables or [array for array in arrays.values() if array.ndim == 2]
    if len(tables) != 1:
        raise InvalidDataError(
            f"{path} holds {len(tables)} tables ({', '.join(list(arrays)[:5])}); call the one to use X."
        )
    return tables[0]


def _as_table(path: Path, array: np.ndarray, trusted: bool) -> Any:
    """A pyarrow table of an array (n, d), or of a structured one (n,)."""
    arrow = import_extra("pyarrow", "tables")
    if array.dtype.names is not None and array.ndim == 1:
        columns, names = [array[name] for name in array.dtype.names], distinct_names(array.dtype.names)
    else:
        if array.dtype.kind not in "biuf":
            raise InvalidDataError(f"{path} holds {array.dtype}, not numbers; save a 2-D array of numbers.")
        if array.ndim != 2:
            raise InvalidDataError(
                f"{path} holds an array of shape {array.shape}; save a 2-D array with one row per point."
            )
        columns, names = list(array.T), []
    if 0 in array.shape:
        raise InvalidDataError(f"{path} is empty (shape {array.shape}); {NO_ROWS}.")
    names = names or distinct_names([""] * len(columns))
    require_modest_names(path, names, trusted)
    with one_sentence(path, "table of numbers", "save a 2-D array of numbers"):
        # Arrow knows neither numbers of other machines nor those of sixteen bytes.
        native = [
            column.astype(np.float64 if column.dtype.kind == "f" else column.dtype.newbyteorder("="))
            for column in columns
        ]
        return arrow.table(list(map(arrow.array, native)), names=names)


# -- sparse matrices --------------------------------------------------------------------------------


def _sparse_of_archive(path: Path, arrays: Mapping[str, np.ndarray], trusted: bool) -> Any:
    kind = arrays["format"].item()
    kind = kind.decode() if isinstance(kind, bytes) else kind
    if kind in ("csr", "csc"):
        return sparse_matrix(path, arrays, arrays["shape"], kind == "csc", trusted)
    if kind != "coo":
        raise InvalidDataError(
            f"{path} is a sparse matrix of the format {str(kind)[:20]!r}; save matrix.tocsr()."
        )
    shape = _modest_shape(path, arrays["shape"], trusted)
    places = [_indices(path, arrays[name], size) for name, size in zip(("row", "col"), shape, strict=True)]
    if not len(places[0]) == len(places[1]) == len(arrays["data"]):
        raise _inconsistent(path)
    return scipy.sparse.coo_array((_numbers(path, arrays["data"]), tuple(places)), shape=shape).tocsr()


def sparse_matrix(path: Path, parts: Mapping[str, Any], shape: Any, by_columns: bool, trusted: bool) -> Any:
    """A sparse matrix (n, d) of its data, indices and pointers, which belong together."""
    n_rows, n_columns = shape = _modest_shape(path, shape, trusted)
    major, minor = (n_columns, n_rows) if by_columns else (n_rows, n_columns)
    data, indices = _numbers(path, parts["data"]), _indices(path, parts["indices"], minor)
    pointers = _indices(path, parts["indptr"], len(data) + 1)
    ends = len(pointers) == major + 1 and pointers[0] == 0 and pointers[-1] == len(data) == len(indices)
    if not ends or (np.diff(pointers) < 0).any():
        raise _inconsistent(path)
    kind = scipy.sparse.csc_array if by_columns else scipy.sparse.csr_array
    return kind((data, indices, pointers), shape=shape).tocsr()


def _inconsistent(path: Path) -> InvalidDataError:
    return InvalidDataError(
        f"{path} is damaged: the parts of its sparse matrix do not fit each other; write it again."
    )


def _modest_shape(path: Path, shape: Any, trusted: bool) -> tuple[int, int]:
    """Numbers of rows and columns, both above zero and not too large."""
    sizes = np.asarray(shape)
    if sizes.shape != (2,) or sizes.dtype.kind not in "iu":
        raise _inconsistent(path)
    n_rows, n_columns = map(int, sizes)
    if min(n_rows, n_columns) < 1:
        raise InvalidDataError(f"{path} is empty (shape {(n_rows, n_columns)}); {NO_ROWS}.")
    require_modest_size(path, 8 * n_rows, trusted)
    if n_columns > MAX_COLUMNS_SPARSE and not trusted:
        raise InvalidDataError(
            f"{path} has {n_columns:,} columns, more than {MAX_COLUMNS_SPARSE:,}; {IF_TRUSTED}."
        )
    return n_rows, n_columns


def _indices(path: Path, values: np.ndarray, size: int) -> np.ndarray:
    """Whole numbers (m,) that are at least 0 and below ``size``."""
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise _inconsistent(path)
    if len(values) and not (values.min() >= 0 and values.max() < size):
        raise _inconsistent(path)
    return values.astype(np.int64)


def _numbers(path: Path, values: np.ndarray) -> np.ndarray:
    """Numbers of sparse entries, (m,) float64."""
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        raise _inconsistent(path)
    return values.astype(np.float64)


# -- AnnData ----------------------------------------------------------------------------------------


class _Inside:
    """What is inside one HDF5 file, and there alone: links to other files are not followed."""

    def __init__(self, path: Path, trusted: bool) -> None:
        self.h5 = import_extra("h5py", "AnnData files")
        self.path, self.trusted = path, trusted

    def item(self, group: Any, name: str) -> Any:
        """An item of a group, or None."""
        link = group.get(name, getlink=True) if "/" not in name else None
        if link is None:
            return None
        if not isinstance(link, self.h5.HardLink):
            raise self._outside(name)
        found = group[name]
        if isinstance(found, self.h5.Dataset) and (found.external or found.is_virtual):
            raise self._outside(name)
        return found

    def group(self, parent: Any, name: str) -> Mapping[str, Any]:
        """The items of a group by their names; none if it is not there."""
        found = self.item(parent, name)
        if not isinstance(found, self.h5.Group):
            return {}
        return {key: self.item(found, key) for key in found}

    def numbers(self, item: Any) -> np.ndarray:
        """The numbers of a dataset."""
        if not isinstance(item, self.h5.Dataset) or item.dtype.kind not in "biuf" or item.shape is None:
            raise InvalidDataError(f"{self.path} holds other things than numbers; write it again as .h5ad.")
        require_modest_size(self.path, item.size * max(8, item.dtype.itemsize), self.trusted)
        return np.asarray(item)

    def _outside(self, name: str) -> InvalidDataError:
        return InvalidDataError(
            f"{self.path} holds no {name!r} of its own, but points elsewhere for it; write it again, "
            "with everything inside."
        )


# Where a file is damaged the library of HDF5 may crash, or go round in circles: a process of its own, with a
# limit of time, opens what is inside before this one does. Links are not followed.
LOOK = """
import contextlib, sys
with contextlib.suppress(ImportError):
    import resource
    resource.setrlimit(resource.RLIMIT_CPU, (6, 6))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
import h5py
def look(name, item):
    values = [item.attrs[key] for key in item.attrs]
    if name.startswith("obs/") and isinstance(item, h5py.Dataset) and item.dtype.kind == "O":
        item[:]
with h5py.File(sys.argv[1], "r") as file:
    look("", file)
    file.visititems(look)
"""
MAX_LOOK = 120  # seconds, on a busy machine


def _require_sound(path: Path) -> None:
    """Raise an error if opening what is inside a file ends a process, or does not end."""
    try:
        command = [sys.executable, "-P", "-c", LOOK, str(path)]
        ended = subprocess.run(command, capture_output=True, timeout=MAX_LOOK).returncode >= 0
    except subprocess.TimeoutExpired:
        ended = False
    except OSError:  # there is no interpreter to start
        return
    if not ended:
        raise InvalidDataError(f"{path} is damaged inside; write it again as .h5ad.")


def read_annotated(path: Path, trusted: bool) -> Any:
    """The principal components of an AnnData file or its first embedding, or X if it has none.

    A pyarrow table with the names of the cells, or X as a sparse matrix (n, d).
    """
    inside, arrow = _Inside(path, trusted), import_extra("pyarrow", "AnnData files")
    _require_sound(path)
    with one_sentence(path, "AnnData file", "write it again as .h5ad"), inside.h5.File(path, "r") as file:
        items = inside.group(file, "obsm").items()
        embeddings = {name: item for name, item in items if isinstance(item, inside.h5.Dataset)}
        if not embeddings:
            return _annotated_x(path, inside, file)
        name = "X_pca" if "X_pca" in embeddings else min(embeddings)
        values = inside.numbers(embeddings[name]).astype(np.float64)
        if values.ndim != 2 or 0 in values.shape:
            raise InvalidDataError(f"{path} holds an embedding of shape {values.shape}; {NO_ROWS}.")
        columns = {f"{name.removeprefix('X_')}{place}": column for place, column in enumerate(values.T)}
        cells = _names_of_cells(inside, file)
        if cells is not None and len(cells) == len(values):
            columns = {"cell": cells, **columns}
        require_modest_names(path, columns, trusted)
        return arrow.table(columns)


def _names_of_cells(inside: _Inside, file: Any) -> Any:
    """Names of the rows (n,), if the file has any."""
    rows = inside.item(file, "obs")
    name = rows.attrs.get("_index", "_index") if isinstance(rows, inside.h5.Group) else None
    names = inside.item(rows, name) if isinstance(name, str) else None
    if not isinstance(names, inside.h5.Dataset) or names.ndim != 1 or names.dtype.kind not in "OS":
        return None
    require_modest_size(inside.path, names.size * max(8, names.dtype.itemsize), inside.trusted)
    return [name.decode(errors="replace") if isinstance(name, bytes) else str(name) for name in names[:]]


def _annotated_x(path: Path, inside: _Inside, file: Any) -> Any:
    x = inside.item(file, "X")
    if x is None:
        raise InvalidDataError(f"{path} has neither obsm nor X; write the AnnData object again.")
    if isinstance(x, inside.h5.Dataset):
        values = inside.numbers(x).astype(np.float64)
        if values.ndim != 2 or 0 in values.shape:
            raise InvalidDataError(f"{path} holds an X of shape {values.shape}; {NO_ROWS}.")
        return scipy.sparse.csr_array(values)
    parts = {part: inside.numbers(inside.item(x, part)) for part in PARTS}
    by_columns = str(x.attrs.get("encoding-type")) == "csc_matrix"
    return sparse_matrix(path, parts, x.attrs.get("shape"), by_columns, inside.trusted)
