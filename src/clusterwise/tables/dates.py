"""Words that are dates, in the ways in which people write them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

__all__ = ["days_of"]

TIME = r"(?:[T ,]+(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?)?Z?$"
YEAR_FIRST = re.compile(r"(\d{4})([-/.])(\d{1,2})[-/.](\d{1,2})" + TIME)
YEAR_LAST = re.compile(r"(\d{1,2})([-/.])(\d{1,2})[-/.](\d{4})" + TIME)
SECONDS_PER_DAY = 86_400


def days_of(words: Sequence[str]) -> np.ndarray | None:
    """Days since 1970 of words (n,) that are all dates written in one way, else None.

    2024-03-01, 2024/3/1 12:00, 01.03.2024 or 3/1/2024: where the year comes last, the number above 12 is the
    day; if there is none, the day comes before a dot or a dash, and after a slash.
    """
    if not words:
        return None
    first = words[0].strip()
    pattern = YEAR_FIRST if YEAR_FIRST.match(first) else YEAR_LAST if YEAR_LAST.match(first) else None
    if pattern is None:
        return None
    found = [pattern.match(word.strip()) for word in words]
    matches = [match for match in found if match is not None]
    if len(matches) < len(words):
        return None
    parts = np.array([[int(match[i] or 0) for i in (1, 3, 4, 5, 6, 7)] for match in matches])
    years, months, days = parts[:, 0], parts[:, 1], parts[:, 2]
    if pattern is YEAR_LAST:
        front, middle, years = parts[:, 0], parts[:, 1], parts[:, 2]
        month_first = middle.max() > 12 or (front.max() <= 12 and matches[0][2] == "/")
        months, days = (front, middle) if month_first else (middle, front)
    if not ((months >= 1) & (months <= 12) & (days >= 1)).all():
        return None
    month_starts = ((years - 1970) * 12 + months - 1).astype("datetime64[M]").astype("datetime64[D]")
    stamps = month_starts + (days - 1)
    if not (stamps.astype("datetime64[M]").astype(np.int64) == (years - 1970) * 12 + months - 1).all():
        return None  # the 31st of February
    return np.asarray(stamps.astype(np.float64) + parts[:, 3:] @ [3600, 60, 1] / SECONDS_PER_DAY)
