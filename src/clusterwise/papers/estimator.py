"""What the estimators share whose network was trained beforehand: parameters, weights, the proposer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from clusterwise.affine import FeatureSpace, fit_feature_map
from clusterwise.exceptions import ClusterwiseError
from clusterwise.fitting.base import BaseClusterer
from clusterwise.fitting.protocol import MAX_ROWS
from clusterwise.fitting.validation import require_columns, require_width
from clusterwise.papers.cut import CutRule
from clusterwise.papers.network_method import NetworkMethod, NetworkProposer, Proposal, on_device
from clusterwise.partition import canonical_labels
from clusterwise.pretrained import Weights, get_weights

if TYPE_CHECKING:
    from clusterwise.papers.encoded import EncodedModel
    from clusterwise.papers.model import AmortizedModel

__all__ = ["AmortizedClusterer", "ClusteringStep", "Refine", "RefineOption"]

# "auto": what the weights were found to do best with, "search" unless they say something else.
RefineOption = Literal["auto", "search", "cut"]
Refine = Literal["search", "cut"]

# Rows that a network sees before a search, which finds what too few of them did not show.
ROWS_BEFORE_SEARCH = 96
# Those of a network behind an encoder: it is to find dozens of clusters by itself.
ROWS_OF_ENCODED = 1024


def _rule(weights: Weights) -> CutRule | None:
    """The rule of a cut that weights come with, if any."""
    return CutRule(**weights.facts["cut"]) if "cut" in weights.facts else None


@dataclass(frozen=True)
class ClusteringStep:
    """One step of the cluster-by-cluster path, in the order of the rows given to ``fit``."""

    n_rows: int
    shown: np.ndarray  # (m,) rows that the proposer saw; only of these anything is kept
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


class AmortizedClusterer(BaseClusterer):
    """Base of the estimators whose network was trained beforehand. Not for direct use."""

    _method: ClassVar[str]
    # Rows that the network sees where its own answer counts.
    _rows_alone: ClassVar[int] = 256

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "weights": [str, Path, Weights, None],
        "refine": [StrOptions({"auto", "search", "cut"}), None],
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
        """Number of drawn candidates behind ``k_posterior_``."""
        return 20

    def _max_network_points(self) -> int:
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

    def _make_method(self) -> NetworkMethod:
        weights, how, facts = self._weights(), self._how(), self._weights().facts
        model = cast("AmortizedModel", weights.model)
        encoded = "encoder" in weights.recipe
        space: Callable[[np.ndarray], FeatureSpace] = partial(
            fit_feature_map, n_features=model.n_features, scaling=self.scaling
        )
        if encoded:
            from clusterwise.papers.encoded import EncodedSpace

            both = cast("EncodedModel", on_device(model, self.device))
            model, space = both.network, partial(_same_space, EncodedSpace(both.encoder))
        max_network_points = self._max_network_points()
        return NetworkMethod(
            NetworkProposer(model, self.max_clusters, self._options(), self.device),
            space,
            how,
            max_network_points,
            weights.name,
            float(facts["largest_coordinate"]),
            max_rows=max(MAX_ROWS, max_network_points),
            n_draws=self._n_draws(),
            rule=_rule(weights),
            encoded=encoded,
            covariance_type="spherical" if encoded else "full",
        )

    def _require_columns(self, width: int, names: Sequence[str] | None, name: str) -> None:
        weights = self._weights()
        encoded = "encoder" in weights.recipe
        if self.projection is None or encoded:
            require_width(width, weights.model.n_features, weights.name, name, encoded)
        require_columns(names, weights.facts.get("columns", ()), weights.name, name)

    @property
    def _proposal(self) -> Proposal:
        proposal: Proposal = self._found.details
        return proposal

    @property
    def n_network_points_(self) -> int:
        """Number of rows that the network was shown."""
        check_is_fitted(self)
        return len(self._proposal.rows)

    @property
    def network_labels_(self) -> np.ndarray:
        """The network's own partition, (n,), before refining; -1 for rows that it was not shown."""
        check_is_fitted(self)
        assert self._rows is not None
        labels = self._rows.in_input_order(self._proposal.labels_of(0, len(self._rows)))
        labels[labels >= 0] = canonical_labels(labels[labels >= 0])
        return labels

    @property
    def steps_(self) -> tuple[ClusteringStep, ...]:
        """The steps of the network's likeliest path in their order; empty if it has none."""
        check_is_fitted(self)
        assert self._rows is not None and self._rows.order is not None
        n, shown = len(self._rows), self._rows.order[self._proposal.rows]
        return tuple(
            ClusteringStep(
                n,
                shown,
                step.members,
                step.probabilities,
                None if step.anchor is None else int(shown[step.anchor]),
            )
            for step in self._proposal.steps
        )


def _same_space(space: FeatureSpace, points: np.ndarray) -> FeatureSpace:
    return space
