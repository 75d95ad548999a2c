"""Estimators whose network was trained beforehand: parameters, and what becomes of what a network infers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np
import torch
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from clusterwise.affine import FeatureSpace, fit_feature_map
from clusterwise.clusterer.assign import WithJudgedRows
from clusterwise.exceptions import (
    ClusterwiseError,
    FarRowsWarning,
    InvalidDataError,
    WeightsWidthError,
)
from clusterwise.fitting.base import BaseClusterer
from clusterwise.fitting.protocol import (
    MIN_PROBABILITY,
    ClusterDensity,
    Clustering,
    ClusteringPosterior,
    Method,
    Progress,
)
from clusterwise.gaussian.mixture import clusters_of_labels
from clusterwise.gaussian.niw import CovarianceType
from clusterwise.papers.model import Inference
from clusterwise.pretrained import Weights, get_weights
from clusterwise.rows.sorted_rows import SortedRows, spread_rows

if TYPE_CHECKING:
    from clusterwise.papers.encoded import EncodedModel
    from clusterwise.papers.model import AmortizedModel, TrainedModel

__all__ = [
    "AmortizedClusterer",
    "ClusteringStep",
    "NetworkAnswer",
    "NetworkMethod",
    "batches_of_similar_size",
    "find_far_rows",
    "pad_sets",
]

# Rows that a network behind an encoder sees: it is to find dozens of clusters.
ROWS_OF_ENCODED = 1024
# Points that run together, padding included; a single data set may have more.
POINTS_PER_BATCH = 60_000
# Training data reach this much farther only once in a thousand data sets, times this margin.
MARGIN = 1.5
# The fraction of the rows that may lie far out before they count as data like the others, and how far: a
# cluster of the training data is at most some 60 of its own widths away from the next one.
MAX_FRACTION = 0.01
MAX_SPREADS = 100.0
# Features of unit spread that reach no farther than this: a few rows cannot make up most of that spread.
ORDINARY_REACH = 5.0
# Among fewer rows than this some lie close together by chance; less spread than this is rounding.
MIN_ROWS_TO_CHECK = 20
ROUNDING = 1e-14


# -- the estimator ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClusteringStep:
    """One step of the cluster-by-cluster path, in the order of the rows given to ``fit``."""

    members: np.ndarray  # (n,) bool, the rows that joined the cluster in this step
    probabilities: np.ndarray  # (n,) of the network, zero for rows taken before or not seen
    anchor: int | None  # the row that the step started from, where a method has one


class AmortizedClusterer(BaseClusterer):
    """Base of the estimators whose network was trained beforehand. Not for direct use."""

    _method: ClassVar[str]
    # Rows that the network sees.
    _max_rows: ClassVar[int] = 256
    # Partitions that the network draws for ``k_posterior_`` and ``sample_partitions``.
    _n_draws: ClassVar[int] = 50

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "weights": [str, Path, Weights, None],
        "projection": [StrOptions({"pca"}), None],
        "scaling": [StrOptions({"joint", "feature"})],
        "max_clusters": [Interval(Integral, 1, None, closed="left")],
        "max_network_points": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "device": [str],
    }

    def __init__(
        self,
        *,
        weights: str | Path | Weights | None = None,
        projection: Literal["pca"] | None = None,
        scaling: Literal["joint", "feature"] = "joint",
        max_clusters: int = 100,
        max_network_points: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        device: str = "cpu",
    ) -> None:
        self.weights = weights
        self.projection = projection
        self.scaling = scaling
        self.max_clusters = max_clusters
        self.max_network_points = max_network_points
        self.random_state = random_state
        self.verbose = verbose
        self.device = device

    def _default_weights(self) -> str:
        """Name of the shipped weights that ``weights=None`` stands for."""
        return f"{self._method}-2d"

    def _weights(self) -> Weights:
        return get_weights(self._default_weights() if self.weights is None else self.weights, self._method)

    def _options(self) -> dict[str, Any]:
        """Options of the network's own way to infer."""
        return {}

    def _make_method(self) -> NetworkMethod:
        weights, max_rows = self._weights(), self._max_rows
        model, is_encoded = on_device(weights.model, self.device), "encoder" in weights.recipe
        n_features = int(model.config.n_features)  # of the encodings, if there are any
        space: Callable[[np.ndarray], FeatureSpace] = partial(
            fit_feature_map, n_features=n_features, scaling=self.scaling
        )
        if is_encoded:
            from clusterwise.papers.encoded import encodings_of

            both = cast("EncodedModel", model)
            space, max_rows = partial(_same_space, encodings_of(weights)), ROWS_OF_ENCODED
            infer = both.infer_encoded(weights.facts)
        else:
            infer = partial(cast("AmortizedModel", model).infer, **self._options())
        return NetworkMethod(
            partial(infer, max_clusters=self.max_clusters),
            n_features,
            space,
            weights.name,
            float(weights.facts["largest_coordinate"]),
            max_rows if self.max_network_points is None else self.max_network_points,
            self._n_draws,
            "spherical" if is_encoded else "full",
            self.device,
        )

    def _require_columns(self, width: int, names: Sequence[str] | None, name: str) -> None:
        weights = self._weights()
        expected = int(weights.recipe.get("encoder", vars(weights.model.config))["n_features"])
        if "encoder" in weights.recipe:
            from clusterwise.papers.encoded import encodings_of

            encodings_of(weights).width(width, name)
        elif width != expected and self.projection is None:
            raise WeightsWidthError(name=name, width=width, weights=weights.name, expected=expected)
        trained = weights.facts.get("columns")
        if trained and names is not None:  # otherwise there is nothing to compare
            require_columns(names, trained, weights.name, name)

    @property
    def _answer(self) -> NetworkAnswer:
        check_is_fitted(self)
        answer: NetworkAnswer = self._found.details
        return answer

    @property
    def n_network_points_(self) -> int:
        """Number of rows that the network was shown."""
        return len(self._answer.rows)

    @property
    def steps_(self) -> tuple[ClusteringStep, ...]:
        """The steps of the network's likeliest path in their order; empty if it has none."""
        answer = self._answer
        assert self._rows.order is not None
        seen, steps = self._rows.order[answer.rows], []
        for step in answer.steps:
            members, probabilities = np.zeros(len(self._rows), dtype=bool), np.zeros(len(self._rows))
            members[seen], probabilities[seen] = step.members, step.probabilities
            anchor = None if step.anchor is None else int(seen[step.anchor])
            steps.append(ClusteringStep(members, probabilities, anchor))
        return tuple(steps)


def on_device(model: TrainedModel, device: str) -> TrainedModel:
    """The network on the device that it is to run on."""
    try:
        if next(model.parameters()).device != torch.device(device):  # moving nothing takes a while
            model = model.to(device)
    except (AssertionError, RuntimeError) as error:  # torch's ways to say that there is no such device
        raise ClusterwiseError(
            f"The network cannot run on device {device!r} ({str(error).splitlines()[0]}); pass device='cpu'."
        ) from error
    return model


def _same_space(space: FeatureSpace, points: np.ndarray) -> FeatureSpace:
    return space


def require_columns(names: Sequence[str], trained: Sequence[str], weights_name: str, name: str) -> None:
    """Raise an error if columns have other names or another order than those that weights were trained on."""
    if list(map(str, names)) == list(trained):
        return
    place = next(i for i, (a, b) in enumerate(zip(names, trained, strict=True)) if str(a) != b)
    raise InvalidDataError(
        f"Column {place} of {name} is {names[place]!r}, but the weights {weights_name!r} were trained on "
        f"{trained[place]!r} there; pass the columns {', '.join(map(repr, trained[:20]))}"
        f"{', ...' if len(trained) > 20 else ''} in this order."
    )


# -- the network's answer -------------------------------------------------------------------------------


@dataclass(frozen=True)
class NetworkStep:
    """One step of a cluster-wise network, over the m rows that it saw."""

    members: np.ndarray  # (m,) bool
    probabilities: np.ndarray  # (m,)
    anchor: int | None  # the row that the step started from, where a method has one


@dataclass(frozen=True)
class NetworkAnswer:
    """What a network says about the m rows of a data set that it saw."""

    n_rows: int  # of the data set
    rows: np.ndarray  # (m,) ascending positions of the sorted rows
    candidates: tuple[np.ndarray, ...]  # labels (m,) each, from 0 on; the first is the answer
    probabilities: np.ndarray  # of each candidate, they sum to one
    densities: tuple[ClusterDensity, ...]  # of each candidate, where the network has its own; otherwise none
    steps: tuple[NetworkStep, ...]  # how the answer came about
    cap_reached: bool
    log_probability: float | None  # of the answer, where a method gives one

    def labels(self, candidate: int) -> np.ndarray:
        """Labels (n,) of all sorted rows by a candidate, -1 for those that the network did not see."""
        labels = np.full(self.n_rows, -1)
        labels[self.rows] = self.candidates[candidate]
        return labels

    @classmethod
    def of(cls, inference: Inference, rows: np.ndarray, n_rows: int, n_features: int) -> NetworkAnswer:
        """What is inferred about the first points of a padded data set; these are ``rows`` (m,) of all."""

        def of_rows(tensor: Tensor) -> np.ndarray:
            return tensor[: len(rows)].numpy(force=True).copy()

        candidates = tuple(_compact(of_rows(labels)) for labels in (inference.labels, *inference.draws))
        n_draws = len(candidates) - 1
        # Draws stand for what may be true; the answer does so only where there are none.
        shares = inference.draw_probabilities or ((0.0, *[1.0] * n_draws) if n_draws else (1.0,))
        return cls(
            n_rows,
            rows,
            candidates,
            np.array(shares) / sum(shares),
            # A density of more features than there are says nothing about these alone.
            tuple(one for one in inference.densities if one.means.shape[1] == n_features),
            tuple(
                NetworkStep(of_rows(s.members), of_rows(s.probabilities), s.anchor) for s in inference.steps
            ),
            inference.cap_reached,
            inference.log_probability,
        )


@dataclass(frozen=True)
class NetworkMethod(Method):
    """What an amortized estimator does with a data set; see ``Method``."""

    infer: Callable[..., list[Inference]]  # see ``AmortizedModel``
    n_features: int  # that it takes
    fit_space: Callable[[np.ndarray], FeatureSpace]
    weights_name: str
    known_reach: float  # how far training data of unit spread reach
    max_network_points: int  # rows that the network sees
    n_draws: int  # candidates behind the posterior
    covariance_type: CovarianceType
    device: str

    def cluster(self, sets: Sequence[SortedRows], seed: int, progress: Progress) -> list[Clustering]:
        """See ``Method``; the network sees the data sets in few batches."""
        answers = self._answers(sets, seed, 0)
        return [self._clustering(rows, answer) for rows, answer in zip(sets, answers, strict=True)]

    def posterior(self, rows: SortedRows, found: Clustering, seed: int) -> ClusteringPosterior:
        """See ``Method``; the partitions that the network draws, with its own probabilities."""
        (answer,) = self._answers([rows], seed, self.n_draws)
        likely = np.flatnonzero(answer.probabilities >= MIN_PROBABILITY * answer.probabilities.max()).tolist()
        return ClusteringPosterior(
            [self._density(rows, answer, i) for i in likely],
            answer.probabilities[likely] / answer.probabilities[likely].sum(),
            [answer.labels(i) for i in likely],
        )

    def _answers(self, sets: Sequence[SortedRows], seed: int, n_draws: int) -> list[NetworkAnswer]:
        """What the network infers of some rows of each data set; each by itself, with the same seed."""
        features = [rows.features for rows in sets]
        seen = [spread_rows(len(own), self.max_network_points) for own in features]
        found: dict[int, NetworkAnswer] = {}
        for batch in batches_of_similar_size([len(at) for at in seen], POINTS_PER_BATCH):
            shown = [features[i][seen[i]] for i in batch]
            points, mask = pad_sets(shown, self.n_features, self.device)
            inferred = self.infer(points, mask, seeds=[seed] * len(batch), n_draws=n_draws)
            for i, own, one in zip(batch, shown, inferred, strict=True):
                found[i] = NetworkAnswer.of(one, seen[i], len(features[i]), own.shape[1])
        return [found[i] for i in range(len(sets))]

    def _clustering(self, rows: SortedRows, answer: NetworkAnswer) -> Clustering:
        """The clusters of an answer; rows that the network saw stay where it put them."""
        far = tuple(find_far_rows(rows.features, self.known_reach, self.weights_name))
        density, seen = self._density(rows, answer, 0), rows.features[answer.rows]
        own = answer.candidates[0]
        other = np.flatnonzero(density.memberships(seen).argmax(axis=1) != own)
        return Clustering(
            density,
            density if len(other) == 0 else WithJudgedRows.of(density, seen[other], own[other]),
            cap_reached=answer.cap_reached,
            warnings=far,
            weights_name=self.weights_name,
            details=answer,
        )

    def _density(self, rows: SortedRows, answer: NetworkAnswer, candidate: int) -> ClusterDensity:
        """The network's densities of the clusters of a candidate, or else Gaussians of their rows."""
        if answer.densities:
            return answer.densities[candidate]
        features = rows.features[answer.rows]
        return clusters_of_labels(features, answer.candidates[candidate], self.covariance_type)


def pad_sets(
    sets: Sequence[np.ndarray], n_features: int, device: str | torch.device = "cpu"
) -> tuple[Tensor, Tensor]:
    """Points (B, max n, f) and a mask (B, max n), True where present, of data sets (n_b, at most f)."""
    longest = max(len(points) for points in sets)
    padded = np.zeros((len(sets), longest, n_features), dtype=np.float32)
    mask = np.zeros((len(sets), longest), dtype=bool)
    for b, points in enumerate(sets):
        padded[b, : len(points), : points.shape[1]] = points
        mask[b, : len(points)] = True
    return torch.from_numpy(padded).to(device), torch.from_numpy(mask).to(device)


def batches_of_similar_size(sizes: Sequence[int], points_per_batch: int) -> Iterator[list[int]]:
    """Indices of data sets of similar size, so that little of a padded batch is padding."""
    batch: list[int] = []
    for index in np.argsort(sizes, kind="stable").tolist():
        if batch and (len(batch) + 1) * sizes[index] > points_per_batch:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _compact(labels: np.ndarray) -> np.ndarray:
    """Labels with the clusters in use numbered 0 .. K-1: a step may have lost all its members."""
    used = np.bincount(labels) > 0
    return labels if used.all() else (used.cumsum() - 1)[labels]


def find_far_rows(features: np.ndarray, known_reach: float, weights: str) -> Iterator[FarRowsWarning]:
    """A warning of how far out some rows of scaled features (n, f) lie, if the weights never saw such data.

    ``known_reach`` is how far training data of unit spread reach. One extreme row of n has at most
    sqrt(n f) spreads, because it is a part of the spread itself; therefore the farthest rows are also
    compared with the spread of the others.
    """
    reach = float(np.abs(features).max())
    if reach > MARGIN * known_reach:
        yield FarRowsWarning(weights=weights, distance=reach, known=known_reach)
        return
    if len(features) < MIN_ROWS_TO_CHECK or (reach < ORDINARY_REACH and MAX_FRACTION * len(features) >= 1):
        return
    centre = np.median(features, axis=0)
    distances = np.sqrt(np.square(features - centre).mean(axis=1))
    n_ordinary = len(features) - max(1, int(MAX_FRACTION * len(features)))
    ordinary = features[np.argpartition(distances, n_ordinary - 1)[:n_ordinary]]
    spread = float(ordinary.std(axis=0).max())
    if spread > ROUNDING and distances.max() > MAX_SPREADS * spread:
        yield FarRowsWarning(weights=weights, distance=float(distances.max() / spread))
