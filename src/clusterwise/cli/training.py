"""``clusterwise train``: nothing is lost to Ctrl-C or SIGTERM, and no earlier run to a new one."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from clusterwise import training
from clusterwise.cli.messages import say, say_notes
from clusterwise.exceptions import ClusterwiseError
from clusterwise.training.from_labels import train_on_table
from clusterwise.training.labelled_data import read_labelled
from clusterwise.training.loop import check_recipe, checkpoint_path

__all__ = ["train_labels", "train_recipe"]


PLURALS = {"row": "rows", "column": "columns", "class": "classes"}


@contextlib.contextmanager
def _stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """Whether to stop: the first Ctrl-C or SIGTERM asks for it after the step, the next ends all."""
    asked: list[int] = []

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    def ask(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        restore()

    previous = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        restore()


def train_labels(
    file: Path,
    label_column: str | None,
    group_column: str | None,
    drop: tuple[str, ...],
    out: Path,
    *,
    method: str,
    minutes: float | None,
    steps: int | None,
    seed: int,
    other: Path | None = None,
) -> None:
    """Train on the labelled rows of a table, and say how well classes that were held out are found."""
    if other is not None:
        raise ClusterwiseError(f"--labels trains without a recipe; leave out {other}.")
    if label_column is None:
        raise ClusterwiseError("--labels needs --label-column, the name of the column with the labels.")
    if out.suffix != ".safetensors":
        raise ClusterwiseError(f"--out {out} must end in .safetensors; that is what weights are saved as.")
    table = read_labelled(file, label_column, group_column, drop)
    say_notes(table.notes)
    n_classes = len({label for label in table.y.tolist() if label is not None and label == label})
    numbers = (len(table.y), "row"), (table.rows.shape[1], "column"), (n_classes, "class")
    say(", ".join(f"{n:,} {noun if n == 1 else PLURALS[noun]}" for n, noun in numbers), err=True)
    weights = train_on_table(table, method=method, minutes=minutes, steps=steps, seed=seed, name=out.stem)
    weights.save(out)
    last = weights.facts["history"][-1]
    say(
        f"on {weights.facts['held_out']} that were held out: NMI {last['nmi']:.3f}, "
        f"error of k {last['k_mae']:.1f}"
    )
    say(f"weights: {out}")
    say(f"use them: clusterwise cluster NEW.csv --weights {out}")


def train_recipe(recipe: Path | None, out: Path, resume: bool, minutes: float | None) -> None:
    """Train, and say where the weights are or how to go on."""
    if recipe is None:
        raise ClusterwiseError("name a recipe, or a table of labelled rows with --labels; see --help.")
    plan = training.read_recipe(recipe)
    check_recipe(plan, out)
    checkpoint = checkpoint_path(plan, out)
    if checkpoint.exists() and not resume:
        raise ClusterwiseError(
            f"{checkpoint} holds an earlier run; go on with --resume, or delete it to start again."
        )
    with _stop_on_interrupt() as stop:
        path = training.train(plan, out, resume=resume, minutes=minutes, stop=stop)
    if path is not None:
        say(f"weights: {path}")
    elif stop():
        raise KeyboardInterrupt
    else:
        say(f"stopped after {minutes:g} minutes; resume with --resume")
