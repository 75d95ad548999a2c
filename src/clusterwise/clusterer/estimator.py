"""The estimator to start with: tables of any width, clusters of any shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import scipy.sparse
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from clusterwise.affine import AffineMap, fit_column_map
from clusterwise.clusterer.assign import MixtureAssigner, NeighbourAssigner
from clusterwise.clusterer.judged import (
    JudgedPipeline,
    JudgedProposal,
    JudgedProposer,
    beliefs_of_judged,
    describe_judged,
    layer,
)
from clusterwise.clusterer.judged_tree import JudgedTree, judged_tree
from clusterwise.clusterer.node_judge import NodeJudge
from clusterwise.clusterer.partition_judge import PartitionJudge
from clusterwise.clusterer.points import COLUMNS_OF_ONE_UNIT, in_one_unit
from clusterwise.exceptions import (
    ClusterwiseError,
    ClusterwiseWarning,
    LowConfidenceWarning,
    MisfitWarning,
    UnusualTableWarning,
)
from clusterwise.fitting.describe import Description
from clusterwise.fitting.fitting import Stages
from clusterwise.fitting.many_rows import TableReader
from clusterwise.fitting.misfit import find_misfits_of_any_shape, rows_to_check
from clusterwise.fitting.pipelined import PipelinedClusterer
from clusterwise.fitting.posterior import Beliefs
from clusterwise.fitting.prepare import Prepared
from clusterwise.fitting.propose import Proposal
from clusterwise.fitting.validation import as_points, require_features
from clusterwise.pretrained import Weights, get_weights
from clusterwise.rows import Batch, RowSource
from clusterwise.tables import TablePreparation

__all__ = ["Clusterer"]

# Rows that the judges look at; tables with many columns need more of them to show their structure.
CONTEXT_ROWS = 2_000
CONTEXT_ROWS_OF_MANY_COLUMNS = 4_000
# Tables this many times stranger than one in a thousand of the training tables bring a warning.
MARGIN = 1.5
# Answers that the judge expects less of bring a warning: half-way between chance and the truth.
LEAST_EXPECTED = 0.5


class Clusterer(PipelinedClusterer):
    """Finds clusters of any shape in any table, and how many there are.

    Linkage trees, communities of the neighbour graph and Gaussian mixtures propose partitions; a network
    that was trained on thousands of labelled tables judges every node of the trees, each tree is cut where
    the expected overlap with true clusters is largest, and a second network chooses among all candidates.

    Parameters
    ----------
    preparation : {"auto"}, TablePreparation or None
        "auto": data frames, sparse matrices and arrays with missing values or text pass through
        :class:`TablePreparation`; arrays of numbers are taken as they are. None: numbers only.
    max_clusters : int
        Partitions with more clusters are not considered.
    max_context : int, optional
        Number of rows that the networks look at; the others are assigned to the clusters of these. 2,000 by
        default, 4,000 for tables with more than 16 columns, whose communities are found among up to 10,000.
    judges : pair of str, path or Weights, optional
        Weights of the two networks, for branches of trees and for partitions; None: those that come with
        the package.
    random_state : int, RandomState or None
        Seed of the choice of rows where there are more than ``max_context``, of ``sample`` and
        ``sample_partitions``.
    verbose : int
        1: say every two seconds how far the fit is, and one line at its end.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each row, 0 .. ``n_clusters_`` - 1, numbered by first appearance.
    n_clusters_ : int
        Number of clusters K that were found.
    membership_ : ndarray of shape (n, K)
        Probability of each cluster for each row, from the candidates and from its neighbours.
    probabilities_ : ndarray of shape (n,)
        Probability of the label.
    outlier_scores_ : ndarray of shape (n,)
        How isolated a row is compared with others of its cluster: 0 not at all, near 1 far out.
    k_posterior_ : dict
        Probability of each number of clusters.
    expected_ari_ : float
        The network's estimate of the adjusted Rand index with the true clusters: how far to trust the answer.
    preparation_ : TablePreparation or None
        The fitted preparation, if there was one; ``preparation_.notes_`` says what was done.
    means_, covariances_, proportions_
        Of the rows of each cluster; of the prepared features where a table was prepared.

    Examples
    --------
    >>> import clusterwise as cw
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(400, noise=0.05, random_state=0)
    >>> int(cw.Clusterer().fit(X).n_clusters_)
    2
    """

    _space: AffineMap
    _assigner: NeighbourAssigner | MixtureAssigner

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "preparation": [StrOptions({"auto"}), TablePreparation, None],
        "max_clusters": [Interval(Integral, 1, None, closed="left")],
        "max_context": [Interval(Integral, 8, None, closed="left"), None],
        "judges": [tuple, list, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        preparation: Any = "auto",
        max_clusters: int = 100,
        max_context: int | None = None,
        judges: tuple[str | Path | Weights, str | Path | Weights] | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.preparation = preparation
        self.max_clusters = max_clusters
        self.max_context = max_context
        self.judges = judges
        self.random_state = random_state
        self.verbose = verbose

    # -- stages ----------------------------------------------------------------------------------

    def _judges(self) -> tuple[Weights, Weights]:
        pair = ("node-judge", "partition-judge") if self.judges is None else tuple(self.judges)
        if len(pair) != 2:
            raise ClusterwiseError(
                f"judges must be a pair, a node judge and a partition judge; got {len(pair)}."
            )
        return get_weights(pair[0], "node-judge"), get_weights(pair[1], "partition-judge")

    def _pipeline(self) -> JudgedPipeline:
        nodes, partitions = self._judges()
        return JudgedPipeline(
            self._fit_space,
            JudgedProposer(
                cast(NodeJudge, nodes.model), cast(PartitionJudge, partitions.model), self.max_clusters
            ),
            self._most_rows,
            self._has_many,
            self.max_clusters,
        )

    def _fit_space(self, points: np.ndarray) -> AffineMap:
        # Prepared features have their weights already.
        return fit_column_map(points, joint=self.preparation_ is not None or in_one_unit(points))

    def _most_rows(self, n_columns: int) -> int:
        if self.max_context is not None:
            return self.max_context
        return CONTEXT_ROWS_OF_MANY_COLUMNS if self._has_many(n_columns) else CONTEXT_ROWS

    def _has_many(self, n_columns: int) -> bool:
        return self.max_context is None and n_columns > COLUMNS_OF_ONE_UNIT

    # -- tables ----------------------------------------------------------------------------------

    def _points(self, X: Any, name: str = "X") -> np.ndarray:
        self.preparation_ = self._preparation_for(X)
        if self.preparation_ is None:
            return as_points(X, self, name)
        points: np.ndarray = self.preparation_.fit_transform(X)
        return points

    def _survey_reader(self, source: RowSource) -> Callable[[Batch], np.ndarray] | None:
        self.preparation_ = None
        tables = source.names is not None and self.preparation is not None
        if tables or isinstance(self.preparation, TablePreparation):
            return None
        return super()._batch_reader()

    def _sample_reader(self, data: Any) -> Callable[[Batch], np.ndarray]:
        self.preparation_ = self._preparation_for(data)
        if self.preparation_ is not None:
            self.preparation_.fit(data)
        return self._batch_reader()

    def _batch_reader(self) -> Callable[[Batch], np.ndarray]:
        return super()._batch_reader() if self.preparation_ is None else TableReader(self.preparation_)

    def _preparation_for(self, X: Any) -> TablePreparation | None:
        if isinstance(self.preparation, TablePreparation):
            return TablePreparation(**self.preparation.get_params())
        if self.preparation is None or not _needs_preparation(X):
            return None
        return TablePreparation()

    def _fit_many(self, Xs: Sequence[Any]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Labels (n,) and memberships (n, K) of many tables, clustered one after the other."""
        twin = type(self)(**self.get_params())
        for index, X in enumerate(Xs):  # all of them before the first is clustered
            if twin._preparation_for(X) is None:
                as_points(X, self, f"Xs[{index}]")
        return [(twin.fit(X).labels_, twin.membership_) for X in Xs]

    def _features(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        if self.preparation_ is None:
            points = as_points(X, self)
            require_features(points, self)
        else:
            points = self.preparation_.transform(X)
        by_name = self.preparation_ is not None and _has_names(X)  # in any order, as the preparation does
        if not by_name and not scipy.sparse.issparse(X):
            validate_data(self, X, reset=False, skip_check_array=True)  # names of columns
        return self._space.apply(points)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.preparation is not None:
            tags.input_tags.allow_nan = True
            tags.input_tags.string = True
            tags.input_tags.categorical = True
            tags.input_tags.sparse = True
        return tags

    def _outlier_scores(self, features: np.ndarray) -> np.ndarray:
        return self._assigner.describe(features)[1]

    # -- what was found --------------------------------------------------------------------------

    def _store_proposal(
        self, prepared: Prepared, proposal: Proposal, description: Description, seed: int
    ) -> None:
        super()._store_proposal(prepared, proposal, description, seed)
        scores = self._judged.expected_scores
        self.expected_ari_ = 1.0 if scores is None else float(scores[0])
        self._weights_name = " and ".join(one.name for one in self._judges())

    @property
    def _judged(self) -> JudgedProposal:
        proposal = self._proposal
        assert isinstance(proposal, JudgedProposal)
        return proposal

    @property
    def weights_name_(self) -> str:
        """Names of the weights of the judges."""
        check_is_fitted(self)
        return self._weights_name

    @property
    def gaussian_(self) -> bool:
        """Whether rows are assigned by one Gaussian per cluster (True) or by their nearest neighbours."""
        check_is_fitted(self)
        return isinstance(self._assigner, MixtureAssigner)

    @property
    def per_feature_(self) -> bool:
        """Whether each column was scaled by its own factor."""
        check_is_fitted(self)
        return len(np.unique(self._space.scale)) > 1

    @property
    def tree_(self) -> JudgedTree | None:
        """The tree that the answer was cut from, or the one most like it; None for fewer than eight rows."""
        check_is_fitted(self)
        found, answer = self._judged.considered, self._judged.candidates[0]
        if found is None:
            return None
        trees = [
            judged_tree(nodes, score[:, 0], answer)
            for nodes, score in zip(found.trees, found.scores, strict=True)
        ]
        sizes = np.bincount(answer)
        return max(trees, key=lambda tree: float(tree.overlaps @ sizes))

    @property
    def k_posterior_(self) -> dict[int, float]:
        """Probability of each number of clusters, estimated by the network that compares partitions."""
        check_is_fitted(self)
        assert self._judged.k_posterior is not None
        return self._with_other_k_said(self._judged.k_posterior)

    def _why_other_k(self, likeliest: int) -> tuple[str, str]:
        return (
            "the labels are the single best partition, whereas all partitions into the same number of "
            "clusters count together in the probability of that number",
            f"see labels_at({likeliest}) for the best of those",
        )

    def _believe(self, n_draws: int) -> Beliefs:
        return beliefs_of_judged(self._prepared, self._judged)

    def labels_at(self, n_clusters: int) -> np.ndarray:
        """Labels (n,) of a partition into ``n_clusters``.

        If that number is probable, these are the labels of the best candidate with k clusters.
        Otherwise, for fewer clusters the nearest ones are merged, and for more those with the largest
        spread are split by Ward's linkage, so that the partitions are nested except for a few rows at the
        borders. Rows that are equal share a label, so there may be fewer clusters where nearly every row
        would be one.
        """
        check_is_fitted(self)
        most = len(self._prepared.shown)
        if not isinstance(n_clusters, Integral) or not 1 <= n_clusters <= most:
            raise ClusterwiseError(
                f"n_clusters must be a whole number from 1 to {most}, the rows that were looked at; "
                f"got {n_clusters!r}."
            )
        answer = layer(self._judged, int(n_clusters))
        return describe_judged(self._prepared, self._judged, answer, alone=True).labels

    def _find_misfits(
        self, prepared: Prepared, description: Description, pipeline: Stages
    ) -> list[MisfitWarning]:
        rows = rows_to_check(prepared.n_rows)
        labels = description.labels[prepared.order[rows]]
        names = None if self.preparation_ is not None else getattr(self, "feature_names_in_", None)
        return find_misfits_of_any_shape(prepared.features[rows], labels, names)

    def _notes(self, prepared: Prepared, cap_reached: bool) -> Iterator[ClusterwiseWarning]:
        yield from super()._notes(prepared, cap_reached)
        if self.expected_ari_ < LEAST_EXPECTED:
            yield LowConfidenceWarning(n_clusters=self.n_clusters_, expected_ari=self.expected_ari_)
        known = float(self._judges()[1].facts["largest_strangeness"])
        if self._judged.strangeness > MARGIN * known:
            yield UnusualTableWarning(fraction=self._judged.strangeness)

    def _is_capped(self, proposal: Proposal, description: Description) -> bool:
        return proposal.cap_reached


def _has_names(X: Any) -> bool:
    """Whether X is a data frame: of pandas, polars, ..., or of pyarrow."""
    return hasattr(X, "columns") or hasattr(X, "column_names")


def _needs_preparation(X: Any) -> bool:
    """Whether X is more than an array of numbers without gaps."""
    if scipy.sparse.issparse(X) or _has_names(X):
        return True
    if isinstance(X, np.ma.MaskedArray):
        return bool(np.ma.getmaskarray(X).any())
    try:
        array = np.asarray(X)
    except (ValueError, TypeError):
        return False  # ragged: the usual checks say so
    if array.dtype.names is not None:
        return True
    if array.ndim != 2:
        return False
    if array.dtype.kind in "OUSMm":
        return True
    return array.dtype.kind == "f" and bool(np.isnan(array).any())
