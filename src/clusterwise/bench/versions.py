"""What a result depends on besides the data: versions of libraries, threads, weights."""

from __future__ import annotations

import importlib.metadata
import platform

from clusterwise.bench.registry import Method

__all__ = ["versions_of"]


def _version(package: str) -> str:
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{package} not installed"


def versions_of(method: Method, threads: int) -> str:
    """Return one line for the ``versions`` column."""
    from clusterwise import __version__  # not at the top: the front door may one day import us

    parts = [f"clusterwise {__version__}", *map(_version, ("torch", "scikit-learn", "numpy"))]
    parts += [f"python {platform.python_version()}", f"threads {threads}"]
    if method.identity is not None:
        try:
            parts.append(method.identity())
        except Exception:  # missing weights, say: the status of the method's rows tells more
            parts.append("identity unknown")
    return "; ".join(parts)
