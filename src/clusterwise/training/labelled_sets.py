"""Data sets of labelled rows that encoders and rules are judged on, and what an encoder makes of them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from clusterwise.nn.feature_encoder import FeatureEncoder
from clusterwise.priors.labelled_rows import DrawnRows, LabelledRows
from clusterwise.training.recipe import Recipe
from clusterwise.training.sources import VALIDATION, rng_of_step

__all__ = ["as_tensor", "calibration_sets", "encoded_sets", "spread_of", "validation_sets", "whole_groups"]

MOST_ROWS_TO_MEASURE = 5000
# Rows of the largest data sets that decisions are made on, and how many there are of each size.
MOST_TO_CALIBRATE, SETS_OF_SIZE = 1024, 6


def as_tensor(rows: np.ndarray) -> Tensor:
    """Rows (n, d) as networks take them."""
    return torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float32))


def validation_sets(prior: LabelledRows, recipe: Recipe) -> list[DrawnRows]:
    """The sets that every validation looks at, of sizes up to ``n_points`` of the recipe, one size each."""
    rng, options = rng_of_step(recipe.seed, VALIDATION, 0), recipe.validation
    most = min(options.n_points, len(prior.y))
    sizes = np.unique(np.maximum(2, [most // 4, most // 2, most]))
    each = max(1, options.n_sets // len(sizes))
    return [prior.draw_rows(rng, each, int(size)) for size in sizes]


def calibration_sets(prior: LabelledRows, recipe: Recipe, each: int = SETS_OF_SIZE) -> list[DrawnRows]:
    """The sets that decisions are made on, ``each`` of sizes up to what a network sees at a time."""
    rng, most = rng_of_step(recipe.seed, VALIDATION, 1), min(MOST_TO_CALIBRATE, len(prior.y))
    sizes = np.unique(np.maximum(2, [most // 8, most // 3, most]))
    return [prior.draw_rows(rng, each, int(size)) for size in sizes]


def whole_groups(prior: LabelledRows, recipe: Recipe) -> list[DrawnRows]:
    """Groups of rows as data sets of their own, some of them if there are many; of very many rows, some."""
    found: list[DrawnRows] = []
    rng = rng_of_step(recipe.seed, VALIDATION, 2)
    groups = () if prior.groups is None else rng.permutation(np.unique(prior.groups))
    for group in groups[: 3 * SETS_OF_SIZE]:
        rows = rng.permutation(np.flatnonzero(prior.groups == group))[:MOST_TO_CALIBRATE]
        labels = np.unique(prior.y[rows], return_inverse=True)[1].reshape(1, -1)
        nothing = np.zeros_like(labels)
        if len(rows) > 1:
            found.append(DrawnRows(rows[None], labels, nothing, rows[None], nothing))
    return found


@torch.no_grad()
def encoded_sets(
    encoder: FeatureEncoder, prior: LabelledRows, sets: list[DrawnRows]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Encodings (m, f) and classes (m,) of each data set."""
    return [
        (encoder(as_tensor(prior.rows[index])).numpy().astype(np.float64), truth)
        for drawn in sets
        for index, truth in zip(drawn.index, drawn.labels, strict=True)
    ]


@torch.no_grad()
def spread_of(encoder: FeatureEncoder, rows: np.ndarray) -> float:
    """Sum of the variances of the encodings of training rows."""
    some = rows[:: max(1, len(rows) // MOST_ROWS_TO_MEASURE)]
    return float(encoder(as_tensor(some)).var(0, correction=0).sum())
