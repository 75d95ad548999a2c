"""A scikit-learn transformer from tables as people have them to numeric features of equal weight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from clusterwise.exceptions import FeatureCountError, InvalidDataError, NoColumnError
from clusterwise.neighbours import look_like_components
from clusterwise.tables.columns import (
    Column,
    Reason,
    TableColumns,
    read_columns,
    select_columns,
    set_aside_notes,
)
from clusterwise.tables.encoding import Encoding, Jitter, Levels, fit_encodings
from clusterwise.tables.reduction import (
    Imputer,
    Reduction,
    fit_reduction,
    looks_like_embedding,
    redundancy_weights,
)

__all__ = ["TablePreparation"]

# A row that lacks more than this share of its columns is filled in from hardly anything.
LACKING_MUCH = 0.5


@dataclass(frozen=True)
class _Encoded:
    """Encodings of the columns in use, imputation, and weights of features."""

    encodings: tuple[Encoding, ...]
    noise: Jitter
    imputer: Imputer | None
    weights: np.ndarray  # (f,)

    def __call__(self, columns: Sequence[Column]) -> np.ndarray:
        """Features (n, f) of columns of n rows."""
        features = _impute(_encode(columns, self.encodings, self.noise), self.imputer)
        return features * self.weights


class TablePreparation(TransformerMixin, BaseEstimator):
    """Turns a table into numeric features of equal weight, whatever the units of its columns.

    Data frames (pandas, polars, pyarrow), arrays, lists of rows and sparse matrices. Ids, constants, free
    text and dates are set aside; ``notes_`` says which and why. Then

    - numbers are brought to a common scale by their quantiles, which a few outlying values do not move;
      skewed columns without negative values become cube roots or logarithms where these are easier to
      describe;
    - a categorical column weighs as much as a numeric one; categories, and numbers with few different
      values, are spread a little around their values, by an amount that depends on the row alone, so that
      densities can describe them;
    - missing values are filled in from the five most similar rows; texts may be numbers with signs of money,
      thousands or per cent, and words such as "n/a" are missing values;
    - redundant columns share the weight of one;
    - sparse matrices, embeddings and tables of very many columns become principal components.

    Parameters
    ----------
    columns : list of str, optional
        The only columns to use, by name (or counted from 0), whatever they look like.
    drop : list of str
        Columns to leave out.
    include : list of str
        Columns to use that would be set aside.
    dates : {"number", "cycle"}
        How included dates are encoded: as a point in time, or as positions in the day, week and year.
    max_features : int
        A table with more features is projected onto at most this many principal components.
    n_components : int
        Number of components of sparse matrices and embeddings.
    random_state : int
        Seed of approximate projections and of the choice of rows to fill in missing values from.

    Attributes
    ----------
    used_ : list of str
        Columns in use.
    set_aside_ : dict of str to str
        For each other column why it is not.
    notes_ : list of str
        What was done, one sentence each: columns set aside, rows with many missing values, projections.
    remarks_ : list of str
        The part of ``notes_`` that is not about columns set aside.
    rows_lacking_much_ : ndarray of int
        Rows of ``fit`` without a value in more than half of the columns in use.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, for data frames

    Examples
    --------
    >>> import pandas as pd
    >>> heights = np.random.default_rng(0).normal(1.7, 0.1, 40)
    >>> frame = pd.DataFrame({"id": range(40), "height": heights, "sex": ["f", "m"] * 20})
    >>> preparation = TablePreparation().fit(frame)
    >>> preparation.used_
    ['height', 'sex']
    >>> preparation.notes_
    ["column 'id' is set aside: it numbers the rows, like an id; use it with include=['id']."]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "columns": [list, tuple, np.ndarray, None],
        "drop": [list, tuple, set, np.ndarray],
        "include": [list, tuple, set, np.ndarray],
        "dates": [StrOptions({"number", "cycle"})],
        "max_features": [Interval(Integral, 1, None, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        columns: Sequence[str] | None = None,
        drop: Sequence[str] = (),
        include: Sequence[str] = (),
        dates: Literal["number", "cycle"] = "number",
        max_features: int = 32,
        n_components: int = 20,
        random_state: int = 0,
    ) -> None:
        self.columns = columns
        self.drop = drop
        self.include = include
        self.dates = dates
        self.max_features = max_features
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> TablePreparation:
        """Learn from X, (n, d), how its columns become features; ``y`` is ignored."""
        self.fit_transform(X)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Learn from X, (n, d), and return its features (n, f); ``y`` is ignored."""
        self._encoded: _Encoded | None = None
        self._reduction: Reduction | None = None
        self.set_aside_: dict[str, Reason] = {}
        self.remarks_: list[str] = []
        self.rows_lacking_much_ = np.empty(0, dtype=np.int64)
        if scipy.sparse.issparse(X):
            return self._fit_sparse(X)
        table = read_columns(X)
        self._learn_names(table)
        self._places, self.set_aside_ = select_columns(table, self.columns, self.drop, self.include)
        if not self._places:
            self._places = self._any_constant(table)
        columns = [table.columns[place] for place in self._places]
        self.used_ = [column.name for column in columns]
        _require_finite(columns, table.named)
        points = TableColumns(tuple(columns), table.n_rows, table.named).numbers()
        if points is None or np.isnan(points).any():
            return self._fit_columns(columns)
        if look_like_components(points):
            self._names_out = self.used_
            self.remarks_.append(f"{len(columns)} columns look like principal components: taken as they are.")
            return points
        if not looks_like_embedding(points):
            return self._fit_columns(columns)
        self._reduction = fit_reduction(points, self.n_components, self.random_state, normalized=True)
        self.remarks_.append(
            f"{len(columns)} columns look like an embedding: rows are brought to unit length and "
            f"projected onto {self._reduction.n_features} principal components."
        )
        return self._reduction.apply(points)

    def _fit_sparse(self, X: Any) -> np.ndarray:
        self.n_features_in_ = X.shape[1]
        if X.shape[0] < 2:
            raise InvalidDataError("X is a sparse matrix with 1 row; at least 2 are needed.")
        rows = X.tocsr().astype(np.float64)
        self._reduction = fit_reduction(rows, self.n_components, self.random_state, normalized=True)
        self.used_ = [f"x{place}" for place in range(X.shape[1])]
        self.remarks_.append(
            f"the sparse matrix is projected onto {self._reduction.n_features} singular vectors; rows are "
            "brought to unit length before."
        )
        return self._reduction.apply(rows)

    def _fit_columns(self, columns: Sequence[Column]) -> np.ndarray:
        encodings = fit_encodings(columns, self.dates)
        n_inputs = sum(1 if isinstance(encoding, Levels) else len(encoding.names) for encoding in encodings)
        noise = Jitter.of(n_inputs, sum(encoding.n_noise for encoding in encodings))
        features = _encode(columns, encodings, noise)
        imputer = Imputer.of(features, self.random_state) if np.isnan(features).any() else None
        features = _impute(features, imputer)
        weights = redundancy_weights(features)
        self._encoded = _Encoded(encodings, noise, imputer, weights)
        features *= weights
        self._names_out = [
            f"{column.name}{part}"
            for column, encoding in zip(columns, encodings, strict=True)
            for part in encoding.names
        ]
        missing = np.column_stack([column.missing for column in columns])
        self.rows_lacking_much_ = np.flatnonzero(missing.mean(axis=1) > LACKING_MUCH)
        self.remarks_ += self._remarks(columns, int(missing.sum()), weights)
        if features.shape[1] <= self.max_features:
            return features
        self._reduction = fit_reduction(features, self.max_features, self.random_state, normalized=False)
        self.remarks_.append(
            f"{features.shape[1]} features are projected onto {self._reduction.n_features} principal "
            "components."
        )
        return self._reduction.apply(features)

    def _remarks(self, columns: Sequence[Column], n_missing: int, weights: np.ndarray) -> Iterator[str]:
        """Yield what was done about words among numbers, missing values and redundant columns."""
        for column in columns:
            if column.stray:
                (row, word), n = column.stray[0], len(column.stray)
                cells = f"{n:,} cell{'s' * (n > 1)} (row {row}: {word[:40]!r})"
                yield f"words in column {column.name!r} count as missing values: {cells}."
        if n_missing:
            values = "1 missing value is" if n_missing == 1 else f"{n_missing:,} missing values are"
            yield f"{values} filled in from the most similar rows."
        if n_rows := len(self.rows_lacking_much_):
            first = ", ".join(map(str, self.rows_lacking_much_[:5])) + ", ..." * (n_rows > 5)
            rows, labels = ("row", "its label means") if n_rows == 1 else ("rows", "their labels mean")
            yield (
                f"{n_rows:,} {rows} without a value in more than half of the columns ({first}): "
                f"{labels} little."
            )
        shared = [name for name, weight in zip(self._names_out, weights, strict=True) if weight < 1]
        if shared:
            names = ", ".join(map(repr, shared[:6])) + ", ..." * (len(shared) > 6)
            yield f"columns that say the same as another count less: {names}."

    def _learn_names(self, table: TableColumns) -> None:
        self.n_features_in_ = len(table.columns)
        self._styles = {column.name: column.style for column in table.columns if column.style is not None}
        self._column_names = [column.name for column in table.columns]
        if table.named:
            self.feature_names_in_ = np.array(self._column_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _any_constant(self, table: TableColumns) -> list[int]:
        """The place of a constant column if all rows are the same; an error if columns have other faults."""
        constant = [
            column.kind == "number" and self.set_aside_[column.name].kind == "constant"
            for column in table.columns
        ]
        if not all(constant):
            raise NoColumnError(
                set_aside=self.set_aside_,
                has_texts=any(reason.kind == "text" for reason in self.set_aside_.values()),
            )
        return [0]

    def transform(self, X: Any) -> np.ndarray:
        """Features (n, f) of rows X, (n, d), each row on its own, with the columns of ``fit``."""
        check_is_fitted(self)
        if scipy.sparse.issparse(X) and self._encoded is None and self._reduction is not None:
            self._require_width(X.shape[1])
            return self._reduction.apply(X.tocsr().astype(np.float64))
        table = self._in_order_of_fit(read_columns(X, styles=self._styles))
        columns = [table.columns[place] for place in self._places]
        _require_finite(columns, table.named)
        if self._encoded is not None:
            for column, encoding in zip(columns, self._encoded.encodings, strict=True):
                _require_kind(column, encoding)
            features = self._encoded(columns)
        else:
            points = TableColumns(tuple(columns), table.n_rows, table.named).numbers()
            if points is None or np.isnan(points).any():
                raise InvalidDataError(
                    "X contains NaN or text, and the data of fit had neither; impute them first."
                )
            features = points
        return features if self._reduction is None else self._reduction.apply(features)

    def _in_order_of_fit(self, table: TableColumns) -> TableColumns:
        if table.named and hasattr(self, "feature_names_in_"):
            by_name = {column.name: column for column in table.columns}
            absent = [name for name in self.used_ if name not in by_name]
            if absent:
                raise InvalidDataError(
                    f"X has no column {absent[0]!r}, which fit used; pass the same columns as in fit."
                )
            spare = Column("", "other", np.full(table.n_rows, None, dtype=object))
            columns = tuple(by_name.get(name, spare) for name in self._column_names)
            return TableColumns(columns, table.n_rows, True)
        self._require_width(len(table.columns))
        return table

    def _require_width(self, width: int) -> None:
        if width != self.n_features_in_:
            raise FeatureCountError(
                f"X has {width} features, but TablePreparation is expecting {self.n_features_in_} features "
                "as input; pass the same columns as in fit."
            )

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features, (f,)."""
        check_is_fitted(self)
        if self._reduction is not None:
            return np.array([f"component{i}" for i in range(self._reduction.n_features)], dtype=object)
        return np.array(self._names_out, dtype=object)

    @property
    def notes_(self) -> list[str]:
        """Sentences about what was done."""
        check_is_fitted(self)
        return [*set_aside_notes(self.set_aside_), *self.remarks_]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.sparse = True
        return tags


def _encode(columns: Sequence[Column], encodings: Sequence[Encoding], noise: Jitter) -> np.ndarray:
    """Features (n, f) with NaN where missing."""
    clean = [encoding.clean(column) for column, encoding in zip(columns, encodings, strict=True)]
    if noise.n_outputs == 0:
        return np.concatenate(clean, axis=1)
    drawn = noise(np.concatenate(clean, axis=1))
    features, start = [], 0
    for encoding, values in zip(encodings, clean, strict=True):
        features.append(encoding.finish(values, drawn[:, start : start + encoding.n_noise]))
        start += encoding.n_noise
    return np.concatenate(features, axis=1)


def _impute(features: np.ndarray, imputer: Imputer | None) -> np.ndarray:
    """Features without missing values; their middle is zero, which stands in where nothing was learned."""
    if imputer is not None:
        imputer.fill(features)
    return np.nan_to_num(features, copy=False)


def _require_finite(columns: Sequence[Column], named: bool) -> None:
    for column in columns:
        if column.kind in ("number", "date") and np.isinf(column.values).any():
            row = int(np.flatnonzero(np.isinf(column.values))[0])
            name = repr(column.name) if named else column.name.removeprefix("x")
            raise InvalidDataError(
                f"Input X contains infinity at row {row} column {name}; replace it by a number, or by NaN "
                "for a missing value."
            )


def _require_kind(column: Column, encoding: Encoding) -> None:
    if isinstance(encoding, Levels) or column.kind in ("number", "date") or column.missing.all():
        return
    row = int(np.flatnonzero(~column.missing)[0])
    raise InvalidDataError(
        f"Column {column.name!r} of X contains text (row {row}: {str(column.values[row])[:40]!r}) where fit "
        "saw numbers; pass the same columns as in fit."
    )
