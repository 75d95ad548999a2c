"""Names of columns that tell them apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["distinct_names"]


def distinct_names(labels: Iterable[Any]) -> list[str]:
    """Names of columns as strings; "a" becomes "a (2)" where it is taken, and nothing "column 3"."""
    names: list[str] = []
    taken: set[str] = set()
    for place, label in enumerate(labels):
        parts = label if isinstance(label, tuple) else (label,)  # several lines of header in pandas
        base = ", ".join(str(part) for part in parts) or f"column {place}"
        name, count = base, 2
        while name in taken:
            name, count = f"{base} ({count})", count + 1
        taken.add(name)
        names.append(name)
    return names
