"""ACT-ST as a scikit-learn estimator."""

from __future__ import annotations

from sklearn.utils.validation import check_is_fitted

from clusterwise.papers.estimator import AmortizedClusterer

__all__ = ["ACTST"]


class ACTST(AmortizedClusterer):
    """Set Transformer with a learned stop (ACT-ST; Lee, Lee & Teh 2019, appendix A).

    One pass gives whole mixtures of 1, 2, 3, ... clusters and a probability for each number. It suits few
    clusters: unlike ``DAC`` it does not go far beyond the number of clusters that its weights were
    trained on (4 for the shipped ones).

    Parameters
    ----------
    weights, refine, projection, scaling, max_clusters, max_network_points, random_state, verbose, device
        As for :class:`AMCP`.

    Attributes
    ----------
    k_posterior_ : dict
        Probability of each number of clusters: the evidences of all mixtures that the partitions of likely
        numbers lead to. With ``refine=None`` it is the learned stop's probability of each of these,
        assigned to the number of clusters that have a row.
    network_k_posterior_ : dict
        The learned stop's own probabilities.
    labels_, n_clusters_, membership_, probabilities_, outlier_scores_, means_, covariances_, proportions_, \
network_labels_, weights_name_, cap_reached_, n_network_points_
        As for :class:`AMCP`. ``steps_`` is empty: all clusters come at once.

    Examples
    --------
    >>> import clusterwise as cw
    >>> X = [[0.0, 0.1], [0.1, 0.0], [0.1, 0.1], [5.0, 5.1], [5.1, 5.0], [5.1, 5.1]]
    >>> cw.ACTST(random_state=0).fit_predict(X)
    array([0, 0, 0, 1, 1, 1])
    """

    _method = "act-st"

    @property
    def network_k_posterior_(self) -> dict[int, float]:
        """The learned stop's belief in each number of clusters."""
        check_is_fitted(self)
        return dict(self._proposal.k_posterior or {})
