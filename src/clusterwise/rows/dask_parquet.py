"""Partitions of a dask DataFrame that are Parquet files: tasks read them in batches, as one machine does.

dask would make one pandas table of a whole partition first, in every pass. Where a partition is nothing but
some row groups of files, it is enough to know which.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from clusterwise._extras import import_extra
from clusterwise.rows.arrow import ArrowSource
from clusterwise.rows.base import Batch

__all__ = ["ParquetPart", "parquet_parts"]

# With one of these ``read_parquet`` gives other rows or columns than there are in the files.
CHANGES = ("partitions", "categories", "filters")


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
