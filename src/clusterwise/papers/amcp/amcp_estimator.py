"""Amortized Mixing Coupling Processes as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any

from clusterwise.papers.estimator import AmortizedClusterer

__all__ = ["AMCP"]


class AMCP(AmortizedClusterer):
    """Amortized Mixing Coupling Processes (Liu & Jing 2022): clusters found one by one, k included.

    A trained encoder looks at the whole data set once. Clusters are then generated one by one on the
    stored encodings: the next one starts at a row unlike those assigned so far, a few EM steps
    decide which rows belong to it, and earlier clusters are revised. ``refine`` says what happens to this
    partition. Without a search a small network, trained with the weights, splits and merges its clusters.

    Parameters
    ----------
    weights : str, path, Weights or None
        Name of shipped weights (see ``clusterwise.list_weights()``), a ``.safetensors`` file, or weights in
        memory; None stands for those shipped for the method.
    refine : {"auto", "search", "cut"} or None
        What happens to the network's partition. "auto": a search, unless weights that were trained on labels
        did better with something else. "search": its clusters are fitted as Gaussians with any covariance,
        which split and merge as long as the evidence of the mixture grows. "cut", with weights that were
        trained on labels: a cut through Ward's tree of the encodings, by a rule that was learned on classes
        held out. None: the network's own answer, revised; new rows, and rows that the network did not see, go
        to its clusters as Gaussians.
    projection : {"pca"} or None
        What to do when X has another number of features than the weights take: None raises an error,
        "pca" projects on the first principal components (or pads with zeros).
    scaling : {"joint", "feature"}
        One scale for all features, which keeps the shape of the data, or one for each, for columns
        in different units.
    max_clusters : int
        Cap on the number of clusters; a warning says when it was reached.
    max_network_points : int or None
        The network sees at most this many rows, spread over the data; None stands for 96 if a search
        follows, which finds the rest, else for 1024. Up to 10,000 rows take part in refining, and all are
        labelled by the clusters.
    random_state : int, RandomState or None
        Seed of what the network draws, of the choice of rows, and of ``sample``.
    verbose : int
        1: say every two seconds how far the fit is, and one line at its end.
    device : str
        torch device that the network runs on.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each row, 0 .. K-1 by first appearance.
    n_clusters_ : int
        Number of clusters K that were found.
    membership_ : ndarray of shape (n, K)
        Probability of each cluster; rows sum to 1 and the largest is the label.
    probabilities_ : ndarray of shape (n,)
        Probability of the label.
    outlier_scores_ : ndarray of shape (n,)
        Near 1 for rows farther out than any ordinary row should be, near 0 for ordinary ones.
    means_ : ndarray of shape (K, d)
    covariances_ : ndarray of shape (K, d, d)
    proportions_ : ndarray of shape (K,)
        Of the Gaussian clusters, in the units of X.
    k_posterior_ : dict
        Probability of each number of clusters: the evidences of all mixtures that 20 drawn paths lead to.
        With ``refine=None`` they are shares of the drawn paths.
    steps_ : tuple of ClusteringStep
        The steps of the likeliest path in their order, before any revision.
    network_labels_ : ndarray of shape (n,)
        The network's own partition, before refining; -1 for rows that it was not shown.
    weights_name_ : str
    cap_reached_ : bool
    n_network_points_ : int

    Examples
    --------
    >>> import clusterwise as cw
    >>> X, y = cw.datasets.load_demo()
    >>> est = cw.AMCP(random_state=0).fit(X)
    >>> int(est.n_clusters_)
    7
    """

    _method = "amcp"
    _rows_alone = 1024

    def _options(self) -> dict[str, Any]:
        return {"revise": self._how() != "search"}  # which splits and merges by evidence
