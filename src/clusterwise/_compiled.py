"""The one way in which functions are compiled."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache as _FunctionCache

FunctionCache: Any = _FunctionCache  # without types

__all__ = ["compiled"]


def compiled(function: Callable[..., Any]) -> Any:
    """Function in machine code, which is kept on disk: the first call ever takes a second or two.

    It is kept next to the source, or among the user's cache files where that is read-only, or in a temporary
    folder of the user's; where none of them can be written to it is compiled anew in each process. A division
    by zero gives an infinity as in numpy, and rounding is that of the formula: no reordering of sums. Other
    threads may run meanwhile. No memory is allocated inside: without that it compiles in less time.
    """
    compiler: Any = numba.njit  # its types do not know all options
    dispatcher = compiler(error_model="numpy", nogil=True, _nrt=False)(function)
    try:
        dispatcher._cache = _Kept(function)
    except RuntimeError:  # no folder to write to
        folder = _temporary_folder()
        if folder is not None:
            config: Any = numba.config
            config.CACHE_DIR = str(folder)
            dispatcher._cache = _Kept(function)
    return dispatcher


class _Kept(FunctionCache):  # type: ignore[misc]
    """What is kept on disk of one function; where that is damaged, or there is no room, it is compiled."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code for a signature, or None."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the machine code for a signature, if there is room for it."""
        with contextlib.suppress(Exception):
            super().save_overload(sig, data)


def _temporary_folder() -> Path | None:
    """A folder for temporary files that belongs to this user alone; None if there cannot be one."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"clusterwise-{user}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        about = folder.lstat()
    except OSError:
        return None
    ours = folder.is_dir() and not folder.is_symlink() and about.st_uid == user and not about.st_mode & 0o077
    return folder if (ours or os.name == "nt") and os.access(folder, os.W_OK) else None
