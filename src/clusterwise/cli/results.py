"""What the command line writes: labels with the names of the rows, or with all columns of the file."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from clusterwise.exceptions import ClusterwiseError
from clusterwise.tables.cells import distinct_names
from clusterwise.tables.readers import STDIN

__all__ = ["STDIN", "add_results", "result_table"]

DIGITS = 6  # of probabilities and scores
RESULTS = ("label", "confidence", "outlier_score")


def result_table(table: Any, id_name: str | None, estimator: Any, append: bool) -> Any:
    """A pyarrow table: the id or the number of each row and its results, or the input with these added."""
    if append and scipy.sparse.issparse(table):
        raise ClusterwiseError("--append needs a table; leave it out for a sparse matrix.")
    values = (estimator.labels_, estimator.probabilities_, estimator.outlier_scores_)
    return add_results(table, id_name, append, 0, *values)


def add_results(
    table: Any,
    id_name: str | None,
    append: bool,
    start: int,
    labels: np.ndarray,
    probabilities: np.ndarray,
    outlier_scores: np.ndarray,
) -> Any:
    """The same for a part of a table whose first row has the number ``start``."""
    import pyarrow

    if append:
        columns = {name: table.column(name) for name in table.column_names}
    elif id_name is not None:
        columns = {id_name: table.column(id_name)}
    else:
        columns = {"row": np.arange(start, start + len(labels))}
    names = distinct_names(
        [*columns, *(name if name not in columns else f"cluster_{name}" for name in RESULTS)]
    )
    results = [np.round(column, DIGITS) for column in (labels, probabilities, outlier_scores)]
    return pyarrow.table([*columns.values(), *results], names=names)
