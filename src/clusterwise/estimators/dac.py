"""Deep Amortized Clustering as a scikit-learn estimator."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from clusterwise.estimators.amortized import AmortizedClusterer, Fitted, Prepared
from clusterwise.estimators.availability import available_unless
from clusterwise.estimators.validation import require_positive
from clusterwise.exceptions import WeightsFileError
from clusterwise.posterior import PartitionPosterior
from clusterwise.pretrained.weights_file import Weights

__all__ = ["DAC"]


def _one_answer(estimator: DAC) -> str | None:
    """Say why there is no posterior, if there is none."""
    if estimator.filtering == "anchored":
        return None
    return "minimum-loss filtering has one answer and no posterior; use DAC(filtering='anchored') or ACTST"


class DAC(AmortizedClusterer):
    """Deep Amortized Clustering (Lee, Lee & Teh 2019): clusters found one by one, k included.

    A trained network takes the whole data set and picks out one cluster per pass until no row is
    left. Each cluster is then summarized by a diagonal Gaussian, which labels every row, known or new.

    Parameters
    ----------
    filtering : {"minimum-loss", "anchored"}
        Whether a pass picks the cluster that it finds easiest, or that of a random row (the anchor).
    weights : str, path or None
        Name of shipped weights (see ``clusterwise.list_weights()``) or a ``.safetensors`` file; None
        stands for the weights shipped for this filtering.
    projection : {"pca"} or None
        What to do when X has another number of features than the weights take: None raises an error,
        "pca" projects on the first principal components (or pads with zeros).
    scaling : {"joint", "feature"}
        One scale for all features, which keeps the shape of the data, or one for each, for columns
        in different units.
    zoom_levels : int
        How often each found cluster is shown to the network again, by itself and at its own scale, so
        that clusters close to each other are told apart.
    refine_steps : int
        Number of EM steps that polish the clusters after the network's passes. 0 keeps the cluster
        parameters that the network itself gives, as in the paper.
    merge : bool
        Merge clusters that the data do not tell apart (minimum message length) after the EM steps.
    max_clusters : int
        Cap on the passes; a warning says when it was reached.
    max_network_points : int
        The network sees at most this many rows, drawn at random; the others are labelled by the
        cluster summaries. Memory and time of the passes are bounded by it.
    random_state : int, RandomState or None
        Seed of the anchors and of the choice of rows, and of ``sample``.
    verbose : int
        Print a line after ``fit`` if not 0.
    device : str
        torch device that the network runs on.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each row, 0 .. K-1 by first appearance.
    n_clusters_ : int
    membership_ : ndarray of shape (n, K)
        Probability of each cluster; rows sum to 1 and the largest is the label.
    probabilities_ : ndarray of shape (n,)
        Probability of the label.
    outlier_scores_ : ndarray of shape (n,)
        Near 1 for rows farther out than any ordinary row should be, near 0 for ordinary ones.
    means_, variances_ : ndarrays of shape (K, d)
        Summaries of the clusters in the units of X.
    proportions_ : ndarray of shape (K,)
    steps_ : tuple of ClusteringStep
        The passes in their order.
    network_labels_ : ndarray of shape (n,)
        The partition as the passes left it, before the summaries; -1 for rows not shown to the network.
    weights_name_ : str
    cap_reached_ : bool
    n_network_points_ : int

    Examples
    --------
    >>> import clusterwise as cw
    >>> X, y = cw.datasets.load_demo()
    >>> int(cw.DAC(random_state=0).fit(X).n_clusters_)
    7
    """

    _method = "dac"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AmortizedClusterer._parameter_constraints,
        "filtering": [StrOptions({"minimum-loss", "anchored"})],
    }

    def __init__(
        self,
        filtering: Literal["minimum-loss", "anchored"] = "minimum-loss",
        *,
        weights: str | Path | None = None,
        projection: Literal["pca"] | None = None,
        scaling: Literal["joint", "feature"] = "joint",
        zoom_levels: int = 1,
        refine_steps: int = 10,
        merge: bool = True,
        max_clusters: int = 100,
        max_network_points: int = 10_000,
        random_state: Any = None,
        verbose: int = 0,
        device: str = "cpu",
    ) -> None:
        self.filtering = filtering
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
        return f"dac-{self.filtering}-2d"

    def _weights(self) -> Weights:
        weights = super()._weights()
        trained_for = weights.model.config.filtering
        if trained_for != self.filtering:
            raise WeightsFileError(
                f"The weights {weights.name!r} are for {trained_for} filtering, not for {self.filtering}; "
                f"pass filtering={trained_for!r} or other weights."
            )
        return weights

    def _store(self, prepared: Prepared, fitted: Fitted, seed: int) -> None:
        super()._store(prepared, fitted, seed)
        self._k_posterior: dict[int, float] | None = None

    @available_unless(_one_answer)
    def sample_partitions(self, n_samples: int = 50) -> PartitionPosterior:
        """Cluster the data of ``fit`` again with other anchors; return the partitions found."""
        check_is_fitted(self)
        require_positive(n_samples)
        features = self._prepared.features
        labels = [mixture.memberships(features).argmax(axis=1) for mixture in self._repeat(n_samples)]
        return PartitionPosterior(np.stack([self._in_input_order(row) for row in labels]))

    @property
    def k_posterior_(self) -> dict[int, float]:
        """Share of each number of clusters over 20 draws of anchors; anchored filtering only."""
        known: dict[int, float] | None = getattr(self, "_k_posterior", None)
        if known is None:
            known = self._k_posterior = self.sample_partitions(20).k_posterior
        return known
