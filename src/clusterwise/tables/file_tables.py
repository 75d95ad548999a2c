"""The common part of all file formats: which there are, and what they need."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Literal

from clusterwise.exceptions import InvalidDataError, MissingDependencyError

__all__ = ["COMPRESSIONS", "Format", "format_of", "import_or_say", "output_format_of", "unnamed_columns"]

Format = Literal["csv", "tsv", "parquet", "arrow", "npy", "npz", "xlsx", "h5ad"]

FORMATS: dict[str, Format] = {
    ".csv": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".npy": "npy",
    ".npz": "npz",
    ".xlsx": "xlsx",
    ".h5ad": "h5ad",
}
OUTPUT_FORMATS = (".csv", ".tsv", ".parquet", ".arrow", ".npy")
# Endings of compressed text, with what pyarrow calls them; zip archives are opened otherwise.
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".zip": "zip"}
# The extra that a package comes with.
EXTRAS = {"pyarrow": "frames", "openpyxl": "excel", "h5py": "h5ad"}


def format_of(path: str | Path) -> Format:
    """Return the format that the ending of a file name stands for; compressed text may have a second one."""
    path = Path(path)
    ending = path.suffix.lower()
    if ending in COMPRESSIONS:
        inner = FORMATS.get(Path(path.stem).suffix.lower(), "csv")
        if inner in ("csv", "tsv"):
            return inner
        raise InvalidDataError(f"{path} is compressed; unpack it first, only text is read compressed.")
    if ending not in FORMATS:
        shown = f"ends in {ending!r}" if ending else "has no ending"
        packed = ", ".join(COMPRESSIONS)
        raise InvalidDataError(f"{path} {shown}; use one of {', '.join(FORMATS)}, or text with {packed}.")
    return FORMATS[ending]


def output_format_of(path: str | Path) -> Format:
    """Return the format to write a file in, by the ending of its name."""
    ending = Path(path).suffix.lower()
    if ending not in OUTPUT_FORMATS:
        shown = f"ends in {ending!r}" if ending else "has no ending"
        raise InvalidDataError(f"{path} {shown}; results are written to one of {', '.join(OUTPUT_FORMATS)}.")
    return FORMATS[ending]


def import_or_say(module: str, purpose: str) -> Any:
    """Import an optional package, or say which extra brings it."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"{purpose} need {package}, which is not installed; run: "
            f"pip install 'clusterwise[{EXTRAS[package]}]'"
        ) from error


def unnamed_columns(count: int) -> list[str]:
    """Names for columns that have none in their file."""
    return [f"column {index}" for index in range(count)]
