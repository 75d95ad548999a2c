"""Labelled data divided into training and test, and weights that are trained on the first part of them.

No class is in both parts where a method is asked about unseen classes (AMCP's Table 2 does so, too). CHiGac's
Table 2 is about all classes: there other rows of the same classes are the test.

``python -m benchmarks.labelled_weights NAME ...`` trains some weights beforehand. They are kept in the folder
that the environment variable ``CLUSTERWISE_LABELLED`` names, or in one among the temporary files.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.data import data_directory
from clusterwise.papers.encoded import EncodedModel
from clusterwise.pretrained import Weights, get_weights
from clusterwise.training.from_labels import SPLICED, STEPS_OF_PILOT, EncoderKind, better_encoder, recipe_for
from clusterwise.training.labelled import LabelledSource, MetricAlone
from clusterwise.training.labelled_data import LabelledData
from clusterwise.training.loop import train_weights
from clusterwise.training.recipe import Recipe

SEED = 16
Arrays = Mapping[str, np.ndarray]


def _other_rows(data: Arrays, train: bool) -> np.ndarray:
    """The file's own division."""
    return data["split"] == (0 if train else 1)


def _even_classes(data: Arrays, train: bool) -> np.ndarray:
    """Rows for training of the classes 0, 2, 4, ..., or rows for the test of the others."""
    return _other_rows(data, train) & (data["y"] % 2 == (0 if train else 1))


def _first_hundred(data: Arrays, train: bool) -> np.ndarray:
    return (data["y"] < 100) == train


def _most_classes(data: Arrays, train: bool) -> np.ndarray:
    """At most 5,000 rows of three quarters of the classes, drawn at random, or all rows of the others.

    Classes of fewer than 40 rows are left out.
    """
    classes, sizes = np.unique(data["y"].astype(int), return_counts=True)
    order = np.random.default_rng(SEED).permutation(classes[sizes >= 40])
    n_train = round(0.75 * len(order))
    rows = np.flatnonzero(np.isin(data["y"].astype(int), order[:n_train] if train else order[n_train:]))
    return np.random.default_rng(SEED + 1).permutation(rows)[:5000] if train else rows


# File, array of the rows, division, and the shape of images.
SOURCES: dict[str, tuple[str, str, Callable[[Arrays, bool], np.ndarray], tuple[int, int] | None]] = {
    "omniglot": ("images/omniglot_28x28", "X", _other_rows, (28, 28)),
    "mnist": ("images/mnist", "X", _even_classes, (28, 28)),
    "clothes": ("images/fashion_mnist", "X", _even_classes, (28, 28)),
    "cifar": ("images/cifar10_effnetlite0_pca128", "X", _even_classes, None),
    "tiny-imagenet": ("images/tinyimagenet_effnetlite0_pca128", "X", _first_hundred, None),
    "letter": ("tabular/letter", "X", _most_classes, None),
    "kidney": ("singlecell/human_kidney", "X_pca50", _most_classes, None),
    "reuters": ("text/reuters_rcv1_4root_tfidf2000", "X", _other_rows, None),
    "activities": ("sensors/har_uci_acc343", "X", _other_rows, None),  # other people are in the test
}


@lru_cache(maxsize=4)
def labelled_rows(name: str, part: str) -> LabelledData:
    """Rows for training (``part`` "train") or for the test."""
    file, key, divide, shape = SOURCES[name]
    with np.load(data_directory() / f"{file}.npz", allow_pickle=False) as archive:
        data = {array: archive[array] for array in archive.files}
    kept = divide(data, part == "train")
    rows = data[key][kept] if shape else data[key][kept].astype(np.float32)
    groups = data["alphabet"][kept] if "alphabet" in data else None
    return LabelledData(rows, data["y"][kept].astype(int), groups, image_shape=shape)


@dataclass(frozen=True)
class TrainingRun:
    data: str
    method: str  # or "metric", the rival: the encoder without the clustering network
    steps: int
    prior: dict[str, Any] = field(default_factory=dict)
    encoder: EncoderKind = "auto"


CHARACTERS = {"turned_classes": True, "distortion": 0.6}
OF_ALPHABETS = {"k_max": 50, "within_groups": 0.7, **CHARACTERS}
DIGITS = {**CHARACTERS, "spliced_sets": SPLICED}  # five classes are few
RUNS = {
    f"{run.data}-{run.method}": run
    for run in (
        TrainingRun("omniglot", "metric", 1200, OF_ALPHABETS),
        TrainingRun("omniglot", "dac", 1500, OF_ALPHABETS),
        *(TrainingRun("mnist", method, 600, DIGITS) for method in ("amcp", "dac", "metric")),
        *(TrainingRun("tiny-imagenet", method, 600, {"k_max": 20}) for method in ("amcp", "dac", "metric")),
        *(TrainingRun("letter", method, 1500) for method in ("amcp", "dac")),
        TrainingRun("kidney", "amcp", 500),
        # "auto" would leave features of five classes as they are, because rows say nothing of other classes;
        # on 128 of them AMCP's loss grows without end within a hundred steps.
        *(TrainingRun("cifar", method, 400, encoder="mlp") for method in ("amcp", "dac", "metric")),
        *(TrainingRun("reuters", method, 200, encoder="mlp") for method in ("chigac", "metric")),
        *(TrainingRun("activities", method, 200, encoder="mlp") for method in ("chigac", "metric")),
        TrainingRun("clothes", "dac", 300, {"distortion": 0.3}),
        TrainingRun("clothes", "metric", 300, {"distortion": 0.3}),
    )
}


def trained_weights(name: str) -> Path:
    """The file of a run's weights, trained now if it is not there yet."""
    named = os.environ.get("CLUSTERWISE_LABELLED")
    folder = Path(named) if named else Path(tempfile.gettempdir()) / "clusterwise-labelled"
    path = folder / f"{name}.safetensors"
    if not path.exists():
        _train(name, RUNS[name], folder).save(path)
    return path


def weights_of(name: str) -> Weights:
    """The weights of a run, or shipped ones."""
    return get_weights(trained_weights(name) if name in RUNS else name)


def _train(name: str, run: TrainingRun, folder: Path) -> Weights:
    table, alone = labelled_rows(run.data, "train"), run.method == "metric"
    method, n_features = "amcp" if alone else run.method, table.rows.shape[1]

    def plan(encoder: EncoderKind, steps: int) -> Recipe:
        images = table.image_shape
        return recipe_for(method, encoder, n_features, images, steps, SEED, name, run.prior)

    kind, recipe = run.encoder, plan(run.encoder, STEPS_OF_PILOT)
    source = LabelledSource(recipe, table.rows, table.y, table.groups)
    if kind == "auto" and table.image_shape is None and not alone:  # as ``train_from_labels`` does
        kind = better_encoder(recipe, source)
    recipe = plan(kind, run.steps)
    source = source.with_recipe(recipe)

    def source_of(recipe: Recipe, model: Any, is_over: Callable[[], bool]) -> LabelledSource:
        if alone:
            model.__class__ = MetricAlone
        return source

    weights = train_weights(recipe, source_of, folder, resume=True, checkpoint_every=250)
    assert weights is not None
    if alone:
        weights.model.__class__ = EncodedModel
    return weights


if __name__ == "__main__":
    torch.set_num_threads(1)
    for each in sys.argv[1:]:
        print(each, {k: v for k, v in weights_of(each).facts.items() if k != "history"}, flush=True)
