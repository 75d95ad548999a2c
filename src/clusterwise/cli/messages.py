"""What a user sees when something is wrong: one line, and an exit code."""

from __future__ import annotations

import contextlib
import shlex
import signal
import threading
import warnings
from collections.abc import Iterator
from dataclasses import replace

import typer

from clusterwise.exceptions import (
    BentClustersWarning,
    CapReachedWarning,
    ChainsDisagreeWarning,
    ClusterwiseError,
    ClusterwiseWarning,
    CorrelatedColumnsWarning,
    DiscreteColumnsWarning,
    FewClassesWarning,
    HeavyTailsWarning,
    InterruptedWarning,
    LowConfidenceWarning,
    NoColumnError,
    OneClusterWarning,
    OneGaussianWarning,
    OtherKWarning,
    SeveralGroupsWarning,
    SkewedClustersWarning,
    StillMovingWarning,
    UnknownColumnError,
    ValuesFollowedWarning,
    WeightsWidthError,
)

__all__ = [
    "BAD_INPUT",
    "INTERRUPTED",
    "error_line",
    "include_option",
    "one_line_errors",
    "one_line_warnings",
    "terminated_like_interrupted",
    "warning_line",
]

BAD_INPUT = 2
INTERRUPTED = 130  # what shells report for Ctrl-C

# Of no use to somebody who did not write the code that they are about.
FOR_DEVELOPERS = (
    DeprecationWarning,
    PendingDeprecationWarning,
    FutureWarning,
    ImportWarning,
    ResourceWarning,
)


def include_option(name: str) -> str:
    """What to write on a command line to use a column of that name."""
    in_list = '"' + name.replace('"', '""') + '"' if "," in name else name
    return f"--include {shlex.quote(in_list)}"


def error_line(error: ClusterwiseError) -> str:
    """What is wrong, and what to do about it on the command line."""
    match error:
        case UnknownColumnError(parameter="columns" | "drop" | "include"):
            return str(replace(error, parameter=f"--{error.parameter}"))
        case NoColumnError():
            return f"{error.finding()}; name those to use with --columns."
        case WeightsWidthError(from_labels=False):
            error = replace(error, name="after its preparation the table")
            remedy = "choose columns with --columns, add --project pca, or take --method clusterer"
            return f"{error.finding()}; {remedy}."
    return " ".join(str(error).split())


def warning_line(warning: ClusterwiseWarning, raw: bool = False) -> str:
    """What was found, and what to do about it on the command line."""
    if isinstance(warning, OtherKWarning):
        are = "cluster is" if warning.likeliest == 1 else "clusters are"
        return f"{warning.likeliest} {are} likelier ({100 * warning.probability:.0f} %): see --report"
    remedy = _remedy(warning, raw)
    return f"{warning.finding()}{'; ' * bool(remedy)}{remedy}."


def _remedy(warning: ClusterwiseWarning, raw: bool) -> str:
    """What to do; tables are prepared already unless they are ``raw``, and no method recommends itself."""
    match warning:
        case DiscreteColumnsWarning() | SkewedClustersWarning():
            return "leave out --raw" * raw
        case ValuesFollowedWarning():
            return f"{'leave out --raw, or ' * raw}leave the column out with --drop"
        case HeavyTailsWarning():
            return f"remove extreme rows{', or leave out --raw' * raw}"
        case CorrelatedColumnsWarning():
            return "try --method gaussian-search, or fewer columns"
        case OneGaussianWarning():
            return "compare with --method gaussian-search" * (warning.estimator != "GaussianSearch")
        case SeveralGroupsWarning() | BentClustersWarning() | OneClusterWarning():
            return "try --method clusterer" * (warning.estimator != "Clusterer")
        case FewClassesWarning():
            return "compare with --method clusterer, which needs no training"
        case CapReachedWarning():
            return "call it from Python with a larger max_clusters if you expect more"
        case StillMovingWarning():
            return "call it from Python with a larger max_epochs"
        case ChainsDisagreeWarning():
            return "call it from Python with a larger n_warm_up"
        case InterruptedWarning() | LowConfidenceWarning():
            return ""
    return warning.remedy


@contextlib.contextmanager
def one_line_errors(when_interrupted: str = "interrupted") -> Iterator[None]:
    """Turn errors that we expect into one line on stderr and an exit code; others keep their traceback."""
    try:
        yield
    except ClusterwiseError as error:
        typer.echo(f"error: {error_line(error)}", err=True)
        raise typer.Exit(BAD_INPUT) from error
    except BrokenPipeError:
        raise  # the reader of our output has gone; typer ends quietly
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"error: {where}{error.strerror or ' '.join(str(error).split())}", err=True)
        raise typer.Exit(BAD_INPUT) from error
    except KeyboardInterrupt as interrupt:
        typer.echo(when_interrupted, err=True)
        raise typer.Exit(INTERRUPTED) from interrupt


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
            typer.echo(f"warning: {line}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        for category in FOR_DEVELOPERS:
            warnings.simplefilter("ignore", category)
        warnings.showwarning = show
        yield ours
