"""Weights that the suites of ``labelled`` need: trained once on the training classes, then kept in a folder.

``python -m benchmarks.labelled_weights NAME ...`` trains some of them beforehand. The folder is the one that
the environment variable ``CLUSTERWISE_LABELLED`` names, or one among the temporary files.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.data import data_directory
from benchmarks.paper_data import READERS
from clusterwise.models.encoded import EncodedModel, RowsTask, prototype_loss
from clusterwise.pretrained import Weights, get_weights
from clusterwise.training.from_labels import SPLICED, STEPS_OF_PILOT, EncoderKind, better_encoder, recipe_for
from clusterwise.training.labelled import LabelledSource
from clusterwise.training.loop import train_weights
from clusterwise.training.recipe import Recipe

__all__ = ["RUNS", "Labelled", "TrainingRun", "labelled_rows", "path_of", "weights_of"]

# Shares of the classes that are for training, where a table has no such split of its own.
TRAINED_SHARE = 0.75


@dataclass(frozen=True)
class Labelled:
    """Labelled rows of a data set, divided by class."""

    rows: np.ndarray
    y: np.ndarray
    groups: np.ndarray | None = None
    image_shape: tuple[int, ...] | None = None


def load_arrays(file: str) -> dict[str, np.ndarray]:
    """All arrays of a file in the data directory."""
    with np.load(data_directory() / f"{file}.npz", allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


@lru_cache(maxsize=4)
def labelled_rows(name: str, part: str) -> Labelled:
    """Rows of the classes for training (``part`` "train") or for the test; no class is in both."""
    train = part == "train"
    if name in READERS:
        rows, y, shape = READERS[name](train)
        return Labelled(rows, y, None, shape)
    if name == "omniglot":
        data = load_arrays("images/omniglot_28x28")
        kept = data["split"] == (0 if train else 1)
        return Labelled(data["X"][kept], data["y"][kept].astype(int), data["alphabet"][kept], (28, 28))
    if name == "mnist":
        data = load_arrays("images/mnist")
        kept = (data["split"] == (0 if train else 1)) & (data["y"] % 2 == (0 if train else 1))
        return Labelled(data["X"][kept], data["y"][kept].astype(int), None, (28, 28))
    if name == "tiny-imagenet":
        data = load_arrays("images/tinyimagenet_effnetlite0_pca128")
        kept = (data["y"] < 100) == train
        return Labelled(data["X"][kept].astype(np.float32), data["y"][kept].astype(int))
    file, key = TABLES[name]
    data = load_arrays(file)
    y = data["y"].astype(int)
    # Classes large enough to be drawn from, divided at random by a seed of their own.
    classes = [c for c in np.unique(y) if (y == c).sum() >= FEWEST_ROWS]
    order = np.random.default_rng(16).permutation(classes)
    n_train = round(TRAINED_SHARE * len(order))
    chosen = order[:n_train] if train else order[n_train:]
    rows = np.flatnonzero(np.isin(y, chosen))
    if train:
        rows = np.random.default_rng(17).permutation(rows)[:MOST_ROWS]
    return Labelled(data[key][rows].astype(np.float32), y[rows])


TABLES = {
    "letter": ("tabular/letter", "X"),
    "kidney": ("singlecell/human_kidney", "X_pca50"),
}
FEWEST_ROWS = 40
MOST_ROWS = 5000


@dataclass(frozen=True)
class TrainingRun:
    """How the weights of a name are made."""

    data: str
    method: str = "amcp"
    steps: int = 1500
    metric_alone: bool = False  # the rival: the encoder without the clustering network
    prior: dict[str, Any] = field(default_factory=dict)
    encoder: EncoderKind = "auto"
    decoder: bool = False


SAME_CLASSES = ("reuters", "activities")
CHARACTERS = {"turned_classes": True, "distortion": 0.6}
DIGITS = {**CHARACTERS, "spliced_sets": SPLICED}  # five classes are few
RUNS = {
    "omniglot-metric": TrainingRun(
        "omniglot", steps=1200, metric_alone=True, prior={"k_max": 50, "within_groups": 0.7, **CHARACTERS}
    ),
    "omniglot-dac": TrainingRun(
        "omniglot", "dac", steps=1500, prior={"k_max": 50, "within_groups": 0.7, **CHARACTERS}
    ),
    **{
        f"{data}-{method}": TrainingRun(data, method, steps, prior=prior)
        for data, steps, prior in (
            ("mnist", 600, DIGITS),
            ("tiny-imagenet", 600, {"k_max": 20}),
            ("letter", 1500, {}),
            ("kidney", 500, {}),
        )
        for method in ("amcp", "dac")
    },
    **{
        f"{data}-metric": TrainingRun(data, "amcp", steps, metric_alone=True, prior=prior)
        for data, steps, prior in (("mnist", 600, DIGITS), ("tiny-imagenet", 600, {"k_max": 20}))
    },
    # The papers' other tables. "auto" would leave features of five classes as they are, because rows say
    # nothing of other classes; on 128 of them AMCP's loss grows without end within a hundred steps.
    **{f"cifar-{method}": TrainingRun("cifar", method, 400, encoder="mlp") for method in ("amcp", "dac")},
    "cifar-metric": TrainingRun("cifar", steps=400, metric_alone=True, encoder="mlp"),
    "clothes-dac": TrainingRun("clothes", "dac", 300, prior={"distortion": 0.3}, decoder=True),
    "clothes-metric": TrainingRun("clothes", steps=300, metric_alone=True, prior={"distortion": 0.3}),
    **{f"{data}-chigac": TrainingRun(data, "chigac", 200, encoder="mlp") for data in SAME_CLASSES},
    **{
        f"{data}-metric": TrainingRun(data, steps=200, metric_alone=True, encoder="mlp")
        for data in SAME_CLASSES
    },
    "omniglot-statistician": TrainingRun(
        "omniglot", "dac", 600, prior={"k_max": 20, "within_groups": 0.7, **CHARACTERS}, decoder=True
    ),
}


class MetricAlone(EncodedModel):
    """An encoder that is trained by its metric only; the set network behind it learns nothing."""

    def loss(self, task: Any, generator: torch.Generator) -> Tensor:
        assert isinstance(task, RowsTask)
        points = self.encoder(task.rows)[task.index]
        return prototype_loss(points, task.labels, torch.exp(self.encoder.log_temperature))


def _folder() -> Path:
    named = os.environ.get("CLUSTERWISE_LABELLED")
    folder = Path(named) if named else Path(tempfile.gettempdir()) / "clusterwise-labelled"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def path_of(name: str) -> Path:
    """Where the weights of a run are, once they were trained."""
    return _folder() / f"{name}.safetensors"


def weights_of(name: str) -> Weights:
    """The weights of a run, trained now if they are not there yet; or shipped ones."""
    if name not in RUNS:
        return get_weights(name)
    path = path_of(name)
    if not path.exists():
        _train(name, RUNS[name]).save(path)
    return get_weights(path)


def _train(name: str, run: TrainingRun) -> Weights:
    table = labelled_rows(run.data, "train")

    def plan(encoder: EncoderKind, steps: int) -> tuple[Recipe, LabelledSource]:
        recipe = recipe_for(
            run.method,
            encoder,
            table.rows.shape[1],
            table.image_shape,
            steps,
            16,
            name,
            run.prior,
            run.decoder,
        )
        return recipe, LabelledSource(recipe, table.rows, table.y, table.groups)

    kind = run.encoder
    if kind == "auto" and table.image_shape is None and not run.metric_alone:  # as ``train_from_labels`` does
        kind = better_encoder(*plan("auto", STEPS_OF_PILOT))
    recipe, source = plan(kind, run.steps)

    def find_source(model: Any, is_over: Callable[[], bool]) -> LabelledSource:
        if run.metric_alone:
            model.__class__ = MetricAlone
        return source

    weights = train_weights(recipe, _folder(), find_source, resume=True, checkpoint_every=250)
    assert weights is not None
    if run.metric_alone:
        weights.model.__class__ = EncodedModel
    return weights


if __name__ == "__main__":
    torch.set_num_threads(1)
    for each in sys.argv[1:]:
        print(each, {k: v for k, v in weights_of(each).facts.items() if k != "history"}, flush=True)
