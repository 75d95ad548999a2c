"""Data sets: the one that ships with the package, and the files that users bring."""

from clusterwise.datasets.bundled import load_demo
from clusterwise.datasets.files import STDIN, read_table, write_table
from clusterwise.datasets.tables import format_of, output_format_of

__all__ = ["STDIN", "format_of", "load_demo", "output_format_of", "read_table", "write_table"]
