"""The one ``fit``, and what all estimators have in common once they are fitted."""

from __future__ import annotations

import sys
import time
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import cache, lru_cache, partial
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import sklearn
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import validate_parameter_constraints
from sklearn.utils.validation import _get_feature_names, check_is_fitted

from clusterwise._threads import in_threads, one_thread, progress_of, use_threads
from clusterwise.affine import FeatureSpace
from clusterwise.exceptions import (
    CapReachedWarning,
    ClusterwiseError,
    ClusterwiseWarning,
    InvalidDataError,
    MisfitWarning,
    OtherKWarning,
)
from clusterwise.fitting.misfit import check_fit
from clusterwise.fitting.protocol import (
    MAX_ROWS,
    AssignedRows,
    Clustering,
    ClusteringPosterior,
    Method,
    assign_rows,
    score_rows,
)
from clusterwise.fitting.source_fit import AssignFeatures, Reader, fit_source
from clusterwise.fitting.validation import (
    as_points,
    check_columns,
    require_features,
    require_positive,
    with_texts_as_names,
)
from clusterwise.partition import Partition, PartitionPosterior
from clusterwise.rows import ArraySource, Batch, RowSource, as_source, map_sets
from clusterwise.rows.batches import NumberReader, OnFeatures
from clusterwise.rows.sorted_rows import Rows, SortedRows, sort_rows

__all__ = ["BaseClusterer", "OfAllRows"]

# Files whose lines no warning points to: ours, and scikit-learn's, which wraps ``fit``.
LIBRARY = (str(Path(__file__).parents[1]), str(Path(sklearn.__file__).parent))


class OfAllRows:
    """An attribute with a value for each row of ``fit``, made when it is first looked at.

    Data in memory leave their arrays in the estimator itself, which come before this.
    """

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, estimator: Any, owner: type) -> Any:
        if estimator is None:
            return self
        if vars(estimator).get("_source") is None:
            raise AttributeError(f"{owner.__name__} has no {self.name} before fit.")
        value = self.make(estimator)
        vars(estimator)[self.name] = value
        return value


class BaseClusterer(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator, metaclass=ABCMeta
):
    """Base of all estimators, which supply a ``Method``. Not for direct use."""

    # Why P(K) may favour another number of clusters than the labels have, and what to do about it.
    _other_k: ClassVar[tuple[str, str]] = (
        "the probabilities also count candidates that fit did not consider",
        "see sample_partitions for them",
    )
    # Whether large mapped files are left where they are, or sampled as other sources are.
    _keeps_mapped: ClassVar[bool] = False

    _found: Clustering
    _space: FeatureSpace
    _seen: SortedRows | None  # rows of the method; None where it saw all, which may be many
    _reader: Reader  # of new rows in batches
    _source: RowSource | None  # where the rows of ``fit`` are, if they were not in memory
    _n_rows: int

    @abstractmethod
    def _make_method(self) -> Method:
        """The method with this estimator's settings."""

    # -- fitting ---------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> BaseClusterer:
        """Find the clusters of X, (n, d), and how many there are; ``y`` is ignored.

        X may be an array, a data frame, or a source of more rows than memory: a Parquet file or directory, an
        Arrow dataset, a ``numpy.memmap``, a collection of dask.
        """
        started = time.perf_counter()
        seed, source = self._draw_seed(), self._source_of(X)
        name, n_jobs = type(self).__name__, getattr(self, "n_jobs", None)
        with one_thread(), use_threads(n_jobs), progress_of(name, self.verbose) as progress:
            if source is None:
                points, reader = self._points(X)
                self._remember_columns(X)
                names, method = self._column_names(), self._make_method()
                rows = sort_rows(points, method.fit_space)
                (found,) = method.cluster([rows], seed, progress)
                rows, found, membership = assign_rows(rows, found)
                scores = score_rows(rows, found)
                misfits = check_fit(rows, found, membership.argmax(axis=1), names)
                given = rows.in_input_order(membership), rows.in_input_order(scores)
                self._store_rows(rows, found, *given)
            else:
                reader = self._reader_of(source)
                self._remember_columns(source)
                names, method = self._column_names(), self._make_method()
                fitted = fit_source(source, reader, method, seed, progress)
                reader, rows, found = fitted.reader, fitted.rows, fitted.found
                misfits = check_fit(rows, found, fitted.labels, names)
                self._store_source(source, rows, found, fitted.proportions)
        self._reader, self._seed, self.misfits_ = reader, seed, misfits
        self._seen = None if method.sees_all_rows else rows
        self._warn(found, misfits)
        if self.verbose:
            result = f"{self.n_clusters_} clusters in {self._n_rows} rows"
            print(f"{type(self).__name__}: {result}, {time.perf_counter() - started:.2f} s")
        return self

    def fit_predict_many(self, Xs: Iterable[Any], n_jobs: int | None = None) -> list[np.ndarray]:
        """Cluster many data sets; return the labels of each. Nothing is stored.

        ``n_jobs`` processes share the data sets, as in scikit-learn; labels are the same for every number
        with a ``random_state``. Of a ``dask.bag.Bag`` it is a bag of labels, computed where the sets are.
        """
        plain = type(self)(**self.get_params(deep=False))  # without what was fitted before
        labels: list[np.ndarray] = map_sets(Xs, partial(_labels_of_sets, plain), n_jobs)
        return labels

    def fit_partition_many(self, Xs: Iterable[Any]) -> list[Partition]:
        """Cluster many data sets; return labels, memberships and k of each. Nothing is stored."""
        return [Partition(labels, membership) for labels, membership in self._fit_many(list(Xs))]

    def _fit_many(self, Xs: Sequence[Any], first: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
        """Labels (n,) and memberships (n, K) of many data sets, which may differ in rows and clusters.

        Each comes out as ``fit_predict`` with the same ``random_state`` would label it. Errors and warnings
        count them from ``first`` on.
        """
        self._validate_params()
        seed, twin = self._draw_seed(), copy(self)
        twin.__dict__.pop("_found", None)  # nothing goes on from another fit
        names = [f"Xs[{index}]" for index in range(first, first + len(Xs))]
        points = [twin._points(X, name)[0] for X, name in zip(Xs, names, strict=True)]
        method, result = twin._make_method(), []
        with one_thread():
            sets = [sort_rows(one, method.fit_space) for one in points]
            clusterings = method.cluster(sets, seed, lambda *_: None)
            for rows, found, name in zip(sets, clusterings, names, strict=True):
                rows, found, membership = assign_rows(rows, found)
                labels = membership.argmax(axis=1)
                result.append((rows.in_input_order(labels), rows.in_input_order(membership)))
                self._warn(found, check_fit(rows, found, labels, None), name)
        return result

    # -- what subclasses may do otherwise --------------------------------------------------------

    def _points(self, X: Any, name: str = "X") -> tuple[np.ndarray, Reader]:
        """X as finite numbers (n, d), and what reads more of such rows in batches."""
        points = X if self._is_kept(X) else as_points(X, self, name)
        columns = _get_feature_names(with_texts_as_names(X))
        self._require_columns(points.shape[1], columns, name)
        return points, NumberReader(points.shape[1], None if columns is None else tuple(map(str, columns)))

    def _reader_of(self, source: RowSource) -> Reader:
        """What turns batches of a source into numbers."""
        self._require_columns(source.n_features, source.names, "X")
        return NumberReader(source.n_features, source.names)

    def _require_columns(self, width: int, names: Sequence[str] | None, name: str) -> None:
        """Raise an error about data with so many columns that this estimator cannot take."""

    def _column_names(self) -> Sequence[str] | None:
        """Names of the columns that clusters are found in, for warnings."""
        return getattr(self, "feature_names_in_", None)

    # -- tools of a fit --------------------------------------------------------------------------

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        """Names of the parameters; scikit-learn reads the signature each time, which takes a while."""
        names: list[str] = super()._get_param_names()
        return names

    def _validate_params(self) -> None:
        try:
            _require_legal(type(self), **self.get_params(deep=False))
        except TypeError:  # a value without a hash, or an illegal one, of which this tells
            super()._validate_params()

    def _draw_seed(self) -> int:
        if isinstance(self.random_state, Integral):  # setting up a RandomState takes a while
            return _seed_of(int(self.random_state))
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _is_kept(self, X: Any) -> bool:
        """Whether X is a large mapped file that the method reads as it needs it."""
        return self._keeps_mapped and isinstance(X, np.memmap) and as_source(X) is not None

    def _source_of(self, X: Any) -> RowSource | None:
        """X as a source of at least one row, or None for data in memory."""
        source = None if type(X) is np.ndarray or self._is_kept(X) else as_source(X)
        if source is not None and (source.n_rows == 0 or source.n_features == 0):
            raise InvalidDataError("X is empty; it must hold at least one row of numbers.")
        return source

    def _remember_columns(self, X: Any) -> None:
        """Keep how many columns X has, and their names if they have any."""
        is_array = type(X) is np.ndarray and X.ndim == 2
        if isinstance(X, RowSource) or is_array:  # scikit-learn would take a while for an array
            self.n_features_in_ = X.n_features if isinstance(X, RowSource) else X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
            if isinstance(X, RowSource) and X.names is not None:
                self.feature_names_in_ = np.array(X.names, dtype=object)
        else:
            check_columns(self, X, reset=True)

    def _store(self, rows: SortedRows, found: Clustering, n_rows: int, proportions: np.ndarray) -> None:
        """Keep clusters, all in use."""
        self._found, self._space, self._n_rows = found, rows.space, n_rows
        self._posterior: ClusteringPosterior | None = None
        self._warned_of_k = False
        self.n_clusters_ = found.n_clusters
        self.cap_reached_ = found.cap_reached
        self.proportions_ = proportions

    def _store_rows(
        self, rows: SortedRows, found: Clustering, membership: np.ndarray, scores: np.ndarray
    ) -> None:
        """Keep clusters with memberships (n, K) and outlier scores (n,) in the order of the input."""
        self._store(rows, found, len(rows), found.density.proportions)
        self._source = None
        self.membership_, self.outlier_scores_ = membership, scores
        self.labels_, self.probabilities_ = membership.argmax(axis=1), membership.max(axis=1)

    def _store_source(
        self, source: RowSource, rows: SortedRows, found: Clustering, proportions: np.ndarray
    ) -> None:
        """Keep clusters and the source; what there is for each of its rows comes when it is asked for."""
        self._store(rows, found, source.n_rows, proportions)
        for name in ("membership_", "labels_", "probabilities_", "outlier_scores_"):
            self.__dict__.pop(name, None)
        assert rows.origin is not None
        self._source = source
        self.sample_rows_ = rows.origin.numbers

    def _warn(self, found: Clustering, misfits: Sequence[MisfitWarning], name: str = "") -> None:
        """Warn about how the fit of a data set ended; warnings point to the line that called ``fit``."""
        capped = [CapReachedWarning(max_clusters=self.max_clusters)] if found.cap_reached else []
        for warning in (*capped, *found.warnings, *misfits):
            warning.name = name
            self._issue(warning)

    def _issue(self, warning: ClusterwiseWarning) -> None:
        """Warn in the name of this class, however deep in the library."""
        warning.estimator = type(self).__name__
        level, frame = 1, sys._getframe()
        while frame.f_back is not None and frame.f_code.co_filename.startswith(LIBRARY):
            level, frame = level + 1, frame.f_back
        warnings.warn(warning, stacklevel=level)

    # -- what was fitted -------------------------------------------------------------------------

    @OfAllRows
    def labels_(self) -> Any:
        """Cluster of each row of ``fit``."""
        return self.predict(self._source)

    @OfAllRows
    def membership_(self) -> Any:
        """Memberships of the rows of ``fit``, (n, K)."""
        return self.predict_proba(self._source)

    @OfAllRows
    def probabilities_(self) -> Any:
        """Probability of the label of each row of ``fit``."""
        assert self._source is not None
        return self._gather(self._source, self._column("probabilities"), np.float32)

    @OfAllRows
    def outlier_scores_(self) -> Any:
        """Outlier score of each row of ``fit``."""
        return self.score_outliers(self._source)

    @property
    def means_(self) -> np.ndarray:
        """Centres of the clusters, (K, d)."""
        check_is_fitted(self)
        return self._space.inverse(self._found.density.means)

    @property
    def covariances_(self) -> np.ndarray:
        """Covariances of the clusters, (K, d, d); computed on access, as d may be large."""
        check_is_fitted(self)
        return self._space.covariances(self._found.density.covariances)

    @property
    def steps_(self) -> tuple[Any, ...]:
        """The path from cluster to cluster, where there is one."""
        check_is_fitted(self)
        return ()

    @property
    def gaussian_(self) -> bool:
        """Whether clusters are described by Gaussians, so that ellipses show their shapes."""
        check_is_fitted(self)
        return self._found.density.covariance_type is not None

    @property
    def per_feature_(self) -> bool:
        """Whether each column was scaled by its own factor."""
        return bool(self.get_params().get("scaling") == "feature")

    @property
    def pioneers_(self) -> np.ndarray:
        """Index of a representative row for each cluster, (K,), where a method has them; otherwise empty."""
        check_is_fitted(self)
        return np.empty(0, dtype=np.int64)

    @property
    def weights_name_(self) -> str | None:
        """Name of the weights behind the clusters; None where no network was trained beforehand."""
        check_is_fitted(self)
        return self._found.weights_name

    @property
    def _rows(self) -> SortedRows:
        """The rows that the method saw."""
        if self._seen is None:
            raise ClusterwiseError(
                f"A file holds no more than {MAX_ROWS:,} rows of fit, so that other partitions of "
                f"{self._n_rows:,} are known to the estimator that was fitted alone; fit it again."
            )
        return self._seen

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle holds: all that ``predict`` needs, and no more than some rows of ``fit``."""
        state: dict[str, Any] = super().__getstate__()
        many = (seen := state.get("_seen")) is not None and len(seen) > MAX_ROWS
        return state | {"_seen": None} if many else state

    # -- other partitions ------------------------------------------------------------------------

    @property
    def k_posterior_(self) -> dict[int, float]:
        """Probability of each number of clusters; see ``sample_partitions``."""
        check_is_fitted(self)
        known = self._found.k_posterior
        found = self._other_clusterings().k_posterior if known is None else known
        likeliest = max(found, key=lambda k: found[k])
        if likeliest != self.n_clusters_ and not self._warned_of_k:
            self._warned_of_k = True
            reason, remedy = self._other_k
            self._issue(
                OtherKWarning(
                    n_clusters=self.n_clusters_,
                    likeliest=likeliest,
                    probability=found[likeliest],
                    reason=reason,
                    remedy=remedy.format(k=likeliest),
                )
            )
        return found

    def sample_partitions(self, n_samples: int = 50) -> PartitionPosterior:
        """Draw partitions of the rows of ``fit``.

        Clusterings that may be true besides the answer count by their probabilities: one is drawn, and then a
        cluster for each row by its memberships. The draws of a network are taken as they are; rows that it
        did not see join a cluster by the Gaussians of the draw. Those of chains are draws that were kept,
        spread evenly.
        """
        check_is_fitted(self)
        require_positive(n_samples)
        drawn = self._found.drawn
        if drawn is not None:  # spread evenly; if more are asked for, some are repeated
            chosen = np.linspace(0, len(drawn) - 1, n_samples).round().astype(np.int64)
            return PartitionPosterior(drawn[chosen].astype(np.int64))
        return self._other_clusterings().sample(self._rows, n_samples, self._seed)

    @one_thread()
    def _other_clusterings(self) -> ClusteringPosterior:
        """What else may be true, found out when it is asked for first."""
        if self._posterior is None:
            self._posterior = self._make_method().posterior(self._rows, self._found, self._seed)
        return self._posterior

    # -- new rows --------------------------------------------------------------------------------

    def _features(self, X: Any) -> np.ndarray:
        """Features (n, f) of rows in memory with the columns of ``fit``."""
        check_is_fitted(self)
        points = as_points(X, self)
        name = self.weights_name_
        require_features(points, self, "" if name is None else f" (weights {name!r})")
        check_columns(self, X)
        return self._space.apply(points)

    def _by_parts(self, X: Any, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """What a function of features gives for rows of X in memory, few at a time."""
        features = self._features(X)
        parts = Rows(features).parts(features.shape[1] + self.n_clusters_)
        with use_threads(getattr(self, "n_jobs", None)):
            return np.concatenate(in_threads(lambda part: function(features[part]), parts))

    def _new_source_of(self, X: Any) -> RowSource | None:
        """X as a source of rows with the columns of ``fit``; None for data in memory."""
        source = as_source(X)
        if source is not None:
            check_is_fitted(self)
            require_features(source, self)
        return source

    def _gather(self, source: RowSource, function: Callable[[np.ndarray], Any], *kind: Any) -> Any:
        """What a function of features gives for each row of a source, as the source holds arrays."""
        return source.gather(OnFeatures(self._reader, self._space, function), *kind)

    def _column(self, name: Literal["labels", "probabilities", "outlier_scores"]) -> Any:
        """The function of features that gives one column of ``AssignedRows``."""
        return partial(_one_column, AssignFeatures(self._found.assigner, self._n_rows), name)

    def batch_assigner(self) -> Callable[[Batch], AssignedRows]:
        """What assigns one batch of rows of a source; it can be pickled, and knows nothing else."""
        check_is_fitted(self)
        return OnFeatures(self._reader, self._space, AssignFeatures(self._found.assigner, self._n_rows))

    def predict_batches(self, X: Any) -> Iterator[AssignedRows]:
        """Labels, their probabilities and outlier scores of X, one batch of rows after the other.

        X is a source of rows: a Parquet file or directory, an Arrow dataset, a ``numpy.memmap`` or a
        collection of dask. No more than a few batches are in memory at a time.
        """
        source = self._new_source_of(X)
        if source is None:
            source = ArraySource(np.asarray(as_points(X, self)))
            require_features(source, self)
        with one_thread():
            yield from source.map(self.batch_assigner())

    @one_thread()
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each cluster for each row of X, (n, K); each row is treated by itself."""
        source = self._new_source_of(X)
        if source is not None:
            return self._gather(source, self._found.assigner.memberships, np.float64, self.n_clusters_)
        return self._by_parts(X, lambda rows: self._found.assigner.memberships(rows))

    @one_thread()
    def predict(self, X: Any) -> np.ndarray:
        """Cluster of each row of X, (n,)."""
        source = self._new_source_of(X)
        if source is not None:
            return self._gather(source, self._column("labels"), np.int32)
        return self._by_parts(X, lambda rows: self._found.assigner.memberships(rows).argmax(axis=1))

    def transform(self, X: Any) -> np.ndarray:
        """Memberships (n, K) of the rows of X, as ``predict_proba``: features for a next step."""
        return self.predict_proba(X)

    @property
    def _n_features_out(self) -> int:
        """Number of features that ``transform`` returns."""
        return self.n_clusters_

    @one_thread()
    def score_outliers(self, X: Any) -> np.ndarray:
        """Outlier score of each row of X, (n,) in [0, 1], like ``outlier_scores_`` of the data of fit."""
        source = self._new_source_of(X)
        if source is not None:
            return self._gather(source, self._column("outlier_scores"), np.float64)
        return self._by_parts(X, lambda rows: self._found.assigner.outlier_scores(rows, self._n_rows))

    @one_thread()
    def score_samples(self, X: Any) -> np.ndarray:
        """Log predictive density of each row of X in its own units, (n,), given the clusters.

        Columns that are constant in the data of ``fit`` may not count. Where features are projected or
        learned it is their density.
        """
        source = self._new_source_of(X)
        if source is not None:
            volume = self._space.log_volume
            return self._gather(source, partial(_log_density, self._found.density, volume), np.float64)
        return self._by_parts(X, lambda rows: self._found.density.log_density(rows)) - self._space.log_volume

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log predictive density per row of X; ``y`` is ignored."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Draw new rows (n_samples, d) from the predictive mixture, with their clusters (n_samples,)."""
        check_is_fitted(self)
        require_positive(n_samples)
        features, labels = self._found.density.sample(np.random.default_rng(self._draw_seed()), n_samples)
        return self._space.inverse(features), labels


def _labels_of_sets(estimator: BaseClusterer, Xs: Sequence[Any], first: int = 0) -> list[np.ndarray]:
    return [labels for labels, _ in estimator._fit_many(Xs, first)]


def _one_column(assign: AssignFeatures, name: str, features: np.ndarray) -> np.ndarray:
    column: np.ndarray = getattr(assign(features), name)
    return column


def _log_density(density: Any, log_volume: float, features: np.ndarray) -> np.ndarray:
    result: np.ndarray = density.log_density(features) - log_volume
    return result


@lru_cache(maxsize=256)
def _seed_of(random_state: int) -> int:
    """The seed that a user's number stands for; setting up a generator takes longer than some steps."""
    return int(np.random.default_rng(random_state).integers(2**31 - 1))


@lru_cache(maxsize=64, typed=True)
def _require_legal(kind: type[BaseClusterer], **parameters: Any) -> None:
    """Raise scikit-learn's error about a parameter; what was found legal is not looked at again."""
    validate_parameter_constraints(kind._parameter_constraints, parameters, caller_name=kind.__name__)
