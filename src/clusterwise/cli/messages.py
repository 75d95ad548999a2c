"""What a user sees when something is wrong: one line, and an exit code."""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
import threading
import warnings
from collections.abc import Callable, Iterator

import typer

from clusterwise.cli.methods import METHODS
from clusterwise.exceptions import ClusterwiseError, FeatureCountError

__all__ = [
    "BAD_INPUT",
    "INTERRUPTED",
    "in_words_of_the_command_line",
    "one_line_errors",
    "one_line_warnings",
    "options_in_remedies",
    "terminated_like_interrupted",
]

METHOD_OF = {name: method for method, name in METHODS.items()}

BAD_INPUT = 2
INTERRUPTED = 130  # what shells report for Ctrl-C


def _in_list(name: str) -> str:
    """The name of a column as part of a list with commas."""
    return '"' + name.replace('"', '""') + '"' if "," in name else name


PREPARE = r"(?:spread (?:its values|them) with|try) clusterwise\.TablePreparation"
# Words of the library in its errors and warnings, and what they are called here.
WORDS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (
        r"use it with include=\[(['\"])(.*?)\1\]",
        lambda match: f"use it with --include {shlex.quote(_in_list(match[2]))}",
    ),
    (r"\b(columns|drop|include) names", r"--\1 names"),
    (r"with columns=\.", "with --columns."),
    (r" \(clusterwise\.TablePreparation does\)", ""),
    (r"try clusterwise\.(\w+)", lambda match: f"try --method {METHOD_OF.get(match[1], match[1])}"),
    (r"clusterwise\.(GaussianSearch|Clusterer)", lambda match: f"--method {METHOD_OF[match[1]]}"),
    (r"pass refine=None or 'auto'", "leave out --refine"),
    (r"refine='(\w+)'", r"--refine \1"),
    (r"refine=None", "--refine none"),
    (r"covariance_type='full'", "--method gaussian-search"),
    (r"projection='pca'", "--project pca"),
    (r"filtering='([\w-]+)'", r"--filtering \1"),
    (r"`weights=`", "--weights"),
    (
        r"; raise max_clusters if you expect more",
        "; call it from Python with a larger max_clusters if you expect more",
    ),
    (r"fit with n_draws=\d+ to consider them", "try --method clusterer"),
    (r"; (?:see|compare with) (?:sample_partitions|labels_at)[^.;]*", ""),
    (r"; look at k_posterior_ and at labels_at for other numbers of them", ""),
    (r"; see convergence_\)", ")"),
    (r"\bin k_posterior_", "in the probability of k"),
    (r"\bk_posterior_ also", "the probability of k also"),
    (r"raise n_warm_up, or go on with warm_start=True", "call it from Python with a larger n_warm_up"),
    (
        r"raise max_epochs(?:, or go on with warm_start=True)?\.",
        "call it from Python with a larger max_epochs.",
    ),
    (r"; go on with warm_start=True", ""),
    (r" \(see history_\)", ""),
    (
        r"try scaling='feature' for columns in different units, a smaller covariance_prior, [^.]*\.",
        "try --method clusterer, or call it from Python with other options.",
    ),
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


def in_words_of_the_command_line(text: str, raw: bool = False) -> str:
    """Name the options of the command line where the library names parameters and classes.

    A table is prepared unless it is to be ``raw``; there is no need to say it again.
    """
    text = re.sub(PREPARE, "leave out --raw", text) if raw else re.sub(rf"(?:;|, or|,) {PREPARE}", "", text)
    for pattern, replacement in WORDS:
        text = re.sub(pattern, replacement, text)
    in_use = METHOD_OF.get(text.partition(":")[0])
    if in_use is not None:  # a method's warning must not recommend the method itself
        text = re.sub(rf"; (?:try|compare with) --method {in_use}(?=[.;])", "", text)
    return text


@contextlib.contextmanager
def one_line_errors(when_interrupted: str = "interrupted") -> Iterator[None]:
    """Turn errors that we expect into one line on stderr and an exit code; others keep their traceback."""
    try:
        yield
    except ClusterwiseError as error:
        typer.echo(f"error: {in_words_of_the_command_line(_one_line(str(error)))}", err=True)
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
def options_in_remedies() -> Iterator[None]:
    """Where the remedy is another number of features, name the options that change it."""
    try:
        yield
    except FeatureCountError as error:
        # Our errors say what is wrong; then what to do.
        facts = re.sub(r"^X has", "after its preparation the table has", str(error).partition(";")[0])
        raise FeatureCountError(
            f"{facts}; choose columns with --columns, add --project pca, or take --method clusterer "
            "or dp-mixture, which take any number."
        ) from error


@contextlib.contextmanager
def one_line_warnings(raw: bool = False) -> Iterator[list[str]]:
    """Print each warning as one line on stderr when it comes; yield the list of those seen so far."""
    heard: list[str] = []

    def show(message: Warning | str, *_: object, **__: object) -> None:
        line = in_words_of_the_command_line(_one_line(str(message)), raw)
        if line not in heard:
            heard.append(line)
            typer.echo(f"warning: {line}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        for category in FOR_DEVELOPERS:
            warnings.simplefilter("ignore", category)
        warnings.showwarning = show
        yield heard
