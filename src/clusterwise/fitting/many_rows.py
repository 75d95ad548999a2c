"""What estimators do with sources of rows: arrays that come when they are asked for, and labels by batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from clusterwise.affine import FeatureSpace
from clusterwise.exceptions import ClusterwiseError
from clusterwise.fitting.describe import Assigner
from clusterwise.fitting.labelling import BatchLabeller
from clusterwise.gaussian.clusters import Described
from clusterwise.rows import Batch
from clusterwise.tables import TablePreparation

__all__ = ["Densities", "Memberships", "OfAllRows", "OneColumn", "TableReader"]


class OfAllRows:
    """An attribute with a value for each row of ``fit``, made when it is first looked at.

    Data in memory leave their arrays in the estimator itself, which come before this.
    """

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, estimator: Any, owner: type) -> Any:
        if estimator is None:
            return self
        if vars(estimator).get("_source") is None:
            raise AttributeError(f"{owner.__name__} has no {self.name} before fit.")
        value = self.make(estimator)
        vars(estimator)[self.name] = value
        return value


@dataclass(frozen=True)
class OneColumn:
    """The task that returns one of labels, probabilities and outlier scores."""

    labeller: BatchLabeller
    name: str

    def __call__(self, batch: Batch) -> np.ndarray:
        """One number for each row."""
        found: np.ndarray = getattr(self.labeller(batch), self.name)
        return found


@dataclass(frozen=True)
class Memberships:
    """The task that returns memberships (m, K)."""

    read: Callable[[Batch], np.ndarray]
    space: FeatureSpace
    assigner: Assigner

    def __call__(self, batch: Batch) -> np.ndarray:
        """Probability of each cluster for each row."""
        return self.assigner.memberships(self.space.apply(self.read(batch).astype(np.float64)))


@dataclass(frozen=True)
class Densities:
    """The task that returns log densities (m,) in the units of the data."""

    read: Callable[[Batch], np.ndarray]
    space: FeatureSpace
    clusters: Described

    def __call__(self, batch: Batch) -> np.ndarray:
        """Log density of each row."""
        features = self.space.apply(self.read(batch).astype(np.float64))
        return self.clusters.log_density(features) - self.space.log_volume


@dataclass(frozen=True)
class TableReader:
    """Turns batches of a table into prepared features."""

    preparation: TablePreparation

    def __call__(self, batch: Batch) -> np.ndarray:
        """Features (m, f) of a batch."""
        try:
            return self.preparation.transform(batch.data)
        except ClusterwiseError as error:
            raise type(error)(f"{batch.place}: {error}") from error
