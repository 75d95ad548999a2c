"""From the user's columns to the features that DeepDPM clusters, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from clusterwise.deepdpm.alternation import Code
from clusterwise.deepdpm.neighbours import Vary
from clusterwise.exceptions import ClusterwiseError
from clusterwise.fitting.columns import Columns
from clusterwise.gaussian.rows import Rows

__all__ = ["Space", "Variants", "vary_features"]

# Draws a variant of each row (n, d) of the user's data.
Variants = Callable[[np.ndarray, np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Space:
    """The columns that vary, in units of their spread, each stretched by a factor of its own, and encoded.

    With learned features the code comes last, and a density is one of these features.
    """

    columns: Columns
    stretch: np.ndarray  # (f,)
    n_latent: int | None = None  # number of learned features, if there are any
    code: Code | None = None

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
        """Number of features that are clustered."""
        return len(self.stretch) if self.n_latent is None else self.n_latent

    @property
    def varies(self) -> bool:
        """Whether there is more than one value in any column."""
        return bool(self.columns.varies.any())

    @property
    def log_volume(self) -> float:
        """A log density in data units is that of the features minus this."""
        if self.code is not None:
            return self.code.scaling.log_volume
        return self.columns.log_volume - float(np.log(self.stretch).sum())

    def rows(self, rows: Rows) -> Rows:
        """The rows of a table with these columns, stretched; a mapped file is still read as it is needed."""
        if rows.scaling is None:
            return Rows(rows.points * self.stretch)
        return replace(rows, scaling=replace(rows.scaling, scale=rows.scaling.scale / self.stretch))

    def apply(self, points: np.ndarray) -> np.ndarray:
        """Features of points (n, d); each row on its own."""
        features = self.columns.apply(points) * self.stretch
        return features if self.code is None else self.code.encode(features)

    def undo(self, features: np.ndarray) -> np.ndarray:
        """Points (n, d) with the given features."""
        features = features if self.code is None else self.code.decode(features)
        return self.columns.undo(features / self.stretch)

    def undo_covariances(self, covariances: np.ndarray) -> np.ndarray:
        """Covariances (K, d, d) in the units of the data, or (K, f, f) of learned features in theirs."""
        if self.code is not None:
            return covariances * np.square(self.code.scaling.scale[0])
        return self.columns.undo_covariances(covariances / self.stretch[:, None] / self.stretch)

    def variances(self, given: np.ndarray) -> np.ndarray:
        """Variances (d,) in the units of the data, as those of the features (f,)."""
        relative = np.sqrt(given[self.columns.used]) / self.columns.scaling.scale
        result: np.ndarray = np.square(relative * self.stretch)
        return result


def vary_features(space: Space, variants: Variants) -> Vary:
    """The user's variants as variants of features (n, f) that are not encoded yet."""

    def vary(features: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        points = space.undo(features)
        varied = np.asarray(variants(points, rng), dtype=np.float64)
        if varied.shape != points.shape or not np.isfinite(varied).all():
            raise ClusterwiseError(
                f"variants must return finite numbers of shape {points.shape}, one variant for each row; got "
                f"shape {varied.shape}."
            )
        return space.apply(varied)

    return vary
