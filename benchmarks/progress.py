"""Lines that say how far a run is."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Progress", "duration"]


def duration(seconds: float) -> str:
    """Write a length of time in at most two units.

    >>> duration(5.2), duration(65), duration(3600 * 2 + 60 * 5 + 7)
    ('5 s', '1 min 05 s', '2 h 05 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


class Progress:
    """A line every ``interval`` seconds: done, elapsed, left."""

    def __init__(self, name: str, total: int, write: Callable[[str], object], interval: float = 10.0) -> None:
        self._name, self._total, self._write, self._interval = name, total, write, interval
        self._begin = self._last = time.monotonic()
        self._measured = 0
        self._first_at = self._begin

    def step(self, done: int, measured: bool) -> None:
        """Note that ``done`` data sets are through, the last one measured now or known from before."""
        self._measured += measured
        now = time.monotonic()
        if measured and self._measured == 1:
            self._first_at = (
                now  # the first data set also pays for starting all methods: no guide to the rest
            )
        if now - self._last < self._interval and done < self._total:
            return
        self._last, elapsed = now, now - self._begin
        left = ""
        if self._measured > 1 and done < self._total:
            each = (now - self._first_at) / (self._measured - 1)
            left = f", about {duration(each * (self._total - done))} left"
        self._write(f"{self._name}: {done}/{self._total} data sets, {duration(elapsed)} elapsed{left}")
