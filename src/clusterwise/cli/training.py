"""``clusterwise train``: nothing is lost to Ctrl-C or SIGTERM, and no earlier run to a new one."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import typer

from clusterwise import training
from clusterwise.exceptions import ClusterwiseError
from clusterwise.training.callbacks import Callback
from clusterwise.training.checkpoint import TrainingState

__all__ = ["train_recipe"]


class _StopWhenAsked(Callback):
    """Ends the training after the step in which somebody asked for it."""

    def __init__(self) -> None:
        self.asked = False

    def after_step(self, state: TrainingState) -> bool:
        return self.asked

    def is_over(self) -> bool:
        return self.asked


@contextlib.contextmanager
def _stop_on_interrupt() -> Iterator[_StopWhenAsked]:
    """Let the first Ctrl-C or SIGTERM end the training after its step, with a checkpoint; the next now."""
    stop = _StopWhenAsked()

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    def ask(number: int, frame: FrameType | None) -> None:
        stop.asked = True
        restore()

    previous = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        restore()


def train_recipe(recipe: Path, out: Path, resume: bool, minutes: float | None) -> None:
    """Train, and say where the weights are or how to go on."""
    plan = training.read_recipe(recipe)
    checkpoint = out / f"{plan.name}.checkpoint.safetensors"
    if checkpoint.exists() and not resume:
        raise ClusterwiseError(
            f"{checkpoint} holds an earlier run; go on with --resume, or delete it to start again."
        )
    with _stop_on_interrupt() as stop:
        path = training.train(plan, out, resume=resume, minutes=minutes, callbacks=[stop])
    if path is not None:
        typer.echo(f"weights: {path}")
    elif stop.asked:
        raise KeyboardInterrupt
    else:
        typer.echo(f"stopped after {minutes:g} minutes; resume with --resume")
