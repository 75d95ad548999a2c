"""Where a warning points to: the user's line, however deep in the library it is raised."""

from __future__ import annotations

import sys
from pathlib import Path

import sklearn

__all__ = ["level_of_caller"]

OURS = (str(Path(__file__).parents[1]), str(Path(sklearn.__file__).parent))  # scikit-learn wraps ``fit``


def level_of_caller() -> int:
    """The ``stacklevel`` at which the function that calls this one warns its first caller outside."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OURS):
        level, frame = level + 1, frame.f_back
    return level
