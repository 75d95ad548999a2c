"""From the user's columns to the features that DeepDPM clusters, and back."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from clusterwise.dp.rows import Rows
from clusterwise.estimators.tables import Columns

__all__ = ["Space"]


@dataclass(frozen=True)
class Space:
    """The columns that vary, in units of their spread, each stretched by a factor of its own."""

    columns: Columns
    stretch: np.ndarray  # (f,)

    @classmethod
    def of(cls, columns: Columns, pareto: bool) -> Space:
        """The columns as they are, or in Pareto's units if they have unit variance now.

        In these units a feature's standard deviation is the root of that in the data, relative to the others,
        and the variance is one on average. An isotropic prior in them is the authors' Psi, a multiple of the
        standard deviations.
        """
        if not pareto:
            return cls(columns, np.ones(len(columns.used)))
        spreads = columns.scaling.scale / columns.scaling.scale.max()
        return cls(columns, np.sqrt(spreads / spreads.mean()))

    @property
    def n_given(self) -> int:
        """Number of columns d of the data."""
        return len(self.columns.varies)

    @property
    def n_features(self) -> int:
        """Number of features f."""
        return len(self.stretch)

    @property
    def varies(self) -> bool:
        """Whether there is more than one value in any column."""
        return bool(self.columns.varies.any())

    @property
    def log_volume(self) -> float:
        """A log density in data units is that of the features minus this."""
        return self.columns.scaling.log_volume - float(np.log(self.stretch).sum())

    def rows(self, rows: Rows) -> Rows:
        """The rows of a table with these columns, stretched; a mapped file is still read as it is needed."""
        if rows.scaling is None:
            return Rows(rows.points * self.stretch)
        return replace(rows, scaling=replace(rows.scaling, scale=rows.scaling.scale / self.stretch))

    def apply(self, points: np.ndarray) -> np.ndarray:
        """Features (n, f) of points (n, d); each row on its own."""
        return self.columns.apply(points) * self.stretch

    def undo(self, features: np.ndarray) -> np.ndarray:
        """Points (n, d) with the given features (n, f)."""
        return self.columns.undo(features / self.stretch)

    def undo_covariances(self, covariances: np.ndarray) -> np.ndarray:
        """Covariances (K, d, d) in the units of the data."""
        return self.columns.undo_covariances(covariances / self.stretch[:, None] / self.stretch)

    def variances(self, given: np.ndarray) -> np.ndarray:
        """Variances (d,) in the units of the data, as those of the features (f,)."""
        relative = np.sqrt(given[self.columns.used]) / self.columns.scaling.scale
        result: np.ndarray = np.square(relative * self.stretch)
        return result
