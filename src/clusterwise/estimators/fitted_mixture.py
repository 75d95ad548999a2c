"""What DPMixture and DeepDPM have in common once they are fitted: clusters under a prior, in some space."""

from __future__ import annotations

import warnings
from abc import ABCMeta, abstractmethod
from typing import Any, Protocol

import numpy as np
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from clusterwise.components.clusters import Clusters, outlier_scores_of
from clusterwise.components.order import in_input_order
from clusterwise.components.rows import Rows
from clusterwise.estimators.validation import as_points, require_features, require_positive
from clusterwise.exceptions import NotConvergedWarning

__all__ = ["FeatureSpace", "FittedMixture"]

# Warnings point to the line that called ``fit``: above _say, _warn, fit and scikit-learn's wrapper of it.
CALLER = 5


class FeatureSpace(Protocol):
    """Where the clusters are, with the way there from the user's columns, and back."""

    @property
    def log_volume(self) -> float:
        """A log density in data units is that of the features minus this."""

    def apply(self, points: np.ndarray) -> np.ndarray:
        """Features (n, f) of points (n, d), each row on its own."""

    def undo(self, features: np.ndarray) -> np.ndarray:
        """Points (n, d) with the given features (n, f)."""

    def undo_covariances(self, covariances: np.ndarray) -> np.ndarray:
        """Covariances (K, f, f) of features in the units that the user sees."""


class FittedMixture(ClusterMixin, BaseEstimator, metaclass=ABCMeta):
    """Base of the estimators that fit a mixture to one data set. Not for direct use."""

    _space: FeatureSpace
    _order: np.ndarray | None  # (n,) rows of the input in the order of those that were fitted
    _clusters: Clusters

    # -- fitting ---------------------------------------------------------------------------------

    def _draw_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _store_mixture(
        self,
        rows: Rows,
        order: np.ndarray | None,
        space: FeatureSpace,
        clusters: Clusters,
        membership: np.ndarray,
    ) -> None:
        """Keep the clusters of the rows, all in use, and what a user wants to know of them."""
        self._space, self._order, self._clusters = space, order, clusters
        self.membership_ = in_input_order(membership, order)
        self.labels_ = self.membership_.argmax(axis=1)
        self.n_clusters_ = self.membership_.shape[1]
        self.probabilities_ = self.membership_.max(axis=1)
        self.outlier_scores_ = in_input_order(outlier_scores_of(rows, clusters), order)
        posterior = clusters.posterior
        self.means_ = space.undo(posterior.mean)
        self.covariances_ = space.undo_covariances(clusters.prior.covariances(posterior))
        self.proportions_ = clusters.proportions

    def _say(self, message: str, category: type[Warning] = NotConvergedWarning) -> None:
        """Warn about how the fit ended; to be called by ``_warn``, which ``fit`` calls."""
        warnings.warn(message, category, stacklevel=CALLER)

    # -- new points ------------------------------------------------------------------------------

    def _features(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        points = as_points(X, self)
        require_features(points, self)
        validate_data(self, X, reset=False, skip_check_array=True)  # names of columns
        return self._space.apply(points)

    @abstractmethod
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each cluster for each row of X, (n, K); each row is treated by itself."""

    def predict(self, X: Any) -> np.ndarray:
        """Cluster of each row of X, (n,); ``predict`` on the rows of ``fit`` gives ``labels_``."""
        return self.predict_proba(X).argmax(axis=1)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log predictive density of each row of X in its own units, (n,), given the clusters.

        Columns that are constant in the data of ``fit`` do not count. Where features are learned it is their
        density.
        """
        features = self._features(X)
        return logsumexp(self._clusters.log_joint(features), axis=1) - self._space.log_volume

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log predictive density per row of X; ``y`` is ignored."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Draw new rows (n_samples, d) from the predictive mixture, with their clusters (n_samples,)."""
        check_is_fitted(self)
        require_positive(n_samples)
        rng = np.random.default_rng(self._draw_seed())
        clusters = self._clusters
        labels = np.repeat(np.arange(self.n_clusters_), rng.multinomial(n_samples, clusters.proportions))
        return self._space.undo(clusters.prior.sample(rng, clusters.posterior, labels)), labels
