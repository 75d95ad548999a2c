"""The Neural Clustering Process as a scikit-learn estimator."""

from __future__ import annotations

from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Literal

from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from clusterwise.papers.estimator import AmortizedClusterer, RefineOption
from clusterwise.pretrained import Weights

__all__ = ["NCP"]


class NCP(AmortizedClusterer):
    """Neural Clustering Process (Pakman et al. 2020): rows are labelled one after another; k is found.

    A trained network gives each row the probabilities of joining one of the clusters so far or opening a new
    one. Multiplied along a random order of the rows they are the probability of a partition: labels drawn
    from them are draws from a posterior over partitions, and of many orders the partition that agrees most
    with the others is the network's answer. As a row costs a step, the network sees a sample of the rows.
    ``refine`` says what happens to this partition.

    Parameters
    ----------
    n_orders : int
        Random orders of the rows (S in the paper); they run as one batch, and one of them wins. Also the
        number of draws behind ``k_posterior_``.
    winner : {"agreeing", "likeliest"}
        Which partition is the answer: the one that agrees most with those of the other orders, weighted by
        their probabilities, or the one with the highest probability, as in the paper.
    weights, refine, projection, scaling, max_clusters, max_network_points, random_state, verbose, device
        As for :class:`AMCP`; ``weights=None`` stands for "ncp-2d". ``refine=None`` and a large
        ``max_network_points`` leave the network alone, as in the paper.

    Attributes
    ----------
    k_posterior_ : dict
        Probability of each number of clusters: the evidences of all mixtures that ``n_orders`` drawn
        partitions lead to. With ``refine=None`` they are shares of these draws, as the network gives them.
    partition_log_probability_ : float
        Log probability of ``network_labels_``, given the data and the order in which it was found.
    network_labels_ : ndarray of shape (n,)
        The partition that wins, before refining; -1 for rows that the network was not shown.
    steps_ : tuple of ClusteringStep
        The clusters of that partition in the order in which they appeared, with the probabilities of their
        members.
    labels_, n_clusters_, membership_, probabilities_, outlier_scores_, means_, covariances_, proportions_, \
weights_name_, cap_reached_, n_network_points_
        As for :class:`AMCP`.

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
        "winner": [StrOptions({"agreeing", "likeliest"})],
    }

    def __init__(
        self,
        *,
        n_orders: int = 50,
        winner: Literal["agreeing", "likeliest"] = "agreeing",
        weights: str | Path | Weights | None = None,
        refine: RefineOption | None = "auto",
        projection: Literal["pca"] | None = None,
        scaling: Literal["joint", "feature"] = "joint",
        max_clusters: int = 100,
        max_network_points: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        device: str = "cpu",
    ) -> None:
        self.n_orders = n_orders
        self.winner = winner
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

    def _options(self) -> dict[str, Any]:
        return {"n_orders": self.n_orders, "winner": self.winner}

    def _draws_of_posterior(self) -> int:
        return self.n_orders

    @property
    def partition_log_probability_(self) -> float | None:
        """Log probability of the network's own partition."""
        check_is_fitted(self)
        return self._proposal.log_probability
