"""The estimator to start with: tables of any width, clusters of any shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from clusterwise.affine import AffineMap, FeatureSpace, fit_column_map
from clusterwise.clusterer.assign import ByGaussians, ByNeighbours, WithJudgedRows, assigner_of
from clusterwise.clusterer.branches import ClusterTree
from clusterwise.clusterer.cluster import Chosen, cluster
from clusterwise.clusterer.context import MAX_CONTEXT, max_judged_rows
from clusterwise.clusterer.judges import Judges
from clusterwise.clusterer.layers import partition_into
from clusterwise.clusterer.proposers import Proposer, proposers_of
from clusterwise.exceptions import ClusterwiseError
from clusterwise.fitting.base import BaseClusterer
from clusterwise.fitting.protocol import Clustering, ClusteringPosterior, Method, Progress
from clusterwise.fitting.source_fit import Reader
from clusterwise.fitting.validation import as_points, check_columns, require_features
from clusterwise.neighbours import MANY_COLUMNS, in_one_unit
from clusterwise.partition import canonical_labels
from clusterwise.pretrained import Weights, get_parameters
from clusterwise.rows import Batch, RowSource
from clusterwise.rows.batches import NumberReader
from clusterwise.rows.sorted_rows import SortedRows
from clusterwise.tables import TablePreparation

if TYPE_CHECKING:
    from clusterwise.papers.encoded import EncodedSpace

__all__ = ["Clusterer"]


@dataclass(frozen=True)
class JudgedMethod(Method):
    """Settings of ``cluster``."""

    proposers: tuple[Proposer, ...]
    judges: Judges
    is_prepared: bool  # prepared features have their weights already
    max_clusters: int
    max_judged: int | None
    max_rows: int
    encodings: FeatureSpace | None = None  # where rows are clustered if an encoder is given

    def fit_space(self, points: np.ndarray) -> FeatureSpace:
        """The encodings, if there are any, or the columns of sorted points (n, d) that vary.

        These are in units of their own unless they have one unit.
        """
        joint = self.is_prepared or in_one_unit(points)
        return fit_column_map(points, joint=joint) if self.encodings is None else self.encodings

    def cluster(self, sets: Sequence[SortedRows], seed: int, progress: Progress) -> list[Clustering]:
        """Clusters of each data set; see ``cluster``."""
        return [
            cluster(
                rows,
                self.proposers,
                self.judges,
                progress,
                max_clusters=self.max_clusters,
                max_judged=self.max_judged,
                seed=seed,
            )
            for rows in sets
        ]

    def posterior(self, rows: SortedRows, found: Clustering, seed: int) -> ClusteringPosterior:
        """The candidates with their probabilities; other rows go with their nearest judged neighbours."""
        chosen: Chosen = found.details
        assigners, labels = [], []
        for candidate in chosen.candidates:
            memberships = np.eye(int(candidate.max()) + 1)[candidate]
            assigners.append(
                assigner_of(chosen.context.features, None, chosen.context.projection, candidate, memberships)
                if chosen.graph is None
                else ByNeighbours.of(chosen.context.projection, chosen.graph, memberships)
            )
            labels.append(_of_all_rows(rows, chosen, candidate))
        return ClusteringPosterior.of(rows, assigners, np.log(chosen.probabilities + 1e-300), labels)


def _of_all_rows(rows: SortedRows, chosen: Chosen, candidate: np.ndarray) -> np.ndarray:
    """Labels (n,) of the sorted rows by a candidate (m,); -1 for rows that were not judged."""
    labels = np.full(len(rows), -1)
    labels[chosen.context.judged] = candidate
    return labels


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
    proposers : list of str or callable, optional
        What proposes partitions: any of "tree-cuts", "mixtures" and "communities", which is all if None, and
        callables of your own, which get the neighbour graph of the rows and return or yield label vectors of
        them. The judges choose among all of them.
    judges : pair of str, path or Weights, optional
        Weights of the two networks, for branches of trees and for partitions; None: those that come with
        the package.
    n_jobs : int, optional
        Threads that share the work of ``fit``; None: one, -1: one for each core. Labels are the same for
        every number.
    encoder : str, path or Weights, optional
        Weights of :func:`train_from_labels`, whose encoder maps rows of numbers to where classes like those
        of the training lie apart; clusters, means and densities are those of the encodings.
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
        "proposers": [tuple, list, None],
        "judges": [tuple, list, None],
        "encoder": [str, Path, Weights, None],
        "n_jobs": [
            Interval(Integral, None, -1, closed="right"),
            Interval(Integral, 1, None, closed="left"),
            None,
        ],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        preparation: Any = "auto",
        max_clusters: int = 100,
        max_context: int | None = None,
        proposers: Sequence[str | Proposer] | None = None,
        judges: tuple[str | Path | Weights, str | Path | Weights] | None = None,
        encoder: str | Path | Weights | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.preparation = preparation
        self.max_clusters = max_clusters
        self.max_context = max_context
        self.proposers = proposers
        self.judges = judges
        self.encoder = encoder
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -- the method ------------------------------------------------------------------------------

    def _judges(self) -> Judges:
        pair = ("node-judge", "partition-judge") if self.judges is None else tuple(self.judges)
        if len(pair) != 2:
            raise ClusterwiseError(
                f"judges must be a pair, a node judge and a partition judge; got {len(pair)}."
            )
        name, _, nodes = get_parameters(pair[0], "node-judge")
        other_name, facts, partitions = get_parameters(pair[1], "partition-judge")
        return Judges(nodes, partitions, f"{name} and {other_name}", float(facts["max_out_of_range"]))

    def _make_method(self) -> JudgedMethod:
        many = self.max_context is None and self._n_columns > MANY_COLUMNS
        max_judged = max_judged_rows(self._n_columns) if self.max_context is None else self.max_context
        return JudgedMethod(
            proposers_of(self.proposers),
            self._judges(),
            self._prepared,
            self.max_clusters,
            self.max_context,
            max(max_judged, MAX_CONTEXT if many else 0),
            self._encodings(),
        )

    def _encodings(self) -> EncodedSpace | None:
        if self.encoder is None:
            return None
        from clusterwise.papers.encoded import encodings_of  # torch: only when a network is needed

        return encodings_of(self.encoder)

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
        self._n_columns = self._width(points.shape[1], name)
        return points, reader

    def _width(self, n_columns: int, name: str) -> int:
        """Number of features that rows are clustered by; an encoder takes those that it was made for."""
        encodings = self._encodings()
        return n_columns if encodings is None else encodings.width(n_columns, name)

    def _reader_of(self, source: RowSource) -> Reader:
        self._n_columns = self._width(source.n_features, "X")
        tables = source.names is not None and self.preparation is not None
        self._prepared = tables or isinstance(self.preparation, TablePreparation)
        self._prepared &= self.encoder is None
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
        if self.encoder is not None:
            return None
        if isinstance(self.preparation, TablePreparation):
            return TablePreparation(**self.preparation.get_params())
        if self.preparation is None or not _needs_preparation(X):
            return None
        return TablePreparation()

    def _fit_many(self, Xs: Sequence[Any], first: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
        """Labels (n,) and memberships (n, K) of many tables, clustered one after the other."""
        twin = type(self)(**self.get_params())
        for index, X in enumerate(Xs, start=first):  # all of them before the first is clustered
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
            check_columns(self, X)
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
    def _chosen(self) -> Chosen:
        check_is_fitted(self)
        chosen: Chosen = self._found.details
        return chosen

    @property
    def expected_ari_(self) -> float:
        """Adjusted Rand index with the true clusters that the judge expects."""
        return float(self._chosen.expected_ari[0])

    @property
    def gaussian_(self) -> bool:
        """Whether rows are assigned by one Gaussian per cluster (True) or by their nearest neighbours."""
        check_is_fitted(self)
        assigner = self._found.assigner
        return isinstance(assigner.others if isinstance(assigner, WithJudgedRows) else assigner, ByGaussians)

    @property
    def per_feature_(self) -> bool:
        """Whether each column was scaled by its own factor."""
        check_is_fitted(self)
        return self.encoder is None and len(np.unique(self._space.scale)) > 1

    @property
    def tree_(self) -> ClusterTree | None:
        """The tree that the answer was cut from, or the one most like it; None for fewer than eight rows."""
        chosen = self._chosen
        if chosen.graph is None or not chosen.graph.trees:
            return None
        answer = self._judged_labels()
        trees = [ClusterTree.of(scored, answer) for scored in chosen.graph.trees]
        sizes = np.bincount(answer)
        return max(trees, key=lambda tree: float(tree.overlaps @ sizes))

    def _judged_labels(self) -> np.ndarray:
        """Labels (m,) of the judged rows, by the names that they have in ``labels_``."""
        assert self._found.labels is not None
        return self._found.labels[self._chosen.context.judged]

    def labels_at(self, n_clusters: int) -> np.ndarray:
        """Labels (n,) of a partition into ``n_clusters``.

        If that number is probable, these are the labels of the best candidate with k clusters.
        Otherwise, for fewer clusters the nearest ones are merged, and for more those with the largest
        spread are split by Ward's linkage, so that the partitions are nested except for a few rows at the
        borders. Rows that are equal share a label, so there may be fewer clusters where nearly every row
        would be one.
        """
        chosen = self._chosen
        max_k = len(chosen.context.judged)
        if not isinstance(n_clusters, Integral) or not 1 <= n_clusters <= max_k:
            raise ClusterwiseError(
                f"n_clusters must be a whole number from 1 to {max_k}, the rows that were looked at; "
                f"got {n_clusters!r}."
            )
        if n_clusters == self.n_clusters_:
            return np.asarray(self.labels_)
        return self._labels_by(partition_into(chosen, int(n_clusters)))

    def _labels_by(self, answer: np.ndarray) -> np.ndarray:
        """Labels (n,) of all rows by a partition (m,) of the judged ones."""
        rows, chosen = self._rows, self._chosen
        context, memberships = chosen.context, np.eye(int(answer.max()) + 1)[answer]
        assigner = assigner_of(context.features, chosen.graph, context.projection, answer, memberships)
        labels = assigner.memberships(rows.features).argmax(axis=1)
        return np.asarray(canonical_labels(rows.in_input_order(labels)))


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
        return False  # ragged: other checks say so
    if array.dtype.names is not None:
        return True
    if array.ndim != 2:
        return False
    if array.dtype.kind in "OUSMm":
        return True
    return array.dtype.kind == "f" and bool(np.isnan(array).any())
