"""Labelled rows as the data of training steps: splits, tasks, validation, and what the weights should say."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from torch import Tensor, nn

from clusterwise.exceptions import InvalidDataError, RecipeError
from clusterwise.models.encoded import EncodedModel, RowsTask, prototype_loss
from clusterwise.nn.feature_encoder import FeatureEncoder
from clusterwise.partition import canonical_labels
from clusterwise.priors.labelled import DrawnRows, LabelledOptions, LabelledRows, class_numbers, split_rows
from clusterwise.search.climb import climb
from clusterwise.search.evidence import Sample
from clusterwise.search.settings import DEFAULT
from clusterwise.training.callbacks import Callback, Measured
from clusterwise.training.images import distorted, turned
from clusterwise.training.recipe import Recipe
from clusterwise.training.tasks import TRAINING, VALIDATION, rng_of_step

__all__ = ["LabelledSource", "largest_encoded", "validation_sets"]

# Stream of random numbers of the split, beside those of ``tasks``.
SPLIT = 4


class LabelledSource:
    """Data sets drawn from labelled rows, anew for each step; see ``Source``."""

    def __init__(
        self,
        recipe: Recipe,
        rows: np.ndarray,
        y: np.ndarray,
        groups: np.ndarray | None = None,
        facts: dict[str, Any] | None = None,
    ) -> None:
        """``rows`` (n, d) and labels ``y`` (n,) of any kind; ``facts`` go into the weights file too."""
        options = LabelledOptions(**{k: v for k, v in recipe.prior.items() if k not in NOT_OPTIONS})
        self.recipe, self.options, self.known = recipe, options, facts or {}
        numbers = class_numbers(y)
        _require_classes(numbers)
        rng = rng_of_step(recipe.seed, SPLIT, 0)
        train, held, self.held_out = split_rows(numbers, groups, options, rng)

        def prior_of(chosen: np.ndarray) -> LabelledRows:
            return LabelledRows(
                rows[chosen], numbers[chosen], None if groups is None else groups[chosen], options
            )

        self.prior, self.held = prior_of(train), prior_of(held)

    def start(self, model: nn.Module) -> None:
        """Let the encoder learn the scales of the table."""
        rng = rng_of_step(self.recipe.seed, SPLIT, 1)
        some = rng.permutation(len(self.prior.y))[:MOST_ROWS_TO_START]
        labels = np.unique(self.prior.y[some], return_inverse=True)[1].reshape(-1)
        sets = validation_sets(self.held, self.recipe)
        statistician = _encoded(model).statistician
        if statistician is not None:
            statistician.start(_tensor(self.prior.rows[some]))
        _encoded(model).encoder.start(
            _tensor(self.prior.rows[some]),
            torch.from_numpy(labels),
            lambda encoder: self.badness(encoder, sets),
        )

    @torch.no_grad()
    def badness(self, encoder: FeatureEncoder, sets: list[DrawnRows] | None = None) -> float:
        """How badly rows that were held out are told apart by distances to the means of their classes.

        The metric loss at the temperature that suits the encoder best, which it keeps.
        """
        found: dict[float, list[float]] = {log_t: [] for log_t in TEMPERATURES}
        for drawn in validation_sets(self.held, self.recipe) if sets is None else sets:
            for index, truth in zip(drawn.index, drawn.labels, strict=True):
                points = encoder(_tensor(self.held.rows[index]))[None]
                for log_t, losses in found.items():
                    loss = prototype_loss(points, torch.from_numpy(truth)[None], torch.tensor(np.exp(log_t)))
                    losses.append(float(loss))
        means = {log_t: float(np.mean(losses)) for log_t, losses in found.items()}
        best = min(means, key=lambda log_t: means[log_t])
        encoder.log_temperature.fill_(best)
        return means[best]

    def task(self, step: int) -> RowsTask:
        sizes, rng = self.recipe.sizes, rng_of_step(self.recipe.seed, TRAINING, step)
        n_points = int(rng.choice(sizes.n_points))
        drawn = self.prior.draw_rows(rng, max(1, sizes.points_per_batch // n_points), n_points)
        generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
        return self._task(drawn, generator)

    def _task(self, drawn: DrawnRows, generator: torch.Generator) -> RowsTask:
        """Each row once, or once for each way that its image is turned."""
        keys, index = np.unique(drawn.index * 8 + drawn.turns, return_inverse=True)
        rows = _tensor(self.prior.rows[keys // 8])
        shape = self.recipe.encoder.get("image_shape") if self.recipe.encoder else None
        if shape is not None:
            if self.options.turned_classes:
                rows = turned(rows, torch.from_numpy(keys % 8), shape)
            if self.options.distortion > 0:
                rows = distorted(rows, self.options.distortion, shape, generator)
        return _rows_task(rows, index.reshape(drawn.index.shape), drawn.labels)

    def validation(self) -> Callback:
        sets = validation_sets(self.held, self.recipe)

        def measure(model: nn.Module) -> dict[str, float]:
            return measured(_encoded(model), self.held.rows, sets)

        return Measured(self.recipe, measure)

    def finish(self, model: nn.Module) -> dict[str, Any]:
        """What the estimators and the card should know of the training data."""
        scores = scores_of_refining(_encoded(model), self.held.rows, validation_sets(self.held, self.recipe))
        return {
            "refine": max(scores, key=lambda how: scores[how]),
            "nmi_of_refining": scores,
            "largest_coordinate": largest_encoded(_encoded(model), self.prior.rows),
            "held_out": self.held_out,
            "n_classes": len(np.unique(self.prior.y)),
            "n_rows": len(self.prior.y),
            **self.known,
        }


# Entries of [prior] that say where the rows are, not how sets are drawn from them.
NOT_OPTIONS = ("name", "file", "label_column", "group_column", "split")
MOST_ROWS_TO_START = 5000
# Logarithms of temperatures of the metric that are tried.
TEMPERATURES = (-3.0, -1.5, 0.0, 1.5, 3.0)


def _require_classes(y: np.ndarray) -> None:
    """Raise an error if there is nothing to learn from the classes."""
    sizes = np.bincount(y)
    if len(sizes) < 2:
        raise InvalidDataError(
            "all rows have the same label; to learn what a cluster is takes at least two classes, better ten "
            "or more."
        )
    several = int((sizes >= 2).sum())
    if several < 2:
        raise InvalidDataError(
            f"{len(sizes) - several} of the {len(sizes)} classes have a single row; what the rows of a class "
            "have in common takes classes of two rows or more; is this the column of the labels?"
        )


def _encoded(model: nn.Module) -> EncodedModel:
    if not isinstance(model, EncodedModel):
        raise RecipeError(
            "the prior 'labelled' needs an [encoder]; kind = 'identity' takes features as they are."
        )
    return model


def _tensor(rows: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float32))


def _rows_task(rows: Tensor, index: np.ndarray, labels: np.ndarray) -> RowsTask:
    return RowsTask(
        rows,
        torch.from_numpy(index),
        torch.from_numpy(labels),
        torch.from_numpy(labels.max(axis=1) + 1),
    )


def validation_sets(prior: LabelledRows, recipe: Recipe) -> list[DrawnRows]:
    """The sets that every validation looks at, of sizes up to ``n_points`` of the recipe, one size each."""
    rng, options = rng_of_step(recipe.seed, VALIDATION, 0), recipe.validation
    most = min(options.n_points, len(prior.y))
    sizes = np.unique(np.maximum(2, [most // 4, most // 2, most]))
    each = max(1, options.n_sets // len(sizes))
    return [prior.draw_rows(rng, each, int(size)) for size in sizes]


@torch.no_grad()
def inferred(
    model: EncodedModel, rows: np.ndarray, sets: list[DrawnRows]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Encodings (N, e), true labels (N,) and those that the network finds (N,), of each data set."""
    for drawn in sets:
        keys, index = np.unique(drawn.index, return_inverse=True)
        encoded = model.encoder(_tensor(rows[keys]))
        points = encoded[torch.from_numpy(index.reshape(drawn.index.shape))]
        found = model.network.infer(points, torch.ones(points.shape[:2], dtype=torch.bool), max_clusters=200)
        for of_set, truth, inference in zip(points.numpy(), drawn.labels, found, strict=True):
            yield of_set, truth, inference.labels.numpy()


def measured(model: EncodedModel, rows: np.ndarray, sets: list[DrawnRows]) -> dict[str, float]:
    """Mean NMI, ARI and error on k of the network alone."""
    found = [(truth, labels) for _, truth, labels in inferred(model, rows, sets)]
    errors = [abs(len(set(truth.tolist())) - len(set(labels.tolist()))) for truth, labels in found]
    return {
        "nmi": float(np.mean([normalized_mutual_info_score(*pair) for pair in found])),
        "ari": float(np.mean([adjusted_rand_score(*pair) for pair in found])),
        "k_mae": float(np.mean(errors)),
    }


def scores_of_refining(model: EncodedModel, rows: np.ndarray, sets: list[DrawnRows]) -> dict[str, float]:
    """Mean NMI of the network alone, and of what EM and a search of spherical Gaussians make of it.

    Which of them is best on classes that were held out is what the estimators do by default.
    """
    found: dict[str, list[float]] = {"none": [], "em": [], "search": []}
    for points, truth, labels in inferred(model, rows, sets):
        found["none"].append(normalized_mutual_info_score(truth, labels))
        sample = Sample(points.astype(np.float64), "spherical", DEFAULT)
        start = canonical_labels(labels)
        for how in ("em", "search"):
            state = climb(sample, [start], with_moves=how == "search")[0]
            found[how].append(normalized_mutual_info_score(truth, state.memberships.argmax(axis=0)))
    return {how: round(float(np.mean(scores)), 4) for how, scores in found.items()}


@torch.no_grad()
def largest_encoded(model: EncodedModel, rows: np.ndarray) -> float:
    """How far from the origin encodings of training rows reach: the 99.9th percentile of max |z|."""
    some = rows[:: max(1, len(rows) // MOST_ROWS_TO_START)]
    reach = model.encoder(_tensor(some)).abs().amax(1).numpy()
    return math.ceil(100 * float(np.quantile(reach, 0.999))) / 100
