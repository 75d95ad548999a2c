"""The estimator to start with: tables of any width, clusters of any shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import scipy.sparse
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from clusterwise.affine import AffineMap
from clusterwise.clusterer.assign import MixtureAssigner
from clusterwise.clusterer.judged import (
    JudgedMethod,
    JudgedProposal,
    JudgedProposer,
    clusters_of_candidate,
    layer,
)
from clusterwise.clusterer.judged_tree import JudgedTree, judged_tree
from clusterwise.clusterer.node_judge import NodeJudge
from clusterwise.clusterer.partition_judge import PartitionJudge
from clusterwise.clusterer.points import COLUMNS_OF_ONE_UNIT
from clusterwise.exceptions import ClusterwiseError
from clusterwise.fitting.base import BaseClusterer
from clusterwise.fitting.protocol import MAX_ROWS, assign_rows
from clusterwise.fitting.source_fit import Reader
from clusterwise.fitting.validation import as_points, require_features
from clusterwise.partition import canonical_labels
from clusterwise.pretrained import Weights, get_weights
from clusterwise.rows import Batch, RowSource
from clusterwise.rows.batches import NumberReader
from clusterwise.tables import TablePreparation

__all__ = ["Clusterer"]

# Rows that the judges look at; tables with many columns need more of them to show their structure.
CONTEXT_ROWS = 2_000
CONTEXT_ROWS_OF_MANY_COLUMNS = 4_000


@dataclass(frozen=True)
class TableReader:
    """Turns batches of a table into prepared features; see ``Reader``."""

    preparation: TablePreparation
    is_fitted: bool = False

    def fit(self, sample: Any) -> TableReader:
        """One whose preparation is fitted to some rows."""
        preparation = TablePreparation(**self.preparation.get_params())
        preparation.fit(sample)
        return TableReader(preparation, True)

    def __call__(self, batch: Batch) -> np.ndarray:
        """Features (m, f) of a batch."""
        try:
            return self.preparation.transform(batch.data)
        except ClusterwiseError as error:
            raise type(error)(f"{batch.place}: {error}") from error


class Clusterer(BaseClusterer):
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
    _other_k = (
        "the labels are the single best partition, whereas all partitions into the same number of clusters "
        "count together in the probability of that number",
        "see labels_at({k}) for the best of those",
    )
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

    def _make_method(self) -> JudgedMethod:
        nodes, partitions = self._judges()
        n_columns = self._n_columns
        many = self.max_context is None and n_columns > COLUMNS_OF_ONE_UNIT
        max_context = self.max_context or (CONTEXT_ROWS_OF_MANY_COLUMNS if many else CONTEXT_ROWS)
        return JudgedMethod(
            JudgedProposer(
                cast(NodeJudge, nodes.model), cast(PartitionJudge, partitions.model), self.max_clusters
            ),
            self._prepared,
            max_context,
            many,
            f"{nodes.name} and {partitions.name}",
            float(partitions.facts["largest_strangeness"]),
            max(max_context, MAX_ROWS if many else 0),
        )

    # -- tables ----------------------------------------------------------------------------------

    def _points(self, X: Any, name: str = "X") -> tuple[np.ndarray, Reader]:
        preparation = self._preparation_for(X)
        self._prepared = preparation is not None
        if preparation is None:
            points = as_points(X, self, name)
            reader: Reader = NumberReader(points.shape[1])
        else:
            points = preparation.fit_transform(X)
            reader = TableReader(preparation, True)
        self._n_columns = points.shape[1]
        return points, reader

    def _reader_of(self, source: RowSource) -> Reader:
        self._n_columns = source.n_features
        tables = source.names is not None and self.preparation is not None
        self._prepared = tables or isinstance(self.preparation, TablePreparation)
        if not self._prepared:
            return NumberReader(source.n_features, source.names)
        given = self.preparation if isinstance(self.preparation, TablePreparation) else TablePreparation()
        return TableReader(given)

    def _column_names(self) -> Any:
        return None if self._prepared else getattr(self, "feature_names_in_", None)

    @property
    def preparation_(self) -> TablePreparation | None:
        """The fitted preparation, if there was one."""
        check_is_fitted(self)
        return self._reader.preparation if isinstance(self._reader, TableReader) else None

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

    # -- what was found --------------------------------------------------------------------------

    @property
    def _judged(self) -> JudgedProposal:
        check_is_fitted(self)
        proposal: JudgedProposal = self._found.details
        return proposal

    @property
    def expected_ari_(self) -> float:
        """Adjusted Rand index with the true clusters that the judge expects."""
        return self._judged.expected_ari

    @property
    def network_labels_(self) -> np.ndarray:
        """The partition that was chosen, (n,); -1 for rows that the judges were not shown."""
        judged, rows = self._judged, self._rows
        assert rows is not None
        labels = np.full(len(rows), -1)
        labels[judged.rows] = judged.candidates[0]
        labels = rows.in_input_order(labels)
        labels[labels >= 0] = canonical_labels(labels[labels >= 0])
        return labels

    @property
    def gaussian_(self) -> bool:
        """Whether rows are assigned by one Gaussian per cluster (True) or by their nearest neighbours."""
        check_is_fitted(self)
        return isinstance(self._found.assigner, MixtureAssigner)

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

    def labels_at(self, n_clusters: int) -> np.ndarray:
        """Labels (n,) of a partition into ``n_clusters``.

        If that number is probable, these are the labels of the best candidate with k clusters.
        Otherwise, for fewer clusters the nearest ones are merged, and for more those with the largest
        spread are split by Ward's linkage, so that the partitions are nested except for a few rows at the
        borders. Rows that are equal share a label, so there may be fewer clusters where nearly every row
        would be one.
        """
        check_is_fitted(self)
        most = len(self._judged.rows)
        if not isinstance(n_clusters, Integral) or not 1 <= n_clusters <= most:
            raise ClusterwiseError(
                f"n_clusters must be a whole number from 1 to {most}, the rows that were looked at; "
                f"got {n_clusters!r}."
            )
        answer = layer(self._judged, int(n_clusters))
        rows = self._rows
        assert rows is not None
        found = clusters_of_candidate(rows, self._judged, answer, alone=True, seed=self._seed)
        return rows.in_input_order(assign_rows(rows, found)[2].argmax(axis=1))


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
