"""Errors and warnings in one line each, exit codes, and a progress bar."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import tempfile
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from clusterwise import exceptions
from clusterwise._safety import printable
from clusterwise.exceptions import ClusterwiseError, ClusterwiseWarning

if TYPE_CHECKING:
    from clusterwise.fitting.protocol import Progress

__all__ = [
    "BAD_INPUT",
    "INTERRUPTED",
    "MAX_LINES",
    "error_line",
    "include_option",
    "one_line_errors",
    "one_line_warnings",
    "progress_bar",
    "say",
    "say_notes",
    "settings",
    "terminated_like_interrupted",
    "warning_line",
]

MAX_LINES = 30
BAD_INPUT = 2
UNEXPECTED = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 130  # what shells report for Ctrl-C

settings = {"debug": False}  # whether unexpected errors keep their traceback; set by the option

# Of no use to somebody who did not write the code that they are about.
FOR_DEVELOPERS = (
    DeprecationWarning,
    PendingDeprecationWarning,
    FutureWarning,
    ImportWarning,
    ResourceWarning,
)


def include_option(name: str) -> str:
    """The option that uses a column of that name."""
    in_list = '"' + name.replace('"', '""') + '"' if "," in name else name
    return f"--include {shlex.quote(in_list)}"


def say(line: str, err: bool = False) -> None:
    """Print a line; signs from files that would give orders to the terminal are printed as \\x1b."""
    typer.echo(printable(line), err=err)


def say_notes(notes: Sequence[str]) -> None:
    """Print what was done to a table, as long as there is room for it."""
    for note in notes[:MAX_LINES]:
        say(f"note: {note}", err=True)
    if len(notes) > MAX_LINES:
        say(f"note: and {len(notes) - MAX_LINES:,} more of this kind.", err=True)


def error_line(error: ClusterwiseError) -> str:
    """A sentence about what is wrong, with what to do about it on the command line."""
    match error:
        case exceptions.UnknownColumnError(parameter="columns" | "drop" | "include"):
            return str(replace(error, parameter=f"--{error.parameter}"))
        case exceptions.NoColumnError():
            return f"{error.finding()}; name those to use with --columns."
        case exceptions.WeightsWidthError(from_labels=False):
            error = replace(error, name="after its preparation the table")
            remedy = "choose columns with --columns, add --project pca, or take --method clusterer"
            return f"{error.finding()}; {remedy}."
    return " ".join(str(error).split())


def warning_line(warning: ClusterwiseWarning, raw: bool = False) -> str:
    """A sentence about what was found, with what to do about it on the command line."""
    if isinstance(warning, exceptions.OtherKWarning):
        are = "cluster is" if warning.likeliest == 1 else "clusters are"
        return f"{warning.likeliest} {are} likelier ({100 * warning.probability:.0f} %): see --report"
    remedy = _remedy(warning, raw)
    return f"{warning.finding()}{'; ' * bool(remedy)}{remedy}."


def _remedy(warning: ClusterwiseWarning, raw: bool) -> str:
    """A remedy; tables are prepared already unless they are ``raw``, and no method recommends itself."""
    match warning:
        case exceptions.DiscreteColumnsWarning() | exceptions.SkewedClustersWarning():
            return "leave out --raw" * raw
        case exceptions.ValuesFollowedWarning():
            return f"{'leave out --raw, or ' * raw}leave the column out with --drop"
        case exceptions.HeavyTailsWarning():
            return f"remove extreme rows{', or leave out --raw' * raw}"
        case exceptions.CorrelatedColumnsWarning():
            return "try --method gaussian-search, or fewer columns"
        case exceptions.OneGaussianWarning():
            return "compare with --method gaussian-search" * (warning.estimator != "GaussianSearch")
        case (
            exceptions.SeveralGroupsWarning()
            | exceptions.BentClustersWarning()
            | exceptions.OneClusterWarning()
        ):
            return "try --method clusterer" * (warning.estimator != "Clusterer")
        case exceptions.FewClassesWarning():
            return "compare with --method clusterer, which needs no training"
        case exceptions.CapReachedWarning():
            return "call it from Python with a larger max_clusters if you expect more"
        case exceptions.StillMovingWarning():
            return "call it from Python with a larger max_epochs"
        case exceptions.ChainsDisagreeWarning():
            return "call it from Python with a larger n_warm_up"
        case exceptions.InterruptedWarning() | exceptions.LowConfidenceWarning():
            return ""
    return warning.remedy


@contextlib.contextmanager
def one_line_errors(when_interrupted: str = "interrupted") -> Iterator[None]:
    """Turn errors into one line on stderr and an exit code; the trace of what nobody expected is in a file.

    With ``--debug`` it is shown.
    """
    try:
        yield
    except ClusterwiseError as error:
        say(f"error: {error_line(error)}", err=True)
        raise typer.Exit(BAD_INPUT) from error
    except BrokenPipeError:
        raise  # the reader of our output has gone; typer ends quietly
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        say(f"error: {where}{error.strerror or ' '.join(str(error).split())}.", err=True)
        raise typer.Exit(BAD_INPUT) from error
    except KeyboardInterrupt as interrupt:
        say(when_interrupted, err=True)
        raise typer.Exit(INTERRUPTED) from interrupt
    except typer.Exit:
        raise
    except MemoryError as error:
        say("error: this takes more memory than there is; use fewer rows or columns.", err=True)
        raise typer.Exit(BAD_INPUT) from error
    except Exception as error:
        if settings["debug"]:
            raise
        about = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        say(f"error: this should not have happened ({about}); {_logged(error)}.", err=True)
        raise typer.Exit(UNEXPECTED) from error


def _logged(error: Exception) -> str:
    """Write the trace of an error to a file of the user's; where it is, or how to see it otherwise."""
    try:
        handle, name = tempfile.mkstemp(prefix="clusterwise-", suffix=".log", text=True)
        with os.fdopen(handle, "w", errors="backslashreplace") as file:
            traceback.print_exception(error, file=file)
    except OSError:
        return "to see where it comes from, run clusterwise --debug and the same command"
    return f"please report it with {name}"


@contextlib.contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM end what is inside as Ctrl-C does, so that no half-written file is left behind."""
    if threading.current_thread() is not threading.main_thread():  # others get no signals
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def one_line_warnings(raw: bool = False) -> Iterator[list[ClusterwiseWarning]]:
    """Print each warning as one line on stderr when it comes; yield the list of ours so far."""
    ours: list[ClusterwiseWarning] = []
    printed: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if isinstance(message, ClusterwiseWarning):
            ours.append(message)
            line = warning_line(message, raw)
        else:
            line = " ".join(str(message).split())
        if line not in printed:
            printed.add(line)
            say(f"warning: {line}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        for category in FOR_DEVELOPERS:
            warnings.simplefilter("ignore", category)
        warnings.showwarning = show
        yield ours


@contextlib.contextmanager
def progress_bar(console: Console | None = None) -> Iterator[Progress]:
    """Yield what draws a bar on stderr for each pass over rows: those done, those altogether, the time left.

    It is erased at the end, and only drawn on a terminal.
    """
    console = Console(stderr=True) if console is None else console
    columns = (
        TextColumn("{task.description:>10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows, left"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("", start=False, visible=False)
        last = ("", 0)

        def show(doing: str, done: int, n_rows: int) -> None:
            nonlocal last
            if doing != last[0] or done < last[1]:  # another pass
                bars.reset(task, description=doing, total=n_rows, visible=True)
            last = (doing, done)
            bars.update(task, completed=done)

        yield show
