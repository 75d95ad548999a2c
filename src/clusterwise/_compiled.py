"""The one way in which functions are compiled."""

from __future__ import annotations

from numba import njit

__all__ = ["compiled"]

# Machine code is kept on disk, next to the source or, where that is read-only, among the user's cache files:
# the first call ever takes a second or two for each function. A division by zero gives an infinity as in
# numpy, and rounding is that of the formula: no reordering of sums. Other threads may run meanwhile.
compiled = njit(cache=True, error_model="numpy", nogil=True)
