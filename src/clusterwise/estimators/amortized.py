"""What all amortized estimators share: validate, run the network once, keep cluster summaries."""

from __future__ import annotations

import time
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClusterMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from clusterwise._tensors import pad_sets, to_numpy
from clusterwise.components.order import by_first_appearance, in_input_order, sorted_order
from clusterwise.estimators.availability import available_unless
from clusterwise.estimators.features import FeatureMap, fit_feature_map, pad_features
from clusterwise.estimators.outside_prior import describe_far_rows
from clusterwise.estimators.validation import as_points, require_features, require_positive
from clusterwise.exceptions import CapReachedWarning, ClusterwiseError, OutsidePriorWarning
from clusterwise.mixture import DiagonalMixture, merge_indistinct, mixture_from_labels, refine
from clusterwise.models.base import AmortizedModel, Inference
from clusterwise.models.zoom import batches_of_similar_size, zoom_in
from clusterwise.partition import canonical_labels
from clusterwise.pretrained import get_weights
from clusterwise.pretrained.weights_file import Weights

__all__ = ["AmortizedClusterer", "ClusteringStep", "Fitted", "Prepared", "clusters_in_use"]

# Data sets are padded to one size and run together up to this many points (padding included).
POINTS_PER_BATCH = 40_000
# Warnings point to the line that called ``fit``: above _warn, fit itself and scikit-learn's wrapper of it.
CALLER = 4


@dataclass(frozen=True)
class ClusteringStep:
    """One step of the cluster-by-cluster path, in the order of the rows given to ``fit``."""

    n_rows: int
    shown: np.ndarray  # (m,) rows that the network saw; only of these anything is kept
    shown_members: np.ndarray  # (m,) bool
    shown_probabilities: np.ndarray  # (m,)
    anchor: int | None  # the row that the step started from, where a method has one

    @property
    def members(self) -> np.ndarray:
        """The rows that joined the cluster in this step, (n,) bool."""
        members = np.zeros(self.n_rows, dtype=bool)
        members[self.shown] = self.shown_members
        return members

    @property
    def probabilities(self) -> np.ndarray:
        """The network's membership probabilities, (n,), zero for rows taken before."""
        probabilities = np.zeros(self.n_rows)
        probabilities[self.shown] = self.shown_probabilities
        return probabilities


@dataclass(frozen=True)
class Prepared:
    """A data set on its way into the network, its rows in an order that does not depend on the input's."""

    order: np.ndarray  # (n,) rows of the input, sorted by value
    feature_map: FeatureMap
    features: np.ndarray  # (n, f) scaled features in sorted order
    summarized: np.ndarray  # (s,) sorted positions that the clusters are summarized from
    shown: np.ndarray  # (m,) those among them that the network sees; all of them unless n is large


@dataclass(frozen=True)
class Fitted:
    """One data set's clusters: what the network said and the mixture that summarizes it."""

    inference: Inference
    mixture: DiagonalMixture  # in the network's units, clusters in the order of first appearance
    membership: np.ndarray  # (n, K) under the mixture, rows sorted
    cap_reached: bool


def _no_density(estimator: AmortizedClusterer) -> str | None:
    """Say why there is no density, if there is none."""
    if hasattr(estimator, "weights_name_"):  # a fitted estimator does without its weights
        name, has_density = estimator.weights_name_, estimator._has_density
    else:
        weights = estimator._weights()
        name, has_density = weights.name, weights.model.has_density
    if has_density:
        return None
    return f"the weights {name!r} were trained without a density; score_samples and sample need one"


class AmortizedClusterer(ClusterMixin, BaseEstimator, metaclass=ABCMeta):
    """Base of the estimators whose network was trained beforehand. Not for direct use."""

    _method: ClassVar[str]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "weights": [str, Path, None],
        "projection": [StrOptions({"pca"}), None],
        "scaling": [StrOptions({"joint", "feature"})],
        "zoom_levels": [Interval(Integral, 0, None, closed="left")],
        "refine_steps": [Interval(Integral, 0, None, closed="left")],
        "merge": ["boolean"],
        "max_clusters": [Interval(Integral, 1, None, closed="left")],
        "max_network_points": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "device": [str],
    }

    def __init__(
        self,
        *,
        weights: str | Path | None = None,
        projection: Literal["pca"] | None = None,
        scaling: Literal["joint", "feature"] = "joint",
        zoom_levels: int = 1,
        refine_steps: int = 10,
        merge: bool = True,
        max_clusters: int = 100,
        max_network_points: int = 10_000,
        random_state: Any = None,
        verbose: int = 0,
        device: str = "cpu",
    ) -> None:
        self.weights = weights
        self.projection = projection
        self.scaling = scaling
        self.zoom_levels = zoom_levels
        self.refine_steps = refine_steps
        self.merge = merge
        self.max_clusters = max_clusters
        self.max_network_points = max_network_points
        self.random_state = random_state
        self.verbose = verbose
        self.device = device

    @abstractmethod
    def _default_weights(self) -> str:
        """Name of the shipped weights that ``weights=None`` stands for."""

    def _weights(self) -> Weights:
        return get_weights(self._default_weights() if self.weights is None else self.weights, self._method)

    # -- fitting ---------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> AmortizedClusterer:
        """Find the clusters of X, (n, d), and how many there are; ``y`` is ignored."""
        started = time.perf_counter()
        points = as_points(X, self)
        validate_data(self, X, reset=True, skip_check_array=True)
        seed = self._draw_seed()
        prepared = self._prepare(points, seed)
        (fitted,) = self._run([prepared], [seed])
        self._store(prepared, fitted, seed)
        self._warn(prepared, fitted)
        if self.verbose:
            print(
                f"{type(self).__name__}: {self.n_clusters_} clusters in {len(points)} rows, "
                f"the network saw {len(prepared.shown)}, {time.perf_counter() - started:.2f} s"
            )
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_predict_many(self, Xs: Sequence[Any]) -> list[np.ndarray]:
        """Cluster many data sets in few batches; return the labels of each. Nothing is stored.

        The sets may differ in rows and in numbers of clusters. Each comes out as ``fit_predict``
        with the same ``random_state`` would label it.
        """
        names = [f"Xs[{index}]" for index in range(len(Xs))]
        points = [as_points(X, self, name) for X, name in zip(Xs, names, strict=True)]
        seed = self._draw_seed()
        prepared = [self._prepare(p, seed, name) for p, name in zip(points, names, strict=True)]
        labels: list[np.ndarray] = [np.empty(0, dtype=np.int64)] * len(points)
        for batch in batches_of_similar_size([len(p.shown) for p in prepared], POINTS_PER_BATCH):
            run = self._run([prepared[i] for i in batch], [seed] * len(batch))
            for index, fitted in zip(batch, run, strict=True):
                sorted_labels = fitted.membership.argmax(axis=1)
                labels[index] = np.empty_like(sorted_labels)
                labels[index][prepared[index].order] = sorted_labels
                self._warn(prepared[index], fitted, f"{names[index]}: ")
        return labels

    def _draw_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _prepare(self, points: np.ndarray, seed: int, name: str = "X") -> Prepared:
        """Sort the rows, scale them, and choose the ones that the network will see."""
        # Sorted rows make everything that follows, rounding included, independent of the input's order.
        order = sorted_order(points)
        weights = self._weights()
        feature_map = fit_feature_map(
            points[order], weights.model.n_features, weights.name, self.projection, self.scaling, name
        )
        features = feature_map.apply(points[order])
        summarized = np.arange(len(points))
        if len(points) > self._max_summarized():
            chosen = np.random.default_rng(seed).choice(len(points), self._max_summarized(), replace=False)
            summarized = np.sort(chosen)
        shown = summarized
        if len(shown) > self.max_network_points:
            shown = shown[_one_of_each_stretch(len(shown), self.max_network_points)]
        return Prepared(order, feature_map, features, summarized, shown)

    def _max_summarized(self) -> int:
        """Most rows that the clusters' summaries are made from."""
        return int(self.max_network_points)

    def _model(self) -> AmortizedModel:
        """Return the network on the device that it is to run on."""
        model = self._weights().model
        try:
            if next(model.parameters()).device != torch.device(self.device):  # moving nothing takes a while
                model = model.to(self.device)
        except (AssertionError, RuntimeError) as error:  # torch's ways to say that there is no such device
            raise ClusterwiseError(
                f"The network cannot run on device {self.device!r} ({str(error).splitlines()[0]}); "
                "pass device='cpu'."
            ) from error
        return model

    def _infer(
        self, prepared: Sequence[Prepared], seeds: Sequence[int], **options: Any
    ) -> tuple[list[Tensor], list[Inference]]:
        """Run the network on all data sets as one batch; return what it saw, (m, f) each, and its answers."""
        model = self._model()
        shown = [pad_features(p.features[p.shown], model.n_features) for p in prepared]
        points, mask = pad_sets(shown, self.device)
        inferences = model.infer(points, mask, seeds=seeds, max_clusters=self.max_clusters, **options)
        return [of_set[: len(p.shown)] for of_set, p in zip(points, prepared, strict=True)], inferences

    def _run(self, prepared: Sequence[Prepared], seeds: Sequence[int], **options: Any) -> list[Fitted]:
        """Run the network on all data sets and summarize what it found."""
        sets, inferences = self._infer(prepared, seeds, **options)
        labels = [inference.labels[: len(s)] for inference, s in zip(inferences, sets, strict=True)]
        zoomed, look = labels, self._deserves_a_second_look
        for _ in range(self.zoom_levels):
            zoomed = zoom_in(self._model(), sets, zoomed, seeds, POINTS_PER_BATCH, look)
        return [self._finish(*results) for results in zip(prepared, inferences, labels, zoomed, strict=True)]

    def _deserves_a_second_look(self, points: Tensor) -> bool:
        """Whether zooming should look at a cluster with these points, (n, d)."""
        return True

    def _finish(self, prepared: Prepared, inference: Inference, labels: Tensor, zoomed: Tensor) -> Fitted:
        """Summarize one data set; zooming must not lead beyond the cap on the clusters."""
        mixture, membership = self._summarize(prepared, inference, to_numpy(zoomed, np.int64))
        beyond = mixture.n_clusters > self.max_clusters
        if beyond:
            mixture, membership = self._summarize(prepared, inference, to_numpy(labels, np.int64))
        return Fitted(inference, mixture, membership, inference.cap_reached or beyond)

    def _summarize(
        self, prepared: Prepared, inference: Inference, labels: np.ndarray
    ) -> tuple[DiagonalMixture, np.ndarray]:
        """Turn the network's partition into one Gaussian per cluster, all of them in use."""
        shown = prepared.features[prepared.shown]
        if self.refine_steps == 0 and self.zoom_levels == 0 and inference.summaries is not None:
            n_features = shown.shape[1]
            mixture = DiagonalMixture(
                np.exp(to_numpy(inference.log_proportions, np.float64)),
                to_numpy(inference.summaries.means, np.float64)[:, :n_features],
                np.exp(2 * to_numpy(inference.summaries.log_sds, np.float64)[:, :n_features]),
            )
        else:
            mixture = refine(shown, mixture_from_labels(shown, labels), self.refine_steps)
            if self.merge:
                mixture = merge_indistinct(shown, mixture, self.refine_steps)
        return clusters_in_use(prepared, mixture)

    def _store(self, prepared: Prepared, fitted: Fitted, seed: int) -> None:
        self._prepared = prepared
        self._feature_map = prepared.feature_map
        self._mixture = fitted.mixture
        self._seed = seed
        self.membership_ = self._in_input_order(fitted.membership)
        self.labels_ = self.membership_.argmax(axis=1)
        self.n_clusters_ = self._mixture.n_clusters
        self.probabilities_ = self.membership_.max(axis=1)
        self.outlier_scores_ = self._in_input_order(_outlier_scores(prepared, fitted))
        self.means_ = self._feature_map.undo(self._mixture.means)
        self.variances_ = self._feature_map.undo_variances(self._mixture.variances)
        self.proportions_ = self._mixture.proportions
        weights = self._weights()
        self.weights_name_ = weights.name
        self._has_density = weights.model.has_density
        self.cap_reached_ = fitted.cap_reached
        self.n_network_points_ = len(prepared.shown)
        self.steps_ = tuple(_steps_in_input_order(prepared, fitted.inference))
        self.network_labels_ = _network_labels(prepared, fitted.inference, self.labels_)

    def _warn(self, prepared: Prepared, fitted: Fitted, prefix: str = "") -> None:
        """Say what a user should know: a cap that ended the loop, data unlike the training data."""
        weights = self._weights()
        if fitted.cap_reached:
            warnings.warn(
                f"{prefix}{type(self).__name__} reached its cap of {self.max_clusters} clusters, and rows "
                "beyond it joined the nearest one; raise max_clusters if you expect more.",
                CapReachedWarning,
                stacklevel=CALLER,
            )
        far_rows = describe_far_rows(prepared.features, float(weights.facts["largest_coordinate"]))
        if far_rows is not None:
            warnings.warn(
                f"{prefix}{far_rows} the data that the weights {weights.name!r} were trained on; remove "
                "extreme rows or transform the features (log, ranks).",
                OutsidePriorWarning,
                stacklevel=CALLER,
            )

    def _repeat(self, n_samples: int) -> Iterator[DiagonalMixture]:
        """Run the network again on the data of ``fit``, each time with another seed."""
        seeds = np.random.default_rng(self._seed).integers(2**31 - 1, size=n_samples)
        for batch in batches_of_similar_size([len(self._prepared.shown)] * n_samples, POINTS_PER_BATCH):
            for fitted in self._run([self._prepared] * len(batch), [int(seeds[i]) for i in batch]):
                yield fitted.mixture

    def _in_input_order(self, values: np.ndarray) -> np.ndarray:
        """Bring values of the sorted rows, (n, ...), to the order of the rows given to ``fit``."""
        return in_input_order(values, self._prepared.order)

    # -- new points ------------------------------------------------------------------------------

    def _features(self, X: Any) -> np.ndarray:
        points = as_points(X, self)
        require_features(points, self, f" (weights {self.weights_name_!r})")
        validate_data(self, X, reset=False, skip_check_array=True)  # names of columns
        return self._feature_map.apply(points)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each cluster for each row of X, (n, K); each row is treated by itself."""
        check_is_fitted(self)
        return self._mixture.memberships(self._features(X))

    def predict(self, X: Any) -> np.ndarray:
        """Cluster of each row of X, (n,); ``predict`` on the rows of ``fit`` gives ``labels_``."""
        return self.predict_proba(X).argmax(axis=1)

    @available_unless(_no_density)
    def score_samples(self, X: Any) -> np.ndarray:
        """Log density of each row of X in its own units, (n,).

        With ``projection`` it is the density of the projected features.
        """
        check_is_fitted(self)
        return self._mixture.log_density(self._features(X)) - self._feature_map.log_volume

    @available_unless(_no_density)
    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density per row of X; ``y`` is ignored."""
        return float(self.score_samples(X).mean())

    @available_unless(_no_density)
    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Draw new rows (n_samples, d) from the fitted mixture, with their clusters (n_samples,)."""
        check_is_fitted(self)
        require_positive(n_samples)
        rng = np.random.default_rng(self._draw_seed())
        features, labels = self._mixture.sample(rng, n_samples)
        return self._feature_map.undo(features), labels


def _one_of_each_stretch(n: int, m: int) -> np.ndarray:
    """Choose m < n positions, one in each of m stretches of equal length; the same for the same n."""
    edges = np.arange(m + 1) * n // m
    # At random within a stretch: a fixed step could fall in with a pattern of the sorted rows.
    within = np.random.default_rng(n).random(m)
    return edges[:-1] + (within * np.diff(edges)).astype(np.int64)


def clusters_in_use(prepared: Prepared, mixture: DiagonalMixture) -> tuple[DiagonalMixture, np.ndarray]:
    """Keep the clusters that some row prefers, in the order of first appearance; and the memberships."""
    while True:
        membership = mixture.memberships(prepared.features)
        in_use = by_first_appearance(membership.argmax(axis=1), mixture.n_clusters, prepared.order)
        if np.array_equal(in_use, np.arange(mixture.n_clusters)):
            return mixture, membership
        # A row between two clusters prefers the first of them: look again after they changed places.
        mixture = mixture.select(in_use)


def _outlier_scores(prepared: Prepared, fitted: Fitted) -> np.ndarray:
    """Outlier scores of the sorted rows (n,); a cluster of one row does not make it an ordinary one."""
    mixture, features = fitted.mixture, prepared.features
    sizes = np.bincount(fitted.membership.argmax(axis=1), minlength=mixture.n_clusters)
    shared = np.flatnonzero(sizes > 1)
    if len(shared) > 0:
        mixture = mixture.select(shared)
    return mixture.outlier_scores(features, len(features))


def _steps_in_input_order(prepared: Prepared, inference: Inference) -> Iterator[ClusteringStep]:
    """Translate the network's steps to the rows of the input; rows that it did not see joined nothing."""
    rows = prepared.order[prepared.shown]
    for step in inference.steps:
        yield ClusteringStep(
            len(prepared.order),
            rows,
            to_numpy(step.members)[: len(rows)],
            to_numpy(step.probabilities)[: len(rows)],
            None if step.anchor is None else int(rows[step.anchor]),
        )


def _network_labels(prepared: Prepared, inference: Inference, labels: np.ndarray) -> np.ndarray:
    """Return the network's own labels, before the summaries; -1 for rows that it did not see."""
    rows = prepared.order[prepared.shown]
    network = np.full(len(labels), -1)
    network[rows] = to_numpy(inference.labels)[: len(rows)]
    network[network >= 0] = canonical_labels(network[network >= 0])
    return network
