"""A bar for passes over very many rows: rows done, rows altogether, time left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from clusterwise.fitting.batches import Progress

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(console: Console | None = None) -> Iterator[Progress]:
    """Draw a bar on stderr for each pass; it is erased at the end, and only drawn on a terminal."""
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
