"""Whatever the user passes, checked, and data brought to one array, with errors that name the place."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from clusterwise.exceptions import (
    ClusterwiseError,
    FeatureCountError,
    InvalidDataError,
    InvalidTypeError,
)
from clusterwise.gaussian.niw import CovarianceType
from clusterwise.rows import RowSource
from clusterwise.tables.columns import require_table, with_plain_names

__all__ = [
    "as_points",
    "by_feature",
    "check_columns",
    "require_degrees_of_freedom",
    "require_features",
    "require_finite",
    "require_positive",
    "with_texts_as_names",
]


def as_points(X: Any, estimator: BaseEstimator, name: str = "X") -> np.ndarray:
    """Return X as float64, (n, d), all finite."""
    if type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and X.size > 0:
        points = np.ascontiguousarray(X)  # the checks below would find nothing, and take a while for it
        require_finite(points, name)
        return points
    if getattr(X, "ndim", 2) > 2:
        raise InvalidDataError(
            f"{name} has shape {X.shape}; pass images as rows of pixels, {name}.reshape(len({name}), -1)."
        )
    require_table(X, name)
    _require_no_dates(X, name)
    if isinstance(X, np.ma.MaskedArray):  # its masked cells would count as the numbers below the mask
        X = np.ma.filled(X.astype(np.float64), np.nan)
    try:
        points = check_array(
            X, dtype=np.float64, order="C", ensure_all_finite=False, estimator=estimator, input_name=name
        )
    except (ValueError, TypeError) as error:
        raise _explained(error, X, name) from error
    require_finite(points, name)
    return points


def with_texts_as_names(X: Any) -> Any:
    """A data frame whose names are of several types with the texts of them; anything else as it is."""
    if nw.dependencies.is_pandas_dataframe(X) and len({type(label) for label in X.columns}) > 1:
        return with_plain_names(X)
    return X


def check_columns(estimator: BaseEstimator, X: Any, reset: bool = False) -> None:
    """Compare the number and names of columns with those of ``fit``; remember them if ``reset``."""
    if isinstance(X, np.ndarray) and X.dtype.names is not None:  # its names are compared where it is read
        X = np.broadcast_to(0.0, (len(X), len(X.dtype.names)))
    validate_data(estimator, with_texts_as_names(X), reset=reset, skip_check_array=True)


def require_finite(points: np.ndarray, name: str = "X") -> None:
    """Raise an error that names rows and columns if there is a NaN or an infinity."""
    finite = np.isfinite(points)
    if finite.all():
        return
    bad = ~finite
    rows, columns = np.nonzero(bad)
    kind = "NaN" if np.isnan(points[bad]).any() else "infinity"
    places = ", ".join(f"row {r} column {c}" for r, c in list(zip(rows, columns, strict=True))[:5])
    more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    raise InvalidDataError(
        f"Input {name} contains {kind} at {places}{more}; drop these rows or fill the values in first."
    )


def _require_no_dates(X: Any, name: str) -> None:
    """Raise an error that names the first column of dates, which numpy would take for numbers."""
    frame = nw.from_native(with_plain_names(X), pass_through=True)
    if isinstance(frame, nw.DataFrame):
        found = [label for label, kind in frame.schema.items() if kind.is_temporal()]
        where = f"Column {found[0]!r} of {name}" if found else None
    else:
        where = name if getattr(getattr(X, "dtype", None), "kind", "") in ("M", "m") else None
    if where is not None:
        raise InvalidDataError(
            f"{where} holds dates; drop it or turn it into numbers (clusterwise.TablePreparation does)."
        )


def _explained(error: Exception, X: Any, name: str) -> InvalidDataError:
    """What scikit-learn says is wrong with X, in one line, with what to do."""
    message = " ".join(str(error).split())
    if scipy.sparse.issparse(X):
        return InvalidDataError(
            f"{name} is a sparse matrix, but dense data is required; use clusterwise.Clusterer, project it "
            f"with clusterwise.TablePreparation, or pass {name}.toarray()."
        )
    if "could not convert string to float" in message:
        return _text_error(X, name)
    if "inhomogeneous" in message:
        return InvalidDataError(f"The rows of {name} differ in length; give each the same.")
    if "Complex data" in message:
        return InvalidDataError(
            f"Complex data not supported: pass real and imaginary parts of {name} as columns."
        )
    if isinstance(error, TypeError):
        return InvalidTypeError(
            f"{name} is a {type(X).__name__}, not a table of numbers ({message}); pass an array or a "
            "data frame."
        )
    return InvalidDataError(message)


def _text_error(X: Any, name: str) -> InvalidDataError:
    """Name the first cell that is not a number."""
    cells = np.asarray(X, dtype=object)
    for column, values in enumerate(cells.T):
        for row, cell in enumerate(values):
            if not _is_number(cell):
                label = getattr(X, "columns", range(cells.shape[1]))[column]
                return InvalidDataError(
                    f"Column {label!r} of {name} holds text (row {row}: {str(cell)[:40]!r}); "
                    "drop it or turn it into numbers (clusterwise.TablePreparation does)."
                )
    return InvalidDataError(f"{name} holds text; pass numbers only.")


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def require_positive(n_samples: int) -> None:
    """Raise an error if no sample is asked for, or a part of one."""
    if not isinstance(n_samples, Integral):
        raise InvalidDataError(f"n_samples must be a whole number, got {n_samples!r}.")
    if n_samples < 1:
        raise InvalidDataError(f"n_samples must be at least 1, got {n_samples}.")


def require_degrees_of_freedom(nu: float, d: int, covariance_type: CovarianceType) -> None:
    """Raise an error if an inverse Wishart prior of covariances (d, d) with this nu does not exist."""
    if covariance_type == "full" and nu <= d - 1:
        raise ClusterwiseError(
            f"degrees_of_freedom_prior must be above {d - 1} for {d} features and full covariances, got {nu}."
        )


def by_feature(value: Any, d: int, name: str, kind: Literal["finite", "positive"] = "finite") -> np.ndarray:
    """One number for each of d features, (d,), from such an array or from one number for all."""
    values = np.asarray(value, dtype=np.float64)
    legal = np.isfinite(values) & ((values > 0) | (kind == "finite"))
    if values.shape not in ((), (d,)) or not legal.all():
        raise ClusterwiseError(f"{name} must be a {kind} number for each of the {d} features.")
    return np.broadcast_to(values, (d,))


def require_features(points: np.ndarray | RowSource, estimator: Any, detail: str = "") -> None:
    """Raise an error if points (n, d) have another number of features than those of ``fit``."""
    n_features = points.n_features if isinstance(points, RowSource) else points.shape[1]
    if n_features != estimator.n_features_in_:
        raise FeatureCountError(
            f"X has {n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input: that is what it was fitted on"
            f"{detail}; pass the same columns as in fit."
        )
