"""The command line: ``clusterwise cluster | train | models``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; the entry point of the package."""
    try:
        try:
            from clusterwise.cli.app import app
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("typer", "click", "rich"):
                raise
            sys.exit(f"error: the command line needs {error.name}; run: pip install 'clusterwise[cli]'")
        app()
    except KeyboardInterrupt:
        sys.exit(130)
