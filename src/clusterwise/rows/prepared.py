"""A source whose batches are turned into features before anybody sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from clusterwise.dp.blocks import Blocks
from clusterwise.exceptions import ClusterwiseError
from clusterwise.rows.base import Batch, RowSource

__all__ = ["InFeatures", "PreparedSource"]

Result = TypeVar("Result")


@dataclass(frozen=True)
class InFeatures:
    """A task on features (m, f), as a task on batches of a table."""

    task: Callable[[Batch], Any]
    transform: Callable[[Any], np.ndarray]

    def __call__(self, batch: Batch) -> Any:
        """What the task makes of the features of a batch."""
        try:
            features = self.transform(batch.data)
        except ClusterwiseError as error:
            raise type(error)(f"{batch.place}: {error}") from error
        return self.task(Batch(features, batch.start, batch.place, batch.first))


class PreparedSource(RowSource):
    """The rows of a table as numeric features."""

    names = None

    def __init__(self, table: RowSource, transform: Callable[[Any], np.ndarray], n_features: int) -> None:
        self.table = table
        self.transform = transform
        self.n_features = n_features

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return self.table.n_rows

    def map(self, task: Callable[[Batch], Result]) -> Iterator[Result]:
        """See ``RowSource``."""
        return self.table.map(InFeatures(task, self.transform))

    def gather(self, task: Callable[[Batch], np.ndarray], dtype: Any, n_columns: int | None = None) -> Any:
        """See ``RowSource``."""
        return self.table.gather(InFeatures(task, self.transform), dtype, n_columns)

    def hold(self, features: Callable[[Batch], np.ndarray], sample: np.ndarray) -> Blocks:
        """See ``RowSource``."""
        return self.table.hold(InFeatures(features, self.transform), sample)
