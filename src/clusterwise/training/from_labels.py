"""Weights of one's own from labelled rows, with settings that suit most tables and images."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
import torch

from clusterwise._threads import one_thread
from clusterwise.exceptions import ClusterwiseError, FewClassesWarning
from clusterwise.pretrained import Weights
from clusterwise.priors.labelled_rows import class_numbers
from clusterwise.training.calibration import MAX_TO_COMPARE, divisibility, simplest
from clusterwise.training.labelled import N_FOLDS, STEPS_OF_FOLD, LabelledSource, source_of_table, started
from clusterwise.training.labelled_data import LabelledData, labelled_data
from clusterwise.training.loop import train_weights
from clusterwise.training.recipe import LABELLED, Recipe, recipe_from_dict

__all__ = ["METHODS", "EncoderKind", "recipe_for", "train_from_labels", "train_on_table"]

EncoderKind = Literal["auto", "identity", "mlp", "convolution"]

# The network of each method behind an encoder: without wavelengths, which are for a few coordinates.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "amcp": ("amcp", {"n_coordinates": 48, "n_encoder_blocks": 3, "n_inducing": 24}),
    "dac": ("dac", {"density": "none", "width": 96, "n_encoder_blocks": 3, "n_inducing": 24}),
    "dac-anchored": (
        "dac",
        {"filtering": "anchored", "density": "none", "width": 96, "n_encoder_blocks": 3, "n_inducing": 24},
    ),
    "chigac": ("chigac", {"n_encoder_blocks": 3}),
    "ncp": ("ncp", {}),
    "act-st": ("act-st", {}),
}

DEFAULT_STEPS = 3000
# Rows of a step. A convolution takes much longer for a row than all that follows it.
ROWS_PER_STEP, IMAGES_PER_STEP = 1024, 400
SIZES = (50, 100, 200, 400)
MAX_CLUSTERS = 40
MAX_AT_ONCE = 10  # for ACT-ST, which makes mixtures of all numbers at once
FEW_CLASSES = 10
# Share of the data sets of images with spliced classes, where there are few to learn from.
SPLICED = 0.7
# Steps of a network that is planned to find out whether an MLP helps; each fold has a share of them.
STEPS_OF_PILOT = 200
# The pace is measured over these steps, after one that sets everything up.
STEPS_TO_MEASURE = 4
MIN_STEPS = 20


def train_from_labels(
    X: Any,
    y: Any,
    *,
    method: str = "amcp",
    groups: Any = None,
    encoder: EncoderKind = "auto",
    minutes: float | None = None,
    steps: int | None = None,
    random_state: Any = None,
    verbose: int = 1,
) -> Weights:
    """Learn from labelled rows what a cluster is, for new data with other classes.

    Data sets of a few hundred rows are drawn from X, each with classes and an imbalance of its own, and an
    encoder and a clustering network learn together to find their classes. Some classes are held out to say
    how well that works on unseen ones.

    Parameters
    ----------
    X : array or data frame of shape (n, d), or images of shape (n, height, width[, colours])
        Numbers without gaps. New data need the same columns in the same units.
    y : array of shape (n,)
        The class of each row, by numbers or words. Ten classes or more are better than two; rows of
        unknown class must be left out.
    method : {"amcp", "dac", "dac-anchored", "chigac", "ncp", "act-st"}
        Which estimator the weights are for.
    groups : array of shape (n,), optional
        Where rows come from (an alphabet, a donor, a day). Half of the data sets are drawn within one
        group, and whole groups are held out for validation.
    encoder : {"auto", "mlp", "convolution", "identity"}
        What comes before the clustering network. "identity" are the features, scaled and perhaps turned;
        "mlp" and "convolution" learn. "auto" is a convolution for images; for tables it is the MLP if a short
        training shows that it helps with classes that were held out.
    minutes : float, optional
        Time to train for; the number of steps follows from the pace of the first ones: two runs differ.
    steps : int, optional
        Steps to train for; 3000 if neither is given. The same ``steps`` and ``random_state`` give the same
        weights.
    random_state : int, RandomState or None
        Seed of the split, of the network and of all draws.
    verbose : int
        1: a line every ten seconds.

    Returns
    -------
    Weights
        With ``save(path)``. Estimators take it, or the path, as ``weights=``.

    Examples
    --------
    >>> import numpy as np
    >>> import clusterwise as cw
    >>> rng = np.random.default_rng(0)
    >>> centres = rng.normal(size=(12, 5)) * 4
    >>> y = rng.integers(12, size=600)
    >>> X = centres[y] + rng.normal(size=(600, 5))
    >>> weights = cw.train_from_labels(X, y, encoder="mlp", steps=2, random_state=0, verbose=0)
    >>> weights.model.n_features
    5
    """
    return train_on_table(
        labelled_data(X, y, groups),
        method=method,
        encoder=encoder,
        minutes=minutes,
        steps=steps,
        seed=_seed(random_state),
        verbose=verbose,
    )


def train_on_table(
    table: LabelledData,
    *,
    method: str = "amcp",
    encoder: EncoderKind = "auto",
    minutes: float | None = None,
    steps: int | None = None,
    seed: int = 0,
    verbose: int = 1,
    name: str = "from-labels",
) -> Weights:
    """The same for rows (n, d) that are together with their labels; see ``train_from_labels``."""
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, Integral) or steps < 1):
        raise ClusterwiseError(f"steps must be a whole number of at least 1, got {steps!r}.")
    if minutes is not None and not (isinstance(minutes, Real) and math.isfinite(minutes) and minutes > 0):
        raise ClusterwiseError(f"minutes must be above 0, got {minutes!r}.")
    if steps is not None and minutes is not None:
        raise ClusterwiseError("steps and minutes both say how long to train; give one of them.")
    n_features, shape = table.rows.shape[1], table.image_shape
    n_classes = len(np.unique(class_numbers(table.y)))
    prior = {"spliced_sets": SPLICED} if shape is not None and n_classes < FEW_CLASSES else {}

    def plan(n_steps: int) -> Recipe:
        return recipe_for(method, encoder, n_features, shape, n_steps, seed, name, prior)

    with one_thread():
        began = time.monotonic()
        recipe = plan(STEPS_OF_PILOT)
        source = source_of_table(recipe, table)
        if n_classes < FEW_CLASSES:
            warnings.warn(FewClassesWarning(n_classes=n_classes), stacklevel=3)
        if encoder == "auto" and shape is None:
            encoder = better_encoder(recipe, source)
        recipe = plan(int(steps or DEFAULT_STEPS))
        if minutes is not None:
            pace = _seconds_per_step(recipe, source.with_recipe(recipe))
            if source.cross_fits and recipe.encoder is not None and recipe.encoder["kind"] != "identity":
                pace *= 1 + N_FOLDS * STEPS_OF_FOLD
            left = 60 * minutes - (time.monotonic() - began)
            recipe = plan(max(MIN_STEPS, int(left / pace)))
        source = source.with_recipe(recipe)
        weights = train_weights(recipe, lambda *_: source, verbose=bool(verbose))
    assert weights is not None  # nothing ends it early
    return weights


def better_encoder(recipe: Recipe, source: LabelledSource) -> EncoderKind:
    """Whether an MLP learns something that helps with classes that are left out, by short trainings.

    Features that already tell classes apart are better left as they are: an MLP would learn by heart which
    classes there are. Both are judged by how well encodings of classes that they do not know can be divided.
    Where no classes are held out, nothing can be said, and the features stay.
    """
    assert recipe.encoder is not None
    features = {"kind": "identity", "n_features": recipe.encoder["n_features"]}
    started(replace(recipe, encoder=features), source)
    assert source.identity is not None
    if source.held_out == "rows":
        return "identity"
    learned = divisibility(source.encoded_folds(source.small_encoder, MAX_TO_COMPARE))
    return "mlp" if simplest(np.stack([source.identity.scores, learned])) else "identity"


def recipe_for(
    method: str,
    encoder: EncoderKind,
    n_features: int,
    image_shape: Sequence[int] | None,
    steps: int,
    seed: int,
    name: str = "from-labels",
    prior: Mapping[str, Any] | None = None,
) -> Recipe:
    """The recipe that ``train_from_labels`` follows; ``prior`` has options of the prior."""
    if method not in METHODS:
        raise ClusterwiseError(f"method must be one of {', '.join(METHODS)}, got {method!r}.")
    if encoder not in ("auto", "identity", "mlp", "convolution"):
        raise ClusterwiseError(f"encoder must be auto, identity, mlp or convolution, got {encoder!r}.")
    if encoder == "convolution" and image_shape is None:
        raise ClusterwiseError("a convolution needs images: pass X with shape (n, height, width).")
    kind = ("mlp" if image_shape is None else "convolution") if encoder == "auto" else encoder
    network, options = METHODS[method]
    before: dict[str, Any] = {"kind": kind, "n_features": n_features}
    if kind == "mlp":
        before["n_encoded"] = min(32, max(8, n_features))
    if image_shape is not None:
        before |= {"image_shape": list(image_shape), "n_encoded": 64}
    images = kind == "convolution"
    return recipe_from_dict(
        {
            "name": name,
            "method": network,
            "description": f"{network} trained on labelled rows of {n_features} features",
            "seed": seed,
            "prior": {
                "name": LABELLED,
                "k_max": MAX_CLUSTERS if network != "act-st" else MAX_AT_ONCE,
                "distortion": 0.5 if images else 0.0,
                **(prior or {}),
            },
            "encoder": before,
            "model": {"n_wavelengths": 0, **options},
            "sizes": {
                "n_points": list(SIZES),
                "points_per_batch": IMAGES_PER_STEP if images else ROWS_PER_STEP,
            },
            "optimizer": {
                "steps": steps,
                "warm_up": max(1, min(200, steps // 10)),
                "clip": 1.0,
                "average_decay": 0.998,
            },
            "validation": {"every": max(1, min(500, steps)), "n_sets": 30, "n_points": 400},
        }
    )


def _seconds_per_step(recipe: Recipe, source: LabelledSource) -> float:
    """How long a step takes, by a few of them that train nothing."""
    model = started(recipe, source)
    optimizer = torch.optim.AdamW(model.parameters())
    generator = torch.Generator().manual_seed(0)
    for step in range(1 + STEPS_TO_MEASURE):
        if step == 1:
            began = time.monotonic()
        optimizer.zero_grad()
        model.loss(source.task(step), generator).backward()
        optimizer.step()
    return (time.monotonic() - began) / STEPS_TO_MEASURE


def _seed(random_state: Any) -> int:
    if isinstance(random_state, Integral):
        if random_state < 0:
            raise ClusterwiseError(f"random_state must be at least 0, got {random_state}.")
        return int(random_state)
    if random_state is None:
        return int(np.random.default_rng().integers(2**31 - 1))
    if not isinstance(random_state, np.random.RandomState):
        raise ClusterwiseError(
            f"random_state must be a whole number, a RandomState or None, got {random_state!r}."
        )
    return int(random_state.randint(2**31 - 1))
