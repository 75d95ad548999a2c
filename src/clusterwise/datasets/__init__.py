"""Data sets: the one that ships with the package, and the files that users bring."""

from clusterwise.datasets.bundled import load_demo
from clusterwise.datasets.files import read_table, write_labels
from clusterwise.datasets.tables import Table, format_of

__all__ = ["Table", "format_of", "load_demo", "read_table", "write_labels"]
