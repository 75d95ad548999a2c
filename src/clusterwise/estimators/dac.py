"""Deep Amortized Clustering as a scikit-learn estimator."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

from sklearn.utils._param_validation import StrOptions

from clusterwise.estimators.amortized import AmortizedClusterer
from clusterwise.estimators.availability import available_unless
from clusterwise.exceptions import WeightsFileError
from clusterwise.pipeline.refine import Refine
from clusterwise.posterior import PartitionPosterior
from clusterwise.pretrained import Weights

__all__ = ["DAC"]


def _one_answer(estimator: DAC) -> str | None:
    """Say why there is no posterior, if there is none."""
    if estimator.filtering == "anchored" or estimator.refine is not None:
        return None
    return (
        "minimum-loss filtering alone has one answer and no posterior; use refine='search', "
        "DAC(filtering='anchored') or ACTST"
    )


class DAC(AmortizedClusterer):
    """Deep Amortized Clustering (Lee, Lee & Teh 2019): clusters found one by one, k included.

    A trained network takes the whole data set and picks out one cluster per pass until no row is
    left. What becomes of this partition says ``refine``.

    Parameters
    ----------
    filtering : {"minimum-loss", "anchored"}
        Whether a pass picks the cluster that it finds easiest, or that of a random row (the anchor).
    weights : str, path, Weights or None
        Name of shipped weights (see ``clusterwise.list_weights()``), a ``.safetensors`` file, or weights in
        memory; None stands for the weights shipped for this filtering.
    refine : {"search", "em"} or None
        What becomes of the network's partition. "search": its clusters are fitted as Gaussians with any
        covariance, which split and merge as long as the evidence of the mixture gains. "em": they are fitted,
        but neither split nor merged. None: the network's own answer as it is; new rows, and rows that
        the network did not see, go to its clusters as Gaussians.
    projection : {"pca"} or None
        What to do when X has another number of features than the weights take: None raises an error,
        "pca" projects on the first principal components (or pads with zeros).
    scaling : {"joint", "feature"}
        One scale for all features, which keeps the shape of the data, or one for each, for columns
        in different units.
    max_clusters : int
        Cap on the number of clusters; a warning says when it was reached.
    max_network_points : int
        The network sees at most this many rows, spread over the data. Up to 10,000 rows take part in
        refining, and all are labelled by the clusters.
    random_state : int, RandomState or None
        Seed of what the network draws, of the choice of rows, and of ``sample``.
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
    k_posterior_ : dict
        Probability of each number of clusters: the evidences of all mixtures that the partition, or 20 with
        other anchors, lead to.
        With ``refine=None`` they are shares of these 20, and minimum-loss filtering has none.
    means_ : ndarray of shape (K, d)
    covariances_ : ndarray of shape (K, d, d)
    proportions_ : ndarray of shape (K,)
        Of the Gaussian clusters, in the units of X.
    steps_ : tuple of ClusteringStep
        The passes in their order.
    network_labels_ : ndarray of shape (n,)
        The network's own partition, before refining; -1 for rows that it was not shown.
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
        weights: str | Path | Weights | None = None,
        refine: Refine | None = "search",
        projection: Literal["pca"] | None = None,
        scaling: Literal["joint", "feature"] = "joint",
        max_clusters: int = 100,
        max_network_points: int = 256,
        random_state: Any = None,
        verbose: int = 0,
        device: str = "cpu",
    ) -> None:
        self.filtering = filtering
        super().__init__(
            weights=weights,
            refine=refine,
            projection=projection,
            scaling=scaling,
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

    @property
    def k_posterior_(self) -> dict[int, float]:
        """Probability of each number of clusters; see ``sample_partitions``."""
        if (reason := _one_answer(self)) is not None:
            raise AttributeError(reason)
        return super().k_posterior_

    @available_unless(_one_answer)
    def sample_partitions(self, n_samples: int = 50) -> PartitionPosterior:
        """Draw partitions of the rows of ``fit``, as other estimators do; with anchors each has its own."""
        return super().sample_partitions(n_samples)
