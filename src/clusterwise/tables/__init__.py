"""Tables as people have them, turned into numbers that can be clustered."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clusterwise.tables.preparation import TablePreparation
    from clusterwise.tables.readers import read_table

__all__ = ["TablePreparation", "read_table"]

# Loaded on first use: scikit-learn takes a while.
_MODULE_OF = {"TablePreparation": "preparation", "read_table": "readers"}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
