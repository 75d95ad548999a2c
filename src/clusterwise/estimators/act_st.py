"""ACT-ST as a scikit-learn estimator."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from clusterwise._tensors import to_numpy
from clusterwise.estimators.amortized import AmortizedClusterer, Fitted, Prepared
from clusterwise.estimators.validation import require_positive
from clusterwise.mixture import DiagonalMixture
from clusterwise.posterior import PartitionPosterior

__all__ = ["ACTST"]

# Numbers of clusters that the learned stop believes in less than this are not looked at.
LEAST_PROBABILITY = 1e-3


class ACTST(AmortizedClusterer):
    """Set Transformer with a learned stop (ACT-ST; Lee, Lee & Teh 2019, appendix A).

    One pass gives whole mixtures of 1, 2, 3, ... clusters and the belief in each number. It is the
    quickest of the amortized methods and good for few clusters; it does not go far beyond the numbers
    of clusters that its weights were trained on (4 for the shipped ones), where ``DAC`` does.

    Parameters
    ----------
    weights, projection, scaling, zoom_levels, refine_steps, merge, max_clusters, max_network_points, \
random_state, verbose, device
        As for :class:`DAC`.

    Attributes
    ----------
    k_posterior_ : dict
        Probability of each number of clusters: the learned stop's belief in k, given to the number of
        clusters that the mixture of k has after zooming, EM steps and merging.
    network_k_posterior_ : dict
        The learned stop's belief itself.
    labels_, n_clusters_, membership_, probabilities_, outlier_scores_, means_, variances_, proportions_, \
network_labels_, cap_reached_, n_network_points_
        As for :class:`DAC`. ``steps_`` is empty: all clusters come at once.

    Examples
    --------
    >>> import clusterwise as cw
    >>> X = [[0.0, 0.1], [0.1, 0.0], [0.1, 0.1], [5.0, 5.1], [5.1, 5.0], [5.1, 5.1]]
    >>> cw.ACTST(random_state=0).fit_predict(X)
    array([0, 0, 0, 1, 1, 1])
    """

    _method = "act-st"

    def _default_weights(self) -> str:
        return "act-st-2d"

    def _store(self, prepared: Prepared, fitted: Fitted, seed: int) -> None:
        super()._store(prepared, fitted, seed)
        log_posterior = fitted.inference.log_k_posterior
        if log_posterior is None:
            raise TypeError("ACT-ST always gives a posterior over k")
        probabilities = np.exp(to_numpy(log_posterior, np.float64))
        probabilities /= probabilities.sum()
        self.network_k_posterior_ = {k: float(p) for k, p in enumerate(probabilities, start=1)}
        self._k_posterior: dict[int, float] | None = None

    def _mixture_of(self, k: int) -> DiagonalMixture:
        """Finish the network's mixture of k clusters as ``fit`` does; zooming and merging may change k."""
        (fitted,) = self._run([self._prepared], [self._seed], n_clusters=[k])
        return fitted.mixture

    @property
    def k_posterior_(self) -> dict[int, float]:
        """Probability of each number of clusters; the network runs once for each k that is likely."""
        check_is_fitted(self)
        if self._k_posterior is None:
            likely = {k: p for k, p in self.network_k_posterior_.items() if p >= LEAST_PROBABILITY}
            found: dict[int, float] = {}
            for k, probability in likely.items():
                n_clusters = self._mixture_of(k).n_clusters
                found[n_clusters] = found.get(n_clusters, 0.0) + probability / sum(likely.values())
            self._k_posterior = dict(sorted(found.items()))
        return self._k_posterior

    def sample_partitions(self, n_samples: int = 50) -> PartitionPosterior:
        """Draw k as the learned stop believes, then a cluster for each row from the mixture of k clusters.

        The mixture is finished as in ``fit``, where zooming and merging may change k.
        """
        check_is_fitted(self)
        require_positive(n_samples)
        rng = np.random.default_rng(self._seed)
        belief = self.network_k_posterior_
        drawn = rng.choice(list(belief), size=n_samples, p=list(belief.values()))
        labels = np.empty((n_samples, len(self.labels_)), dtype=np.int64)
        for k in np.unique(drawn):
            edges = self._mixture_of(int(k)).memberships(self._prepared.features).cumsum(axis=1)
            for row in np.nonzero(drawn == k)[0]:
                uniform = rng.random((len(edges), 1))
                labels[row] = self._in_input_order((uniform > edges[:, :-1]).sum(axis=1))
        return PartitionPosterior(labels)
