"""Labelled rows as the data of training steps: splits, tasks, validation, and what the weights should say."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from torch import Tensor, nn

from clusterwise.exceptions import InvalidDataError, RecipeError
from clusterwise.nn.feature_encoder import EncoderConfig, FeatureEncoder, Start
from clusterwise.papers.amcp import AMCP
from clusterwise.papers.encoded import EncodedModel, RowsTask, prototype_loss, start_widths
from clusterwise.papers.registry import make_model
from clusterwise.priors.labelled_rows import (
    DrawnRows,
    LabelledOptions,
    LabelledRows,
    class_numbers,
    split_rows,
)
from clusterwise.training.calibration import (
    Encoded,
    FittedRule,
    divisibility,
    fit_rule,
    rule_facts,
    scores_of_refining,
    simplest,
)
from clusterwise.training.callbacks import Callback, Measured
from clusterwise.training.images import distorted, spliced, turned
from clusterwise.training.labelled_sets import (
    as_tensor,
    calibration_sets,
    encoded_sets,
    spread_of,
    validation_sets,
    whole_groups,
)
from clusterwise.training.recipe import Recipe
from clusterwise.training.sources import TRAINING, rng_of_step

__all__ = ["LabelledSource", "largest_encoded", "started", "train_metric"]

# Stream of random numbers of the split, besides those of ``tasks``.
SPLIT = 4


@dataclass(frozen=True, eq=False)
class Choice:
    """How features that stay as they are begin, and the rule that goes with it."""

    start: Start
    scores: np.ndarray  # (F,) how well encodings of each fold can be divided
    fitted: FittedRule


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to learn from, and classes that are not among them."""

    source: LabelledSource
    unseen: list[LabelledRows]
    number: int | None = None  # None if there is only this one


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
        groups = None if groups is None else class_numbers(groups, "group")
        rng = rng_of_step(recipe.seed, SPLIT, 0)
        train, held, self.held_out = split_rows(numbers, groups, options, rng)

        def prior_of(chosen: np.ndarray, options: LabelledOptions) -> LabelledRows:
            return LabelledRows(
                rows[chosen], numbers[chosen], None if groups is None else groups[chosen], options
            )

        self.prior = prior_of(train, options)
        self.held = prior_of(held, replace(options, spliced_sets=0.0))  # classes as they are
        self.begun: Start | None = None  # what tables begin with
        self.choice: Choice | None = None  # for features that stay as they are

    def with_recipe(self, recipe: Recipe) -> LabelledSource:
        """The same rows, split and choices for another encoder or more steps."""
        other = copy.copy(self)
        other.recipe = recipe
        return other

    def some_rows(self) -> tuple[Tensor, Tensor]:
        """Rows (n, d) to train on, not too many, and their classes (n,) from 0 on."""
        rng = rng_of_step(self.recipe.seed, SPLIT, 1)
        some = rng.permutation(len(self.prior.y))[:MOST_ROWS_TO_START]
        labels = np.unique(self.prior.y[some], return_inverse=True)[1].reshape(-1)
        return as_tensor(self.prior.rows[some]), torch.from_numpy(labels)

    def start(self, model: nn.Module) -> None:
        """Let the encoder learn the scales of the table."""
        rows, classes = self.some_rows()
        sets = validation_sets(self.held, self.recipe)
        encoder, network = _encoded(model).encoder, _encoded(model).network
        if self.begun is None:
            self.begun = encoder.start(rows, classes, lambda encoder: self.badness(encoder, sets))
        start = self.begun
        if encoder.config.kind == "identity":
            if self.choice is None:
                self.choice = self.choose_start(encoder.config, start.per_feature)
            start = self.choice.start
        encoder.begin(rows, classes, start)
        if encoder.config.kind != "convolution":
            self.badness(encoder, sets)  # sets the temperature
        if encoder.config.kind == "identity" and isinstance(network, AMCP):  # others bring classes together
            task = self.task(0)
            start_widths(network, encoder(task.rows)[task.index], task.labels)

    @torch.no_grad()
    def badness(self, encoder: FeatureEncoder, sets: list[DrawnRows] | None = None) -> float:
        """How badly rows that were held out are told apart by distances to the means of their classes.

        The metric loss at the temperature that suits the encoder best, which it keeps.
        """
        found: dict[float, list[float]] = {log_t: [] for log_t in TEMPERATURES}
        for drawn in validation_sets(self.held, self.recipe) if sets is None else sets:
            for index, truth in zip(drawn.index, drawn.labels, strict=True):
                points = encoder(as_tensor(self.held.rows[index]))[None]
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
        shape = self.recipe.encoder.get("image_shape") if self.recipe.encoder else None
        seams = np.zeros(drawn.index.shape, dtype=np.int64)
        if shape is not None:
            sides = np.where(drawn.seams > 0, shape[0], shape[1])
            seams = np.round(drawn.seams * sides).astype(np.int64)
        kinds = np.stack([drawn.index, drawn.turns, drawn.partners, seams], axis=-1).reshape(-1, 4)
        kinds, index = np.unique(kinds, axis=0, return_inverse=True)
        rows = as_tensor(self.prior.rows[kinds[:, 0]])
        if shape is not None:
            if self.options.spliced_sets > 0:
                others = as_tensor(self.prior.rows[kinds[:, 2]])
                rows = spliced(rows, others, torch.from_numpy(kinds[:, 3]), shape)
            if self.options.turned_classes:
                rows = turned(rows, torch.from_numpy(kinds[:, 1]), shape)
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
        encoded = _encoded(model)
        return {
            **self.decisions(encoded),
            "largest_coordinate": largest_encoded(encoded, self.prior.rows),
            "held_out": self.held_out,
            "n_classes": len(np.unique(self.prior.y)),
            "n_rows": len(self.prior.y),
            **self.known,
        }

    def decisions(self, model: EncodedModel) -> dict[str, Any]:
        """The rule of the cut, and which way to refine is best on classes that were held out."""
        fitted: FittedRule | None = None
        if model.encoder.config.kind == "identity":
            assert self.choice is not None
            fitted = self.choice.fitted
        elif self.cross_fits:
            fitted = fit_rule(self.encoded_folds(self.small_encoder))
        if fitted is not None:
            # Distances of the encoders of the folds were in units of their spreads.
            spread = spread_of(model.encoder, self.prior.rows)
            rule = replace(fitted.rule, threshold=fitted.rule.threshold + math.log(spread))
            if self.held_out == "rows":  # no class is left to compare with what the network does
                scores = {"cut": round(fitted.score, 4)}
                return {"refine": "cut", "cut": rule_facts(rule), "agreement_of_refining": scores}
        drawn, whole = (
            [
                Encoded(z.astype(np.float64), y, found, i % N_FOLDS)
                for i, (z, y, found) in enumerate(inferred(model, self.held.rows, sets))
            ]
            for sets in (calibration_sets(self.held, self.recipe), whole_groups(self.held, self.recipe))
        )
        if fitted is None:
            # Where data come by groups, so will new ones: whole groups count as much as sets that are drawn.
            rule = fit_rule(drawn + whole * round(len(drawn) / max(1, len(whole)))).rule
        few = [one for one in drawn + whole if len(one.truth) <= MOST_TO_COMPARE]
        scores = scores_of_refining(few, rule)
        how = max(scores, key=lambda how: scores[how])
        return {"refine": how, "cut": rule_facts(rule), "agreement_of_refining": scores}

    @property
    def cross_fits(self) -> bool:
        """Whether too few classes are held out to learn a rule from, and there are enough to leave some out.

        Two or three classes that happen to be far apart leave open where a cut should be.
        """
        if self.held_out != "rows" and len(np.unique(self.held.y)) >= FEW_HELD_OUT:
            return False
        return self._n_classes >= FEWEST_TO_CROSS_FIT

    @property
    def _n_classes(self) -> int:
        return len(np.union1d(self.prior.y, self.held.y))

    def folds(self) -> Iterator[Fold]:
        """Leave classes out in turn; each is left out once or more often.

        Where whole groups are held out, or there are too few classes, there is one fold: what is held out.
        """
        if self.held_out == "groups" or self._n_classes < FEWEST_TO_CROSS_FIT:
            yield Fold(self, [self.held])
            return
        rows, y = (
            np.concatenate([self.held.rows, self.prior.rows]),
            np.concatenate([self.held.y, self.prior.y]),
        )
        of_classes = self.held_out == "classes"
        pool, labels = (rows, y) if of_classes else (self.prior.rows, self.prior.y)
        classes = rng_of_step(self.recipe.seed, SPLIT, 2).permutation(np.unique(y))
        n_out = max(2, round(SHARE_LEFT_OUT * len(classes)), min(FEWEST_UNSEEN, len(classes) // 2))
        for number in range(N_FOLDS):
            out = np.roll(classes, -round(number * len(classes) / N_FOLDS))[:n_out]
            kept, unseen = ~np.isin(labels, out), np.isin(y, out)
            recipe = replace(
                self.recipe,
                seed=self.recipe.seed + 1 + number,
                prior={**self.recipe.prior, "hold_out": "rows"},
                optimizer=replace(
                    self.recipe.optimizer, steps=max(1, round(STEPS_OF_FOLD * self.recipe.optimizer.steps))
                ),
            )
            priors = [LabelledRows(rows[unseen], y[unseen], None, self.held.options)]
            if n_out < FEWEST_UNSEEN and not of_classes:  # all classes, by rows that are not trained on
                priors.append(LabelledRows(self.held.rows, self.held.y, None, self.held.options))
            source = LabelledSource(recipe, pool[kept], labels[kept])
            source.begun = self.begun
            yield Fold(source, priors, number)

    def encoded_folds(
        self, encoder_of: Callable[[LabelledSource], FeatureEncoder], most_rows: int | None = None
    ) -> list[Encoded]:
        """What ``encoder_of`` makes of classes that it does not know, in units of its spread."""
        found: list[Encoded] = []
        for fold in self.folds():
            encoder = encoder_of(fold.source)
            unit = math.sqrt(spread_of(encoder, fold.source.prior.rows))
            for prior in fold.unseen:
                drawn = calibration_sets(prior, fold.source.recipe, SETS_OF_FOLD)
                drawn = [one for one in drawn if most_rows is None or one.index.shape[1] <= most_rows]
                found += [
                    Encoded(z / unit, y, None, i % N_FOLDS if fold.number is None else fold.number)
                    for i, (z, y) in enumerate(encoded_sets(encoder, prior, drawn))
                ]
        return found

    def small_encoder(self, source: LabelledSource) -> FeatureEncoder:
        """An encoder that is trained by its metric alone."""
        model = started(source.recipe, source)
        train_metric(model, source, source.recipe.optimizer.steps)
        return model.encoder

    def choose_start(self, config: EncoderConfig, per_feature: bool) -> Choice:
        """How far features that stay as they are should be turned, and whether they have one length.

        How well encodings can be divided into classes that are left out says it.
        """

        def begun(start: Start, source: LabelledSource) -> FeatureEncoder:
            encoder = FeatureEncoder(config)
            encoder.begin(*source.some_rows(), start)
            return encoder

        starts = [Start(per_feature, share, directions) for share in SHARES for directions in (False, True)]
        scores = [
            divisibility(self.encoded_folds(partial(begun, start), MOST_TO_COMPARE)) for start in starts
        ]
        best = simplest(np.stack(scores))
        fitted = fit_rule(self.encoded_folds(partial(begun, starts[best])))
        return Choice(starts[best], scores[best], fitted)


def started(recipe: Recipe, source: LabelledSource) -> EncodedModel:
    """A network before its first step."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = _encoded(make_model(recipe.method, recipe.model, recipe.encoder))
    source.start(model)
    return model


def train_metric(model: EncodedModel, source: LabelledSource, steps: int) -> None:
    """Train an encoder by its metric alone; the set network behind it learns nothing."""
    if model.encoder.config.kind == "identity":
        return  # features as they are
    optimizer = torch.optim.AdamW(model.encoder.parameters(), lr=METRIC_RATE)
    for step in range(steps):
        for group in optimizer.param_groups:  # to the end in small steps, or the last few would decide
            group["lr"] = METRIC_RATE * min(1.0, 2 * (1 - step / steps))
        task = source.task(step)
        points = model.encoder(task.rows)[task.index]
        loss = prototype_loss(points, task.labels, torch.exp(model.encoder.log_temperature))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.encoder.parameters(), 1.0)
        optimizer.step()


# Entries of [prior] that say where the rows are, not how sets are drawn from them.
NOT_OPTIONS = ("name", "file", "label_column", "group_column", "split")
MOST_ROWS_TO_START = 20_000
METRIC_RATE = 1e-3
# Rows of data sets on which ways to refine are compared: a search among a thousand takes long.
MOST_TO_COMPARE = 400
# Fewer classes than this say too little by themselves.
FEW_HELD_OUT = 10
# Folds of classes that are left out in turn, and how long encoders are trained without them, relative to the
# network itself.
N_FOLDS, STEPS_OF_FOLD = 5, 0.3
# How many of the classes are left out: a share, but at least this number if half of them are as many, or two.
SHARE_LEFT_OUT, FEWEST_UNSEEN = 0.2, 6
# How many classes that takes, and how many data sets of each size a fold has.
FEWEST_TO_CROSS_FIT, SETS_OF_FOLD = 4, 4
# What features that stay as they are may begin with.
SHARES = (1.0, 0.5, 0.25)
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


def _rows_task(rows: Tensor, index: np.ndarray, labels: np.ndarray) -> RowsTask:
    return RowsTask(
        rows,
        torch.from_numpy(index),
        torch.from_numpy(labels),
        torch.from_numpy(labels.max(axis=1) + 1),
    )


@torch.no_grad()
def inferred(
    model: EncodedModel, rows: np.ndarray, sets: list[DrawnRows]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Encodings (N, e), true labels (N,) and those that the network finds (N,), of each data set."""
    for drawn in sets:
        keys, index = np.unique(drawn.index, return_inverse=True)
        encoded = model.encoder(as_tensor(rows[keys]))
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


@torch.no_grad()
def largest_encoded(model: EncodedModel, rows: np.ndarray) -> float:
    """How far from the origin encodings of training rows reach: the 99.9th percentile of ``max |z|``."""
    some = rows[:: max(1, len(rows) // MOST_ROWS_TO_START)]
    reach = model.encoder(as_tensor(some)).abs().amax(1).numpy()
    return math.ceil(100 * float(np.quantile(reach, 0.999))) / 100
