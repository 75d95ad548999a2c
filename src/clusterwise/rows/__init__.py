"""Rows in batches: files and arrays that need not fit in memory, and collections of other machines.

``base`` says what a source is and runs the batches of one machine; ``mapped`` and ``arrow`` are its two kinds
of files; ``rows`` turns batches into numbers, with errors that name the place; ``sampling`` chooses rows by
their number alone, so that the choice does not depend on how rows are cut in batches.
"""

from clusterwise.rows.base import Batch, RowSource
from clusterwise.rows.choose import as_source, map_sets

__all__ = ["Batch", "RowSource", "as_source", "map_sets"]
