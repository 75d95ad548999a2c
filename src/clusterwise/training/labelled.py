"""Labelled rows as the data of training steps: splits, tasks, validation, and what the weights should say."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from torch import Tensor, nn

from clusterwise.exceptions import InvalidDataError, RecipeError
from clusterwise.nn.feature_encoder import EncoderConfig, FeatureEncoder, Start
from clusterwise.nn.images import distorted, spliced, turned
from clusterwise.papers.amcp.network import AMCPNetwork
from clusterwise.papers.cut import WardCut
from clusterwise.papers.encoded import EncodedModel, RowsTask, prototype_loss, start_widths
from clusterwise.priors.labelled_rows import (
    DrawnRows,
    LabelledOptions,
    LabelledRows,
    class_numbers,
    split_rows,
)
from clusterwise.training.calibration import (
    MAX_TO_CALIBRATE,
    MAX_TO_COMPARE,
    Encoded,
    as_tensor,
    calibration_sets,
    divisibility,
    encoded_sets,
    fit_cut,
    groups_as_sets,
    inferred,
    reach_of,
    simplest,
    spread_of,
    validation_sets,
)
from clusterwise.training.callbacks import Callback, Measured, TrainingState
from clusterwise.training.labelled_data import LabelledData, read_labelled
from clusterwise.training.loop import fresh_network, train_steps
from clusterwise.training.recipe import Recipe
from clusterwise.training.sources import TRAINING, rng_of_step

__all__ = ["LabelledSource", "MetricAlone", "Started", "source_of_file", "started"]

# Stream of random numbers of the split, besides those of ``sources``.
SPLIT = 4
# Entries of [prior] that say where the rows are, not how sets are drawn from them.
NOT_OPTIONS = ("name", "file", "label_column", "group_column", "split")
MAX_ROWS_TO_START = 20_000
# Fewer classes than this say too little by themselves.
FEW_HELD_OUT = 10
# Folds of classes that are left out in turn, and how long encoders are trained without them, relative to the
# network itself.
N_FOLDS, STEPS_OF_FOLD = 5, 0.3
# How many of the classes are left out: a share, but at least this number if half of them are as many, or two.
SHARE_LEFT_OUT, MIN_UNSEEN = 0.2, 6
# How many classes that takes, and how many data sets of each size a fold has.
MIN_TO_CROSS_FIT, SETS_OF_FOLD = 4, 4
# What features that stay as they are may begin with.
SHARES = (1.0, 0.5, 0.25)
# Logarithms of temperatures of the metric that are tried.
LOG_TEMPERATURES = (-3.0, -1.5, 0.0, 1.5, 3.0)


class MetricAlone(EncodedModel):
    """An encoder that is trained by its metric only; the set network behind it learns nothing."""

    def loss(self, task: Any, generator: torch.Generator) -> Tensor:
        assert isinstance(task, RowsTask)
        points = self.encoder(task.rows)[task.index]
        return prototype_loss(points, task.labels, torch.exp(self.encoder.log_temperature))


@dataclass(frozen=True, eq=False)
class Started:
    """How features that stay as they are begin, and the cut that goes with it."""

    start: Start
    scores: np.ndarray  # (F,) how well encodings of each fold can be divided
    cut: WardCut


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
        train, held_out, self.held_out = split_rows(numbers, groups, options, rng)

        def prior_of(chosen: np.ndarray, options: LabelledOptions) -> LabelledRows:
            return LabelledRows(
                rows[chosen], numbers[chosen], None if groups is None else groups[chosen], options
            )

        self.prior = prior_of(train, options)
        self.unseen = prior_of(held_out, replace(options, spliced_sets=0.0))  # classes as they are
        self.begun: Start | None = None  # what tables begin with
        self.identity: Started | None = None  # for features that stay as they are

    def with_recipe(self, recipe: Recipe) -> LabelledSource:
        """The same rows, split and choices for another encoder or more steps."""
        other = copy.copy(self)
        other.recipe = recipe
        return other

    # -- training --------------------------------------------------------------------------------------

    def start(self, model: nn.Module) -> None:
        """Let the encoder learn the scales of the table."""
        rows, classes = self.some_rows()
        sets = validation_sets(self.unseen, self.recipe)
        encoder, network = _encoded(model).encoder, _encoded(model).network
        if self.begun is None:
            self.begun = encoder.start(rows, classes, lambda encoder: self.metric_loss(encoder, sets))
        start = self.begun
        if encoder.config.kind == "identity":
            if self.identity is None:
                self.identity = self.choose_start(encoder.config, start.per_feature)
            start = self.identity.start
        encoder.begin(rows, classes, start)
        if encoder.config.kind != "convolution":
            self.metric_loss(encoder, sets)  # sets the temperature
        # Encoders that learn bring classes together by themselves.
        if encoder.config.kind == "identity" and isinstance(network, AMCPNetwork):
            task = self.task(0)
            start_widths(network, encoder(task.rows)[task.index], task.labels)

    def some_rows(self) -> tuple[Tensor, Tensor]:
        """Rows (n, d) to train on, not too many, and their classes (n,) from 0 on."""
        rng = rng_of_step(self.recipe.seed, SPLIT, 1)
        some = rng.permutation(len(self.prior.y))[:MAX_ROWS_TO_START]
        labels = np.unique(self.prior.y[some], return_inverse=True)[1].reshape(-1)
        return as_tensor(self.prior.rows[some]), torch.from_numpy(labels)

    @torch.no_grad()
    def metric_loss(self, encoder: FeatureEncoder, sets: list[DrawnRows]) -> float:
        """How badly rows that were held out are told apart by distances to the means of their classes.

        The metric loss at the temperature that suits the encoder best, which it keeps.
        """
        temperatures = [torch.tensor(np.exp(log_t)) for log_t in LOG_TEMPERATURES]
        losses = []
        for points, truth in encoded_sets(encoder, self.unseen, sets):
            one, labels = torch.from_numpy(points).float()[None], torch.from_numpy(truth)[None]
            losses.append([float(prototype_loss(one, labels, t)) for t in temperatures])
        means = np.mean(losses, axis=0)
        encoder.log_temperature.fill_(LOG_TEMPERATURES[int(means.argmin())])
        return float(means.min())

    def task(self, step: int) -> RowsTask:
        """Each row once, or once for each way that its image is turned or spliced."""
        sizes, rng = self.recipe.sizes, rng_of_step(self.recipe.seed, TRAINING, step)
        n_points = int(rng.choice(sizes.n_points))
        drawn = self.prior.draw_rows(rng, max(1, sizes.points_per_batch // n_points), n_points)
        generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
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
        labels = torch.from_numpy(drawn.labels)
        return RowsTask(
            rows, torch.from_numpy(index.reshape(drawn.index.shape)), labels, labels.amax(dim=1) + 1
        )

    def validation(self) -> Callback:
        sets = validation_sets(self.unseen, self.recipe)

        def measure(model: nn.Module) -> dict[str, float]:
            found = [one[1:] for one in inferred(_encoded(model), self.unseen.rows, sets)]
            errors = [abs(len(np.unique(truth)) - len(np.unique(labels))) for truth, labels in found]
            return {
                "nmi": float(np.mean([normalized_mutual_info_score(*pair) for pair in found])),
                "ari": float(np.mean([adjusted_rand_score(*pair) for pair in found])),
                "k_mae": float(np.mean(errors)),
            }

        return Measured(self.recipe, measure)

    # -- what is decided at the end --------------------------------------------------------------------

    def finish(self, model: nn.Module) -> dict[str, Any]:
        """What the estimators and the card should know of the training data."""
        encoder = _encoded(model).encoder
        return {
            "cut": self.decisions(_encoded(model)),
            "largest_coordinate": reach_of(encoder, self.prior.rows),
            "held_out": self.held_out,
            "n_classes": len(np.unique(self.prior.y)),
            "n_rows": len(self.prior.y),
            **self.known,
        }

    def decisions(self, model: EncodedModel) -> dict[str, float]:
        """The cut that is learned on classes that the encoder does not know."""
        if model.encoder.config.kind == "identity":
            assert self.identity is not None
            cut = self.identity.cut
        elif self.cross_fits:
            cut = fit_cut(self.encoded_folds(self.small_encoder))
        else:
            drawn, by_group = (
                [Encoded(*one) for one in encoded_sets(model.encoder, self.unseen, sets)]
                for sets in (
                    calibration_sets(self.unseen, self.recipe),
                    groups_as_sets(self.unseen, self.recipe),
                )
            )
            # Where data come by groups, so will new ones: whole groups count as much as sets that are drawn.
            cut = fit_cut(drawn + by_group * round(len(drawn) / max(1, len(by_group))))
            return _rounded(cut)
        # Distances of the encoders of the folds were in units of their spreads.
        unit = math.log(spread_of(model.encoder, self.prior.rows))
        return _rounded(replace(cut, threshold=cut.threshold + unit))

    @property
    def cross_fits(self) -> bool:
        """Whether too few classes are held out to learn a cut from, and there are enough to leave some out.

        Two or three classes that happen to be far apart leave open where a cut should be.
        """
        if self.held_out != "rows" and len(np.unique(self.unseen.y)) >= FEW_HELD_OUT:
            return False
        return self._n_classes >= MIN_TO_CROSS_FIT

    @property
    def _n_classes(self) -> int:
        return len(np.union1d(self.prior.y, self.unseen.y))

    def folds(self) -> Iterator[Fold]:
        """Leave classes out in turn; each is left out once or more often.

        Where whole groups are held out, or there are too few classes, there is one fold: what is held out.
        """
        if self.held_out == "groups" or self._n_classes < MIN_TO_CROSS_FIT:
            yield Fold(self, [self.unseen])
            return
        rows = np.concatenate([self.unseen.rows, self.prior.rows])
        y = np.concatenate([self.unseen.y, self.prior.y])
        of_classes = self.held_out == "classes"
        pool, labels = (rows, y) if of_classes else (self.prior.rows, self.prior.y)
        classes = rng_of_step(self.recipe.seed, SPLIT, 2).permutation(np.unique(y))
        n_out = max(2, round(SHARE_LEFT_OUT * len(classes)), min(MIN_UNSEEN, len(classes) // 2))
        for number in range(N_FOLDS):
            out = np.roll(classes, -round(number * len(classes) / N_FOLDS))[:n_out]
            kept, unseen = ~np.isin(labels, out), np.isin(y, out)
            options = self.recipe.optimizer
            recipe = replace(
                self.recipe,
                seed=self.recipe.seed + 1 + number,
                prior={**self.recipe.prior, "hold_out": "rows"},
                optimizer=replace(options, steps=max(1, round(STEPS_OF_FOLD * options.steps))),
            )
            priors = [LabelledRows(rows[unseen], y[unseen], None, self.unseen.options)]
            if n_out < MIN_UNSEEN and not of_classes:  # all classes, by rows that are not trained on
                priors.append(LabelledRows(self.unseen.rows, self.unseen.y, None, self.unseen.options))
            source = LabelledSource(recipe, pool[kept], labels[kept])
            source.begun = self.begun
            yield Fold(source, priors, number)

    def encoded_folds(
        self, encoder_of: Callable[[LabelledSource], FeatureEncoder], max_rows: int = MAX_TO_CALIBRATE
    ) -> list[Encoded]:
        """What ``encoder_of`` makes of classes that it does not know, in units of its spread."""
        found: list[Encoded] = []
        for fold in self.folds():
            encoder = encoder_of(fold.source)
            unit = math.sqrt(spread_of(encoder, fold.source.prior.rows))
            for prior in fold.unseen:
                sets = calibration_sets(prior, fold.source.recipe, SETS_OF_FOLD)
                sets = [one for one in sets if one.index.shape[1] <= max_rows]
                found += [
                    Encoded(z / unit, y, i % N_FOLDS if fold.number is None else fold.number)
                    for i, (z, y) in enumerate(encoded_sets(encoder, prior, sets))
                ]
        return found

    def small_encoder(self, source: LabelledSource) -> FeatureEncoder:
        """An encoder that is trained by its metric alone."""
        model = started(source.recipe, source)
        alone = MetricAlone(model.encoder, model.network)
        optimizer = torch.optim.AdamW(alone.parameters())
        train_steps(source.recipe, TrainingState(alone, copy.deepcopy(alone), optimizer), source)
        return alone.encoder

    def choose_start(self, config: EncoderConfig, per_feature: bool) -> Started:
        """How far features that stay as they are should be turned, and whether they have one length.

        How well encodings can be divided into classes that are left out says it.
        """

        def begun(start: Start, source: LabelledSource) -> FeatureEncoder:
            encoder = FeatureEncoder(config)
            encoder.begin(*source.some_rows(), start)
            return encoder

        starts = [Start(per_feature, share, directions) for share in SHARES for directions in (False, True)]
        scores = [divisibility(self.encoded_folds(partial(begun, start), MAX_TO_COMPARE)) for start in starts]
        best = simplest(np.stack(scores))
        cut = fit_cut(self.encoded_folds(partial(begun, starts[best])))
        return Started(starts[best], scores[best], cut)


def _rounded(cut: WardCut) -> dict[str, float]:
    """The fact of a weights file about its cut."""
    return {name: round(float(value), 6) for name, value in asdict(cut).items()}


def source_of_file(recipe: Recipe) -> tuple[Recipe, LabelledSource]:
    """Read the file of ``[prior] name = "labelled"``; the recipe with what the file says about the encoder.

    ``file`` is a table with ``label_column`` (and ``group_column``), or an npz whose arrays have these names.
    With ``split = "train"`` only the rows count for which the array ``split`` is 0.
    """
    prior = recipe.prior
    if not isinstance(prior.get("file"), str):
        raise RecipeError("[prior] name = 'labelled' needs file, the path of a table or an npz.")
    table = read_labelled(prior["file"], prior.get("label_column"), prior.get("group_column"))
    if prior.get("split") is not None:
        with np.load(prior["file"], allow_pickle=False) as archive:
            if "split" not in archive.files:
                raise RecipeError(f"split in [prior] needs an array of that name in {prior['file']}.")
            kept = archive["split"] == 0
        groups = None if table.groups is None else table.groups[kept]
        table = dataclasses.replace(table, rows=table.rows[kept], y=table.y[kept], groups=groups)
    encoder = {**(recipe.encoder or {}), "n_features": table.rows.shape[1]}
    if table.image_shape is not None:
        encoder = {"image_shape": list(table.image_shape), **encoder}
    recipe = replace(recipe, encoder=encoder)
    return recipe, source_of_table(recipe, table)


def source_of_table(recipe: Recipe, table: LabelledData) -> LabelledSource:
    """The rows of a table as the data of a recipe; the weights will name its columns."""
    facts = {"columns": list(table.columns)} if table.columns else {}
    return LabelledSource(recipe, table.rows, table.y, table.groups, facts)


def started(recipe: Recipe, source: LabelledSource) -> EncodedModel:
    """A network before its first step."""
    model = _encoded(fresh_network(recipe))
    source.start(model)
    return model


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
