"""What the command line writes: labels beside the names of the rows, or beside all that was in the file."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from clusterwise.datasets import STDIN
from clusterwise.exceptions import ClusterwiseError

__all__ = ["STDIN", "result_table"]

DIGITS = 6  # of probabilities and scores
RESULTS = ("label", "confidence", "outlier_score")


def result_table(table: Any, id_name: str | None, estimator: Any, append: bool) -> Any:
    """A pyarrow table: the id or the number of each row and its results, or the input with these added."""
    import pyarrow

    sparse = scipy.sparse.issparse(table)
    values = (estimator.labels_, estimator.probabilities_, estimator.outlier_scores_)
    if append:
        if sparse:
            raise ClusterwiseError("--append needs a table; leave it out for a sparse matrix.")
        columns = {name: table.column(name) for name in table.column_names}
    elif id_name is not None:
        columns = {id_name: table.column(id_name)}
    else:
        columns = {"row": np.arange(len(estimator.labels_))}
    for name, column in zip(RESULTS, values, strict=True):
        columns[name if name not in columns else f"cluster_{name}"] = np.round(column, DIGITS)
    return pyarrow.table(columns)
