"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["require_writable", "whole_or_nothing"]


def require_writable(path: Path) -> None:
    """Raise an OSError that names ``path`` if ``whole_or_nothing`` cannot write there; nothing is made."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file in it", str(path))
    folder = path.parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is not a folder; choose another place", str(path))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, f"{folder} cannot be written to; choose another place", str(path))


@contextlib.contextmanager
def whole_or_nothing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path next to ``path`` and move it there only if the block succeeds."""
    path = Path(path)
    require_writable(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    except OSError as error:  # it names a temporary file that the user knows nothing of
        raise type(error)(error.errno, f"cannot be written ({error.strerror})", str(path)) from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
