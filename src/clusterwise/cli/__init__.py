"""The command line: ``clusterwise cluster | train | models``."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext

__all__ = ["main"]


def main() -> None:
    """Run the command line; the entry point of the package."""
    try:
        with _compiling_if_new(sys.argv[1:]):
            try:
                from clusterwise.cli.app import app
            except ModuleNotFoundError as error:
                if (error.name or "").partition(".")[0] not in ("typer", "click", "rich"):
                    raise
                sys.exit(f"error: the command line needs {error.name}; run: pip install 'clusterwise[cli]'")
            app()
    except KeyboardInterrupt:
        sys.exit(130)


def _compiling_if_new(arguments: list[str]) -> AbstractContextManager[None]:
    """Another process that compiles, begun before all imports that take a while, for a command that fits."""
    if arguments[:1] != ["cluster"] or "--help" in arguments:
        return nullcontext()
    from clusterwise.cli.warming import compiling_beside

    return compiling_beside()
