"""Where the data of training steps come from: drawn anew for each step, or made beforehand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from clusterwise.training.callbacks import Callback
from clusterwise.training.recipe import Recipe

__all__ = ["Source", "source_of_tables"]


class Source(Protocol):
    """What the training loop asks for data."""

    def start(self, model: nn.Module) -> None:
        """Look at some data before the first step, for networks that standardize what they see."""

    def task(self, step: int) -> Any:
        """What the loss of a step is taken of; the step's number alone decides what it is."""

    def validation(self) -> Callback:
        """Measures the network from time to time."""

    def finish(self, model: nn.Module) -> dict[str, Any]:
        """Calibrate the trained network where that is needed; return what else a weights file should say."""


def source_of_tables(
    recipe: Recipe, directory: Path, verbose: bool, is_over: Callable[[], bool] = lambda: False
) -> Source | None:
    """Make the tables of a judge's recipe, or read those that are there; None if time was up first."""
    if recipe.method == "node-judge":
        from clusterwise.training.node_tasks import node_source

        return node_source(recipe, directory, verbose, is_over)
    from clusterwise.training.partition_tasks import partition_source

    return partition_source(recipe, directory, verbose, is_over)
