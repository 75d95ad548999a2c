"""A Gaussian mixture that finds its number of clusters by evidence, as a scikit-learn estimator."""

from __future__ import annotations

from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Literal

from sklearn.utils._param_validation import Interval, StrOptions

from clusterwise.components.niw import CovarianceType
from clusterwise.estimators.pipelined import PipelinedClusterer
from clusterwise.pipeline.cells import CellProposer
from clusterwise.pipeline.columns import fit_columns
from clusterwise.pipeline.fitting import Pipeline

__all__ = ["GaussianSearch"]


class GaussianSearch(PipelinedClusterer):
    """Gaussian mixture that finds its number of clusters by evidence, in any number of features.

    Small cells of rows are put together, and the clusters that they make are fitted by EM, split and merged
    as long as the evidence of the mixture gains, all parameters integrated out. No network, nothing to tune:
    in place of fitting mixtures with every k and comparing them by BIC.

    Parameters
    ----------
    covariance_type : {"auto", "full", "diag", "spherical"}
        Shape of a cluster. "auto": full for up to 64 features with at least ten rows for each, else diagonal.
    scaling : {"joint", "feature"}
        One scale for all features, which keeps the shape of the data, or one for each, for columns
        in different units.
    max_clusters : int
        Cap on the number of clusters; a warning says when it was reached.
    random_state : int, RandomState or None
        Seed of the choice of rows where there are more than 10,000, of ``sample`` and ``sample_partitions``.
    verbose : int
        Print a line after ``fit`` if not 0.

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
        Probability of each number of clusters by the evidences of all mixtures that the search has come by.
    means_ : ndarray of shape (K, d)
    covariances_ : ndarray of shape (K, d, d)
    proportions_ : ndarray of shape (K,)
        Of the clusters, in the units of X.
    cap_reached_ : bool

    Examples
    --------
    >>> import clusterwise as cw
    >>> X, y = cw.datasets.load_demo()
    >>> int(cw.GaussianSearch().fit(X).n_clusters_)
    7
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "covariance_type": [StrOptions({"auto", "full", "diag", "spherical"})],
        "scaling": [StrOptions({"joint", "feature"})],
        "max_clusters": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        covariance_type: CovarianceType | Literal["auto"] = "auto",
        scaling: Literal["joint", "feature"] = "feature",
        max_clusters: int = 100,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.covariance_type = covariance_type
        self.scaling = scaling
        self.max_clusters = max_clusters
        self.random_state = random_state
        self.verbose = verbose

    def _pipeline(self) -> Pipeline:
        return Pipeline(
            partial(fit_columns, joint=self.scaling == "joint"),
            CellProposer(self.covariance_type, self.max_clusters),
            how="search",
            covariance_type=self.covariance_type,
            max_clusters=self.max_clusters,
        )
