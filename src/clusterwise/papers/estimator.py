"""What the estimators share whose network was trained beforehand: parameters, weights, the proposer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _get_feature_names, check_is_fitted

from clusterwise.affine import fit_feature_map
from clusterwise.exceptions import ClusterwiseError, ClusterwiseWarning, InvalidDataError, MisfitWarning
from clusterwise.fitting.describe import Description
from clusterwise.fitting.fitting import Pipeline, Stages
from clusterwise.fitting.pipelined import PipelinedClusterer
from clusterwise.fitting.prepare import Prepared
from clusterwise.fitting.propose import Proposal
from clusterwise.fitting.refine import Refine
from clusterwise.fitting.validation import require_columns, require_width
from clusterwise.papers.cut import CutRule
from clusterwise.papers.outside_prior import find_far_rows
from clusterwise.papers.proposer import NetworkProposer, on_device
from clusterwise.pretrained import Weights, get_weights
from clusterwise.rows import RowSource

if TYPE_CHECKING:
    from clusterwise.papers.encoded import EncodedModel
    from clusterwise.papers.model import AmortizedModel

__all__ = ["AmortizedClusterer", "RefineOption"]

# "auto": what the weights were found to do best with, "search" unless they say something else.
RefineOption = Literal["auto", "search", "em", "cut"]

# Rows that a network sees before a search, which finds what too few of them did not show.
ROWS_BEFORE_SEARCH = 96
# Those of a network behind an encoder: it is to find dozens of clusters by itself.
ROWS_OF_ENCODED = 1024


def _rule(weights: Weights) -> CutRule | None:
    """The rule of a cut that weights come with, if any."""
    return CutRule(**weights.facts["cut"]) if "cut" in weights.facts else None


class AmortizedClusterer(PipelinedClusterer):
    """Base of the estimators whose network was trained beforehand. Not for direct use."""

    _method: ClassVar[str]
    # Rows that the network sees where its own answer counts.
    _rows_alone: ClassVar[int] = 256

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "weights": [str, Path, Weights, None],
        "refine": [StrOptions({"auto", "search", "em", "cut"}), None],
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
        refine: RefineOption | None = "auto",
        projection: Literal["pca"] | None = None,
        scaling: Literal["joint", "feature"] = "joint",
        max_clusters: int = 100,
        max_network_points: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        device: str = "cpu",
    ) -> None:
        self.weights = weights
        self.refine = refine
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

    def _n_draws(self) -> int:
        """Number of paths that ``fit`` draws besides the likeliest, where there is a parameter for it."""
        return getattr(self, "n_draws", 0)

    def _max_shown(self) -> int:
        """Number of rows that the network may see."""
        if self.max_network_points is not None:
            return self.max_network_points
        if "encoder" in self._weights().recipe:
            return ROWS_OF_ENCODED
        return ROWS_BEFORE_SEARCH if self._how() == "search" else self._rows_alone

    def _how(self) -> Refine | None:
        """What "auto" stands for with these weights, or what was asked for."""
        if self.refine == "cut" and _rule(self._weights()) is None:
            raise ClusterwiseError(
                f"refine='cut' follows a rule that is learned from labels, and the weights "
                f"{self._weights().name!r} have none; pass weights of clusterwise.train_from_labels, or "
                "refine='search'."
            )
        if self.refine != "auto":
            return self.refine
        how = self._weights().facts.get("refine", "search")
        return None if how == "none" else cast("Refine", how)

    def _pipeline(self) -> Pipeline:
        weights = self._weights()
        if "encoder" in weights.recipe:
            return self._encoded_pipeline(weights)
        model = cast("AmortizedModel", weights.model)
        return Pipeline(
            partial(fit_feature_map, n_features=model.n_features, scaling=self.scaling),
            NetworkProposer(model, self.max_clusters, self._options(), self.device),
            how=self._how(),
            max_clusters=self.max_clusters,
            max_shown=self._max_shown(),
            n_draws=self._n_draws(),
        )

    def _encoded_pipeline(self, weights: Weights) -> Pipeline:
        """Stages in the space of the encoder that comes before the network."""
        from clusterwise.papers.encoded import ContextsPipeline, EncodedSpace

        model = cast("EncodedModel", on_device(cast("AmortizedModel", weights.model), self.device))
        space = EncodedSpace(model.encoder)
        return ContextsPipeline(
            lambda points: space,
            NetworkProposer(model.network, self.max_clusters, self._options(), self.device),
            how=self._how(),
            covariance_type="spherical",
            max_clusters=self.max_clusters,
            max_shown=self._max_shown(),
            n_draws=self._n_draws(),
            most_at_once=self._max_shown(),
            rule=_rule(weights),
        )

    def _fit_many(self, Xs: Sequence[Any]) -> list[tuple[np.ndarray, np.ndarray]]:
        self._validate_params()
        with_weights = copy(self)
        with_weights.weights = self._weights()  # once: looking for the file takes a while
        return super(AmortizedClusterer, with_weights)._fit_many(Xs)

    def _points(self, X: Any, name: str = "X") -> np.ndarray:
        weights = self._weights()
        if getattr(X, "ndim", 2) > 2 and "encoder" in weights.recipe:
            raise InvalidDataError(
                f"{name} has shape {X.shape}; pass images as rows of pixels, {name}.reshape(len({name}), -1)."
            )
        points = super()._points(X, name)
        self._require_width(points.shape[1], weights, name)
        if "columns" in weights.facts:
            require_columns(_get_feature_names(X), weights.facts["columns"], weights.name, name)
        return points

    def _require_width(self, width: int, weights: Weights, name: str = "X") -> None:
        encoded = "encoder" in weights.recipe
        if self.projection is None or encoded:
            require_width(width, weights.model.n_features, weights.name, name, encoded)

    def _set_columns(self, source: RowSource) -> None:
        weights = self._weights()
        self._require_width(source.n_features, weights)
        require_columns(source.names, weights.facts.get("columns", ()), weights.name, "X")
        super()._set_columns(source)

    def _store_proposal(
        self, prepared: Prepared, proposal: Proposal, description: Description, seed: int
    ) -> None:
        super()._store_proposal(prepared, proposal, description, seed)
        self._weights_name = self._weights().name  # a fitted estimator does without its weights

    def _notes(self, prepared: Prepared, cap_reached: bool) -> Iterator[ClusterwiseWarning]:
        yield from super()._notes(prepared, cap_reached)
        weights = self._weights()
        known = float(weights.facts["largest_coordinate"])
        yield from find_far_rows(prepared.features, known, weights.name)

    def _find_misfits(
        self, prepared: Prepared, description: Description, pipeline: Stages
    ) -> list[MisfitWarning]:
        if "encoder" in self._weights().recipe:  # classes, not Gaussians, are what the network was taught
            return []
        return super()._find_misfits(prepared, description, pipeline)

    def _draws_of_posterior(self) -> int:
        return self._n_draws() or super()._draws_of_posterior()

    @property
    def weights_name_(self) -> str:
        """Name of the weights that the network has."""
        check_is_fitted(self)
        return self._weights_name

    @property
    def n_network_points_(self) -> int:
        """Number of rows that the network was shown."""
        check_is_fitted(self)
        return len(self._prepared.shown)
