"""What all estimators have in common once they are fitted: Gaussian clusters in some space of features."""

from __future__ import annotations

import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
    clone,
)
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted, validate_data

from clusterwise._threads import one_thread
from clusterwise.affine import FeatureSpace
from clusterwise.exceptions import ClusterwiseWarning, InvalidDataError, MisfitWarning, OtherKWarning
from clusterwise.fitting.callers import level_of_caller
from clusterwise.fitting.describe import Assigner
from clusterwise.fitting.labelling import BatchLabeller, labeller_of
from clusterwise.fitting.many_rows import Densities, Memberships, OfAllRows, OneColumn
from clusterwise.fitting.misfit import find_misfits, find_misfits_of_any_shape
from clusterwise.fitting.propose import ClusteringStep
from clusterwise.fitting.validation import as_points, require_features, require_positive
from clusterwise.gaussian.clusters import Described, outlier_scores
from clusterwise.gaussian.quick import LabelledRows
from clusterwise.partition import Partition
from clusterwise.rows import Batch, RowSource, as_source, map_sets
from clusterwise.rows.rows import NumberReader

__all__ = ["BaseClusterer"]


@lru_cache(maxsize=256)
def _seed_of(random_state: int) -> int:
    """The seed that a user's number stands for; setting up a generator takes longer than some stages."""
    return int(np.random.default_rng(random_state).integers(2**31 - 1))


@lru_cache(maxsize=64, typed=True)
def _require_legal(kind: type[BaseClusterer], **parameters: Any) -> None:
    """Raise scikit-learn's error about a parameter; what was found legal is not looked at again."""
    validate_parameter_constraints(kind._parameter_constraints, parameters, caller_name=kind.__name__)


class BaseClusterer(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator, metaclass=ABCMeta
):
    """Base of all estimators. Not for direct use."""

    _space: FeatureSpace
    _clusters: Described
    _assigner: Assigner
    _source: RowSource | None  # where the rows of ``fit`` are, if they were not in memory
    _n_rows: int
    _said_other_k: Described | None = None  # the clusters about which it was said

    @abstractmethod
    def fit(self, X: Any, y: Any = None) -> BaseClusterer:
        """Find the clusters of X, (n, d), and how many there are; ``y`` is ignored."""

    def fit_predict_many(self, Xs: Iterable[Any]) -> list[np.ndarray]:
        """Cluster many data sets; return the labels of each. Nothing is stored.

        Of a ``dask.bag.Bag`` of data sets it is a bag of labels, computed where the data sets are.
        """
        labels: list[np.ndarray] = map_sets(Xs, self._labels_of_sets)
        return labels

    def _labels_of_sets(self, Xs: Sequence[Any]) -> list[np.ndarray]:
        return [labels for labels, _ in self._fit_many(Xs)]

    def fit_partition_many(self, Xs: Iterable[Any]) -> list[Partition]:
        """Cluster many data sets; return labels, memberships and k of each. Nothing is stored."""
        return [Partition(labels, membership) for labels, membership in self._fit_many(list(Xs))]

    def _fit_many(self, Xs: Sequence[Any]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Labels (n,) and memberships (n, K) of many data sets, clustered one after the other."""
        points = [as_points(X, self, f"Xs[{index}]") for index, X in enumerate(Xs)]
        fitted = [clone(self).fit(of_set) for of_set in points]
        return [(one.labels_, one.membership_) for one in fitted]

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

    def _remember_columns(self, X: Any) -> None:
        """Keep how many columns X has, and their names if they have any."""
        if type(X) is np.ndarray:  # scikit-learn would find no names, and take a while for it
            self.n_features_in_ = X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
        else:
            validate_data(self, X, reset=True, skip_check_array=True)

    def _draw_seed(self) -> int:
        if isinstance(self.random_state, Integral):  # setting up a RandomState takes a while
            return _seed_of(int(self.random_state))
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _store_clusters(
        self,
        space: FeatureSpace,
        clusters: Described,
        assigner: Assigner,
        membership: np.ndarray,
        outlier_scores: np.ndarray,
    ) -> None:
        """Keep clusters, all in use, with the memberships (n, K) and scores (n,) of the rows of ``fit``."""
        self._space, self._clusters, self._assigner = space, clusters, assigner
        self._source, self._n_rows = None, len(membership)
        self.membership_ = membership
        self.labels_ = membership.argmax(axis=1)
        self.n_clusters_ = clusters.n_clusters
        self.probabilities_ = membership.max(axis=1)
        self.outlier_scores_ = outlier_scores
        self.means_ = space.inverse(clusters.means)
        self.proportions_ = clusters.proportions

    def _set_columns(self, source: RowSource) -> None:
        """Remember the columns of the data of ``fit``."""
        if source.n_rows == 0 or source.n_features == 0:
            raise InvalidDataError("X is empty; it must hold at least one row of numbers.")
        self.n_features_in_ = source.n_features
        self.__dict__.pop("feature_names_in_", None)
        if source.names is not None:
            self.feature_names_in_ = np.array(source.names, dtype=object)

    def _store_clusters_of(
        self, source: RowSource, space: FeatureSpace, clusters: Described, assigner: Assigner
    ) -> None:
        """Keep clusters, all in use; what there is for each row of the source comes when it is asked for."""
        for name in ("membership_", "labels_", "probabilities_", "outlier_scores_"):
            self.__dict__.pop(name, None)
        self._space, self._clusters, self._assigner = space, clusters, assigner
        self._source, self._n_rows = source, source.n_rows
        self.n_clusters_ = clusters.n_clusters
        self.means_ = space.inverse(clusters.means)
        self.proportions_ = clusters.proportions

    def _issue(self, warning: ClusterwiseWarning) -> None:
        """Warn about how the fit ended; the warning points to the line that called ``fit``."""
        warning.estimator = type(self).__name__
        warnings.warn(warning, stacklevel=level_of_caller())

    def _with_other_k_said(self, k_posterior: dict[int, float]) -> dict[int, float]:
        """P(K) as it is; once after a fit with a warning, if it favours another K than the labels."""
        likeliest = max(k_posterior, key=lambda k: k_posterior[k])
        if likeliest != self.n_clusters_ and self._said_other_k is not self._clusters:
            self._said_other_k = self._clusters
            reason, remedy = self._why_other_k(likeliest)
            self._issue(
                OtherKWarning(
                    n_clusters=self.n_clusters_,
                    likeliest=likeliest,
                    probability=k_posterior[likeliest],
                    reason=reason,
                    remedy=remedy,
                )
            )
        return k_posterior

    def _why_other_k(self, likeliest: int) -> tuple[str, str]:
        """Why P(K) may favour another number of clusters than the labels have; what to do."""
        raise NotImplementedError

    def _misfits(
        self,
        space: FeatureSpace,
        clusters: Described,
        features: np.ndarray,
        labels: np.ndarray,
        judged: bool = False,
    ) -> list[MisfitWarning]:
        """What clusters fail to describe; features and labels of the ``rows_to_check``."""
        names = getattr(self, "feature_names_in_", None)
        if clusters.covariance_type is None:
            return find_misfits_of_any_shape(features, labels, names)
        full = clusters.covariance_type == "full"
        return find_misfits(features, labels, space.inverse, full=full, judged=judged, names=names)

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
        return self._source.gather(OneColumn(self.batch_labeller(), "probabilities"), np.float32)

    @OfAllRows
    def outlier_scores_(self) -> Any:
        """Outlier score of each row of ``fit``."""
        return self.score_outliers(self._source)

    @property
    def covariances_(self) -> np.ndarray:
        """Covariances of the clusters, (K, d, d); computed on access, as d may be large."""
        check_is_fitted(self)
        return self._space.covariances(self._clusters.covariances)

    @property
    def steps_(self) -> tuple[ClusteringStep, ...]:
        """The path from cluster to cluster, where there is one."""
        check_is_fitted(self)
        return ()

    @property
    def gaussian_(self) -> bool:
        """Whether clusters are described by Gaussians, so that ellipses show their shapes."""
        check_is_fitted(self)
        return self._clusters.covariance_type is not None

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
        return None

    # -- new points ------------------------------------------------------------------------------

    def _features(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        points = as_points(X, self)
        name = self.weights_name_
        require_features(points, self, "" if name is None else f" (weights {name!r})")
        validate_data(self, X, reset=False, skip_check_array=True)  # names of columns
        return self._space.apply(points)

    def _batch_reader(self) -> Callable[[Batch], np.ndarray]:
        """What turns batches of new rows into numbers."""
        names = getattr(self, "feature_names_in_", None)
        return NumberReader(self.n_features_in_, None if names is None else tuple(map(str, names)))

    def batch_labeller(self) -> BatchLabeller:
        """A function that labels one batch of rows of a source; it can be pickled, and knows nothing else."""
        check_is_fitted(self)
        labeller = labeller_of(self._assigner, self._clusters, self._n_rows)
        return BatchLabeller(self._batch_reader(), self._space, labeller)

    def _source_of(self, X: Any) -> RowSource | None:
        """X as a source of rows, with the columns of ``fit``; None for data in memory."""
        source = as_source(X)
        if source is not None:
            check_is_fitted(self)
            require_features(source, self)
        return source

    def predict_batches(self, X: Any) -> Iterator[LabelledRows]:
        """Labels, their probabilities and outlier scores of X, one batch of rows after the other.

        X is a source of rows: a Parquet file or directory, an Arrow dataset, a ``numpy.memmap`` or a
        collection of dask. No more than a few batches are in memory at a time.
        """
        source = self._source_of(X)
        if source is None:
            source = as_source(np.asarray(as_points(X, self)), always=True)
            assert source is not None
            require_features(source, self)
        with one_thread():
            yield from source.map(self.batch_labeller())

    @one_thread()
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each cluster for each row of X, (n, K); each row is treated by itself."""
        source = self._source_of(X)
        if source is not None:
            task = Memberships(self._batch_reader(), self._space, self._assigner)
            return source.gather(task, np.float64, self.n_clusters_)
        features = self._features(X)
        return self._assigner.memberships(features)

    @one_thread()
    def predict(self, X: Any) -> np.ndarray:
        """Cluster of each row of X, (n,)."""
        source = self._source_of(X)
        if source is not None:
            return source.gather(OneColumn(self.batch_labeller(), "labels"), np.int32)
        return self.predict_proba(X).argmax(axis=1)

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
        source = self._source_of(X)
        if source is not None:
            return source.gather(OneColumn(self.batch_labeller(), "outlier_scores"), np.float64)
        return self._outlier_scores(self._features(X))

    def _outlier_scores(self, features: np.ndarray) -> np.ndarray:
        distances = self._clusters.nearest_distances(features)
        return outlier_scores(distances, features.shape[1], self._n_rows)

    @one_thread()
    def score_samples(self, X: Any) -> np.ndarray:
        """Log predictive density of each row of X in its own units, (n,), given the clusters.

        Columns that are constant in the data of ``fit`` may not count. Where features are projected or
        learned it is their density.
        """
        source = self._source_of(X)
        if source is not None:
            return source.gather(Densities(self._batch_reader(), self._space, self._clusters), np.float64)
        features = self._features(X)
        return self._clusters.log_density(features) - self._space.log_volume

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log predictive density per row of X; ``y`` is ignored."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Draw new rows (n_samples, d) from the predictive mixture, with their clusters (n_samples,)."""
        check_is_fitted(self)
        require_positive(n_samples)
        features, labels = self._clusters.sample(np.random.default_rng(self._draw_seed()), n_samples)
        return self._space.inverse(features), labels
