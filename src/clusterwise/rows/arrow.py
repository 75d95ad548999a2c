"""Parquet files, directories of them, and Arrow datasets, read batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from clusterwise._extras import import_extra
from clusterwise._safety import one_sentence, require_modest_names, require_modest_size
from clusterwise.exceptions import InvalidDataError
from clusterwise.rows.source import Batch, LocalSource, rows_at_once
from clusterwise.tables.readers import data_columns

__all__ = ["ArrowSource", "ParquetPart", "open_parquet", "parquet_parts"]

# Bytes of each column that are asked for at once; larger pages of a file are read whole.
BYTES_AT_ONCE = 2**14
# With one of these ``dask.dataframe.read_parquet`` gives other rows or columns than there are in the files.
CHANGES = ("partitions", "categories", "filters")


def open_parquet(path: str | Path, trusted: bool = False) -> ArrowSource:
    """The rows of a Parquet file, or of all Parquet files below a directory, in the order of their names.

    A file that says it has very many rows for its size must be ``trusted``.
    """
    path = Path(path)
    if not path.exists():
        raise InvalidDataError(f"there is no file {path}; check the name and the folder.")
    datasets = import_extra("pyarrow.dataset", "parquet files")
    with one_sentence(path, "parquet file", "write it again"):
        files = sorted(map(str, path.rglob("*.parquet"))) if path.is_dir() else str(path)
        if not files:
            raise InvalidDataError(f"{path} holds no .parquet files; check the folder.")
        source = ArrowSource(datasets.dataset(files, format="parquet"), str(path))
        if not path.is_dir():
            require_modest_size(path, 8 * source.n_rows * source.n_features, trusted)
            require_modest_names(path, source.names, trusted)
        return source


class ArrowSource(LocalSource):
    """The rows of a ``pyarrow.dataset.Dataset``; batches are ``pyarrow.Table``."""

    names: tuple[str, ...]

    def __init__(self, dataset: Any, name: str = "X", columns: Sequence[str] | None = None) -> None:
        self.dataset = dataset
        self.name = name
        schema = dataset.schema
        self.names = tuple(data_columns(schema, name) if columns is None else columns)
        self.n_features = len(self.names)

    def select(self, columns: Sequence[str]) -> ArrowSource:
        """The same rows with these columns alone."""
        return ArrowSource(self.dataset, self.name, columns)

    @cached_property
    def _fragments(self) -> list[tuple[Any, str, int]]:
        """Each file with its name and the number of its first row."""
        found, start = [], 0
        for number, fragment in enumerate(self.dataset.get_fragments()):
            place = getattr(fragment, "path", "") or f"{self.name}, part {number}"
            found.append((fragment, place, start))
            start += self._checked(place, _length, fragment)
        self._n_rows = start
        return found

    def _checked(self, place: str, read: Any, *arguments: Any) -> Any:
        """What ``read`` returns; Arrow's errors come out as ours, with the name of the file."""
        with one_sentence(
            place, "file like the others", "it must be whole, with the same columns of the same types"
        ):
            return read(*arguments)

    @property
    def n_rows(self) -> int:
        """Number of rows n, from the files' own records."""
        return self._n_rows if self._fragments else 0

    def batches(self) -> Iterator[Batch]:
        """All batches in order."""
        arrow = import_extra("pyarrow", "parquet files")
        for fragment, place, start in self._fragments:
            found = fragment.physical_schema
            missing = [label for label in self.names if label not in found.names]
            if missing:
                raise InvalidDataError(
                    f"{place} has no column {missing[0]!r}, which the first file has; write all files with "
                    "the same columns."
                )
            reading, first = self._checked(place, self._reading, fragment), 0
            while (rows := self._checked(place, next, reading, None)) is not None:
                if rows.num_rows > 0:
                    yield Batch(arrow.Table.from_batches([rows]), start + first, place, first)
                    first += rows.num_rows

    def _reading(self, fragment: Any) -> Iterator[Any]:
        """Batches of one file.

        Arrow's scanner reads ahead, whole row groups and more of them the longer a task takes. On this
        machine that costs memory and saves no time, so that files of it are read page by page.
        """
        schema, size = self.dataset.schema, rows_at_once(self.n_features)
        datasets = import_extra("pyarrow.dataset", "parquet files")
        local = (
            isinstance(fragment, datasets.ParquetFileFragment) and fragment.filesystem.type_name == "local"
        )
        found = fragment.physical_schema
        if local and all(found.field(name).type == schema.field(name).type for name in self.names):
            parquet = import_extra("pyarrow.parquet", "parquet files")
            file = parquet.ParquetFile(fragment.path, buffer_size=BYTES_AT_ONCE, pre_buffer=False)
            groups = [group.id for group in fragment.row_groups]
            return iter(file.iter_batches(size, groups, list(self.names), use_threads=False))
        return iter(
            fragment.to_batches(
                columns=list(self.names),
                batch_size=size,
                batch_readahead=1,
                fragment_readahead=1,
                schema=schema,
            )
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_fragments", "_n_rows")}


def _length(fragment: Any) -> int:
    """Rows of a fragment, perhaps of some row groups of a Parquet file: ``count_rows`` counts all of them."""
    datasets = import_extra("pyarrow.dataset", "parquet files")
    if isinstance(fragment, datasets.ParquetFileFragment):
        return sum(group.num_rows for group in fragment.row_groups)
    return int(fragment.count_rows())


# -- partitions of a dask DataFrame that are Parquet files ------------------------------------------

# Tasks read them in batches, as one machine does: dask would make one pandas table of a whole partition
# first, in every pass. Where a partition is nothing but some row groups of files, it is enough to know which.


@dataclass(frozen=True)
class ParquetPart:
    """The rows of a partition: where they are, not what they are."""

    pieces: tuple[tuple[str, tuple[int, ...] | None], ...]  # files, and the row groups of each; None: all
    files: Any  # the file system of fsspec; None: that of this machine
    schema: Any  # of all files together
    columns: tuple[str, ...]

    def _source(self) -> ArrowSource:
        datasets = import_extra("pyarrow.dataset", "parquet files")
        fs, format = import_extra("pyarrow.fs", "parquet files"), datasets.ParquetFileFormat()
        local = self.files is None
        system = fs.LocalFileSystem() if local else fs.PyFileSystem(fs.FSSpecHandler(self.files))
        fragments = [format.make_fragment(path, system, row_groups=groups) for path, groups in self.pieces]
        return ArrowSource(datasets.FileSystemDataset(fragments, self.schema, format), columns=self.columns)

    def __len__(self) -> int:
        return self._source().n_rows

    def batches(self) -> Iterator[Batch]:
        """All batches in order, with numbers of rows from zero."""
        return self._source().batches()


def parquet_parts(X: Any, parts: list[Any]) -> list[ParquetPart] | None:
    """What the partitions of a data frame, delayed ``parts``, are read from; None if they are more than that.

    It looks into the graph. Whatever is not as expected is left to dask.
    """
    found = [_part_of(dict(part.dask).get(part.key), tuple(map(str, X.columns))) for part in parts]
    complete = [part for part in found if part is not None]
    return complete if complete and len(complete) == len(found) else None


def _part_of(task: Any, columns: tuple[str, ...]) -> ParquetPart | None:
    """The rows that a task of a graph reads, if it does nothing else."""
    read: Any = getattr(task, "func", None)
    arguments: tuple[Any, ...] = getattr(task, "args", ())
    if type(read).__name__ != "ParquetFunctionWrapper" or len(arguments) != 1 or task.kwargs:
        return None
    options = read.common_kwargs
    given = arguments[0] if isinstance(arguments[0], list) else [arguments[0]]
    plain = all(isinstance(one, dict) and set(one) == {"piece"} and not one["piece"][2] for one in given)
    if any(map(options.get, CHANGES)) or not plain or not set(columns) <= set(options["schema"].names):
        return None
    pieces = [one["piece"] for one in given]
    return ParquetPart(
        tuple((path, None if groups is None else tuple(groups)) for path, groups, _ in pieces),
        None if type(read.fs).__name__ == "LocalFileSystem" else read.fs,
        options["schema"],
        columns,
    )
