"""The Neural Clustering Process as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from clusterwise._tensors import to_numpy
from clusterwise.estimators.amortized import AmortizedClusterer, Fitted, Prepared, clusters_in_use
from clusterwise.estimators.polished import labels_of_all
from clusterwise.estimators.validation import require_positive
from clusterwise.mixture import DiagonalMixture, mixture_from_labels, refine
from clusterwise.models.base import Inference
from clusterwise.polish import polish
from clusterwise.posterior import PartitionPosterior

__all__ = ["NCP"]

# Rows that the clusters are summarized from.
MOST_SUMMARIZED = 10_000


class NCP(AmortizedClusterer):
    """Neural Clustering Process (Pakman et al. 2020): the label of one row after the other, k included.

    A trained network gives each row the probabilities to join one of the clusters so far or to open a new
    one. Multiplied along a random order of the rows they are the probability of a partition: labels drawn
    from them are draws from a posterior over partitions, and of many orders the likeliest partition is the
    answer. As a row costs a step, the network sees a sample of the rows; each cluster is then summarized by
    a diagonal Gaussian, which labels every row, known or new.

    Parameters
    ----------
    n_orders : int
        Random orders of the rows (S in the paper); they run as one batch, and the one with the likeliest
        partition wins. Also the number of draws behind ``k_posterior_``.
    greedy : bool
        Whether an order takes the likeliest label at every row instead of drawing it, as in the paper. The
        posterior is drawn in any case.
    max_network_points : int
        The network sees at most this many rows, spread over the data; up to 10,000 rows take part in
        polishing, and all are labelled by the cluster summaries.
    weights : str, path or None
        Name of shipped weights (see ``clusterwise.list_weights()``) or a ``.safetensors`` file; None
        stands for "ncp-2d".
    zoom_levels, refine_steps, merge
        As for :class:`AMCP`; nothing is zoomed into by default. ``refine_steps=0, merge=False`` and a large
        ``max_network_points`` leave the network alone, as in the paper; its partition is ``network_labels_``.
    projection, scaling, max_clusters, random_state, verbose, device
        As for :class:`DAC`.

    Attributes
    ----------
    k_posterior_ : dict
        Probability of each number of clusters among the rows that the network saw: the shares of
        ``n_orders`` drawn partitions, as the network gives them.
    partition_log_probability_ : float
        Log probability of ``network_labels_``, given the data and the order in which it was found.
    network_labels_ : ndarray of shape (n,)
        The likeliest partition of all orders, before the summaries; -1 for rows not shown to the network.
    steps_ : tuple of ClusteringStep
        The clusters of that partition in the order of their birth, with the probabilities of their members.
    labels_, n_clusters_, membership_, probabilities_, outlier_scores_, means_, variances_, proportions_, \
weights_name_, cap_reached_, n_network_points_
        As for :class:`DAC`.

    Examples
    --------
    >>> import clusterwise as cw
    >>> X = [[0.0, 0.1], [0.1, 0.0], [0.1, 0.1], [5.0, 5.1], [5.1, 5.0], [5.1, 5.1]]
    >>> cw.NCP(random_state=0).fit_predict(X)
    array([0, 0, 0, 1, 1, 1])
    """

    _method = "ncp"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AmortizedClusterer._parameter_constraints,
        "n_orders": [Interval(Integral, 1, None, closed="left")],
        "greedy": ["boolean"],
    }

    def __init__(
        self,
        *,
        n_orders: int = 50,
        greedy: bool = False,
        weights: str | Path | None = None,
        projection: Literal["pca"] | None = None,
        scaling: Literal["joint", "feature"] = "joint",
        zoom_levels: int = 0,
        refine_steps: int = 10,
        merge: bool = True,
        max_clusters: int = 100,
        max_network_points: int = 256,
        random_state: Any = None,
        verbose: int = 0,
        device: str = "cpu",
    ) -> None:
        self.n_orders = n_orders
        self.greedy = greedy
        super().__init__(
            weights=weights,
            projection=projection,
            scaling=scaling,
            zoom_levels=zoom_levels,
            refine_steps=refine_steps,
            merge=merge,
            max_clusters=max_clusters,
            max_network_points=max_network_points,
            random_state=random_state,
            verbose=verbose,
            device=device,
        )

    def _default_weights(self) -> str:
        return "ncp-2d"

    def _max_summarized(self) -> int:
        return max(MOST_SUMMARIZED, self.max_network_points)

    def _infer(
        self, prepared: Sequence[Prepared], seeds: Sequence[int], **options: Any
    ) -> tuple[list[Tensor], list[Inference]]:
        chosen = {"n_orders": self.n_orders, "greedy": self.greedy, **options}
        return super()._infer(prepared, seeds, **chosen)

    def _summarize(
        self, prepared: Prepared, inference: Inference, labels: np.ndarray
    ) -> tuple[DiagonalMixture, np.ndarray]:
        """One Gaussian per cluster of the rows shown; EM steps and polishing look at more rows."""
        points = prepared.features[prepared.summarized]
        if self.merge:
            scored = polish(points, [labels_of_all(prepared, labels)], max(1, self.refine_steps)).scored
            within = [one for one in scored if one.mixture.n_clusters <= self.max_clusters]
            return clusters_in_use(prepared, (within or scored)[0].mixture)
        mixture = mixture_from_labels(prepared.features[prepared.shown], labels)
        return clusters_in_use(prepared, refine(points, mixture, self.refine_steps))

    def _store(self, prepared: Prepared, fitted: Fitted, seed: int) -> None:
        super()._store(prepared, fitted, seed)
        self.partition_log_probability_ = fitted.inference.log_probability
        self._draws: dict[int, np.ndarray] = {}
        if not self.greedy:
            self._draws[self.n_orders] = self._as_array(fitted.inference)

    def _as_array(self, inference: Inference) -> np.ndarray:
        """Return the partitions of all orders, (S, m), of the rows that the network saw."""
        return np.stack([to_numpy(labels, np.int64) for labels in inference.draws])

    def _draw(self, n_samples: int) -> np.ndarray:
        """Partitions drawn from the network's posterior, (n_samples, m), of the rows that it saw."""
        if n_samples not in self._draws:
            _, (inference,) = self._infer([self._prepared], [self._seed], n_orders=n_samples, greedy=False)
            self._draws[n_samples] = self._as_array(inference)
        return self._draws[n_samples]

    @property
    def k_posterior_(self) -> dict[int, float]:
        """Probability of each number of clusters among the rows that the network saw."""
        check_is_fitted(self)
        return PartitionPosterior(self._draw(self.n_orders)).k_posterior

    def sample_partitions(self, n_samples: int = 50) -> PartitionPosterior:
        """Draw partitions of the rows of ``fit`` from the network's posterior, each in a random order.

        Rows that the network did not see join a cluster drawn by its Gaussian summary, each row by itself.
        """
        check_is_fitted(self)
        require_positive(n_samples)
        draws, shown = self._draw(n_samples), self._prepared.shown
        if len(shown) == len(self.labels_):
            return PartitionPosterior(self._in_input_order(draws.T).T)
        rng = np.random.default_rng(self._seed)
        features = self._prepared.features
        labels = np.empty((n_samples, len(features)), dtype=np.int64)
        for row, draw in zip(labels, draws, strict=True):
            edges = mixture_from_labels(features[shown], draw).memberships(features).cumsum(axis=1)
            extended = (rng.random((len(edges), 1)) > edges[:, :-1]).sum(axis=1)
            extended[shown] = draw
            row[:] = self._in_input_order(extended)
        return PartitionPosterior(labels)
