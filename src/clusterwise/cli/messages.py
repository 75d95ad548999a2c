"""What a user sees when something is wrong: one line, and an exit code."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterator

import typer

from clusterwise.exceptions import ClusterwiseError, FeatureCountError, InvalidDataError

__all__ = [
    "BAD_INPUT",
    "INCLUDE",
    "INTERRUPTED",
    "one_line_errors",
    "one_line_warnings",
    "options_in_remedies",
]

BAD_INPUT = 2
INTERRUPTED = 130  # what shells report for Ctrl-C

# How a column that was set aside is forced in.
INCLUDE = "use it with --include {name}"
# Parameters of the library in its errors, and what they are called here.
PARAMETERS = (
    (r"use it with include=\['(.*?)'\]", r"use it with --include \1"),
    (r"\b(columns|drop|include) names", r"--\1 names"),
    (r"with columns=\.", "with --columns."),
)

# Of no use to somebody who did not write the code that they are about.
FOR_DEVELOPERS = (
    DeprecationWarning,
    PendingDeprecationWarning,
    FutureWarning,
    ImportWarning,
    ResourceWarning,
)


def _one_line(text: str) -> str:
    return " ".join(text.split())


@contextlib.contextmanager
def one_line_errors(when_interrupted: str = "interrupted") -> Iterator[None]:
    """Turn errors that we expect into one line on stderr and an exit code; others keep their traceback."""
    try:
        yield
    except ClusterwiseError as error:
        typer.echo(f"error: {_one_line(str(error))}", err=True)
        raise typer.Exit(BAD_INPUT) from error
    except BrokenPipeError:
        raise  # the reader of our output has gone; typer ends quietly
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"error: {where}{error.strerror or _one_line(str(error))}", err=True)
        raise typer.Exit(BAD_INPUT) from error
    except KeyboardInterrupt as interrupt:
        typer.echo(when_interrupted, err=True)
        raise typer.Exit(INTERRUPTED) from interrupt


@contextlib.contextmanager
def options_in_remedies() -> Iterator[None]:
    """Where the library's remedy is a parameter, name the option of the command line instead."""
    try:
        yield
    except FeatureCountError as error:
        facts = str(error).partition(";")[0]  # our errors say what is wrong; then what to do
        raise FeatureCountError(
            f"{facts}; choose columns with --columns, add --project pca, or take --method clusterer "
            "or dp-mixture, which take any number."
        ) from error
    except InvalidDataError as error:
        message = str(error)
        for pattern, option in PARAMETERS:
            message = re.sub(pattern, option, message)
        raise InvalidDataError(message) from error


@contextlib.contextmanager
def one_line_warnings() -> Iterator[list[str]]:
    """Print each warning as one line on stderr when it comes; yield the list of those seen so far."""
    heard: list[str] = []

    def show(message: Warning | str, *_: object, **__: object) -> None:
        line = _one_line(str(message))
        if line not in heard:
            heard.append(line)
            typer.echo(f"warning: {line}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        for category in FOR_DEVELOPERS:
            warnings.simplefilter("ignore", category)
        warnings.showwarning = show
        yield heard
