"""Packages that an extra brings, such as ``pip install 'clusterwise[excel]'``."""

from __future__ import annotations

import importlib
from typing import Any

from clusterwise.exceptions import MissingDependencyError

__all__ = ["import_extra"]

# The extra that each package comes with.
EXTRA_OF = {
    "pyarrow": "frames",
    "openpyxl": "excel",
    "h5py": "h5ad",
    "matplotlib": "plot",
    "jinja2": "report",
}


def import_extra(module: str, purpose: str) -> Any:
    """An optional module, imported; an error that names the extra if it is not installed."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"{purpose} need {package}, which is not installed; run: "
            f"pip install 'clusterwise[{EXTRA_OF[package]}]'"
        ) from error
